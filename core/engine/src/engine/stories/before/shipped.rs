// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary in mode periodic, and of the cut that it ships.

use super::*;
use crate::resync::digest::digests_of;
use helio_format::message::{Ack, Ranges};

const V: VolumeIndex = VolumeIndex(0);
/// A region, as large as a chunk.
const REGIONS: usize = (SIZE.0 / CHUNK_BYTES) as usize;

impl Desk {
    /// A primary that ships its first cut, and asked its new peer what that holds.
    fn shipping() -> Self {
        let mut desk = Self::leading(BeforeFound::default());
        desk.command(Command::Mode(Mode::Periodic));
        desk.tell(Event::Connected);
        let new = Hello { role: Role::Secondary, lineage: Lineage::default(), ..paris(false) };
        desk.tell(Event::Message(Message::Hello(Hello { wrote: false, alone: false, ..new })));
        while !desk.saves.is_empty() {
            desk.save();
        }
        desk.comes();
        assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
        desk.listed(CopyStage::Held);
        desk
    }

    fn last_start(&self) -> Start {
        let start = |m: &Message| if let Message::Start(start) = m { Some(*start) } else { None };
        self.said.iter().rev().find_map(start).expect("a stream began")
    }

    /// What was read is compared with what the peer told, and equal.
    fn look_all(&mut self) {
        for io in core::mem::take(&mut self.looks) {
            self.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing(Vec::new()) });
        }
    }

    /// The peer has everything up to there durable.
    fn confirm(&mut self, at: Sequence) {
        let (stream, ranges) = (self.last_start().stream, Ranges::default());
        let ack = Ack { stream, received: at, completed: at, durable: at, ranges };
        self.tell(Event::Message(Message::Ack(ack)));
    }

    /// The peer holds other bytes than this node in all that it was asked about.
    fn tell_digests(&mut self) {
        let asked = self.said.iter().rev().find_map(|message| match message {
            Message::Copying(Copying::DigestsWanted { extent, coarse, .. }) => {
                Some((*extent, *coarse))
            }
            _ => None,
        });
        let (extent, coarse) = asked.expect("a question");
        let list = vec![[7; 16]; digests_of(extent, coarse) as usize];
        let told = Copying::Digests { volume: V, extent, coarse, list };
        self.tell(Event::Message(Message::Copying(told)));
    }

    fn reads_under_way(&self) -> usize {
        self.ios.iter().filter(|(_, op)| op.reads().is_some()).count()
    }

    /// A client overwrites that chunk with zeros.
    fn overwrite(&mut self, number: u64) {
        let operation = Operation::Zero { extent: chunk(number), punch: false, fua: false };
        self.tell(Event::Request(Request { id: RequestId(number), volume: V, operation }));
    }

    /// All reads of the volume end.
    fn read_all(&mut self) {
        for (io, op) in core::mem::take(&mut self.ios) {
            match op.reads() {
                Some(extent) => {
                    let payload = self.payload(extent);
                    let outcome = StoreOutcome::Read { payload, zero: false };
                    self.tell(Event::StoreDone { io, outcome });
                }
                None => self.ios.push((io, op)),
            }
        }
    }

    /// A client overwrites that chunk, which is preserved first.
    fn overwrite_preserved(&mut self, number: u64) {
        self.overwrite(number);
        assert!(matches!(self.pool(PoolOutcome::Done), PoolOp::Reserve { .. }));
        self.read_all();
        assert!(matches!(self.pool(PoolOutcome::Done), PoolOp::Append { .. }));
        assert!(matches!(self.store(StoreOutcome::Done), StoreOp::Zero { .. }));
    }
}

#[test]
fn a_cut_that_is_dropped_while_it_is_read_is_no_fault_of_the_disk() {
    let mut desk = Desk::shipping();
    desk.overwrite_preserved(0);
    desk.tell_digests();
    assert_eq!(desk.reads_under_way(), REGIONS);
    let others = desk.ios.split_off(1);
    desk.read_all();
    assert!(matches!(desk.pools[..], [PoolOp::Overlay { .. }]), "chunk 0 is preserved");
    desk.ios = others;
    desk.command(Command::Mode(Mode::Async));
    desk.tell(Event::Tick);
    desk.pool(PoolOutcome::Damaged);
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::List { .. }), "it is dropped");
    desk.read_all();
    assert_eq!(desk.engine.view().fault(), None, "{:?}", desk.logged);
    assert!(matches!(desk.store(StoreOutcome::Empty(false)), StoreOp::Map { .. }));
    desk.tell_digests();
    assert_eq!(desk.reads_under_way(), REGIONS, "the update reads the volume");
}

#[test]
fn a_cut_that_is_over_for_want_of_room_while_it_is_read_says_so() {
    let mut desk = Desk::shipping();
    desk.overwrite_preserved(0);
    desk.overwrite(1);
    desk.tell_digests();
    desk.read_all();
    let no_room = PoolOutcome::NoRoom { free: Bytes::ZERO };
    assert!(matches!(desk.pool(no_room), PoolOp::Reserve { .. }), "chunk 0 waits for the pool");
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::List { .. }), "it is over");
    let told = |text: &&String| text.starts_with("the cut was not sent as a whole");
    let why = desk.logged.iter().find(told).expect("the cut is given up");
    assert!(why.contains("no space for its before-images"), "{why}");
    assert_eq!(desk.engine.view().fault(), None);
}

/// The last item of a cut is before those that shipped it: what a peer received is none of the two.
#[test]
fn a_peer_behind_the_marker_of_a_cut_that_it_reported_as_durable_is_compared_whole() {
    // A peer that follows reports what it received. After a crash it follows nobody, and reports the head of its record. Each row reports
    // `less` than the peer had confirmed.
    let rows = [
        (9, true, 0, "update-marks"),
        (9, true, 1, "target-rolled-back"),
        (9, false, 0, "target-rolled-back"),
        (10, false, 0, "update-marks"),
        (10, false, 1, "target-rolled-back"),
    ];
    for (incarnation, follows, less, label) in rows {
        let mut desk = Desk::shipping();
        let cut = Sequence(desk.last_start().from.0 - 1);
        desk.tell_digests();
        desk.read_all();
        let others = desk.looks.split_off(1);
        desk.look_all();
        // A write during the shipping belongs to the next cut.
        desk.overwrite_preserved(0);
        desk.looks = others;
        desk.look_all();
        let head = |desk: &Desk| desk.engine.view().status(desk.now).cursors.head;
        desk.confirm(head(&desk));
        let marker = head(&desk);
        desk.confirm(marker);
        assert_eq!(desk.engine.view().status(desk.now).cursors.peer_durable, cut);
        desk.tell(Event::Disconnected { why: String::from("cut") });
        let received = if follows { Sequence(marker.0 - less) } else { Sequence::ZERO };
        let head = if follows && less > 0 { received } else { Sequence(cut.0 - less) };
        let lineage = desk.engine.record.superblock().lineage;
        let back =
            Hello { role: Role::Secondary, wrote: false, alone: false, lineage, ..paris(false) };
        let (clean, metadata, durable) = (follows, 9, received);
        let back = Hello { incarnation, clean, metadata, head, received, durable, ..back };
        desk.tell(Event::Connected);
        desk.tell(Event::Message(Message::Hello(back)));
        let row = desk.engine.view().last_decision().map(|met| met.label.clone());
        assert_eq!(row.as_deref(), Some(label), "{incarnation}, follows: {follows}, {less} less");
    }
}
