// SPDX-License-Identifier: Apache-2.0
//! Point-in-time copies that operators name: commands, the moments of cuts, and what a secondary does at items.

use crate::copies::{CopiesStatus, Ended, image};
use crate::engine::Engine;
use crate::event::CommandId;
use crate::local::copying::CopyUser;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::role::busy;
use crate::show::view::View;
use alloc::string::String;
use helio_format::snapshot::SnapshotAct;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeFound;
use helio_stack::CopyOutcome;
use helio_units::CopyName;

impl Engine {
    /// An operator wants a copy of this primary's volumes, and of its peer's.
    pub(crate) fn create_copy(
        &mut self,
        id: CommandId,
        name: CopyName,
    ) -> Result<Option<String>, Refusal> {
        let Self { standing, copies, local, turn, .. } = self;
        standing.commanded("snapshot create", turn.config())?;
        copies.create(id, name, local, turn).map(|()| None)
    }

    /// An operator wants a copy to go: on a primary from its peer, too.
    pub(crate) fn delete_copy(
        &mut self,
        id: CommandId,
        name: CopyName,
    ) -> Result<Option<String>, Refusal> {
        let Self { standing, copies, local, turn, .. } = self;
        if standing.is_leaving() {
            return Err(busy());
        }
        let result = copies.delete(id, name, local, turn)?;
        if let Some(primary) = standing.primary_mut() {
            primary.put_snapshot(SnapshotAct::Delete(name), turn);
        }
        Ok(result)
    }

    /// What lay in the pool when the daemon started.
    pub(crate) fn before_found(&mut self, found: &BeforeFound) {
        let Self { keeper, copies, record, turn, .. } = self;
        keeper.found(found, &turn.config().volumes);
        copies.found(found, record.superblock(), turn);
    }

    /// Takes notice of what the layers did about copies.
    pub(crate) fn copies_step(&mut self) {
        if let Some(user) = self.local.take_cut_ready() {
            self.cut_ready(user);
        }
        if let Some((user, outcome)) = self.local.take_copied() {
            self.copied(user, outcome);
        }
        while let Some(copy) = self.local.take_over() {
            let failed = self.local.pool_failed();
            self.copies.over(&copy, failed, &mut self.turn);
        }
    }

    /// A cut waits for its moment.
    fn cut_ready(&mut self, user: CopyUser) {
        let Self { standing, keeper, copies, record, local, turn, .. } = self;
        if user == CopyUser::Resync {
            let image = keeper.image().filter(|_| !local.suspect().any());
            return local.cut(image, turn);
        }
        let Some(name) = copies.ready(local, turn) else { return };
        let serves = standing.serves() && !local.suspect().any();
        let image = standing.primary_mut().filter(|_| serves).map(|primary| {
            let head = primary.put_snapshot(SnapshotAct::Create(name), turn);
            let record = record.superblock();
            image(record, (head, local.is_consistent(record)), turn)
        });
        copies.moment(image, local, turn);
    }

    /// What was asked of the copies ended.
    fn copied(&mut self, user: CopyUser, outcome: CopyOutcome) {
        let Self { standing, peer, record, keeper, copies, local, turn, .. } = self;
        if user == CopyUser::Resync {
            let wish = standing.copied(outcome, peer.session(), keeper, record, local, turn);
            return self.hang_up(wish);
        }
        if let Ended::FlushesFailed(failed) = copies.done(outcome, local, turn) {
            standing.member_flushes_failed((false, failed), keeper, record, local, turn);
        }
    }

    /// What a secondary does about copies at the next snapshot item.
    pub(crate) fn follow_snapshots(&mut self) {
        let Self { standing, copies, record, local, turn, .. } = self;
        let next = |standing: &crate::role::Standing| {
            standing.follower().and_then(|follower| follower.next_snapshot())
        };
        copies.await_only(next(standing).map(|next| next.at), local, turn);
        while let Some(next) = next(standing)
            && copies.follow((next.at, next.act, next.is_due), record.superblock(), local, turn)
            && let Some(follower) = standing.follower_mut()
        {
            follower.pass_snapshot(next.at, local, turn);
        }
    }

    /// The record is to say what layers want it to say of copies.
    pub(crate) fn record_copies(&mut self) {
        if let Some(last) = self.local.take_copies_over() {
            self.record.want(Goal::CopiesOver(last));
        }
    }

    /// The record names another disk as a volume's: operators' copies, which need the one before, are over with it.
    pub(crate) fn shape_copies(&self, b: &mut Superblock, goal: &Goal) {
        let foreign = goal.takes_any_disk() && self.local.members().are_foreign();
        if foreign || matches!(goal, Goal::Replaced { .. }) {
            let last = self.local.named_copies().last().map(|(_, held)| held.copy.number);
            b.copies_over = b.copies_over.max(last.unwrap_or_default());
        }
    }
}

impl View<'_> {
    /// The copies that operators named.
    #[must_use]
    pub fn copies(&self) -> CopiesStatus {
        let missing = self.copies.missing().cloned().collect();
        CopiesStatus { held: self.local.named_copies(), missing }
    }
}
