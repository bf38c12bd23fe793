// SPDX-License-Identifier: Apache-2.0
//! Which flushes prove something (rule 14).
//!
//! ```text
//!   flush A  ├───────────────┤ failed          the store dropped a block, and reports that to A alone
//!   flush B      ├───────┤ done ┄┄┄┄ held ┄┄┤ failed
//!   flush C           ├────────────────┤ done ┤ failed
//!   flush D                                        ├────┤ done     begun after the failure was handled
//! ```
//! A store reports an error once: of several flushes under way on a member one fails, and the others are called done
//! although the same blocks are lost to them. So the success of a flush is held until every flush that was under way on
//! its member has ended, too. If one of them fails, all that are held or under way fail with it. An operation with FUA
//! is a write and a flush on most disks, and counts as a flush.

use crate::event::StoreOutcome;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use helio_plant::{Plant, planted};
use helio_stack::{Leg, StoreFault};
use helio_units::IoId;

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
struct Member {
    begun: u64,
    running: Vec<Running>,
    held: Vec<Held>,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Flushes {
    members: BTreeMap<Leg, Member>,
    /// Operations that have ended, in the order in which the engine is to take them.
    ended: VecDeque<(IoId, StoreOutcome)>,
}

impl Flushes {
    pub(crate) const fn new() -> Self {
        Self { members: BTreeMap::new(), ended: VecDeque::new() }
    }

    /// A flush, or an operation with FUA, is issued to the store; returns its number.
    pub(crate) fn begin(&mut self, leg: Leg) -> u64 {
        let member = self.members.entry(leg).or_default();
        member.begun += 1;
        member.running.push(Running { number: member.begun, failed: None });
        member.begun
    }

    /// The store reports its end.
    pub(crate) fn end(&mut self, (at, number): (Leg, u64), io: IoId, outcome: StoreOutcome) {
        let member = self.members.entry(at).or_default();
        let Some(index) = member.running.iter().position(|running| running.number == number) else {
            panic!("flush {number} of {at:?} ended twice")
        };
        let Running { failed, .. } = member.running.swap_remove(index);
        if planted(Plant::OverlappedFlush) {
            return self.ended.push_back((io, outcome));
        }
        if let StoreOutcome::Failed(fault) = outcome {
            member.running.iter_mut().for_each(|running| running.failed = Some(fault));
            self.ended.push_back((io, outcome));
            let held = member.held.drain(..).map(|held| (held.io, StoreOutcome::Failed(fault)));
            return self.ended.extend(held);
        }
        match failed {
            Some(fault) => self.ended.push_back((io, StoreOutcome::Failed(fault))),
            None => member.held.push(Held { io, outcome, upto: member.begun }),
        }
        let first = member.running.iter().map(|running| running.number).min();
        let ready = |held: &Held| first.is_none_or(|first| first > held.upto);
        let ready = member.held.extract_if(.., |held| ready(held));
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
    use helio_units::VolumeIndex;

    const V: Leg = Leg::whole(VolumeIndex(0));
    const W: Leg = Leg::whole(VolumeIndex(1));
    const FAULT: StoreOutcome = StoreOutcome::Failed(StoreFault::Io);

    fn ended(flushes: &mut Flushes) -> Vec<(u64, bool)> {
        let next = |ended: (IoId, StoreOutcome)| (ended.0.0, ended.1 == StoreOutcome::Done);
        core::iter::from_fn(|| flushes.next_ended().map(next)).collect()
    }

    #[test]
    fn a_flush_alone_is_not_held() {
        let mut flushes = Flushes::new();
        let flush = flushes.begin(V);
        flushes.end((V, flush), IoId(1), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(1, true)]);
    }

    #[test]
    fn a_success_is_held_until_those_under_way_ended_and_not_for_later_ones() {
        let mut flushes = Flushes::new();
        let (a, b) = (flushes.begin(V), flushes.begin(V));
        let other = flushes.begin(W);
        flushes.end((V, b), IoId(2), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [], "the first one is under way");
        let c = flushes.begin(V);
        flushes.end((V, a), IoId(1), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(2, true)], "the first one waits for the third");
        flushes.end((V, c), IoId(3), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(1, true), (3, true)]);
        flushes.end((W, other), IoId(4), StoreOutcome::Done);
        assert_eq!(ended(&mut flushes), [(4, true)], "volumes do not wait for each other");
    }

    #[test]
    fn a_failure_fails_those_held_and_those_under_way_and_no_later_one() {
        let mut flushes = Flushes::new();
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
