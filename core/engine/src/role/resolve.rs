// SPDX-License-Identifier: Apache-2.0
//! Giving up one side of two that diverged: what would be lost, and the record that says it is given up.
//!
//! Whoever gives up has saved the regions first; the engine only sees that nothing changed meanwhile. What is given
//! up is everything since the two had a history in common: so the record goes back to the newest generation that both
//! know, without writes of its own, and unclean, since the image holds more than that. No source resumes a line there:
//! the marks tell what is to be copied over. Where the other would still refuse (they share no history, or its metadata
//! is older than what this node heard of), this node forgets the history and joins as new.

use crate::config::Config;
use crate::event::CommandId;
use crate::follow::before::Keeper;
use crate::local::Local;
use crate::peer::hang_up::HangUp;
use crate::peer::link::Session;
use crate::record::Record;
use crate::record::save::Goal;
use crate::role::{Following, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use helio_format::lineage::Lineage;
use helio_format::message::Parting;
use helio_format::superblock::Superblock;
use helio_units::{Extent, Generation, VolumeIndex, WallTime};

/// What this node alone may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stake {
    /// The generation it is of; giving up names it, so that nothing newer is given up by mistake.
    pub generation: Generation,
    /// When this node began that generation, where it did and knew the time.
    pub since: Option<WallTime>,
    /// Where it may differ.
    pub differing: Vec<(VolumeIndex, Extent)>,
    /// Why that is everywhere, if no valid record shows where it differs.
    pub unknown: Option<Unknown>,
}

/// Why no valid record shows where this node's copy differs from the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The bitmap is void.
    NoRecord,
    /// The bitmap is that of another disk.
    AnotherDisk,
    /// The bitmap is against the disk that is being shipped.
    ShippedDisk,
}

impl Unknown {
    /// The label in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoRecord => "no-record",
            Self::AnotherDisk => "another-disk",
            Self::ShippedDisk => "shipped-disk",
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRecord => {
                "there is no valid record of the differences: the metadata was new, damaged, older than the copy or could not be written, a flush failed, a disk was replaced, or a safe copy was restored"
            }
            Self::AnotherDisk => "the disk is not the recorded one",
            Self::ShippedDisk => "dirty regions are recorded for the disk that is being shipped",
        })
    }
}

impl Stake {
    /// What the node of this record may hold there.
    pub(crate) fn of(
        record: &Superblock,
        differing: Vec<(VolumeIndex, Extent)>,
        unknown: Option<Unknown>,
    ) -> Self {
        let since = Some(WallTime(record.began)).filter(|at| at.0 != 0);
        Self { generation: record.lineage.generation, since, differing, unknown }
    }
}

impl Standing {
    /// Gives up this node's side: its lineage is the given one from then on. The command is answered once that is recorded.
    pub(crate) fn give_up(
        &mut self,
        command: CommandId,
        lineage: Lineage,
        record: &mut Record,
    ) -> Option<String> {
        if self.is(Following::Returning) {
            self.stand(Following::Secondary);
        }
        record.want(Goal::Yielded { command, lineage });
        None
    }

    /// The record that discards this node's writes is durable: the next handshake may succeed.
    pub(crate) fn gave_up(
        &mut self,
        session: &mut Session,
        keeper: &mut Keeper,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> HangUp {
        session.admit();
        session.has_news(turn.now());
        record.keeping_mut().line_changed(local.hot_mut(), turn.now());
        self.reset_follower(keeper, record, turn);
        let node = &turn.config().node;
        HangUp::new(Parting::RoleChanged, format!("{node} discarded its own writes"))
    }
}

/// The command that gave up is answered.
pub(crate) fn report_given_up(command: CommandId, turn: &mut Turn) {
    let Config { node, peer, .. } = turn.config();
    let text =
        format!("{node} discarded its own writes; {peer} resyncs it when they are connected");
    turn.info(text.clone());
    turn.done(command, Ok(text));
}
