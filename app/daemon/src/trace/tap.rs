// SPDX-License-Identifier: Apache-2.0
//! The shard's end of a recording: a push per request, and a full buffer against an empty one every few thousand.
//! It never waits: where the writer is behind, requests are counted instead.

use helio_engine::Operation;
use helio_format::trace::{Kind, REQUESTS_MAX, Request};
use helio_units::{Extent, Items, Moment, VolumeIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Buffers of a recording, of [`REQUESTS_MAX`] requests each: 1 MiB in all.
const BUFFERS: usize = 8;
/// What is older than that goes to the writer with the next request, however few there are.
const AGE: Duration = Duration::from_secs(1);

/// What a recording came to so far; written by the tap and the writer, read by whoever asks.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Requests that the tap took.
    pub(super) taken: AtomicU64,
    /// Requests that came and were not taken.
    pub(super) dropped: AtomicU64,
    /// Requests in the file.
    pub(super) written: AtomicU64,
    /// Bytes of the file.
    pub(super) bytes: AtomicU64,
}

/// Why nothing more is recorded, as far as the shard knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// An operator said so.
    Stopped,
    /// It was to last that long.
    TimeOver,
    /// The group is gone from this daemon, or the daemon stops.
    GroupGone,
}

/// What goes to the writer.
#[derive(Debug)]
pub(super) struct Batch {
    /// In the order they came.
    pub(super) requests: Vec<Request>,
    /// How many were dropped between the batch before and this one.
    pub(super) dropped: Items,
    /// It is the last one: when, why, and how many were dropped behind it.
    pub(super) last: Option<(Moment, Why, Items)>,
}

/// The writer's end.
pub(super) struct Sink {
    pub(super) batches: Receiver<Batch>,
    pub(super) empty: SyncSender<Vec<Request>>,
    pub(super) counts: Arc<Counts>,
}

/// The shard's end.
#[derive(Debug)]
pub(crate) struct Tap {
    id: u64,
    began: Moment,
    latest: Moment,
    why: Why,
    buffer: Vec<Request>,
    taken: u64,
    dropped_in_all: u64,
    /// Dropped before what is in the buffer, and behind it.
    dropped: (Items, Items),
    batches: SyncSender<Batch>,
    empty: Receiver<Vec<Request>>,
    counts: Arc<Counts>,
}

/// Both ends of a recording.
pub(super) fn tap(id: u64) -> (Tap, Sink) {
    // One place more than there are buffers, so that the last batch always finds one.
    let (batches, taken) = sync_channel(BUFFERS + 1);
    let (given_back, empty) = sync_channel(BUFFERS);
    for _ in 1..BUFFERS {
        given_back
            .try_send(Vec::with_capacity(REQUESTS_MAX))
            .unwrap_or_else(|_| unreachable!("there is a place for each buffer"));
    }
    let counts = Arc::new(Counts::default());
    let tap = Tap {
        id,
        began: Moment::ZERO,
        latest: Moment::ZERO,
        why: Why::GroupGone,
        buffer: Vec::with_capacity(REQUESTS_MAX),
        taken: 0,
        dropped_in_all: 0,
        dropped: (Items(0), Items(0)),
        batches,
        empty,
        counts: Arc::clone(&counts),
    };
    (tap, Sink { batches: taken, empty: given_back, counts })
}

impl Tap {
    /// Recording begins.
    pub(crate) fn begin(&mut self, now: Moment) {
        (self.began, self.latest) = (now, now);
    }

    pub(crate) fn is(&self, id: u64) -> bool {
        self.id == id
    }

    /// Takes a request, or counts it. False once nobody writes any more.
    pub(crate) fn take(&mut self, now: Moment, volume: VolumeIndex, operation: Operation) -> bool {
        self.latest = now;
        let full = self.buffer.len() == REQUESTS_MAX;
        let old = self.buffer.first().is_some_and(|first| now - self.began > since(first) + AGE);
        if (full || old) && !self.hand_over() {
            return false;
        }
        if self.buffer.len() == REQUESTS_MAX {
            self.dropped.1.0 += 1;
            self.dropped_in_all += 1;
            self.counts.dropped.store(self.dropped_in_all, Ordering::Relaxed);
            return true;
        }
        let (kind, extent, fua) = boil_down(operation);
        let at = Moment::ZERO + (now - self.began);
        self.buffer.push(Request { at, extent, volume, kind, fua });
        self.taken += 1;
        self.counts.taken.store(self.taken, Ordering::Relaxed);
        true
    }

    /// Recording ends; the rest goes to the writer.
    pub(crate) fn end(mut self, now: Moment, why: Why) {
        (self.latest, self.why) = (now, why);
    }

    /// Changes the buffer against an empty one, where there is one. False once nobody writes any more.
    fn hand_over(&mut self) -> bool {
        let empty = match self.empty.try_recv() {
            Ok(empty) => empty,
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        };
        let requests = std::mem::replace(&mut self.buffer, empty);
        let (dropped, behind) = self.dropped;
        self.dropped = (behind, Items(0));
        self.send(Batch { requests, dropped, last: None })
    }

    fn send(&self, batch: Batch) -> bool {
        self.batches.try_send(batch).is_ok()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        let (dropped, behind) = self.dropped;
        let at = Moment::ZERO + (self.latest - self.began);
        let requests = std::mem::take(&mut self.buffer);
        // A writer that has ended before wants no last batch.
        let _gone = self.send(Batch { requests, dropped, last: Some((at, self.why, behind)) });
    }
}

fn since(request: &Request) -> Duration {
    request.at - Moment::ZERO
}

fn boil_down(operation: Operation) -> (Kind, Extent, bool) {
    match operation {
        Operation::Read(extent) => (Kind::Read, extent, false),
        Operation::Write { extent, fua, .. } => (Kind::Write, extent, fua),
        Operation::Zero { extent, fua, .. } => (Kind::Zero, extent, fua),
        Operation::Discard { extent, fua } => (Kind::Discard, extent, fua),
        Operation::Flush => (Kind::Flush, Extent::default(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(tap: &mut Tap, at: u64) -> bool {
        tap.take(Moment(at), VolumeIndex(0), Operation::Flush)
    }

    #[test]
    fn a_writer_that_is_behind_makes_nobody_wait_and_every_request_is_counted() {
        let (mut tap, sink) = tap(1);
        tap.begin(Moment(100));
        let room = (BUFFERS * REQUESTS_MAX) as u64;
        for n in 0..room + 10 {
            assert!(flush(&mut tap, 100 + n));
        }
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        assert_eq!((count(&sink.counts.taken), count(&sink.counts.dropped)), (room, 10));
        // The writer catches up by one buffer: there is room for as much again, behind the ten.
        let first = sink.batches.try_recv().expect("seven batches wait");
        assert_eq!((first.requests.len(), first.dropped), (REQUESTS_MAX, Items(0)));
        sink.empty.try_send(Vec::with_capacity(REQUESTS_MAX)).expect("there is a place");
        assert!(flush(&mut tap, 100 + room + 10));
        tap.end(Moment(100 + room + 20), Why::Stopped);
        let rest: Vec<Batch> = sink.batches.try_iter().collect();
        assert_eq!(rest.len(), BUFFERS);
        let last = &rest[BUFFERS - 1];
        assert_eq!((last.requests.len(), last.dropped), (1, Items(10)));
        assert_eq!(last.last, Some((Moment(room + 20), Why::Stopped, Items(0))));
        assert_eq!(last.requests[0].at, Moment(room + 10));
    }

    #[test]
    fn what_is_old_goes_to_the_writer_with_the_next_request() {
        let (mut tap, sink) = tap(1);
        flush(&mut tap, 0);
        flush(&mut tap, 1_000_000_000);
        assert!(sink.batches.try_recv().is_err());
        flush(&mut tap, 1_000_000_001);
        assert_eq!(sink.batches.try_recv().map(|batch| batch.requests.len()), Ok(2));
    }

    #[test]
    fn a_tap_that_is_dropped_says_that_the_group_is_gone_and_one_without_a_writer_ends() {
        let (mut tap, sink) = tap(1);
        flush(&mut tap, 5);
        drop(tap);
        let last = sink.batches.recv().expect("the last batch");
        assert_eq!(last.last, Some((Moment(5), Why::GroupGone, Items(0))));
        let (mut tap, sink) = super::tap(2);
        drop(sink);
        flush(&mut tap, 0);
        assert!(!flush(&mut tap, 2_000_000_000));
    }
}
