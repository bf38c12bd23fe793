// SPDX-License-Identifier: Apache-2.0
//! Point-in-time copies that operators name, by a node's role: commands, the moments of cuts, and what a secondary does at items.

use crate::config::Config;
use crate::copies::{By, Copies, Moment, image};
use crate::event::{Command, CommandId};
use crate::follow::before::Keeper;
use crate::follow::follower::Follower;
use crate::lead::Primary;
use crate::lead::commanded::in_use;
use crate::local::Local;
use crate::local::copying::CopyUser;
use crate::peer::hang_up::HangUp;
use crate::peer::link::Session;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::record::save::Goal;
use crate::refusal::{Denial, Refusal, until_complete};
use crate::resync::Resync;
use crate::resync::verify::Verify;
use crate::role::{Standing, busy};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::snapshot::SnapshotAct;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeFound;
use helio_stack::{CopyIo, CopyOutcome, CopyRecord, CopyView, KeptCopy, StoreFault};
use helio_units::{CopyName, VolumeIndex};

impl Standing {
    /// An operator commands something about copies.
    pub(crate) fn on_snapshots(
        &mut self,
        (id, command, drawn): (CommandId, Command, u64),
        copies: &mut Copies,
        (record, permit): (&Record, &Permit),
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        match command {
            Command::Snapshot(act) => self.snapshot(id, (act, drawn), copies, local, turn),
            Command::SnapshotHere(act) => {
                self.snapshot_here(id, (act, drawn), copies, record, local, turn)
            }
            Command::RestoreSnapshot(name) => {
                self.restore_snapshot((id, name), copies, permit, local, turn)
            }
            other => panic!("{other:?} is not about copies"),
        }
    }

    /// An operator wants a copy of this primary's volumes, and of its peer's. Or one is to go: on a primary from its peer, too.
    fn snapshot(
        &mut self,
        id: CommandId,
        (act, drawn): (SnapshotAct, u64),
        copies: &mut Copies,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        match act {
            SnapshotAct::Create(_) | SnapshotAct::Refresh(_) => {
                self.may_snapshot(act, turn)?;
                copies.create(By::Command(id), (act, drawn), local, turn).map(|()| None)
            }
            SnapshotAct::Delete(_) if self.is_leaving() => Err(busy()),
            SnapshotAct::Delete(name) => {
                let meant = copies.id_of(&name, local);
                let result = copies.delete(id, name, local, turn)?;
                if let (Some(primary), Some(meant)) = (self.primary_mut(), meant) {
                    primary.put_snapshot((act, meant), turn);
                }
                Ok(result)
            }
        }
    }

    /// Whether this node is the one that cuts such a copy for both.
    pub(crate) fn may_snapshot(&self, act: SnapshotAct, turn: &Turn) -> Result<(), Refusal> {
        if self.is_leaving() {
            return Err(busy());
        }
        if self.primary().is_none() {
            let (config, name) = (turn.config(), act.name());
            let command = match act {
                SnapshotAct::Refresh(_) => {
                    format!("`helio snapshot refresh {}@{name}`", config.group)
                }
                _ => format!("`helio snapshot create {}@{name}`", config.group),
            };
            let refusal = self.not_primary("snapshot create", config);
            return Err(on_primary(refusal, &command, "; with --here on this node only", config));
        }
        Ok(())
    }

    /// An operator wants this primary's volumes to hold what a copy holds.
    fn restore_snapshot(
        &self,
        (id, name): (CommandId, CopyName),
        copies: &mut Copies,
        permit: &Permit,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        let config = turn.config();
        let command = format!("`helio snapshot restore {}@{name}`", config.group);
        if self.is_leaving() {
            return Err(busy());
        }
        if self.primary().is_none() {
            let refusal = self.not_primary("snapshot restore", config);
            return Err(on_primary(refusal, &command, "", config));
        }
        self.refuse_rollback(permit, local, turn)?;
        copies.roll_back(id, name, local, turn).map(|()| None)
    }

    /// Whether the volumes of this node may be rolled back at this moment.
    fn refuse_rollback(&self, permit: &Permit, local: &Local, turn: &Turn) -> Result<(), Refusal> {
        let config = turn.config();
        let Some(primary) = self.primary().filter(|_| self.serves()) else { return Err(busy()) };
        primary.refuse_lacking("snapshot restore", config)?;
        primary.refuse_while_suspect(local, config)?;
        if let Some(volume) = config.indices().find(|volume| primary.is_lost(*volume)) {
            return Err(self.volume_refusal(volume, StoreFault::Io, config));
        }
        if local.metadata_failed() {
            return Err(turn.metadata_refusal());
        }
        // An answer that is held back is about what is replaced, too.
        let idle =
            permit.pause().is_quiet() && !local.reads_under_way() && !local.blocks().in_use();
        if idle && !primary.has_requests() { Ok(()) } else { Err(in_use()) }
    }

    /// An operator wants a copy of this secondary alone, or one is to go from this node alone.
    fn snapshot_here(
        &self,
        id: CommandId,
        (act, drawn): (SnapshotAct, u64),
        copies: &mut Copies,
        record: &Record,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<Option<String>, Refusal> {
        match act {
            SnapshotAct::Create(_) | SnapshotAct::Refresh(_) => {}
            SnapshotAct::Delete(_) if self.is_leaving() => return Err(busy()),
            SnapshotAct::Delete(name) => return copies.delete(id, name, local, turn),
        }
        let (group, node) = (&turn.config().group, &turn.config().node);
        if self.primary().is_some() {
            let text =
                format!("{node} is primary for {group}: its snapshots are created on both nodes");
            let hint = "leave --here out, or run the command on the secondary";
            return Err(Refusal::new("is-primary", text, hint));
        }
        if self.is_leaving() || self.follower().is_none() {
            return Err(busy());
        }
        if let Some((volume, fault)) = self.failed() {
            return Err(self.volume_refusal(volume, fault, turn.config()));
        }
        if !local.is_consistent(record.superblock()) {
            if local.suspect().any() {
                return Err(local.suspect().refusal(turn.config()));
            }
            let text = format!("the copy of {group} on {node} is not consistent");
            return Err(Refusal::later("not-consistent", text, until_complete(group)));
        }
        copies.create(By::Here(id), (act, drawn), local, turn).map(|()| None)
    }

    /// A client uses a copy, in any role.
    pub(crate) fn begin_on_copy(
        &self,
        io: CopyIo,
        (keeper, record): (&Keeper, &Record),
        local: &mut Local,
        turn: &mut Turn,
    ) {
        if self.gives((io.on, io.volume), (keeper, record.superblock()), local) {
            return local.begin_on_copy(io, turn);
        }
        let stopped = self.has_stopped();
        let failed = Denial::Store(StoreFault::Io);
        turn.deny_copy(&io, if stopped { Denial::NotPrimary } else { failed });
    }

    /// Whether a client can use a volume of that copy. Only what an operator named has a branch.
    pub(crate) fn gives(
        &self,
        (on, volume): (CopyView, VolumeIndex),
        from: (&Keeper, &Superblock),
        local: &Local,
    ) -> bool {
        let branch = matches!(on, CopyView::Branch(_));
        local.held_copy(on.copy()).is_some_and(|copy| {
            self.gives_copy((&copy, volume), from, local) && (copy.name().is_some() || !branch)
        })
    }

    /// Whether a volume of a copy can be read: it lies on the disk on which the copy was cut, as far as the record tells, and that disk is
    /// in use; and what is preserved for a safe copy is all there.
    pub(crate) fn gives_copy(
        &self,
        (copy, volume): (&KeptCopy, VolumeIndex),
        (keeper, record): (&Keeper, &Superblock),
        local: &Local,
    ) -> bool {
        let right = local.members().is_unmoved(record, volume);
        let lost = self.primary().is_some_and(|primary| primary.is_lost(volume));
        let stopped = |(at, fault)| at == volume && fault != StoreFault::NoSpace;
        let stopped = self.follower().and_then(Follower::failed).is_some_and(stopped);
        let whole = !copy.is_safe_copy() || keeper.has_sound(copy.number);
        right && whole && !lost && !stopped && !self.has_stopped()
    }

    /// Takes notice of what the layers did about copies.
    pub(crate) fn copies_step(
        &mut self,
        session: &Session,
        (keeper, copies): (&mut Keeper, &mut Copies),
        (record, verify): (&mut Record, &mut Verify),
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Option<HangUp> {
        if let Some(user) = local.take_cut_ready() {
            self.cut_ready(user, (keeper, copies), (record, permit), local, turn);
        }
        if self.follower().is_none() {
            copies.give_up_quiet(local, turn);
        }
        if let (Some(why), Some(primary)) = (copies.note_over(local, turn), self.primary_mut()) {
            primary.give_cut_up(&why, local, permit, turn);
        }
        match local.take_copied()? {
            (CopyUser::Shipping, outcome) => {
                self.cut_ended(outcome, session, copies, (record, verify), local, turn);
                None
            }
            (CopyUser::Resync, outcome) => {
                self.copied(outcome, session, keeper, record, local, turn)
            }
            (CopyUser::Operator, outcome) => {
                copies.done(outcome, local, turn);
                None
            }
        }
    }

    /// Asks for the record of what a layer wants said of copies. That of a rollback waits until nothing of it can be taken for what the
    /// peer has: marks are durable, and so is the generation that begins with it.
    pub(crate) fn record_copies(
        &self,
        permit: &Permit,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let Some(wanted) = local.wanted_copy_record() else { return };
        if let CopyRecord::Rollback(Some(_)) = wanted {
            if local.metadata_failed() {
                return local.copies_recorded(false, turn);
            }
            let Some(primary) = self.primary().filter(|_| self.serves()) else {
                return local.copies_recorded(false, turn);
            };
            let withheld = permit.withholds(turn.now()) || permit.pause().withholds();
            let alone = primary.acknowledges_alone() && !withheld;
            let covered = alone && self.marks(record).is_saved();
            if !covered && turn.config().peer_name().is_some() {
                return local.records_copies(Some(wanted));
            }
        }
        local.records_copies(None);
        record.want(Goal::Copies(wanted));
    }

    /// The volumes were restored: the peer is resynced. If the two speak of a resync already, that does it.
    pub(crate) fn resync_restored(
        &mut self,
        session: &Session,
        (copies, resync): (&mut Copies, &mut Resync),
        record: &Record,
        local: &Local,
        turn: &mut Turn,
    ) {
        let up = session.peer().is_some();
        if copies.take_rolled_back() && up {
            self.sync_as_wanted(session, record, resync, local, turn);
        }
    }

    /// A cut waits for its moment.
    fn cut_ready(
        &mut self,
        user: CopyUser,
        (keeper, copies): (&Keeper, &mut Copies),
        (record, permit): (&Record, &Permit),
        local: &mut Local,
        turn: &mut Turn,
    ) {
        // What a flush failed for is not surely durable.
        let suspect = local.suspect().any();
        if user == CopyUser::Resync {
            return local.cut(keeper.image().filter(|_| !suspect), turn);
        }
        // What is cut while another disk is recorded would be listed behind what that record ends.
        let replaced = record.wants(|goal| matches!(goal, Goal::Replaced { .. }));
        let serves = self.serves() && !suspect && !replaced;
        if user == CopyUser::Shipping {
            let head = self.primary_mut().filter(|_| serves).and_then(|primary| primary.cut(turn));
            let record = record.superblock();
            let consistent = self.holds_its_line(record, local);
            return local.cut(head.map(|head| image(record, (Some(head), consistent), turn)), turn);
        }
        let Some(moment) = copies.ready(local, turn) else { return };
        // What it needs was checked first, and that takes time.
        if matches!(moment, Moment::Rollback(_))
            && let Err(refusal) = self.refuse_rollback(permit, local, turn)
        {
            return copies.refuse_moment(refusal, local, turn);
        }
        let consistent = self.holds_its_line(record.superblock(), local);
        if !consistent && copies.replaces_consistent(local) {
            let group = &turn.config().group;
            let text = String::from("the volumes of this node are not consistent now");
            let refusal = Refusal::later("not-consistent", text, until_complete(group));
            return copies.refuse_moment(refusal, local, turn);
        }
        let image = self.primary_mut().filter(|_| serves).map(|primary| {
            let head = match moment {
                Moment::Item(act, id) => primary.put_snapshot((act, id), turn),
                Moment::Rollback(to) => primary.roll_back(to, local, permit, turn),
            };
            image(record.superblock(), (Some(head), consistent), turn)
        });
        copies.moment(image, local, turn);
    }

    /// Whether the volumes of this node hold what its line says. The failure of a disk may not be recorded yet: from that moment on
    /// the peer answers for what is not here.
    fn holds_its_line(&self, record: &Superblock, local: &Local) -> bool {
        let replaced = self.primary().is_some_and(Primary::peer_replaces_copy);
        local.is_consistent(record) && !replaced
    }

    /// The cut of a primary in mode periodic is held, or is not, or one was dropped.
    fn cut_ended(
        &mut self,
        outcome: CopyOutcome,
        session: &Session,
        copies: &mut Copies,
        (record, verify): (&Record, &mut Verify),
        local: &Local,
        turn: &mut Turn,
    ) {
        let serves = self.serves() && session.peer().is_some();
        let Some(ended) = copies.ship_done(outcome, local, turn) else { return };
        let Some(primary) = self.primary_mut() else { return };
        match ended {
            Ok(copy) if serves => primary.ship(copy, record.superblock().lineage, verify, turn),
            Ok(_) => {}
            Err(why) => primary.cut_failed(&why, turn),
        }
    }

    /// In mode periodic: makes the next cut if it is due. Follows a change of the mode.
    pub(crate) fn period_step(
        &mut self,
        session: &Session,
        copies: &mut Copies,
        (record, resync): (&Record, &mut Resync),
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let (serves, connected) = (self.serves(), session.peer().is_some());
        let used = self.primary().and_then(|primary| primary.owed().cut());
        copies.drop_shipped(used.map(|cut| cut.copy()), local, turn);
        let Some(primary) = self.primary_mut().filter(|_| serves) else { return };
        if primary.follow_mode(connected, local, permit, turn) {
            primary.sync_or_ask(None, record, resync, local, turn);
        }
        if connected && copies.may_ship() && primary.is_cut_due(local, turn) {
            primary.begin_cutting();
            copies.cut_to_ship(local, turn);
        }
    }

    /// What a secondary does about copies at the next snapshot items.
    pub(crate) fn follow_snapshots(
        &mut self,
        copies: &mut Copies,
        record: &Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        let streams = self.streaming().is_some();
        copies.drop_shipped(None, local, turn);
        let Some(follower) = self.follower_mut() else { return };
        if follower.failed().is_some() {
            copies.give_up_quiet(local, turn);
        }
        follower.hold_line(copies.awaits_quiet());
        if copies.awaits_quiet() && follower.is_quiet() {
            let head = Some(follower.head()).filter(|_| streams);
            copies.quiet(head, record.superblock(), local, turn);
            follower.hold_line(false);
            follower.keep_flowing(local, turn);
        }
        copies.await_only(follower.next_snapshot().map(|(at, ..)| at), local, turn);
        while let Some(next) = follower.next_snapshot()
            && copies.follow(next, record.superblock(), local, turn)
        {
            follower.pass_snapshot(next.0, local, turn);
        }
    }
}

/// What lay in the pool when the daemon started, where it has copies.
pub(crate) fn before_found(
    found: &BeforeFound,
    (keeper, copies): (&mut Keeper, &mut Copies),
    record: &Record,
    turn: &mut Turn,
) {
    keeper.found(found, &turn.config().volumes);
    copies.found(found, record.superblock(), turn);
}

/// What is refused because this node is not primary, with the command that the primary takes, and what can be done besides.
fn on_primary(refusal: Refusal, command: &str, besides: &str, config: &Config) -> Refusal {
    let Some(peer) = config.peer_name() else { return refusal };
    let hint = format!("{command} on the primary, which may be {peer}{besides}");
    Refusal { hint, ..refusal }
}
