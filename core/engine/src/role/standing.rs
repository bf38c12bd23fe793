// SPDX-License-Identifier: Apache-2.0
//! The role of a node in its group, with the state that it holds in that role.
//!
//! ```text
//!                 ask the peer            granted or forced, drained            saved
//!   Secondary ───────────────────> Asking ────────────────────────> Promoting ───────> Primary
//!       ^  ^                         │ refused, lost                    ^                 │ demote, stop
//!       │  └─────────────────────────┘                                  │                 v
//!       └──────────────────────── saved ────────────────────────────────┼───────────── Leaving ──saved──> Stopped
//!       ^                                                               │
//!   Returning (was primary when it stopped) ──the peer did not go on────┘
//!       └──the peer went on──> Secondary
//! ```
//! A planned change of both roles (`switch.rs`) goes on where a demotion ends:
//! ```text
//!   Leaving ──saved──> Handing ──the peer serves, or nobody can tell──> Secondary
//!      │                  └──the peer surely did not take over──> Promoting ──> Primary
//!      └──it does not drain──> Primary
//! ```
//! A secondary whose copy is suspect, or a primary that came back with one, is neither while an operator accepts the copy
//! (`accept.rs`): Secondary, Returning ──> Accepting ──> Secondary, or as before where that fails.
//!
//! Where both nodes ask at once, one of them takes its request back: it goes from Asking to Secondary or Returning (`cross.rs`).
//!
//! A demotion goes back to Primary too, where the queue turns out to be the last copy (`leave.rs`). Not drawn: Returning goes to Asking
//! as Secondary does, and back; by force or by a
//! hold lease Secondary and Returning go to Promoting without asking; a promotion that fails, and a record of leaving that cannot be
//! saved, lead back to what the last record says; Secondary and Returning ──> Closing ──> Stopped.
//!
//! A node becomes primary from another stage, or stops being primary, only behind a durable superblock; a leaving primary that
//! goes back has recorded nothing. An old primary is never silently primary: it goes on when its peer says that it did not, when an
//! operator forces it, or when it is the only node of its group and heard of no peer since it was promoted.

use crate::event::CommandId;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::local::suspect::Rewriting;
use crate::record::save::Leave;
use crate::role::cross::Request;
use core::mem;
use helio_stack::StoreFault;
use helio_units::{Moment, Role, VolumeIndex};

/// How far a leaving primary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveStage {
    /// Requests are being answered, the queue drains.
    Draining,
    /// The local volumes are being flushed; how many are not.
    Flushing(u16),
    /// Marks are being kept, hot extents go.
    Cooling,
    /// The superblock is on its way.
    Saving,
}

/// The stages of a node that holds a stream of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leading {
    Primary,
    Leaving {
        /// None where the peer asked for it.
        command: Option<CommandId>,
        to: Leave,
        until: Moment,
        stage: LeaveStage,
    },
}

/// The stages of a node that follows a stream, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Following {
    Secondary,
    Returning,
    /// `crossing`: a request of the peer that arrived meanwhile, and waits for the answer (`cross.rs`).
    Asking {
        command: CommandId,
        crossing: Option<Request>,
    },
    /// What was received is applied; then the superblock is saved (`saving`).
    Promoting {
        command: Option<CommandId>,
        equal: bool,
        saving: bool,
    },
    /// Secondary by its record; the peer was asked to be primary, and has not said yet whether it is.
    Handing {
        command: Option<CommandId>,
        until: Moment,
    },
    /// A secondary applies what it received, then stops.
    Closing {
        command: CommandId,
        saving: bool,
    },
    /// Neither primary nor secondary: a copy that a failed flush left suspect is written again as it reads.
    Accepting {
        command: CommandId,
        volume: VolumeIndex,
        stage: Rewriting,
    },
    Stopped,
}

/// The stages drawn above. `Primary` exists only while the node leads, `Follower` only while it does not.
#[derive(Clone, Debug)]
pub(crate) enum Standing {
    Leading { primary: Primary, stage: Leading },
    Following { follower: Follower, stage: Following },
}

/// The stage alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Leading(Leading),
    Following(Following),
}

impl From<Leading> for Stage {
    fn from(stage: Leading) -> Self {
        Self::Leading(stage)
    }
}

impl From<Following> for Stage {
    fn from(stage: Following) -> Self {
        Self::Following(stage)
    }
}

impl Following {
    /// Secondary, or returning where the record still says primary.
    pub(crate) fn resting(record: Role) -> Self {
        if record == Role::Primary { Self::Returning } else { Self::Secondary }
    }
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leading(Leading::Primary) => "primary",
            Self::Leading(Leading::Leaving { .. }) => "leaving",
            Self::Following(stage) => match stage {
                Following::Secondary => "secondary",
                Following::Returning => "returning",
                Following::Asking { .. } => "asking",
                Following::Promoting { .. } => "promoting",
                Following::Handing { .. } => "handing",
                Following::Closing { .. } => "closing",
                Following::Accepting { .. } => "accepting",
                Following::Stopped => "stopped",
            },
        }
    }

    /// Whether the peer may write the volumes by this node's record. Elsewhere it may not, or it is not decided yet.
    pub(crate) const fn lets_peer_write(self) -> bool {
        match self {
            Self::Leading(Leading::Primary | Leading::Leaving { .. }) => false,
            Self::Following(stage) => match stage {
                Following::Secondary | Following::Handing { .. } | Following::Closing { .. } => {
                    true
                }
                Following::Returning
                | Following::Asking { .. }
                | Following::Promoting { .. }
                | Following::Accepting { .. }
                | Following::Stopped => false,
            },
        }
    }

    /// The arrows of the drawing, and those named below it.
    fn may_become(self, next: Self) -> bool {
        use Following as F;
        use Leading as L;
        match (self, next) {
            (Self::Leading(from), Self::Leading(to)) => match (from, to) {
                (_, L::Leaving { .. }) => true,
                (L::Leaving { to, .. }, L::Primary) => to != Leave::Stop,
                (L::Primary, L::Primary) => false,
            },
            (Self::Leading(L::Primary), Self::Following(_)) => false,
            (Self::Leading(L::Leaving { to, .. }), Self::Following(next)) => match next {
                F::Secondary | F::Returning | F::Stopped => true,
                F::Handing { .. } => to == Leave::Hand,
                _ => false,
            },
            (Self::Following(from), Self::Leading(to)) => {
                matches!((from, to), (F::Promoting { .. }, L::Primary))
            }
            (Self::Following(from), Self::Following(to)) => matches!(
                (from, to),
                (
                    F::Secondary | F::Returning,
                    F::Asking { .. }
                        | F::Promoting { .. }
                        | F::Closing { .. }
                        | F::Accepting { .. }
                ) | (F::Returning, F::Secondary)
                    | (
                        F::Asking { .. },
                        F::Asking { .. } | F::Secondary | F::Returning | F::Promoting { .. }
                    )
                    | (F::Promoting { .. }, F::Promoting { .. } | F::Secondary | F::Returning)
                    | (F::Handing { .. }, F::Secondary | F::Promoting { .. })
                    | (F::Closing { .. }, F::Closing { .. } | F::Stopped)
                    | (F::Accepting { .. }, F::Accepting { .. } | F::Secondary | F::Returning)
            ),
        }
    }
}

impl Standing {
    /// Of a process that starts.
    pub(crate) fn starting(follower: Follower, record: Role) -> Self {
        Self::Following { follower, stage: Following::resting(record) }
    }

    #[inline]
    pub(crate) fn primary(&self) -> Option<&Primary> {
        match self {
            Self::Leading { primary, .. } => Some(primary),
            Self::Following { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn primary_mut(&mut self) -> Option<&mut Primary> {
        match self {
            Self::Leading { primary, .. } => Some(primary),
            Self::Following { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn follower(&self) -> Option<&Follower> {
        match self {
            Self::Following { follower, .. } => Some(follower),
            Self::Leading { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn follower_mut(&mut self) -> Option<&mut Follower> {
        match self {
            Self::Following { follower, .. } => Some(follower),
            Self::Leading { .. } => None,
        }
    }

    /// The follower, where it knows what of its source's stream it has.
    #[inline]
    pub(crate) fn streaming(&self) -> Option<&Follower> {
        self.follower().filter(|follower| follower.streams())
    }

    /// The volume whose disk failed, so that this node applies nothing.
    #[inline]
    pub(crate) fn failed(&self) -> Option<(VolumeIndex, StoreFault)> {
        self.follower().and_then(Follower::failed)
    }

    /// Whether this node holds a stream of its own: it is primary, or on its way out of that role.
    #[inline]
    pub(crate) fn leads(&self) -> bool {
        self.primary().is_some()
    }

    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        match self {
            Self::Leading { stage, .. } => Stage::Leading(*stage),
            Self::Following { stage, .. } => Stage::Following(*stage),
        }
    }

    #[inline]
    pub(crate) fn is(&self, stage: Following) -> bool {
        matches!(self, Self::Following { stage: now, .. } if *now == stage)
    }

    /// Nothing is begun any more.
    #[inline]
    pub(crate) fn has_stopped(&self) -> bool {
        matches!(self, Self::Following { stage: Following::Stopped, .. })
    }

    /// Primary, and not on its way out.
    #[inline]
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::Leading { stage: Leading::Primary, .. })
    }

    /// Whether the node may introduce itself.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Leading { stage, .. } => *stage == Leading::Primary,
            Self::Following { stage, .. } => matches!(
                stage,
                Following::Secondary | Following::Returning | Following::Handing { .. }
            ),
        }
    }

    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self, Self::Leading { stage: Leading::Leaving { .. }, .. })
    }

    /// Leaving the primary role, or stopping.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        let stops = |stage| matches!(stage, Following::Closing { .. } | Following::Stopped);
        match self {
            Self::Leading { stage, .. } => *stage != Leading::Primary,
            Self::Following { stage, .. } => stops(*stage),
        }
    }

    /// Leaving, with requests or items still under way.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        let Self::Leading { stage, .. } = self else { return false };
        matches!(stage, Leading::Leaving { stage: LeaveStage::Draining, .. })
    }

    /// Leaving, and not to hand the role over: whether or not the peer has everything.
    #[inline]
    pub(crate) fn is_leaving_for_good(&self) -> bool {
        let Self::Leading { stage, .. } = self else { return false };
        matches!(stage, Leading::Leaving { to: Leave::Secondary | Leave::Stop, .. })
    }

    /// The primary, if this node accepts requests. During a change of roles it still accepts requests that clients sent before they
    /// were disconnected.
    #[inline]
    pub(crate) fn taker(&mut self) -> Option<&mut Primary> {
        let Self::Leading { primary, stage } = self else { return None };
        let takes = match *stage {
            Leading::Primary => true,
            Leading::Leaving { to, stage, .. } => to == Leave::Hand && stage != LeaveStage::Saving,
        };
        takes.then_some(primary)
    }

    /// Goes on to another stage of the same side.
    pub(crate) fn stand(&mut self, next: impl Into<Stage>) {
        let next = next.into();
        self.check(next);
        match (self, next) {
            (Self::Leading { stage, .. }, Stage::Leading(next)) => *stage = next,
            (Self::Following { stage, .. }, Stage::Following(next)) => *stage = next,
            (_, next) => panic!("a node cannot become {} and keep what it holds", next.name()),
        }
    }

    /// Its record says primary: it holds `primary` from now on.
    pub(crate) fn lead(&mut self, primary: Primary) {
        self.check(Stage::Leading(Leading::Primary));
        *self = Self::Leading { primary, stage: Leading::Primary };
    }

    /// Its record says that it left: it holds `follower` from now on. Returns what it held as primary.
    pub(crate) fn lay_down(&mut self, follower: Follower, stage: Following) -> Option<Primary> {
        self.check(Stage::Following(stage));
        match mem::replace(self, Self::Following { follower, stage }) {
            Self::Leading { primary, .. } => Some(primary),
            Self::Following { .. } => None,
        }
    }

    fn check(&self, next: Stage) {
        let (now, then) = (self.stage().name(), next.name());
        assert!(self.stage().may_become(next), "a node cannot go from {now} to {then}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_secondary_and_a_node_that_hands_over_let_the_peer_write() {
        let (command, until) = (CommandId(1), Moment::NEVER);
        let leaving = |to| Leading::Leaving { command: None, to, until, stage: LeaveStage::Saving };
        let accepting = Rewriting::Flushing;
        let stages: [(Stage, bool); 12] = [
            (Leading::Primary.into(), false),
            (leaving(Leave::Secondary).into(), false),
            (leaving(Leave::Hand).into(), false),
            (leaving(Leave::Stop).into(), false),
            (Following::Secondary.into(), true),
            (Following::Returning.into(), false),
            (Following::Asking { command, crossing: None }.into(), false),
            (Following::Promoting { command: None, equal: false, saving: true }.into(), false),
            (Following::Handing { command: None, until }.into(), true),
            (Following::Closing { command, saving: false }.into(), true),
            (Following::Stopped.into(), false),
            (
                Following::Accepting { command, volume: VolumeIndex(0), stage: accepting }.into(),
                false,
            ),
        ];
        for (stage, lets) in stages {
            assert_eq!(stage.lets_peer_write(), lets, "{}", stage.name());
        }
    }
}
