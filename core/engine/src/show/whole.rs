// SPDX-License-Identifier: Apache-2.0
//! Whether a member of a volume holds what its clients read. Only then may anything beside the layers hand out its bytes, or take them for
//! the volume's: a disk that is given back, shipped, kept as a backup, or saved before it is overwritten.
//!
//! | label | why it does not | what ends that |
//! |---|---|---|
//! | `restore-begins` | a restore from a snapshot begins | it has begun |
//! | `restoring` | a part of a restored snapshot is written to no member yet | it is written in the background |
//! | `unmerged` | full members may differ | they are merged in the background |
//! | `no-full-member` | no member has everything | a copy from the peer |
//! | `lacking` | some regions are only on the peer | they are copied back |
//!
//! A member of a suspect volume holds what clients read, and may lack what was acknowledged: it is not handed out either.
//!
//! Regions of a volume with `blank` that nothing ever wrote or read are no reason: what a member holds there counts from the first use on.

use crate::config::Config;
use crate::refusal::{HELD_BACK, Refusal, until_complete};
use crate::show::view::View;
use alloc::format;
use helio_stack::{StoreFault, Unsettled};
use helio_units::{Bytes, MemberIndex, VolumeIndex};

/// Why no member of a volume holds what its clients read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWhole {
    /// A restore from a snapshot begins: what differs is marked already, or will be.
    RestoreBegins,
    /// So many bytes of a restored snapshot are to be written still. With a fault they are not before the process starts again.
    Restoring(Bytes, Option<StoreFault>),
    /// Full members may differ in so many bytes.
    Unmerged(Bytes),
    /// No member is full.
    NoFullMember,
    /// Some regions are only on the peer.
    Lacking,
}

impl NotWhole {
    /// The word for it, as in the table above.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::RestoreBegins => "restore-begins",
            Self::Restoring(..) => "restoring",
            Self::Unmerged(_) => "unmerged",
            Self::NoFullMember => "no-full-member",
            Self::Lacking => "lacking",
        }
    }

    /// Why a command does not use the members of that volume.
    #[must_use]
    pub fn refusal(self, volume: VolumeIndex, config: &Config) -> Refusal {
        let Config { group, node, .. } = config;
        let name = config.name_of(volume);
        let (why, hint) = match self {
            Self::RestoreBegins => (
                "a restore from a snapshot begins".into(),
                format!("wait until `helio status {group}` shows no restore, then repeat"),
            ),
            Self::Restoring(left, None) => (
                format!("{left} of a restored snapshot are not written to the members yet"),
                format!(
                    "wait until `helio status {group}` shows no restore, then repeat; {HELD_BACK}"
                ),
            ),
            Self::Restoring(left, Some(fault)) => (
                format!("{left} of a restored snapshot cannot be written to the members: {fault}"),
                format!(
                    "repair the disks of the volumes and of the before-image file, then restart the daemon of {node}"
                ),
            ),
            Self::Unmerged(left) => (
                format!("its full members may differ in {left}"),
                format!(
                    "wait until `helio status {group}` shows nothing to merge, then repeat; {HELD_BACK}"
                ),
            ),
            Self::NoFullMember => ("no member has everything".into(), until_complete(group)),
            Self::Lacking => {
                (format!("some regions are only on {}", config.peer), until_complete(group))
            }
        };
        let text =
            format!("the members of {group}/{name} do not hold what its clients read: {why}");
        let passes =
            matches!(self, Self::RestoreBegins | Self::Restoring(_, None) | Self::Unmerged(_));
        Refusal { retry: passes, ..Refusal::new("not-whole", text, hint) }
    }
}

impl View<'_> {
    /// The first full member of a volume, once all full members hold the same and layers hold nothing back. It may still lack regions
    /// that are only on the peer.
    ///
    /// # Errors
    /// What is missing for that.
    pub fn settled_member(&self, volume: VolumeIndex) -> Result<MemberIndex, NotWhole> {
        if self.copies.restore_begins() {
            return Err(NotWhole::RestoreBegins);
        }
        self.local.settled_member(volume).map_err(|why| match why {
            Unsettled::RollingBack(rollback) => NotWhole::Restoring(rollback.left, rollback.failed),
            Unsettled::Unmerged(left) => NotWhole::Unmerged(left),
            Unsettled::NoFullMember => NotWhole::NoFullMember,
        })
    }

    /// The first member that holds what clients of the volume read.
    ///
    /// # Errors
    /// Why none does.
    pub fn whole_member(&self, volume: VolumeIndex) -> Result<MemberIndex, NotWhole> {
        let member = self.settled_member(volume)?;
        if self.lacks_regions() { Err(NotWhole::Lacking) } else { Ok(member) }
    }

    /// Refuses a command that hands out the bytes of a member as the volume: they must be what clients read, and what was acknowledged.
    ///
    /// # Errors
    /// Why they are not.
    pub fn refuse_unfit(&self, volume: VolumeIndex) -> Result<(), Refusal> {
        if self.local.suspect().volumes() & 1 << volume.0 != 0 {
            return Err(self.suspect_refusal());
        }
        let refused = |why: NotWhole| why.refusal(volume, self.turn.config());
        self.whole_member(volume).map(|_| ()).map_err(refused)
    }

    /// The same for all volumes.
    ///
    /// # Errors
    /// Why those of one of them are not.
    pub fn refuse_any_unfit(&self) -> Result<(), Refusal> {
        self.turn.config().indices().try_for_each(|volume| self.refuse_unfit(volume))
    }
}
