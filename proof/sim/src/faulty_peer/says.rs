// SPDX-License-Identifier: Apache-2.0
//! What the faulty peer says: mostly what a sound one would, and now and then what nobody could.

use super::desk::Desk;
use crate::coverage::Coverage;
use crate::promise::{Promise, Violation, hold};
use crate::scenario::pick;
use helio_engine::digest_piece;
use helio_format::before::CopyId;
use helio_format::copying::{Copying, PAGE_WORDS};
use helio_format::invalid::Invalid;
use helio_format::lease::Lease;
use helio_format::lineage::Lineage;
use helio_format::message::{
    Ack, Blocks, Hello, Item, ItemKind, Message, Parting, Ping, Ranges, Start,
};
use helio_format::reading::{Reading, Told};
use helio_format::report::Report;
use helio_format::roles::Roles;
use helio_format::snapshot::{Snapshot, SnapshotAct};
use helio_netmodel::Dice;
use helio_units::{
    CopyName, Extent, Generation, Mode, Payload, PayloadId, Role, Sequence, VolumeIndex,
};

/// What the peer is to have said and done.
pub(super) struct Peer {
    /// The engine leads, so it follows; or the other way round.
    follows: bool,
    greeted: bool,
    /// Its last acknowledgement on the stream of that number.
    ack: Ack,
    /// Its own stream: the next item, and how far it had answered.
    stream: u32,
    pub(super) next: u64,
    lineage: Lineage,
    pings: u64,
}

impl Peer {
    pub(super) fn new(engine_leads: bool) -> Self {
        let generation = Generation { number: 7, tag: 0xfee };
        Self {
            follows: engine_leads,
            greeted: false,
            ack: Ack::default(),
            stream: 0,
            next: 0,
            lineage: Lineage::default().fork(generation, Sequence::ZERO),
            pings: 0,
        }
    }

    /// The connection is another one.
    pub(super) fn forget(&mut self) {
        (self.greeted, self.ack, self.next) = (false, Ack::default(), 0);
    }

    /// Says something; judges what comes of it where it cannot be.
    pub(super) fn speak(
        &mut self,
        desk: &mut Desk,
        dice: &mut Dice,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        if desk.is_paused() {
            return Ok(());
        }
        if !self.greeted && dice.chance(19, 20) {
            self.greeted = true;
            let hello = self.hello(desk, dice);
            desk.hear(&Message::Hello(hello))?;
        } else if dice.chance(1, 25) {
            self.offend(desk, dice, coverage)?;
        } else if !desk.leads() && self.next > 0 && dice.chance(1, 60) {
            self.flood(desk, dice, coverage)?;
        } else if desk.leads() {
            self.follow(desk, dice)?;
        } else {
            self.lead(desk, dice)?;
        }
        if desk.hung_up {
            self.forget();
        }
        Ok(())
    }

    fn hello(&self, desk: &Desk, dice: &mut Dice) -> Hello {
        let sizes: Vec<u64> = desk.sizes().iter().map(|size| size.0).collect();
        let ours = desk.said.hello.as_ref();
        let known = ours.map(|hello| hello.lineage).filter(|_| dice.chance(1, 2));
        let follows = self.follows && dice.chance(9, 10);
        let lineage = match known {
            Some(lineage) => lineage,
            None if follows => Lineage::default(),
            None => self.lineage,
        };
        let at = Sequence(dice.below(40));
        let blocks = Blocks { member: pick(dice, &[512, 512, 4096]), volume: 4096 };
        Hello {
            group: "db".into(),
            node: "lyon".into(),
            incarnation: 5 + dice.below(2),
            role: if follows { Role::Secondary } else { Role::Primary },
            serving: !follows,
            clean: dice.chance(1, 2),
            consistent: dice.chance(3, 4),
            wrote: !follows || dice.chance(1, 8),
            alone: dice.chance(1, 4),
            trusted: dice.chance(3, 4),
            sure: dice.chance(3, 4),
            suspect: false,
            keeps: dice.chance(1, 4),
            doubts: dice.chance(1, 16),
            discarded: dice.chance(1, 2),
            lineage,
            head: at,
            received: at,
            durable: Sequence(dice.below(at.0 + 1)),
            granularity: desk.granularity(),
            metadata: dice.below(1000),
            remembers: dice.below(3),
            blocks: vec![blocks; sizes.len()],
            report: Report::default(),
            sizes,
        }
    }

    /// What a follower says.
    fn follow(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        if let Some(asked) = desk.said.asked.pop_front() {
            return self.answer(asked, desk, dice);
        }
        if let Some(Reading::Wanted { ticket, extent, .. }) = desk.said.reads.pop_front() {
            let bytes = Payload { id: PayloadId(0), length: extent.length as u32 };
            let what = pick(dice, &[Told::Bytes(bytes), Told::Zeros, Told::Failed]);
            desk.hear(&Message::Reading(Reading::Told { ticket, what }))?;
            return Ok(());
        }
        match dice.below(10) {
            0 => self.ping(desk, dice),
            1 => self.promotion(desk, dice),
            _ => self.acknowledge(desk, dice),
        }
    }

    fn answer(
        &mut self,
        asked: Copying,
        desk: &mut Desk,
        dice: &mut Dice,
    ) -> Result<(), Violation> {
        let said = match asked {
            Copying::DigestsWanted { volume, extent, coarse } => {
                let count = extent.length.div_ceil(digest_piece(coarse).0) as usize;
                let list = vec![[dice.below(2) as u8; 16]; count];
                Copying::Digests { volume, extent, coarse, list }
            }
            Copying::EmptyWanted { volume, extent } => {
                Copying::Empty { volume, extent, empty: dice.chance(1, 2) }
            }
            _ => {
                if dice.chance(1, 2) {
                    let word = dice.next_u64();
                    let bits = dice.chance(1, 2).then(|| Box::new([word; PAGE_WORDS]));
                    let page = Copying::Marks { page: 0, bits };
                    desk.hear(&Message::Copying(page))?;
                }
                Copying::MarksEnd { trusted: dice.chance(3, 4) }
            }
        };
        desk.hear(&Message::Copying(said))?;
        Ok(())
    }

    /// As far as a sound follower could be.
    fn acknowledge(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        let Some(start) = desk.said.start.filter(|_| desk.streams()) else { return Ok(()) };
        if self.ack.stream != start.stream {
            let before = Sequence(start.from.0 - 1);
            let ranges = Ranges::default();
            let (received, completed, durable) = (before, before, before);
            self.ack = Ack { stream: start.stream, received, completed, durable, ranges };
        }
        let mut forward = |from: Sequence, to: Sequence| {
            Sequence(from.0 + dice.below(to.0.saturating_sub(from.0) + 1))
        };
        let old = self.ack;
        let received = forward(old.received, desk.said.sent.max(old.received));
        let completed = forward(old.completed, received);
        let durable = forward(old.durable, completed);
        self.ack = Ack { received, completed, durable, ..old };
        desk.hear(&Message::Ack(self.ack))?;
        Ok(())
    }

    fn ping(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        self.pings += 1;
        let mode = (!self.follows).then(|| pick(dice, &Mode::ALL));
        let at = Sequence(self.next.saturating_sub(1));
        let ping = Ping {
            token: self.pings,
            accepted: at,
            completed: Sequence(dice.below(at.0 + 1)),
            metadata: dice.below(1000),
            hurry: dice.chance(1, 2),
            mode,
            ..Ping::default()
        };
        desk.hear(&Message::Ping(ping))?;
        let (flushing, short) = (dice.chance(1, 4), dice.chance(1, 8));
        let waits = dice.chance(1, 8);
        let token = dice.below(20);
        desk.hear(&Message::Pong { token, flushing, waits, short, metadata: dice.below(1000) })?;
        Ok(())
    }

    fn promotion(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        let generation = desk.said.start.map_or(Generation::NONE, |s| s.lineage.generation);
        let said = match dice.below(6) {
            0 => Message::PromoteRequest { generation, durable: self.ack.durable },
            1 => Message::PromoteReply { granted: dice.chance(1, 2), text: "well".into() },
            2 => Message::Roles(Roles::SwitchWanted),
            3 => Message::Lease(Lease::Wanted { number: dice.below(9), millis: 2000 }),
            4 => Message::Lease(Lease::Returned),
            _ => Message::Invalid(Invalid::Failed { generation }),
        };
        desk.hear(&said)?;
        Ok(())
    }

    /// What a primary says.
    fn lead(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        if self.next == 0 {
            self.stream += 1;
            self.next = 1 + dice.below(3);
            let start = self.start(Sequence(self.next), dice);
            desk.hear(&Message::Start(start))?;
            return Ok(());
        }
        match dice.below(12) {
            0 => self.ping(desk, dice),
            1 => self.copy(desk, dice),
            2 => self.invite(desk, dice),
            3 => self.snapshot(desk, dice),
            _ => {
                let item = self.item(desk, dice);
                self.next += 1;
                desk.hear(&Message::Item(item))?;
                Ok(())
            }
        }
    }

    /// It announces a snapshot item, and sends it, or something else in its place.
    fn snapshot(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        let name = CopyName::new(pick(dice, &["a", "b", "c"])).expect("a name");
        let act = match dice.below(3) {
            0 => SnapshotAct::Create(name),
            1 => SnapshotAct::Refresh(name),
            _ => SnapshotAct::Delete(name),
        };
        let off = if dice.chance(1, 16) { 1 } else { 0 };
        let id = CopyId::of(dice.below(2));
        desk.hear(&Message::Snapshot(Snapshot { at: Sequence(self.next + off), act, id }))?;
        let item = match dice.below(16) {
            0 => return Ok(()),
            1 => self.item(desk, dice),
            _ => self.item_of(ItemKind::Snapshot, desk, dice),
        };
        self.next += 1;
        desk.hear(&Message::Item(item))?;
        Ok(())
    }

    fn start(&self, from: Sequence, dice: &mut Dice) -> Start {
        Start {
            lineage: self.lineage,
            from,
            consistent: dice.chance(1, 2),
            keep: dice.chance(1, 2),
            whole: dice.chance(3, 4),
            to_copy: dice.below(1 << 20),
            stream: self.stream,
            ships: dice.chance(1, 4),
        }
    }

    /// The next item of its line.
    fn item(&self, desk: &Desk, dice: &mut Dice) -> Item {
        let kinds = [
            ItemKind::Write,
            ItemKind::Write,
            ItemKind::Zero,
            ItemKind::Discard,
            ItemKind::Flush,
            ItemKind::Consistent,
            ItemKind::Same,
            ItemKind::Verify,
        ];
        let kind = pick(dice, &kinds);
        self.item_of(kind, desk, dice)
    }

    /// The next item of its line, of that kind.
    pub(super) fn item_of(&self, kind: ItemKind, desk: &Desk, dice: &mut Dice) -> Item {
        let size = desk.sizes()[0].0;
        let length = 4096 * (1 + dice.below(16));
        let extent = Extent::new(4096 * dice.below((size - length) / 4096 + 1), length);
        let extent = if kind.has_place() { extent } else { Extent::default() };
        let bytes = match kind {
            ItemKind::Verify => (16 * length / 4096) as u32,
            _ => length as u32,
        };
        let sequence = Sequence(self.next);
        Item {
            sequence,
            after: if matches!(kind, ItemKind::Consistent | ItemKind::Snapshot) {
                Sequence(sequence.0.saturating_sub(1))
            } else {
                Sequence(dice.below(sequence.0))
            },
            kind,
            fua: dice.chance(1, 8),
            punch: dice.chance(1, 2),
            resync: dice.chance(1, 4),
            volume: VolumeIndex(0),
            extent,
            payload: kind.has_payload().then_some(Payload { id: PayloadId(0), length: bytes }),
        }
    }

    /// It asks what is held here.
    fn copy(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        let (volume, extent) = (VolumeIndex(0), Extent::new(65536 * dice.below(4), 65536));
        let said = match dice.below(6) {
            0 => Message::Copying(Copying::MarksWanted),
            1 => Message::Copying(Copying::DigestsWanted { volume, extent, coarse: false }),
            2 => Message::Copying(Copying::EmptyWanted { volume, extent }),
            3 => {
                let after = Sequence(dice.below(self.next));
                let (ticket, zeros) = (dice.next_u64(), dice.chance(1, 2));
                Message::Reading(Reading::Wanted { ticket, after, volume, extent, zeros })
            }
            4 => {
                let fault = ["", "volume 0 failed"][usize::from(dice.chance(1, 2))].into();
                let differing = dice.below(3);
                Message::Report(Report { differing, fault, ..Report::default() })
            }
            _ => Message::Lease(Lease::Granted { number: dice.below(9), millis: 2000 }),
        };
        desk.hear(&said)?;
        Ok(())
    }

    fn invite(&mut self, desk: &mut Desk, dice: &mut Dice) -> Result<(), Violation> {
        let generation = self.lineage.generation;
        let head = Sequence(self.next - 1);
        let said = match dice.below(5) {
            0 => Message::Roles(Roles::Invite { generation, head }),
            1 => Message::Roles(Roles::Row { label: "resume-durable".into() }),
            2 => Message::PromoteReply { granted: dice.chance(1, 2), text: "yes".into() },
            3 => Message::Invalid(Invalid::Recorded),
            _ => Message::Invalid(Invalid::Failed { generation }),
        };
        desk.hear(&said)?;
        Ok(())
    }

    /// Says what cannot be.
    fn offend(
        &mut self,
        desk: &mut Desk,
        dice: &mut Dice,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        let (label, said, impossible) = match dice.below(6) {
            0 => self.unsent(desk, dice),
            1 => self.backwards(desk, dice),
            2 => ("peer-item-misplaced", self.misplaced(desk, dice), !desk.leads()),
            3 => {
                let reach = 1 << dice.below(60);
                let far = Sequence(self.next + 1 + dice.below(reach));
                let item = self.item(desk, dice);
                let after = item.after.min(far);
                let item = Item { sequence: far, after, ..item };
                ("peer-item-out-of-order", Message::Item(item), false)
            }
            4 => {
                let from = Sequence(pick(dice, &[0, 1, 9, 1 << 40, 1 << 63, u64::MAX]));
                let impossible = from.0 == 0 || from.0 >> 63 != 0 || desk.leads();
                ("peer-starts-unasked", Message::Start(self.start(from, dice)), impossible)
            }
            _ => ("peer-talks-nonsense", self.nonsense(desk, dice), false),
        };
        let could_be_said = desk.hear(&said)?;
        hold(!(impossible && could_be_said) || desk.hung_up, Promise::ChecksPeer, || {
            format!("the connection goes on behind {said:?}")
        })?;
        if desk.hung_up {
            coverage.struck(label);
        }
        Ok(())
    }

    /// An acknowledgement of what was never sent.
    fn unsent(&self, desk: &Desk, dice: &mut Dice) -> (&'static str, Message, bool) {
        let reach = 1 << dice.below(40);
        let beyond = Sequence(desk.said.sent.0 + 1 + dice.below(reach));
        let stream = desk.said.start.map_or(1, |start| start.stream);
        let (received, ranges) = (beyond, Ranges::default());
        let mut ack = Ack { stream, ranges, ..self.ack };
        if ack.stream != self.ack.stream {
            (ack.completed, ack.durable) = (Sequence::ZERO, Sequence::ZERO);
        }
        let mut ack = Ack { received, ..ack };
        if dice.chance(1, 2) {
            ack.completed = received;
        }
        if dice.chance(1, 4) {
            ack.stream += 1;
        }
        ("peer-acks-unsent", Message::Ack(ack), desk.streams() && desk.said.start.is_some())
    }

    /// Cursors that go backwards.
    fn backwards(&self, desk: &Desk, dice: &mut Dice) -> (&'static str, Message, bool) {
        let ours = desk.said.start.is_some_and(|start| start.stream == self.ack.stream);
        let mut ack = self.ack;
        match dice.below(3) {
            0 => ack.durable = Sequence(ack.durable.0.saturating_sub(1)),
            1 => {
                ack.completed = Sequence(ack.completed.0.saturating_sub(1));
                ack.durable = ack.durable.min(ack.completed);
            }
            _ => {
                (ack.received, ack.completed) = (Sequence::ZERO, Sequence::ZERO);
                ack.durable = Sequence::ZERO;
            }
        }
        let impossible = ours && ack != self.ack && desk.streams();
        ("peer-acks-backwards", Message::Ack(ack), impossible)
    }

    /// The next item of the line, of a place that does not exist.
    fn misplaced(&self, desk: &Desk, dice: &mut Dice) -> Message {
        let kind = pick(dice, &[ItemKind::Zero, ItemKind::Discard, ItemKind::Same]);
        let mut item = Item { kind, payload: None, ..self.item(desk, dice) };
        let size = desk.sizes()[0].0;
        item.extent = pick(
            dice,
            &[
                Extent::new(size, 4096),
                Extent::new(size - 4096, 8192),
                Extent::new(u64::MAX - 4095, 4096),
                Extent::new(0, u64::MAX),
                Extent::new(100, 4096),
            ],
        );
        item.volume = VolumeIndex(0);
        if dice.chance(1, 3) {
            item.extent = Extent::new(0, 4096);
            item.volume = VolumeIndex(pick(dice, &[2, 63, u16::MAX]));
        }
        item.after = item.after.min(Sequence(item.sequence.0.saturating_sub(1)));
        Message::Item(item)
    }

    /// Any message with anything in it.
    fn nonsense(&self, desk: &Desk, dice: &mut Dice) -> Message {
        let volume = VolumeIndex(pick(dice, &[0, 1, 2, u16::MAX]));
        let extent = Extent::new(
            pick(dice, &[0, 4096, 100, 1 << 40, u64::MAX]),
            pick(dice, &[1, 4096, 65536, 1 << 30, u64::MAX]),
        );
        let (coarse, empty, zeros) = (dice.chance(1, 2), dice.chance(1, 2), dice.chance(1, 2));
        let generation = Generation { number: dice.next_u64(), tag: dice.next_u64() };
        let sequence = Sequence(dice.next_u64() >> dice.below(64));
        let (ticket, millis) = (dice.next_u64() >> dice.below(64), dice.next_u64() as u32);
        let list = vec![[7; 16]; 1 + dice.below(256) as usize];
        let bytes = Payload { id: PayloadId(0), length: 1 << dice.below(25) };
        let bits = Some(Box::new([dice.next_u64(); PAGE_WORDS]));
        let page = dice.next_u64() as u32 >> dice.below(32);
        match dice.below(18) {
            0 => Message::Hello(self.hello(desk, dice)),
            1 => Message::Copying(Copying::DigestsWanted { volume, extent, coarse }),
            2 => Message::Copying(Copying::Digests { volume, extent, coarse, list }),
            3 => Message::Copying(Copying::EmptyWanted { volume, extent }),
            4 => Message::Copying(Copying::Empty { volume, extent, empty }),
            5 => Message::Copying(Copying::Marks { page, bits }),
            6 => Message::Copying(Copying::MarksEnd { trusted: true }),
            7 => Message::Copying(Copying::NoRoom { wanted: ticket, free: page.into() }),
            8 => Message::Copying(Copying::Differs { volume, extent, sequence }),
            9 => {
                Message::Reading(Reading::Wanted { ticket, after: sequence, volume, extent, zeros })
            }
            10 => Message::Reading(Reading::Told { ticket, what: Told::Bytes(bytes) }),
            11 => Message::Reading(Reading::Told { ticket: ticket % 8, what: Told::Zeros }),
            12 => Message::PromoteRequest { generation, durable: sequence },
            13 => Message::Roles(Roles::Invite { generation, head: sequence }),
            14 => Message::Lease(Lease::Granted { number: ticket % 4, millis }),
            15 => Message::Lease(Lease::Wanted { number: ticket, millis }),
            16 => Message::Copying(Copying::MarksWanted),
            _ => Message::Goodbye { parting: Parting::Protocol, text: "so".into() },
        }
    }
}
