// SPDX-License-Identifier: Apache-2.0
//! What can happen to the nodes by the hand of an operator, or by bad luck.

use helio_netmodel::Dice;
use std::time::Duration;

/// Acts of a story, at most.
pub(crate) const ACTS_MAX: u64 = 23;

/// What happens to a machine or to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Luck {
    /// The daemon is killed.
    Kill,
    /// Its machine loses power.
    PowerCut,
    /// The link carries nothing.
    Cut,
    /// The link carries nothing in one direction.
    CutWay,
    /// Connections between the nodes are reset.
    Reset,
    /// The link gets another delay, loss and rate.
    LinkQuality,
    /// Reads of a member fail for a while.
    BadReads,
    /// Writes of a member fail for a while.
    BadWrites,
    /// A flush of a member fails.
    BadFlush,
    /// A flush or write of a metadata file fails.
    BadMetadata,
    /// Operations on a member do not end for a while.
    Hang,
    /// All disks of a machine are slow.
    Slow,
    /// The file system is full.
    Full,
    /// There are few descriptors left.
    Descriptors,
    /// Calls do less than they were asked for, connections are reset, operations take long.
    Rough,
    /// The calendar is set.
    Calendar,
    /// Something goes wrong with attached volumes, or with what makes devices of them.
    Devices,
}

impl Luck {
    /// Whether calls of a machine fail or take long because of it.
    pub(crate) const fn is_local(self) -> bool {
        matches!(
            self,
            Self::BadReads
                | Self::BadWrites
                | Self::BadFlush
                | Self::BadMetadata
                | Self::Hang
                | Self::Slow
                | Self::Full
                | Self::Descriptors
                | Self::Rough
        )
    }

    /// Every kind.
    pub(crate) const ALL: [Self; 17] = [
        Self::Kill,
        Self::PowerCut,
        Self::Cut,
        Self::CutWay,
        Self::Reset,
        Self::LinkQuality,
        Self::BadReads,
        Self::BadWrites,
        Self::BadFlush,
        Self::BadMetadata,
        Self::Hang,
        Self::Slow,
        Self::Full,
        Self::Descriptors,
        Self::Rough,
        Self::Calendar,
        Self::Devices,
    ];
}

impl Luck {
    /// Whether it strikes once, and does not last.
    pub(super) const fn is_short(self) -> bool {
        matches!(self, Self::Reset | Self::Calendar | Self::Devices)
    }
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Stop,
    /// The daemon stops, its metadata becomes that of the build before, and the next daemon converts it.
    Upgrade,
    /// The daemon stops, and before this or a later start an earlier image of a member takes the place of the member.
    RestoreBackup,
    Status,
    Explain,
    Recorder,
    Promote,
    /// Although the peer does not agree, and only if its daemon does not run.
    ForcePromote,
    Demote,
    Switch,
    Pause,
    Resume,
    Resync,
    FullResync,
    Mode,
    Queue,
    Verify,
    VerifyStop,
    MemberRemove,
    MemberAdd,
    MemberMerge,
    Apply,
    SeedBegin,
    SeedEnd,
    Attach,
    Detach,
    ForceDetach,
    Attachments,
    /// The node that serves goes down, and its peer is promoted by force.
    TakeOver,
    ChangeFile,
    /// The file is invalid for a while.
    SpoilFile,
    ChangeKey,
    Release,
    /// The group is released on both nodes, and adopted with the disks of the one that served it.
    Adopt,
    Reverse,
    Resolve,
    MemberReplace,
    MemberAccept,
    MemberSet,
    QueueReset,
    SavedDelete,
    /// Looks that change nothing.
    Look,
}

impl Order {
    /// Every kind.
    pub(crate) const ALL: [Self; 42] = [
        Self::Stop,
        Self::Upgrade,
        Self::RestoreBackup,
        Self::Status,
        Self::Explain,
        Self::Recorder,
        Self::Promote,
        Self::ForcePromote,
        Self::Demote,
        Self::Switch,
        Self::Pause,
        Self::Resume,
        Self::Resync,
        Self::FullResync,
        Self::Mode,
        Self::Queue,
        Self::Verify,
        Self::VerifyStop,
        Self::MemberRemove,
        Self::MemberAdd,
        Self::MemberMerge,
        Self::Apply,
        Self::SeedBegin,
        Self::SeedEnd,
        Self::Attach,
        Self::Detach,
        Self::ForceDetach,
        Self::Attachments,
        Self::TakeOver,
        Self::ChangeFile,
        Self::SpoilFile,
        Self::ChangeKey,
        Self::Release,
        Self::Adopt,
        Self::Reverse,
        Self::Resolve,
        Self::MemberReplace,
        Self::MemberAccept,
        Self::MemberSet,
        Self::QueueReset,
        Self::SavedDelete,
        Self::Look,
    ];
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Luck(Luck),
    Order(Order),
    /// A misfortune and an order, with so much time between them.
    Both {
        luck: Luck,
        order: Order,
        order_first: bool,
        between: Duration,
    },
}

impl Order {
    /// Whether its request, or its effect, may come later: when clients have left, or the daemon starts again.
    pub(super) const fn begins_later(self) -> bool {
        matches!(
            self,
            Self::Upgrade
                | Self::RestoreBackup
                | Self::Release
                | Self::Adopt
                | Self::Reverse
                | Self::TakeOver
                | Self::Detach
        )
    }
}

impl Act {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let luck = Luck::ALL[dice.below(Luck::ALL.len() as u64) as usize];
        let order = Order::ALL[dice.below(Order::ALL.len() as u64) as usize];
        // What strikes once meets an order only if it strikes before the response; devices, only if some are attached.
        let short = [Luck::Reset, Luck::Calendar, Luck::Devices][dice.below(6).min(2) as usize];
        let luck = match dice.below(20) {
            0..4 => return Self::Luck(luck),
            4..10 => return Self::Order(order),
            10..16 => luck,
            _ => short,
        };
        if luck.is_short() {
            let between = Duration::from_micros(dice.below(1900));
            Self::Both { luck, order, order_first: true, between }
        } else {
            let longest = 1 << dice.below(10);
            let between = Duration::from_millis(dice.below(longest));
            Self::Both { luck, order, order_first: dice.chance(1, 2), between }
        }
    }
}
