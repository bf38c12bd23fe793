// SPDX-License-Identifier: Apache-2.0
//! The copier: brings marked regions to the peer, as items on the line like any other.
//!
//! For runs of marked regions it asks the peer ahead for digests of what is there (`digest.rs`), or goes without
//! where most differs ([`Guess`](helio_copy::Guess)). For each region, or for a row of neighbours that nobody was asked about, it then
//! reserves queue room, asks the gate in turn (earlier writes finish, later ones wait), reads it from the local store and
//! compares it, takes positions for what differs, and gives the gate back: never across a round trip (rule 6). Zeros travel as zeros; where nothing differs,
//! an item of kind Same stands for the region, so that every mark ends in one way: when the last of the region's items
//! is durable at the peer. When no mark is left, a Consistent marker follows: once the peer completed it, its image is
//! in order again. How much is under way at once, [`Pace`](helio_copy::Pace) says.

pub(crate) mod copier;
pub(crate) mod digest;
pub(crate) mod hook;
pub(crate) mod seed;
pub(crate) mod seeding;
pub(crate) mod survey;
pub(crate) mod update;
pub(crate) mod verified;
pub(crate) mod verify;
pub(crate) mod verifying;

use crate::effect::StoreOp;
use crate::event::{Run, StoreOutcome};
use crate::peer::outgoing::Cursors;
use crate::peer::owed::Owed;
use crate::peer::primary::{Primary, PrimaryIo};
use crate::resync::copier::{Ask, Copier, Job, JobId, Known, Landing, Row};
use crate::resync::digest::{RUN_BYTES_MAX, digest_piece, digests_of};
use crate::shared::Shared;
use crate::stream::write::{ITEM_COST, Ticket, WORK_COST};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::copying::{Copying, DIGESTS_MAX, Digest};
use helio_format::lineage::Lineage;
use helio_format::message::{Item, ItemKind, Message, Start};
use helio_units::{Bytes, Extent, Moment, Sequence, VolumeIndex};

/// Most neighbouring regions in one question.
const RUN_REGIONS_MAX: u64 = 16;
/// Most regions on the line at once that are not durable at the peer: their entries are memory.
pub(crate) const LANDING_MAX: usize = 2048;

impl Primary {
    /// Begins an update: from here on items are queued in order, while marked regions are copied among them.
    /// Where nothing is marked and the peer's image is consistent, it stays so and there is nothing to copy.
    pub(crate) fn begin_sync(&mut self, lineage: Lineage, peer_consistent: bool, s: &mut Shared) {
        let head = self.line.head;
        let nothing_to_do = self.marks.none_dirty() && peer_consistent;
        self.copier.begin_anew(head, &mut self.marks);
        if nothing_to_do {
            self.owed.restore_order();
        } else {
            self.owed.begin_copying();
        }
        self.peer_consistent = nothing_to_do;
        self.cursors = Cursors::all_at(head);
        let stream = self.next_stream(head);
        s.verify.rewind();
        // What the local store is still busy with reaches the peer by its marks: the peer owes no word about it.
        self.line.iter_mut().for_each(|entry| entry.peer_completed = true);
        let to_copy = self.marks.dirty_bytes();
        let all = s.config.volumes.iter().fold(Bytes::ZERO, |sum, size| sum + *size);
        self.copier.coarse = to_copy >= all && !self.peer_copy.is_shipped();
        self.copier.running = !nothing_to_do;
        self.copier.progress.begin(to_copy, s.now);
        s.info(format!("resync starts: {to_copy} in dirty regions"));
        let keep = self.peer_keeping.ask(head.next(), nothing_to_do, s.config.safe_copy);
        s.send(Message::Start(Start {
            lineage,
            from: head.next(),
            consistent: nothing_to_do,
            keep,
            whole: self.peer_copy.needs_no_bitmap(),
            to_copy: to_copy.0,
            stream,
        }));
    }

    /// Lets the copier run where order is kept and yet something is marked (a local write failed).
    pub(crate) fn mend(&mut self, s: &Shared) {
        let wanted = self.flow.is_some()
            && !self.owed.has_lost_order()
            && !self.marks.none_dirty()
            && self.lack.is_none()
            && !s.suspect.any()
            && self.faulted.is_none();
        if wanted && !self.copier.running {
            self.copier.running = true;
            self.copier.coarse = false;
            self.copier.progress.begin(self.marks.dirty_bytes(), s.now);
        }
    }

    /// Starts as many copies as the bounds allow, and ends the update when nothing is left.
    pub(crate) fn copy_step(&mut self, s: &mut Shared) {
        self.copier.pace.judge(s.now, &s.config.resync);
        if !self.copier.running || self.flow.is_none() {
            return;
        }
        if self.copier.progress.is_due(s.now) {
            let left = self.lag(s.now, s).bytes;
            self.copier.progress.look(left, s.now);
        }
        self.survey_step(s);
        self.ask_ahead(s);
        while let Some(room) = self.room_to_copy(s) {
            let Some((row, known)) = self.next_to_copy(room) else { break };
            self.take_up(row, known, s);
            self.ask_ahead(s);
        }
        let done = self.marks.none_dirty() && self.copier.is_idle();
        match self.owed {
            Owed::Copying { consistent_at: None } if done => self.push_consistent_marker(s),
            Owed::InOrder { .. } if done => self.copier.running = false,
            _ => {}
        }
    }

    /// Asks the peer what it holds, as far ahead as the window reaches.
    fn ask_ahead(&mut self, s: &mut Shared) {
        if self.cursors.completed < self.copier.unsure_upto {
            return;
        }
        while !self.copier.guess.is_raw() && self.copier.may_ask() {
            let Some(ask) = self.claim_run() else { return };
            let Row { volume, extent, .. } = ask.row;
            let (bytes, coarse) = (Bytes(extent.length), ask.coarse);
            self.copier.ahead += bytes;
            self.copier.asked += bytes;
            self.copier.asks.push_back(ask);
            self.copier.guess.count_asked();
            s.send(Message::Copying(Copying::DigestsWanted { volume, extent, coarse }));
        }
    }

    /// Claims marked regions to ask about.
    fn claim_run(&mut self) -> Option<Ask> {
        let grain = self.marks.grid().unit();
        let coarse = self.copier.coarse && grain >= digest_piece(true);
        let regions = if self.copier.guess.is_probing() { 1 } else { RUN_REGIONS_MAX };
        let most = RUN_BYTES_MAX.min(grain * regions);
        let fits = |extent: Extent| {
            Bytes(extent.length) <= most && digests_of(extent, coarse) <= DIGESTS_MAX as u64
        };
        let row = self.copier.claim_row(&mut self.marks, fits)?;
        Some(Ask { row, coarse, round: self.copier.round })
    }

    /// The peer tells what it holds.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn digests_told(
        &mut self,
        place: (VolumeIndex, Extent, bool),
        list: &[Digest],
    ) -> Result<(), String> {
        let asked = |ask: &Ask| {
            (ask.row.volume, ask.row.extent, ask.coarse) == place
                && digests_of(ask.row.extent, ask.coarse) == list.len() as u64
        };
        let Some(ask) = self.copier.asks.pop_front().filter(asked) else {
            return Err(format!("it sent digests of {} without a request", place.1));
        };
        self.copier.asked -= Bytes(ask.row.extent.length);
        if ask.round != self.copier.round {
            return Ok(());
        }
        let mut at = 0;
        for region in ask.row.regions() {
            let (_, extent) = self.marks.place(region);
            let count = digests_of(extent, ask.coarse) as usize;
            let digests = list[at..at + count].to_vec();
            at += count;
            self.copier.known.push_back((region, Known { digests, coarse: ask.coarse }));
        }
        Ok(())
    }

    /// How much may be copied next, if anything may. Where neighbours go together, there is room for nothing until
    /// there is room for a row: crumbs would cost as much each.
    fn room_to_copy(&self, s: &Shared) -> Option<Bytes> {
        let (under_way, region) = (self.copier.in_flight(), self.marks.grid().unit());
        let raw = self.copier.known.is_empty() && self.copier.guess.is_raw();
        let row = self.copier.pace.row(&s.config.resync).min(self.queue.copy_row());
        let room = if raw { row.max(region) } else { region };
        let fits = self.copier.landing.len() < LANDING_MAX
            && self.copier.pace.allows(room, under_way, &s.config.resync)
            && self.queue.admits_copy(room, under_way);
        fits.then_some(room)
    }

    /// A region the peer told of, or else as many neighbours as there is room for, copied without a question.
    fn next_to_copy(&mut self, room: Bytes) -> Option<(Row, Option<Known>)> {
        if let Some((first, known)) = self.copier.known.pop_front() {
            let (volume, extent) = self.marks.place(first);
            self.copier.ahead -= Bytes(extent.length);
            return Some((Row { volume, extent, first, count: 1 }, Some(known)));
        }
        if !self.copier.guess.is_raw() {
            return None;
        }
        let fits = |extent: Extent| Bytes(extent.length) <= room;
        let row = self.copier.claim_row(&mut self.marks, fits)?;
        self.copier.guess.count_raw(row.count);
        Some((row, None))
    }

    /// Queue room first, then the gate.
    fn take_up(&mut self, row: Row, known: Option<Known>, s: &mut Shared) {
        let whole = Bytes(row.extent.length);
        self.queue.enter(whole, s.now);
        self.copier.reading += whole;
        self.copier.pace.took_up(whole, &s.config.resync);
        let (round, asked) = (self.copier.round, known.is_some());
        let job = self.copier.open(Job { row, round, known, asked });
        if self.gate.enter(Ticket::Copy(job), row.volume, row.extent) {
            self.copy_read(job, s);
        }
    }

    /// The gate is ours: read, and compare where the peer told what it holds.
    pub(crate) fn copy_read(&mut self, id: JobId, s: &mut Shared) {
        let job = self.copier.job_mut(id);
        let known = job.known.take();
        let Row { volume, extent, .. } = job.row;
        let op = match known {
            Some(Known { digests, coarse }) => StoreOp::ReadDiffering { extent, digests, coarse },
            None => StoreOp::ReadRuns { extent, piece: self.marks.grid().unit() },
        };
        s.store(volume, op, PrimaryIo::Copy(id));
    }

    /// It was read: onto the line with what differs, and the gate back.
    pub(crate) fn copy_done(&mut self, id: JobId, outcome: StoreOutcome, s: &mut Shared) {
        let Job { row, round, asked, .. } = self.copier.close(id);
        let Row { volume, extent, .. } = row;
        let whole = Bytes(extent.length);
        self.queue.leave(whole);
        self.copier.reading -= whole;
        let of_this_round = round == self.copier.round;
        let current = of_this_round && self.copier.running && self.flow.is_some();
        let runs = match outcome {
            StoreOutcome::Differing(runs) => {
                if asked {
                    let differed: u64 = runs.iter().map(|run| run.extent.length).sum();
                    self.copier.guess.learn(differed, extent.length);
                }
                Some(runs)
            }
            StoreOutcome::Failed(fault) => {
                self.copier.running = false;
                self.copier_read_failed(volume, fault, s);
                s.warn(format!(
                    "the resync stopped at {extent}: {fault}; repair the disk, then run `helio resync {}`",
                    s.config.group
                ));
                None
            }
            other => panic!("a copier's read ended as {other:?}"),
        };
        match runs {
            Some(runs) if current => self.land(row, runs, s),
            runs => {
                let payloads = runs.into_iter().flatten().filter_map(|run| run.payload);
                payloads.for_each(|payload| s.release(payload.id));
                if of_this_round {
                    row.regions().for_each(|r| self.copier.unclaim(r, false, &mut self.marks));
                }
            }
        }
        self.leave_gate(volume, extent, s);
    }

    /// Puts what differs in a row on the line, or the word that nothing does.
    fn land(&mut self, row: Row, runs: Vec<Run>, s: &mut Shared) {
        let Row { volume, .. } = row;
        let nothing = runs.is_empty();
        for Run { extent, payload } in runs {
            let kind = if payload.is_some() { ItemKind::Write } else { ItemKind::Zero };
            let item = self.copier_item(kind, volume, extent);
            let carried = payload.map_or(0, |p| u64::from(p.length));
            self.copier.progress.count_shipped(Bytes(carried));
            let cost = Bytes(carried).max(WORK_COST);
            self.push_copy(Item { payload, punch: payload.is_none(), ..item }, cost, s);
        }
        if nothing {
            let item = self.copier_item(ItemKind::Same, volume, row.extent);
            self.push_copy(item, ITEM_COST, s);
        }
        self.copier.landing.push_back(Landing { row, last: self.line.head });
    }

    pub(crate) fn push_copy(&mut self, item: Item, cost: Bytes, s: &Shared) {
        self.queue.enter(cost, s.now);
        self.copier.on_line += cost;
        self.push(item, None, cost, s);
    }

    pub(crate) fn copier_item(&self, kind: ItemKind, volume: VolumeIndex, extent: Extent) -> Item {
        Item {
            sequence: self.line.head.next(),
            after: self.answered,
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
    pub(crate) fn shed_copy(&mut self, at: Sequence, s: &mut Shared) {
        let Some(entry) = self.line.get_mut(at) else { return };
        if !self.owed.has_lost_order()
            || self.lack.is_some()
            || !self.copier.is_of_this_round(&entry.item)
        {
            return;
        }
        if let Some(payload) = entry.item.payload.take() {
            s.release(payload.id);
            self.queue.shrink(entry.cost, ITEM_COST);
            self.copier.shrink(&entry.item, entry.cost, ITEM_COST);
            entry.cost = ITEM_COST;
        }
    }

    /// The peer has an item durable: with the last one of a region that was copied its mark ends. It may be told twice.
    pub(crate) fn copy_durable(&mut self, item: &Item) {
        if !self.copier.is_of_this_round(item) {
            return;
        }
        if let Some(landing) = self.copier.landing.pop_front_if(|l| l.last == item.sequence) {
            for region in landing.row.regions() {
                self.copier.unclaim(region, true, &mut self.marks);
            }
            self.copier.progress.count_copied(Bytes(landing.row.extent.length));
        }
    }

    /// An item left the line, where it cost so much.
    pub(crate) fn copy_left(&mut self, item: &Item, cost: Bytes) {
        self.copier.shrink(item, cost, Bytes::ZERO);
    }

    /// When the copier has something to do although nothing happens.
    pub(crate) fn copy_deadline(&self, s: &Shared) -> Moment {
        let Copier { running, pace, .. } = &self.copier;
        if *running && self.flow.is_some() && !self.marks.none_dirty() {
            pace.next_at(s.now, &s.config.resync)
        } else {
            Moment::NEVER
        }
    }

    /// Behind this marker the peer's image is in order again.
    pub(crate) fn push_consistent_marker(&mut self, s: &Shared) {
        let sequence = self.line.head.next();
        let after = self.line.head;
        let extent = Extent::default();
        let item = self.copier_item(ItemKind::Consistent, VolumeIndex(0), extent);
        self.queue.enter(ITEM_COST, s.now);
        self.push(Item { after, ..item }, None, ITEM_COST, s);
        self.owed.put_marker(sequence);
    }
}
