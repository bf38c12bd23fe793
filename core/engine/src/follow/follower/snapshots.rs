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
use helio_format::before::CopyId;
use helio_format::message::{Item, ItemKind};
use helio_format::snapshot::{Snapshot, SnapshotAct};
use helio_plant::{Plant, planted};
use helio_units::Sequence;

/// What was announced: as many as items may be received, and one more.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    /// The item that comes next is about this.
    announced: Option<(SnapshotAct, CopyId)>,
    /// By items that are held behind a start, which may have the positions of others.
    held: BTreeMap<Sequence, (SnapshotAct, CopyId)>,
    /// By items that were received and have not passed.
    received: BTreeMap<Sequence, (SnapshotAct, CopyId)>,
    /// Nothing from this item on is issued: a cut of this node alone waits.
    stops_at: Option<Sequence>,
}

impl Snapshots {
    /// An item arrives, and `holds`: is held behind a start. Returns whether it is what was announced, if anything was.
    pub(super) fn arrives(&mut self, item: &Item, holds: bool) -> bool {
        let act = self.announced.take();
        if act.is_some() != (item.kind == ItemKind::Snapshot) {
            return false;
        }
        let acts = if holds { &mut self.held } else { &mut self.received };
        acts.extend(act.map(|act| (item.sequence, act)));
        true
    }

    /// An item is held no more: the start before it is recorded.
    pub(super) fn taken(&mut self, at: Sequence) {
        self.received.extend(self.held.remove_entry(&at));
    }

    /// It was received and has not passed, or nothing is to be issued from there on.
    pub(super) fn holds(&self, item: &Item) -> bool {
        let act = item.kind == ItemKind::Snapshot && self.received.contains_key(&item.sequence);
        act || self.stops_at.is_some_and(|at| item.sequence >= at)
    }

    /// What is held is let go, and no item comes next.
    pub(super) fn forget_held(&mut self) {
        self.announced = None;
        self.held.clear();
    }

    /// What was received is let go, too.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Follower {
    /// A snapshot item is announced.
    ///
    /// # Errors
    /// It is not the next item: the connection must end.
    pub(crate) fn announced(&mut self, Snapshot { at, act, id }: Snapshot) -> Result<(), String> {
        if self.intake.is_deaf() {
            return Ok(());
        }
        let expected = self.intake.expected(self.cursors.received());
        if at != expected {
            return Err(format!("item {at} was announced in place of item {expected}"));
        }
        self.snapshots.announced = Some((act, id));
        Ok(())
    }

    /// The first snapshot item that was received and has not passed, and whether it is its turn.
    pub(crate) fn next_snapshot(&self) -> Option<(Sequence, (SnapshotAct, CopyId), bool)> {
        let (at, act) = self.snapshots.received.first_key_value()?;
        let completed = self.cursors.completed().next();
        let is_due = completed == *at || planted(Plant::SnapshotEarly);
        self.failed().is_none().then_some((*at, *act, is_due))
    }

    /// While a cut of this node alone `waits`, nothing more is issued, except what was received before the stream began: the stream
    /// goes on only once that is applied.
    pub(crate) fn hold_line(&mut self, waits: bool) {
        self.snapshots.stops_at = waits.then(|| {
            let next = self.cursors.offered().next();
            let at = self.snapshots.stops_at.unwrap_or(next);
            self.stream.map_or(at, |stream| at.max(stream.before.next()))
        });
    }

    /// Everything before the item at which nothing more is issued is applied, and only that.
    pub(crate) fn is_quiet(&self) -> bool {
        self.snapshots.stops_at == Some(self.cursors.completed().next())
    }

    /// What is to be done at that item has begun, or is not going to be done. What is behind it may be issued.
    pub(crate) fn pass_snapshot(&mut self, at: Sequence, local: &mut Local, turn: &mut Turn) {
        self.snapshots.received.remove(&at);
        self.keep_flowing(local, turn);
    }
}
