// SPDX-License-Identifier: Apache-2.0
//! Disks that do not complete their operations (rule 11). One state per member, [`DiskState`]:
//!
//! ```text
//!   responds ──an operation is old──> waits ──it is as old as the member timeout──> silent ──the peer serves──> given up
//!    ^  ^  ^                            │                                             │                            │
//!    │  │  └── no operation is old ─────┘        every operation from before it ended ┘   every operation ended    │
//!    │  └────────────────────────────────────────────────────────────────────────────┘                             │
//!    └─────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! * *Waits*: a pong says so, and the peer is patient for the flush limit. *Silent*: it is shown as a fault.
//! * *Given up* (`failure.rs` decides it): every operation on the disk fails for its caller, and is *late* from then on.
//!   A late operation holds its name, its extents in the hot table, and its payload until the disk ends it; how it ends changes
//!   nothing. New operations on the disk fail and are not issued.
//!
//! Time in which this process stood still does not count: a look that comes late makes every operation younger by that.

use crate::config::Config;
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::local::store::Stage;
use crate::turn::Turn;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_stack::{Leg, MemberEvent, StoreFault};
use helio_units::{IoId, MemberState, Moment, VolumeIndex};

/// How an operation ends that the disk did not.
const SILENT: StoreOutcome = StoreOutcome::Failed(StoreFault::Silent);

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskState {
    Responds,
    Waits,
    /// Since that look: operations from before it have not ended.
    Silent {
        noticed: Moment,
    },
    GivenUp,
}

/// From which age of an operation on a disk waits, and from which it is silent.
#[derive(Clone, Copy, Debug)]
struct Limits {
    waits: Duration,
    silent: Duration,
}

impl Limits {
    /// A disk waits from an eighth of the member timeout on, or of the peer timeout if that is shorter: a pong tells it long
    /// before the peer counts this node as lost.
    fn of(config: &Config) -> Self {
        let silent = config.member_timeout;
        Self { waits: silent.min(config.peer_timeout) / 8, silent }
    }
}

/// What is under way on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UnderWay {
    /// When the first of its operations was issued that has not ended and is not late.
    oldest: Option<Moment>,
    /// How many are late.
    late: u32,
}

impl DiskState {
    /// Every transition but the one to *given up*.
    fn then(self, found: UnderWay, now: Moment, limits: Limits) -> Self {
        let is_old = |limit| found.oldest.is_some_and(|at| now >= at + limit);
        match self {
            Self::GivenUp if found.late > 0 => self,
            Self::Silent { noticed } if found.oldest.is_some_and(|at| at <= noticed) => self,
            _ if is_old(limits.silent) => Self::Silent { noticed: now },
            _ if is_old(limits.waits) => Self::Waits,
            _ => Self::Responds,
        }
    }
}

/// The disks of the group's volumes.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    /// Of members that do not just respond.
    states: BTreeMap<Leg, DiskState>,
    /// When to look again: soon while anything is under way.
    look_at: Moment,
    /// Operations on a disk that was given up, which fail.
    failed: VecDeque<(IoId, StoreOutcome)>,
}

impl Silence {
    pub(super) const fn new() -> Self {
        Self { states: BTreeMap::new(), look_at: Moment::NEVER, failed: VecDeque::new() }
    }

    fn state(&self, leg: Leg) -> DiskState {
        self.states.get(&leg).copied().unwrap_or(DiskState::Responds)
    }

    /// Returns what it was before.
    fn set(&mut self, leg: Leg, state: DiskState) -> DiskState {
        let before = match state {
            DiskState::Responds => self.states.remove(&leg),
            other => self.states.insert(leg, other),
        };
        before.unwrap_or(DiskState::Responds)
    }

    /// An operation is about to be issued. Returns whether it may: to a disk that was given up nothing is, and it fails.
    #[inline]
    pub(super) fn admits(&mut self, io: IoId, leg: Leg, turn: &Turn) -> bool {
        if self.state(leg) == DiskState::GivenUp {
            self.failed.push_back((io, SILENT));
            return false;
        }
        if self.look_at == Moment::NEVER {
            self.look_at = turn.now() + Limits::of(turn.config()).waits;
        }
        true
    }

    /// The next operation that failed because its disk was given up.
    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<(IoId, StoreOutcome)> {
        self.failed.pop_front()
    }

    /// A disk that does not respond, or has late operations, is looked at whenever anything happens.
    fn any_beyond_waiting(&self) -> bool {
        self.states
            .values()
            .any(|state| matches!(state, DiskState::Silent { .. } | DiskState::GivenUp))
    }
}

impl Local {
    /// How the disk of a volume responds; of several that hold all of it, the one that responds best.
    pub(crate) fn member_state(&self, volume: VolumeIndex) -> MemberState {
        let state = |leg| match self.silence.state(leg) {
            DiskState::Responds => MemberState::Responds,
            DiskState::Waits => MemberState::Waits,
            DiskState::Silent { .. } => MemberState::Silent,
            DiskState::GivenUp => MemberState::GivenUp,
        };
        let full = self.layered.full_members(volume).map(state);
        full.min_by_key(|state| *state as u8).unwrap_or(MemberState::Responds)
    }

    /// Whether the store waits for a disk that may still complete its operations.
    pub(crate) fn waits(&self) -> bool {
        self.silence
            .states
            .values()
            .any(|state| matches!(state, DiskState::Waits | DiskState::Silent { .. }))
    }

    /// The first volume whose disk is silent and in use.
    pub(crate) fn first_silent(&self) -> Option<VolumeIndex> {
        let silent = |volume: &VolumeIndex| self.member_state(*volume) == MemberState::Silent;
        self.silence.states.keys().map(|leg| leg.volume).find(silent)
    }

    /// Looks how long operations have been under way.
    pub(crate) fn look_for_silence(&mut self, turn: &mut Turn) {
        let now = turn.now();
        let due = now >= self.silence.look_at;
        if !due && !self.silence.any_beyond_waiting() {
            return;
        }
        let limits = Limits::of(turn.config());
        if due {
            self.count_no_pause(now, limits);
        }
        let found = self.under_way();
        for (leg, found) in &found {
            let state = self.silence.state(*leg).then(*found, now, limits);
            let before = self.silence.set(*leg, state);
            self.tell(*leg, before, state, turn);
            match (before, state) {
                (DiskState::GivenUp, DiskState::GivenUp)
                | (DiskState::Silent { .. }, DiskState::Silent { .. }) => {}
                (_, DiskState::Silent { .. }) => {
                    self.member_event(*leg, MemberEvent::Silent, turn);
                }
                (DiskState::GivenUp | DiskState::Silent { .. }, _) => {
                    self.member_event(*leg, MemberEvent::Ended, turn);
                }
                _ => {}
            }
        }
        self.silence.look_at = next_look(&found, now, limits);
    }

    /// A look that comes late tells of a process that stood still.
    fn count_no_pause(&mut self, now: Moment, limits: Limits) {
        let late = now - self.silence.look_at;
        if late <= limits.waits {
            return;
        }
        for io in self.ios.iter_mut().flatten() {
            io.grow_younger(late, now);
        }
    }

    /// What is under way on every member on which something is, or that does not just respond.
    fn under_way(&self) -> BTreeMap<Leg, UnderWay> {
        let states = self.silence.states.keys();
        let mut found: BTreeMap<_, _> = states.map(|leg| (*leg, UnderWay::default())).collect();
        for io in self.ios.iter().flatten() {
            let found = found.entry(io.leg()).or_default();
            match io.stage() {
                Stage::Issued(at) => {
                    found.oldest = Some(found.oldest.map_or(at, |oldest| oldest.min(at)));
                }
                Stage::Late => found.late += u32::from(io.may_change_it()),
                Stage::Waiting | Stage::Ended | Stage::GivenUp => {}
            }
        }
        found
    }

    /// The silent disks of a volume are given up.
    pub(crate) fn give_up_volume(&mut self, volume: VolumeIndex, turn: &mut Turn) {
        let silent = |(leg, state): (&Leg, &DiskState)| {
            (leg.volume == volume && matches!(state, DiskState::Silent { .. })).then_some(*leg)
        };
        let legs: Vec<Leg> = self.silence.states.iter().filter_map(silent).collect();
        legs.into_iter().for_each(|leg| self.give_up_member(leg, turn));
    }

    /// A disk is given up although operations are under way on it: they fail, and are late from then on.
    pub(super) fn give_up_member(&mut self, leg: Leg, turn: &mut Turn) {
        self.silence.set(leg, DiskState::GivenUp);
        let all = self.ios.iter_mut().zip(0u64..);
        for (io, name) in all.filter_map(|(io, name)| Some((io.as_mut()?, IoId(name)))) {
            if io.leg() != leg || !matches!(io.stage(), Stage::Issued(_)) {
                continue;
            }
            if let Some(payload) = io.give_up() {
                turn.hold(payload);
            }
            match io.flush() {
                Some(number) => self.flushes.end((leg, number), name, SILENT),
                None => self.silence.failed.push_back((name, SILENT)),
            }
        }
    }

    /// Says what changed. A disk is found silent once in a member timeout at most: until then every operation must be newer.
    fn tell(&self, leg: Leg, before: DiskState, state: DiskState, turn: &mut Turn) {
        let is_silent = |state| matches!(state, DiskState::Silent { .. });
        let Config { group, member_timeout, .. } = turn.config();
        let (volume, several) = (turn.config().name_of(leg.volume), self.keeps_several(leg.volume));
        let disk = if several {
            format!("the disk of member {} of volume {volume}", leg.member.0)
        } else {
            format!("the disk of volume {volume}")
        };
        match (before, state) {
            (DiskState::GivenUp, DiskState::GivenUp) => {}
            (DiskState::GivenUp, _) if several => {
                turn.info(format!("every operation on {disk} has ended"));
            }
            (DiskState::GivenUp, _) => turn.info(format!(
                "every operation on {disk} has ended; `helio resync {group}` uses the disk again"
            )),
            _ if is_silent(state) && !is_silent(before) => turn.warn(format!(
                "{disk} is silent: an operation has not completed within {member_timeout:?}"
            )),
            _ if is_silent(before) && !is_silent(state) => {
                turn.info(format!("{disk} responds again"))
            }
            _ => {}
        }
    }

    /// The next moment at which disks are checked, or failed operations are reported.
    pub(crate) fn silence_deadline(&self) -> Moment {
        if self.silence.failed.is_empty() { self.silence.look_at } else { Moment::ZERO }
    }
}

/// What an operator does about a disk that was given up because it is silent.
pub(crate) fn given_up_hint(config: &Config) -> String {
    let Config { group, node, peer, .. } = config;
    format!(
        "check the disk and the path to it on {node}; it is not used before every operation on it has completed, and `helio \
         resync {group}` on {node} rewrites it from {peer} then"
    )
}

/// When to look again, if anything is under way.
fn next_look(found: &BTreeMap<Leg, UnderWay>, now: Moment, limits: Limits) -> Moment {
    let Limits { waits, silent } = limits;
    let due = found.values().filter_map(|found| found.oldest).map(|oldest| {
        let next = [waits, silent].map(|limit| oldest + limit).into_iter().filter(|at| *at > now);
        next.min().unwrap_or(Moment::NEVER).min(now + waits)
    });
    due.min().unwrap_or(Moment::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [DiskState; 4] = [
        DiskState::Responds,
        DiskState::Waits,
        DiskState::Silent { noticed: Moment(50) },
        DiskState::GivenUp,
    ];

    fn then(state: DiskState, oldest: Option<u64>, late: u32, now: u64) -> DiskState {
        let found = UnderWay { oldest: oldest.map(Moment), late };
        let limits = Limits { waits: Duration::from_nanos(10), silent: Duration::from_nanos(80) };
        state.then(found, Moment(now), limits)
    }

    #[test]
    fn an_operation_makes_its_disk_wait_and_then_silent_by_its_age() {
        for before in [DiskState::Responds, DiskState::Waits] {
            assert_eq!(then(before, Some(100), 0, 109), DiskState::Responds);
            assert_eq!(then(before, Some(100), 0, 110), DiskState::Waits);
            assert_eq!(then(before, Some(100), 0, 179), DiskState::Waits);
            let noticed = Moment(180);
            assert_eq!(then(before, Some(100), 0, 180), DiskState::Silent { noticed });
        }
    }

    #[test]
    fn silence_ends_with_the_last_operation_from_before_it() {
        let silent = DiskState::Silent { noticed: Moment(200) };
        assert_eq!(then(silent, Some(200), 0, 201), silent, "issued before, and not old");
        assert_eq!(then(silent, Some(201), 0, 202), DiskState::Responds);
        assert_eq!(then(silent, None, 0, 202), DiskState::Responds);
    }

    #[test]
    fn a_disk_that_was_given_up_returns_with_the_end_of_its_last_late_operation() {
        assert_eq!(then(DiskState::GivenUp, None, 1, 900), DiskState::GivenUp);
        assert_eq!(then(DiskState::GivenUp, None, 0, 900), DiskState::Responds);
    }

    #[test]
    fn without_operations_every_disk_responds() {
        for before in EVERY {
            assert_eq!(then(before, None, 0, 1000), DiskState::Responds, "{before:?}");
        }
    }
}
