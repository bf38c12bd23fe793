// SPDX-License-Identifier: Apache-2.0
//! Which flushes prove something (rule 14).
//!
//! ```text
//!   flush A  ├───────────────┤ failed          the store dropped a block, and reports that to A alone
//!   flush B      ├───────┤ done ┄┄┄┄ held ┄┄┤ failed
//!   flush C           ├────────────────┤ done ┤ failed
//!   flush D                                        ├────┤ done     begun after the failure was handled
//! ```
//! A store reports an error once: of several flushes under way on a volume one fails, and the others are called done
//! although the same blocks are lost to them. So the success of a flush is held until every flush that was under way on
//! its volume has ended, too. If one of them fails, all that are held or under way fail with it. An operation with FUA
//! is a write and a flush on most disks, and counts as a flush.

use crate::event::StoreOutcome;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;
use helio_units::{IoId, VolumeIndex};

#[derive(Clone, Debug)]
struct Running {
    number: u64,
    /// Another one failed while this one was under way.
    failed: Option<StoreFault>,
}

/// A flush that the store calls done.
#[derive(Clone, Debug)]
struct Held {
    io: IoId,
    outcome: StoreOutcome,
    /// It waits for those under way up to this number.
    upto: u64,
}

#[derive(Clone, Debug, Default)]
struct Volume {
    begun: u64,
    running: Vec<Running>,
    held: Vec<Held>,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Flushes {
    volumes: Vec<Volume>,
    /// Operations that have ended, in the order in which the engine is to take them.
    ended: VecDeque<(IoId, StoreOutcome)>,
}

impl Flushes {
    pub(crate) fn new(volumes: usize) -> Self {
        Self { volumes: (0..volumes).map(|_| Volume::default()).collect(), ended: VecDeque::new() }
    }

    /// A flush, or an operation with FUA, is issued to the store; returns its number.
    pub(crate) fn begin(&mut self, volume: VolumeIndex) -> u64 {
        let volume = &mut self.volumes[usize::from(volume.0)];
        volume.begun += 1;
        volume.running.push(Running { number: volume.begun, failed: None });
        volume.begun
    }

    /// The store reports its end.
    pub(crate) fn end(
        &mut self,
        (at, number): (VolumeIndex, u64),
        io: IoId,
        outcome: StoreOutcome,
    ) {
        let volume = &mut self.volumes[usize::from(at.0)];
        let Some(index) = volume.running.iter().position(|running| running.number == number) else {
            panic!("flush {number} of volume {} ended twice", at.0)
        };
        let Running { failed, .. } = volume.running.swap_remove(index);
        if planted(Plant::OverlappedFlush) {
            return self.ended.push_back((io, outcome));
        }
        if let StoreOutcome::Failed(fault) = outcome {
            volume.running.iter_mut().for_each(|running| running.failed = Some(fault));
            self.ended.push_back((io, outcome));
            let held = volume.held.drain(..).map(|held| (held.io, StoreOutcome::Failed(fault)));
            return self.ended.extend(held);
        }
        match failed {
            Some(fault) => self.ended.push_back((io, StoreOutcome::Failed(fault))),
            None => volume.held.push(Held { io, outcome, upto: volume.begun }),
        }
        let first = volume.running.iter().map(|running| running.number).min();
        let ready = |held: &Held| first.is_none_or(|first| first > held.upto);
        let ready = volume.held.extract_if(.., |held| ready(held));
        self.ended.extend(ready.map(|held| (held.io, held.outcome)));
    }

    /// The next flush that has ended.
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<(IoId, StoreOutcome)> {
        self.ended.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: VolumeIndex = VolumeIndex(0);
    const FAULT: StoreOutcome = StoreOutcome::Failed(StoreFault::Io);

    fn ended(flushes: &mut Flushes) -> Vec<(u64, bool)> {
        let next = |ended: (IoId, StoreOutcome)| (ended.0.0, ended.1 == StoreOutcome::Done);
        core::iter::from_fn(|| flushes.next_ended().map(next)).collect()
    }

    #[test]
    fn a_flush_alone_is_not_held() {
        let mut flushes = Flushes::new(1);
        let flush = flushes.begin(V);
        flushes.end((V, flush), IoId(1), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(1, true)]);
    }

    #[test]
    fn a_success_is_held_until_those_under_way_ended_and_not_for_later_ones() {
        let mut flushes = Flushes::new(2);
        let (a, b) = (flushes.begin(V), flushes.begin(V));
        let other = flushes.begin(VolumeIndex(1));
        flushes.end((V, b), IoId(2), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [], "the first one is under way");
        let c = flushes.begin(V);
        flushes.end((V, a), IoId(1), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(2, true)], "the first one waits for the third");
        flushes.end((V, c), IoId(3), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(1, true), (3, true)]);
        flushes.end((VolumeIndex(1), other), IoId(4), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(4, true)], "volumes do not wait for each other");
    }

    #[test]
    fn a_failure_fails_those_held_and_those_under_way_and_no_later_one() {
        let mut flushes = Flushes::new(1);
        let (a, b, c) = (flushes.begin(V), flushes.begin(V), flushes.begin(V));
        flushes.end((V, b), IoId(2), StoreOutcome::Done);
        flushes.end((V, a), IoId(1), FAULT);
        assert_eq!(ended(&mut flushes), [(1, false), (2, false)]);
        let (d, e) = (flushes.begin(V), flushes.begin(V));
        flushes.end((V, d), IoId(4), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [], "it waits for the third and the fifth");
        flushes.end((V, e), IoId(5), StoreOutcome::Done);
        flushes.end((V, c), IoId(3), StoreOutcome::Done);
        let expected = [(3, false), (4, true), (5, true)];
        assert_eq!(
            ended(&mut flushes),
            expected,
            "those begun after the failure was handled count"
        );
    }
}
