// SPDX-License-Identifier: Apache-2.0
//! What a primary does about point-in-time copies at a place of its line, so that its peer does the same there.

use crate::lead::Primary;
use crate::local::Local;
use crate::peer::permit::Permit;
use crate::stream::slots::ITEM_COST;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use helio_format::before::CopyId;
use helio_format::message::{Item, ItemKind, Message};
use helio_format::snapshot::{Snapshot, SnapshotAct};
use helio_plant::{Plant, planted};
use helio_stack::CopyNumber;
use helio_units::{Extent, Sequence, VolumeIndex};

/// What is done at snapshot items of the line: as many as those.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshots {
    acts: BTreeMap<Sequence, (SnapshotAct, CopyId)>,
}

impl Snapshots {
    /// The item leaves the line.
    pub(super) fn leaves(&mut self, item: &Item) {
        if item.kind == ItemKind::Snapshot {
            self.acts.remove(&item.sequence);
        }
    }

    /// Announces the item that is sent next, if it is one of these.
    pub(super) fn announce(&self, item: &Item, turn: &mut Turn) {
        if item.kind == ItemKind::Snapshot
            && let Some((act, id)) = self.acts.get(&item.sequence)
        {
            turn.send(Message::Snapshot(Snapshot { at: item.sequence, act: *act, id: *id }));
        }
    }
}

impl Primary {
    /// This is done here at the end of the line as it is now. If the queue keeps order for a peer, the peer does it at the same
    /// place. Returns the last position that comes before.
    pub(crate) fn put_snapshot(&mut self, act: (SnapshotAct, CopyId), turn: &Turn) -> Sequence {
        if turn.config().peer_name().is_some() && self.target.owed().queues_in_order() {
            let (sequence, after) = (self.line.head().next(), self.line.head());
            let item = self.copier_item(ItemKind::Snapshot, VolumeIndex(0), Extent::default());
            self.snapshots.acts.insert(sequence, act);
            self.queue.enter(ITEM_COST, turn.now());
            self.push(Item { after, ..item }, None, ITEM_COST, turn);
        }
        self.line.head()
    }

    /// From here on the volumes hold what that copy holds. The peer lacks what differs, and nothing that is acknowledged from here on was
    /// acknowledged by it. Returns the last position that comes before.
    pub(crate) fn roll_back(
        &mut self,
        to: CopyNumber,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Sequence {
        if turn.config().peer_name().is_some() {
            self.drop_queue("the group was restored from a snapshot", local, permit, turn);
            if !planted(Plant::RollbackUnmarked) {
                for (volume, extent) in local.differing(to) {
                    self.marks.set(volume, extent);
                }
            }
            local.hot_mut().bitmap_changed();
            self.begin_generation();
        }
        self.line.head()
    }
}
