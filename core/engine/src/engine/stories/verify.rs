// SPDX-License-Identifier: Apache-2.0
//! Stories of verifies: what is compared, when, and what is reported of it.

use super::*;
use helio_units::Rate;

const V: VolumeIndex = VolumeIndex(0);
const STEP: u64 = 64 << 10;

impl Desk {
    fn verify(&mut self, wish: VerifyWish) -> String {
        self.command(Command::Verify(wish));
        self.results.pop().expect("an answer").expect("it may be verified")
    }

    /// The places that are being read to be compared.
    fn compared(&self) -> Vec<Extent> {
        let place = |(_, op, read_as): &(IoId, StoreOp, ReadAs)| {
            op.reads().filter(|_| *read_as == ReadAs::DigestPayload)
        };
        self.ios.iter().filter_map(place).collect()
    }

    /// The peer has completed everything.
    fn peer_has_it(&mut self) {
        let head = self.engine.view().status(self.now).cursors.head.0;
        self.acked(head);
    }
}

/// A primary of a volume of that size. Its peer has everything.
fn replicating(size: Bytes) -> Desk {
    let (mut desk, peer) = Desk::primary_of(&[size], config());
    desk.meet(peer);
    while desk.engine.view().state() != State::Replicating {
        desk.store_all();
        desk.peer_has_it();
        desk.save_all();
    }
    desk
}

fn status(desk: &Desk) -> VerifyStatus {
    desk.engine.view().verify_status()
}

#[test]
fn every_byte_of_a_volume_is_compared_once_however_its_size_divides() {
    let size = Bytes(2 * STEP + 4096);
    let mut desk = replicating(size);
    assert_eq!(desk.verify(VerifyWish::default()), "the verify of db begins");
    let expected = [(0, STEP), (STEP, STEP), (2 * STEP, 4096)];
    let compared: Vec<_> = desk.compared().iter().map(|e| (e.offset, e.length)).collect();
    assert_eq!(compared, expected);
    assert_eq!(status(&desk).run.map(|run| run.total), Some(size));
    desk.store_all();
    desk.peer_has_it();
    desk.tell(Event::Tick);
    assert_eq!(status(&desk).run, None, "everything is compared");
    assert_eq!(status(&desk).volumes[0].last.map(|pass| pass.differed), Some(Bytes::ZERO));
}

#[test]
fn a_verify_that_was_stopped_goes_on_where_it_was_unless_it_is_to_begin_anew() {
    let mut desk = replicating(Bytes(4 * STEP));
    desk.verify(VerifyWish::default());
    desk.store();
    desk.peer_has_it();
    desk.tell(Event::Tick);
    assert_eq!(status(&desk).volumes[0].place, STEP);
    desk.command(Command::StopVerify);
    desk.store_all();
    let text = desk.verify(VerifyWish::default());
    assert_eq!(text, "the verify of db continues at its position");
    assert_eq!(desk.compared()[0], Extent::new(STEP, STEP));
    desk.command(Command::StopVerify);
    desk.store_all();
    let text = desk.verify(VerifyWish { restart: true, ..VerifyWish::default() });
    assert_eq!(text, "the verify of db begins");
    assert_eq!(desk.compared()[0], Extent::new(0, STEP));
}

/// Each record is a write of a file: one every 64 MiB is enough.
#[test]
fn a_few_regions_that_are_equal_are_no_news_to_be_recorded() {
    let mut desk = replicating(Bytes(4 * STEP));
    desk.verify(VerifyWish::default());
    let before = desk.engine.view().verify_revision();
    for _ in 0..3 {
        desk.store();
        desk.peer_has_it();
        desk.tell(Event::Tick);
    }
    assert_eq!(status(&desk).volumes[0].place, 3 * STEP);
    assert_eq!(desk.engine.view().verify_revision(), before);
    desk.store();
    desk.peer_has_it();
    desk.tell(Event::Tick);
    assert!(desk.engine.view().verify_revision() > before, "the end of a volume is recorded");
}

#[test]
fn a_verify_waits_while_items_are_not_sent_and_says_so() {
    let mut desk = replicating(Bytes(4 * STEP));
    desk.command(Command::Pause);
    desk.results.clear();
    let text = desk.verify(VerifyWish::default());
    assert_eq!(text, "the verify of db begins later: items are not sent to the peer");
    let waits = |desk: &Desk| status(desk).run.and_then(|run| run.waits);
    assert_eq!(waits(&desk), Some("items are not sent to the peer"));
    assert_eq!(desk.compared(), []);
    desk.write(1);
    desk.store_all();
    desk.command(Command::Resync);
    assert_eq!(waits(&desk), Some("a resync is running"));
    assert_eq!(desk.compared(), []);
    while desk.compared().is_empty() {
        desk.store_all();
        desk.peer_has_it();
    }
    assert_eq!(waits(&desk), None);
    assert_eq!(desk.compared().len(), 4);
}

#[test]
fn a_rate_lets_one_region_through_at_a_time_and_the_next_when_it_is_due() {
    let mut desk = replicating(Bytes(4 * STEP));
    let wish = VerifyWish { rate: Some(Rate(10 * STEP)), ..VerifyWish::default() };
    desk.verify(wish);
    let begun = desk.now;
    for region in 0..4 {
        assert_eq!(desk.compared(), [Extent::new(region * STEP, STEP)]);
        desk.store_all();
        desk.peer_has_it();
        while desk.compared().is_empty() && status(&desk).run.is_some() {
            let due = desk.engine.view().deadline();
            assert!(due > desk.now && due < Moment::NEVER, "{due:?}");
            desk.now = due;
            desk.tell(Event::Tick);
            desk.peer_has_it();
        }
    }
    let took = desk.now - begun;
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert!(took < Duration::from_millis(400), "{took:?}");
}

#[test]
fn a_start_takes_up_what_the_one_before_left_and_nothing_of_volumes_that_are_gone() {
    let mut desk = replicating(Bytes(4 * STEP));
    let listed = [(V, Extent::new(8192, 4096)), (VolumeIndex(7), Extent::new(0, 4096))];
    let places = alloc::vec![(2 * STEP + 4096, Bytes(4096))];
    let run = Some(VerifyWish { restart: true, ..VerifyWish::default() });
    let memory = VerifyMemory { run, places, listed: listed.into(), beyond: 3 };
    desk.tell(Event::VerifyRemembered(memory));
    assert_eq!((status(&desk).listed, status(&desk).beyond), ([listed[0]].into(), 3));
    assert_eq!(desk.compared()[0], Extent::new(2 * STEP, STEP), "from a whole region on");
    assert_eq!(status(&desk).volumes[0].differed, Bytes(4096));
}

#[test]
fn differences_that_were_only_listed_count_until_an_update_copies_them() {
    let mut desk = replicating(Bytes(4 * STEP));
    desk.verify(VerifyWish::default());
    desk.store();
    let sequence = desk.engine.view().status(desk.now).cursors.head;
    let extent = Extent::new(8192, 4096);
    desk.hear(Message::Copying(Copying::Differs { volume: V, extent, sequence }));
    assert_eq!((desk.engine.view().status(desk.now).differing, status(&desk).listed.len()), (1, 1));
    assert!(!desk.engine.view().is_marked(V, extent.offset));
    desk.command(Command::StopVerify);
    desk.command(Command::Resync);
    assert_eq!(desk.engine.view().status(desk.now).differing, 0);
    assert!(desk.engine.view().is_marked(V, extent.offset));
}

#[test]
fn a_verify_that_waits_for_the_stream_asks_for_no_moment_that_has_passed() {
    let mut desk = replicating(Bytes(4 * STEP));
    desk.command(Command::Pause);
    desk.verify(VerifyWish::default());
    for _ in 0..3 {
        desk.now = desk.now + Duration::from_millis(100);
        desk.tell(Event::Tick);
        assert!(desk.engine.view().deadline() > desk.now, "only the stream is waited for");
    }
}

#[test]
fn a_verify_waits_while_a_copy_of_the_primary_is_suspect() {
    let mut desk = replicating(Bytes(4 * STEP));
    desk.lose_link();
    let failed = StoreOutcome::Failed(StoreFault::Io);
    let Engine { standing, local, turn, .. } = &mut desk.engine;
    standing.cover_flushed(V, &failed, local, turn);
    let text = desk.verify(VerifyWish { repair: true, ..VerifyWish::default() });
    assert_eq!(text, "the verify of db begins later: a flush failed on this node");
    assert_eq!(status(&desk).run.and_then(|run| run.waits), Some("a flush failed on this node"));
}
