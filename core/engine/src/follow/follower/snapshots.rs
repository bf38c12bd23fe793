// SPDX-License-Identifier: Apache-2.0
//! What a follower is to do about point-in-time copies: announced before its item, done when the item's turn comes.
//!
//! A snapshot item is the turn once everything before it has completed, and nothing behind it is issued before it has passed
//! ([`Follower::pass_snapshot`]).

use super::Follower;
use crate::local::Local;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use helio_format::snapshot::{Snapshot, SnapshotAct};
use helio_plant::{Plant, planted};
use helio_units::Sequence;

/// What was announced and has not passed, by its item: as many as items may be received, and one more.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    acts: BTreeMap<Sequence, SnapshotAct>,
}

impl Snapshots {
    pub(super) fn holds(&self, at: Sequence) -> bool {
        self.acts.contains_key(&at)
    }

    /// That item is let go, or does not come.
    pub(super) fn forget(&mut self, at: Sequence) {
        self.acts.remove(&at);
    }

    /// So are all.
    pub(super) fn forget_all(&mut self) {
        self.acts.clear();
    }
}

impl Follower {
    /// A snapshot item is announced.
    ///
    /// # Errors
    /// It is not the next item: the connection must end.
    pub(crate) fn announced(&mut self, Snapshot { at, act }: Snapshot) -> Result<(), String> {
        if self.intake.is_deaf() {
            return Ok(());
        }
        let expected = self.intake.expected(self.cursors.received());
        if at != expected {
            return Err(format!("item {at} was announced in place of item {expected}"));
        }
        self.snapshots.acts.insert(at, act);
        Ok(())
    }

    /// The first snapshot item that was received and has not passed, and whether it is its turn.
    pub(crate) fn next_snapshot(&self) -> Option<(Sequence, SnapshotAct, bool)> {
        let (at, act) = self.snapshots.acts.first_key_value()?;
        let received = *at <= self.cursors.received() && self.failed().is_none();
        let completed = self.cursors.completed().next();
        let is_due = completed == *at || planted(Plant::SnapshotEarly);
        received.then_some((*at, *act, is_due))
    }

    /// What is to be done at that item has begun, or is not going to be done. What is behind it may be issued.
    pub(crate) fn pass_snapshot(&mut self, at: Sequence, local: &mut Local, turn: &mut Turn) {
        self.snapshots.acts.remove(&at);
        self.keep_flowing(local, turn);
    }
}
