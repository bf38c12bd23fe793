// SPDX-License-Identifier: Apache-2.0
//! Stories of a group with two volumes.

use super::lose::fail;
use super::*;
use crate::role::leave::STOP_PATIENCE;

const FIRST: VolumeIndex = VolumeIndex(0);
const SECOND: VolumeIndex = VolumeIndex(1);

impl Desk {
    /// A primary of volumes of these sizes, and the hello of a peer that joins as new.
    pub(super) fn primary_of(sizes: &[Bytes], config: Config) -> (Self, Hello) {
        let config = Config { volumes: sizes.into(), ..config };
        let sizes: Vec<u64> = sizes.iter().map(|size| size.0).collect();
        let mut desk = Self::new(config.clone());
        let record = Superblock::new("db", "paris", sizes.clone());
        let granularity = config.granularity.0 as u32;
        desk.engine = Engine::new(config, durable(record), 1, 1, Moment::ZERO);
        desk.command(Command::Promote { force: true });
        desk.save(true);
        let blocks = sizes.iter().map(|_| Blocks { member: 512, volume: 512 }).collect();
        (desk, Hello { sizes, blocks, granularity, ..hello(Lineage::default(), true) })
    }

    /// A primary of two volumes. Its peer joined as new and has everything.
    pub(super) fn of_two(config: Config) -> Self {
        let (mut desk, peer) = Self::primary_of(&[SIZE; 2], config);
        desk.meet(peer);
        while desk.engine.view().state() != State::Replicating {
            desk.store_all();
            desk.peer_has_all();
            desk.save_all();
        }
        desk
    }

    fn peer_has_all(&mut self) {
        let head = self.engine.view().status(self.now).cursors.head.0;
        self.acked(head);
    }

    fn ask_of(&mut self, volume: VolumeIndex, id: u64, operation: Operation) {
        self.tell(Event::Request(Request { id: RequestId(id), volume, operation }));
    }
}

/// A volume of which a write failed is not whole at the peer before that region was copied.
#[test]
fn behind_a_failed_flush_the_peer_serves_a_volume_only_if_it_holds_the_others() {
    for volume in [FIRST, SECOND] {
        let mut desk = Desk::of_two(Config { mode: Mode::Sync, ..config() });
        desk.write(1);
        fail(&mut desk);
        desk.peer_has_all();
        assert_eq!(desk.answers, [(1, false)]);
        assert!(desk.engine.view().is_marked(FIRST, 4096));
        desk.ask_of(volume, 2, Operation::Flush);
        fail(&mut desk);
        let fault = desk.engine.view().fault().unwrap_or_default().what;
        assert_eq!(fault.contains("served from lyon"), volume == FIRST, "{volume:?}: {fault}");
    }
}

#[test]
fn all_of_a_suspect_volume_counts_as_lag_and_nothing_of_the_other_one() {
    for volume in [FIRST, SECOND] {
        let mut desk = Desk::of_two(config());
        desk.lose_link();
        assert_eq!(desk.engine.view().status(desk.now).lag.dirty, Bytes::ZERO);
        desk.ask_of(volume, 1, Operation::Flush);
        fail(&mut desk);
        assert_eq!(desk.engine.view().status(desk.now).lag.dirty, SIZE, "{volume:?}");
    }
}

#[test]
fn a_write_of_a_good_volume_does_not_wait_for_the_record_that_another_one_is_given_up() {
    let on_error = OnError::ServeFromPeer;
    let mut desk = Desk::of_two(Config { mode: Mode::Sync, on_error, ..config() });
    desk.write(1);
    fail(&mut desk);
    let payload = Payload { id: PayloadId(2000), length: 4096 };
    let extent = Extent::new(0, 4096);
    desk.ask_of(SECOND, 2, Operation::Write { extent, payload, fua: false });
    while let Some(at) = desk.ios.iter().position(|(_, op, _)| matches!(op, StoreOp::Write { .. }))
    {
        let (io, ..) = desk.ios.remove(at).expect("it is there");
        desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Done });
    }
    desk.peer_has_all();
    assert_eq!(desk.answers, [(2, true)], "the first one waits for it");
}

fn peer_catches_up(desk: &mut Desk) {
    desk.peer_has_all();
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
}

/// A primary with two volumes: it is on record that the first one is given up to the peer.
fn first_given_up() -> Desk {
    let on_error = OnError::ServeFromPeer;
    let mut desk = Desk::of_two(Config { mode: Mode::Sync, on_error, ..config() });
    desk.write(1);
    fail(&mut desk);
    peer_catches_up(&mut desk);
    desk.save_all();
    desk
}

#[test]
fn a_demotion_is_refused_while_writes_of_a_good_volume_are_in_the_queue_alone_and_the_other_one_is_lost()
 {
    let mut desk = first_given_up();
    let payload = Payload { id: PayloadId(2000), length: 4096 };
    let extent = Extent::new(0, 4096);
    desk.ask_of(SECOND, 2, Operation::Write { extent, payload, fua: false });
    desk.store_all();
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    let (received, durable) = (Sequence(head), Sequence(head - 1));
    let ranges = Ranges::default();
    desk.hear(Message::Ack(Ack { stream: LATEST, received, completed: received, durable, ranges }));
    desk.save_all();
    assert!(desk.answers.contains(&(2, true)), "{:?}", desk.answers);
    desk.lose_link();
    desk.command(Command::Demote);
    let refused = desk.results.last().and_then(|result| result.as_ref().err());
    assert_eq!(refused.map(|refusal| refusal.code), Some("last-copy"));
}

#[test]
fn a_second_store_that_is_given_up_as_the_metadata_fails_is_answered_with_an_error_and_a_stop_ends()
{
    let mut desk = first_given_up();
    assert_eq!(desk.answers, [(1, true)], "the record says that the first volume is given up");
    desk.store_all();
    desk.ask_of(
        SECOND,
        2,
        Operation::Zero { extent: Extent::new(0, 4096), punch: false, fua: false },
    );
    desk.unwritable = true;
    fail(&mut desk);
    assert!(desk.engine.standing.primary().is_some_and(|primary| primary.is_lost(SECOND)));
    peer_catches_up(&mut desk);
    while !desk.saves.is_empty() {
        desk.save(false);
    }
    assert_eq!(
        desk.answers,
        [(1, true), (2, false)],
        "the record will not say that the second one is given up"
    );
    desk.command(Command::Stop);
    desk.now = desk.now + STOP_PATIENCE;
    desk.tell(Event::Tick);
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save(false);
    }
    assert_eq!(desk.engine.view().standing(), "stopped");
}
