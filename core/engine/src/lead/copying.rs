// SPDX-License-Identifier: Apache-2.0
//! Copying to the peer: what is dirty travels among items in order.

use crate::effect::Effect;
use crate::event::{CommandId, Run, StoreOutcome};
use crate::lead::Primary;
use crate::lead::ticket::Ticket;
use crate::lead::write::shed;
use crate::local::Local;
use crate::peer::owed::Owed;
use crate::peer::permit::Permit;
use crate::purpose::JobId;
use crate::purpose::PrimaryIo;
use crate::record::Record;
use crate::resync::Resync;
use crate::resync::copier::Row;
use crate::resync::verify::Verify;
use crate::stream::line::Entry;
use crate::stream::slots::{ITEM_COST, WORK_COST};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::lineage::Lineage;
use helio_format::message::{Item, ItemKind, Message, Start};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};

const HOOK_RUNS: &str = "the hook before-resync runs; the resync starts if the hook permits it";

impl Primary {
    /// Begins an update, or asks the hook. A command whose answer waits for the hook gets none yet.
    pub(crate) fn sync_or_ask(
        &mut self,
        command: Option<CommandId>,
        record: &Record,
        resync: &mut Resync,
        local: &Local,
        turn: &mut Turn,
    ) -> Option<String> {
        if !turn.config().hook_before_sync {
            self.begin_update(record, resync, local, turn);
            return Some(String::from("the resync begins"));
        }
        let Some(question) = resync.update_mut().ask_hook(command) else {
            return Some(String::from(HOOK_RUNS));
        };
        turn.push(Effect::AskHook(question));
        None
    }

    /// Begins an update, unless this node's copy is suspect.
    pub(crate) fn begin_update(
        &mut self,
        record: &Record,
        resync: &mut Resync,
        local: &Local,
        turn: &mut Turn,
    ) {
        if self.must_not_stream(local) {
            return turn.warn(local.suspect().refusal(turn.config()).text);
        }
        // Its record ends what items behind its head would belong to.
        if self.target.awaits_generation() {
            return resync.update_mut().await_record();
        }
        resync.seed_mut().forget_passed();
        if self.is_periodic(turn.config()) {
            return self.want_cut();
        }
        // Not by what its hello said: an update of this conversation that did not end may have changed that.
        let consistent = self.peer_is_consistent();
        self.begin_sync(record.superblock().lineage, consistent, resync.verify_mut(), turn);
    }

    /// Begins an update: from here on items are queued in order, while marked regions are copied among them.
    /// Where nothing is marked and the peer's image is consistent, it stays so and there is nothing to copy.
    fn begin_sync(
        &mut self,
        lineage: Lineage,
        peer_consistent: bool,
        verify: &mut Verify,
        turn: &mut Turn,
    ) {
        let head = self.line.head();
        let nothing_to_do = self.marks.none_dirty() && peer_consistent;
        self.copier.begin_anew(head, &mut self.marks);
        let safe_copy = turn.config().safe_copy;
        let begun = self.target.begin_update(head, nothing_to_do, safe_copy);
        let (stream, keep) = self.begun(begun);
        verify.rewind();
        // What the local store is still busy with reaches the peer by its marks: the peer owes no word about it.
        self.line.iter_mut().for_each(Entry::peer_completes);
        let to_copy = self.marks.dirty_bytes();
        let all = turn.config().size();
        let coarse = to_copy >= all && !self.target.copy().is_shipped();
        self.copier.start(coarse, to_copy, turn.now());
        if nothing_to_do {
            self.copier.stop();
        }
        turn.info(format!("resync starts: {to_copy} in dirty regions"));
        turn.send(Message::Start(Start {
            lineage,
            from: head.next(),
            consistent: nothing_to_do,
            keep,
            whole: self.target.copy().needs_no_bitmap(),
            to_copy: to_copy.0,
            stream,
            ships: false,
        }));
    }

    /// Lets the copier run where order is kept and yet something is marked (a local write failed).
    pub(crate) fn mend(&mut self, local: &Local, turn: &mut Turn) {
        self.own.find_space(turn);
        let is_due = self.own.full_until().is_none_or(|at| turn.now() >= at);
        if is_due && self.is_to_mend(local) {
            self.copier.start(false, self.marks.dirty_bytes(), turn.now());
        }
    }

    /// Whether something is marked although order is kept, and the copier may run and does not.
    fn is_to_mend(&self, local: &Local) -> bool {
        self.target.streams()
            && !self.target.owed().is_image_out_of_order()
            && !self.marks.none_dirty()
            && self.lack.is_none()
            && !local.suspect().any()
            && self.own.fault().is_none()
            && !self.copier.is_running()
    }

    /// When a volume has space again, or what writes left that found none is copied, although nothing happens.
    pub(crate) fn mend_deadline(&self, local: &Local) -> Moment {
        let left = self.marks.bytes_to_copy() > Bytes::ZERO;
        let copied = self.own.full_until().filter(|_| left && self.is_to_mend(local));
        let found = self.own.space_found_at();
        copied.into_iter().chain(found).min().unwrap_or(Moment::NEVER)
    }

    /// Starts as many copies as the bounds allow, and ends the update when nothing is left.
    pub(crate) fn copy_step(&mut self, local: &mut Local, turn: &mut Turn) {
        self.copier.pace_mut().judge(turn.now(), &turn.config().resync);
        if !self.copier.is_running() || !self.target.streams() {
            return;
        }
        if self.copier.progress().is_due(turn.now()) {
            let left = self.left_to_copy(local, turn);
            self.copier.progress_mut().look(left, turn.now());
        }
        self.survey_step(local, turn);
        self.ask_ahead(turn);
        let (config, region) = (turn.config().resync, self.marks.grid().unit());
        while let Some(room) = self.copier.room(region, &self.queue, &config)
            && self.may_take_up(room)
            && let Some((id, row)) = self.copier.take_up(room, &config, &mut self.marks)
        {
            self.enter_gate(id, row, local, turn);
            self.ask_ahead(turn);
        }
        let done = self.marks.bytes_to_copy() == Bytes::ZERO && self.copier.is_idle();
        match *self.target.owed() {
            Owed::Copying { consistent_at: None } | Owed::Shipping { consistent_at: None, .. }
                if done =>
            {
                self.push_consistent_marker(turn);
            }
            Owed::InOrder { .. } if done => self.copier.stop(),
            _ => {}
        }
    }

    /// What is left, for the progress that people see.
    fn left_to_copy(&self, local: &Local, turn: &Turn) -> Bytes {
        match self.target.owed().cut() {
            Some(_) => self.marks.bytes_to_copy(),
            None => self.lag(turn.now(), local).bytes,
        }
    }

    /// Whether another row of that length may be read.
    fn may_take_up(&self, row: Bytes) -> bool {
        self.target.owed().cut().is_none() || self.target.may_ship(self.copier.reading() + row, row)
    }

    /// Asks the peer what it holds, as far ahead as the window reaches.
    fn ask_ahead(&mut self, turn: &mut Turn) {
        let completed = self.target.cursors().completed();
        while let Some(question) = self.copier.next_ask(completed, &mut self.marks) {
            turn.send(Message::Copying(question));
        }
    }

    /// Queue room first, then the gate.
    fn enter_gate(&mut self, id: JobId, row: Row, local: &mut Local, turn: &mut Turn) {
        let (volume, extent) = row.place();
        self.queue.enter(Bytes(extent.length), turn.now());
        if self.gate.enter(Ticket::Copy(id), volume, extent) {
            self.copy_read(id, local, turn);
        }
    }

    /// The gate is ours: read, and compare where the peer told what it holds.
    pub(crate) fn copy_read(&mut self, id: JobId, local: &mut Local, turn: &mut Turn) {
        let (place, read_as) = self.copier.begin_read(id, self.marks.grid().unit());
        match self.target.owed().cut() {
            Some(cut) if !planted(Plant::ShipLive) => {
                local.read_copy((cut.copy(), place), read_as, PrimaryIo::Copy(id), turn);
            }
            _ => local.read(place, read_as, PrimaryIo::Copy(id), turn),
        }
    }

    /// It was read: onto the line with what differs, and the gate back.
    pub(crate) fn copy_done(
        &mut self,
        id: JobId,
        outcome: StoreOutcome,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) {
        let (row, of_this_round) = self.copier.end_read(id, &outcome);
        let (volume, extent) = row.place();
        self.queue.leave(Bytes(extent.length));
        let current = of_this_round && self.copier.is_running() && self.target.streams();
        let runs = match outcome {
            StoreOutcome::Differing(runs) => Some(runs),
            StoreOutcome::CopyFailed(fault) => {
                // One that is not shipped any more is dropped while it is read, and its regions are dirty.
                if let Some(cut) = self.target.owed().cut().filter(|_| current) {
                    let over = local.why_over(cut.copy(), turn.config());
                    let unread = || format!("this node cannot read the cut: {fault}");
                    self.give_cut_up(&over.unwrap_or_else(unread), local, permit, turn);
                }
                None
            }
            StoreOutcome::Failed(fault) => {
                self.copier.stop();
                self.copier_read_failed(volume, fault, local, turn);
                turn.warn(format!(
                    "the resync stopped at {extent}: {fault}; repair the disk, then run `helio resync {}`",
                    turn.config().group
                ));
                None
            }
            other => panic!("a copier's read ended as {other:?}"),
        };
        match runs {
            Some(runs) if current => self.land(row, runs, turn),
            runs => {
                let payloads = runs.into_iter().flatten().filter_map(|run| run.payload);
                payloads.for_each(|payload| turn.release(payload.id));
                if of_this_round {
                    row.regions().for_each(|r| self.copier.unclaim(r, false, &mut self.marks));
                }
            }
        }
        self.leave_gate(volume, extent, local, permit, turn);
    }

    /// Puts what differs in a row on the line, or the word that nothing does.
    fn land(&mut self, row: Row, runs: Vec<Run>, turn: &Turn) {
        let (volume, whole) = row.place();
        let nothing = runs.is_empty();
        for Run { extent, payload } in runs {
            let kind = if payload.is_some() { ItemKind::Write } else { ItemKind::Zero };
            let item = self.copier_item(kind, volume, extent);
            let carried = payload.map_or(0, |p| u64::from(p.length));
            self.copier.progress_mut().count_shipped(Bytes(carried));
            let cost = Bytes(carried).max(WORK_COST);
            self.push_copy(Item { payload, punch: payload.is_none(), ..item }, cost, turn);
        }
        if nothing {
            let item = self.copier_item(ItemKind::Same, volume, whole);
            self.push_copy(item, ITEM_COST, turn);
        }
        self.copier.landed(row, self.line.head());
    }

    pub(crate) fn push_copy(&mut self, item: Item, cost: Bytes, turn: &Turn) {
        self.queue.enter(cost, turn.now());
        self.copier.put(cost);
        self.push(item, None, cost, turn);
    }

    pub(crate) fn copier_item(&self, kind: ItemKind, volume: VolumeIndex, extent: Extent) -> Item {
        Item {
            sequence: self.line.head().next(),
            // What a cut holds does not depend on what is written since.
            after: self.target.owed().cut().map_or(self.requests.answered(), |_| Sequence::ZERO),
            kind,
            fua: false,
            punch: false,
            resync: true,
            volume,
            extent,
            payload: None,
        }
    }

    /// The peer completed an item of the copier's. While order is lost, its bytes are of no more use: should the peer
    /// restart, its region is still marked.
    pub(crate) fn shed_copy(&mut self, at: Sequence, turn: &mut Turn) {
        let Some(entry) = self.line.get_mut(at) else { return };
        if !self.target.owed().is_image_out_of_order()
            || self.lack.is_some()
            || !self.copier.is_of_this_round(entry.item())
        {
            return;
        }
        shed(entry, &mut self.queue, &mut self.copier, turn);
    }

    /// When the copier has something to do although nothing happens.
    pub(crate) fn copy_deadline(&self, turn: &Turn) -> Moment {
        let left = self.marks.bytes_to_copy() > Bytes::ZERO;
        if self.copier.is_running() && self.target.streams() && left {
            self.copier.pace().next_at(turn.now(), &turn.config().resync)
        } else {
            Moment::NEVER
        }
    }

    /// Behind this marker the peer's image is in order again.
    pub(crate) fn push_consistent_marker(&mut self, turn: &Turn) {
        let sequence = self.line.head().next();
        // If something was written since a cut, the image has less than everything before the marker.
        let cut = self.target.owed().cut().filter(|_| self.marks.is_dirty_since_cut());
        let (after, head) =
            cut.map_or((self.line.head(), sequence), |cut| (cut.head(), cut.head()));
        let extent = Extent::default();
        let item = self.copier_item(ItemKind::Consistent, VolumeIndex(0), extent);
        self.queue.enter(ITEM_COST, turn.now());
        self.push(Item { after, ..item }, None, ITEM_COST, turn);
        self.target.put_marker(sequence, head);
    }
}
