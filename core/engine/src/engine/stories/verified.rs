// SPDX-License-Identifier: Apache-2.0
//! Stories of times that the record keeps for people.

use super::*;
use helio_units::WallTime;

const NOON: WallTime = WallTime(1_000_000);

#[test]
fn the_record_says_when_a_generation_of_its_own_began() {
    let mut desk = Desk::new(config());
    desk.tell(Event::Calendar(NOON));
    desk.command(Command::Promote { force: true });
    let record = desk.save(true);
    assert!((NOON.0..NOON.0 + 100).contains(&record.began), "{}", record.began);
    // Whoever starts from it knows that still.
    let again = Engine::new(config(), durable(record.clone()), 2, 2, Moment::ZERO);
    assert_eq!(again.view().stake(true).map(|stake| stake.since), Ok(Some(WallTime(record.began))));
}

#[test]
fn who_is_told_no_time_records_none() {
    let mut desk = Desk::new(config());
    desk.command(Command::Promote { force: true });
    assert_eq!(desk.save(true).began, 0);
}

#[test]
fn the_record_says_when_a_volume_was_verified_last() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.tell(Event::Calendar(NOON));
    desk.command(Command::Verify(VerifyWish::default()));
    let mut upto = 3;
    while desk.engine.view().verify_status().run.is_some() {
        desk.store_all();
        upto += 1;
        desk.acked(upto.min(desk.engine.view().status(desk.now).cursors.head.0));
    }
    desk.tell(Event::Tick);
    let records: Vec<Superblock> =
        core::iter::from_fn(|| (!desk.saves.is_empty()).then(|| desk.save(true))).collect();
    let record = records.last().expect("a record of it");
    assert!(record.verified[0] >= NOON.0, "{record:?}");
    assert_eq!((record.differed[0], record.repaired), (0, 0));
    let told = desk.engine.view().verified(VolumeIndex(0)).map(|verified| verified.at);
    assert_eq!(told, Some(WallTime(record.verified[0])));
}

#[test]
fn the_record_says_which_of_several_volumes_was_repaired() {
    let second = VolumeIndex(1);
    let (mut desk, peer) = Desk::primary_of(&[SIZE; 2], config());
    desk.tell(Event::Calendar(NOON));
    desk.meet(peer);
    let peer_has_all = |desk: &mut Desk| {
        desk.store_all();
        let head = desk.engine.view().status(desk.now).cursors.head.0;
        desk.acked(head);
    };
    while desk.engine.view().state() != State::Replicating {
        peer_has_all(&mut desk);
        desk.save_all();
    }
    let wish = VerifyWish { volume: Some(second), repair: true, ..VerifyWish::default() };
    desk.command(Command::Verify(wish));
    while desk.engine.view().verify_status().run.is_some() {
        peer_has_all(&mut desk);
    }
    desk.tell(Event::Tick);
    let mut record = desk.engine.record.superblock().clone();
    while !desk.saves.is_empty() {
        record = desk.save(true);
    }
    let config = desk.engine.turn.config().clone();
    let again = Engine::new(config, durable(record), 2, 2, Moment::ZERO);
    assert_eq!(again.view().verified(second).map(|verified| verified.repaired), Some(true));
    assert_eq!(again.view().verified(VolumeIndex(0)), None);
}
