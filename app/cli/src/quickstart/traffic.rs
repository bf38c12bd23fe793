// SPDX-License-Identifier: Apache-2.0
//! An application's writes: an NBD client that keeps several in flight, or one.

use anyhow::{Context, Result};
use helio_nbd::{Client, ClientSender, Cookie};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What an application asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Bytes from an offset on.
    Write(u64, Vec<u8>),
    /// So many zeros from an offset on.
    Zeroes(u64, u32),
}

/// What became of an application's requests, by their places in its order, counted from 0. Readable while they
/// are under way.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// When each was sent, or was about to be.
    sent: Mutex<Vec<Instant>>,
    /// Which were answered, in the order of their answers, and how long each took.
    answered: Mutex<Vec<(u64, Duration)>>,
}

impl Tally {
    /// How many were sent, or were about to be.
    pub(super) fn sent(&self) -> u64 {
        lock(&self.sent).len() as u64
    }

    /// How many were answered.
    pub(super) fn answered(&self) -> u64 {
        lock(&self.answered).len() as u64
    }

    /// The longest that any waited for its answer.
    pub(super) fn longest(&self) -> Duration {
        lock(&self.answered).iter().map(|(_, took)| *took).max().unwrap_or_default()
    }

    /// Which were answered, in the order of their answers.
    pub(super) fn into_answered(self) -> Vec<u64> {
        lock(&self.answered).iter().map(|(number, _)| *number).collect()
    }

    fn note_sent(&self) {
        lock(&self.sent).push(Instant::now());
    }

    fn note_answered(&self, number: u64) {
        let sent = lock(&self.sent).get(number as usize).copied();
        let took = sent.map_or(Duration::ZERO, |sent| sent.elapsed());
        lock(&self.answered).push((number, took));
    }
}

/// A panic under the lock leaves the list whole, so it stays usable.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the requests in their order, at most `depth` unanswered at a time, and keeps the tally. Returns when the
/// last is answered, or with what ended the connection; the tally stands in either case.
pub(super) fn send_all(
    client: Client,
    depth: usize,
    requests: impl Iterator<Item = Result<Request>> + Send,
    tally: &Tally,
) -> Result<()> {
    let (mut sender, mut receiver) = client.split();
    // One request is in flight for every token in the channel, and one for the token taken last.
    let (tokens, taken) = sync_channel::<()>(depth.saturating_sub(1));
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            for (number, request) in (0..).zip(requests) {
                let request = request?;
                if tokens.send(()).is_err() {
                    // The receiver ended, and knows why.
                    return Ok(());
                }
                tally.note_sent();
                send(&mut sender, Cookie(number), &request).context("sending a request")?;
            }
            sender.send_disconnect().context("taking leave")
        });
        let mut heard = Ok(());
        while taken.recv().is_ok() {
            let reply = receiver.receive().context("the connection ended");
            let result = reply.and_then(|reply| {
                reply.result.context("a request failed")?;
                Ok(reply.cookie)
            });
            match result {
                Ok(cookie) => tally.note_answered(cookie.0),
                Err(why) => {
                    heard = Err(why);
                    break;
                }
            }
        }
        // Frees a sender that waits to send one more.
        drop(taken);
        let sent = match sending.join() {
            Ok(sent) => sent,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        heard.and(sent)
    })
}

fn send(sender: &mut ClientSender, cookie: Cookie, request: &Request) -> Result<()> {
    match request {
        Request::Write(offset, data) => sender.send_write(cookie, *offset, data, false)?,
        // Space that is kept is space a later write need not find.
        Request::Zeroes(offset, length) => {
            sender.send_write_zeroes(cookie, *offset, *length, false, true)?;
        }
    }
    Ok(())
}

/// Lets one thing happen every so often, until it is told to stop.
pub(super) struct Pace {
    stop: Receiver<()>,
    step: Duration,
    next: Instant,
}

/// Stops a [`Pace`] when it is dropped.
pub(super) struct Stop {
    _open: SyncSender<()>,
}

impl Pace {
    pub(super) fn new(step: Duration) -> (Self, Stop) {
        let (open, stop) = sync_channel(0);
        (Self { stop, step, next: Instant::now() }, Stop { _open: open })
    }

    /// Waits for its turn; false when it was told to stop. A turn that came late is not made up for in a burst.
    pub(super) fn turn(&mut self) -> bool {
        let wait = self.next.saturating_duration_since(Instant::now());
        self.next = self.next.max(Instant::now()) + self.step;
        matches!(self.stop.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_ends_when_its_stop_is_dropped() {
        let (mut pace, stop) = Pace::new(Duration::from_millis(1));
        assert!(pace.turn() && pace.turn());
        drop(stop);
        assert!(!pace.turn());
    }
}
