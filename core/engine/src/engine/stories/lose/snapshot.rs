// SPDX-License-Identifier: Apache-2.0
//! Stories of copies that are cut while a disk fails, or is replaced.

use super::*;
use crate::engine::stories::replace::on_disk_six;
use alloc::vec;
use helio_format::before::CopyNumber;
use helio_format::snapshot::SnapshotAct;
use helio_ledger::BeforeFound;
use helio_snapshot::Snapshot;
use helio_stack::{KeptCopy, Layer, PoolOutcome};
use helio_units::CopyName;

/// A primary above the layer that preserves copies, whose peer has everything.
fn preserving() -> Desk {
    let none = (BeforeFound::default(), CopyNumber(0));
    let layers = Stack::new(vec![Snapshot::new(&[SIZE], &none.0, none.1, None).boxed()]);
    let config = Config { mode: Mode::Sync, ..config() };
    let mut desk = on_disk_six(Desk::above(layers, config).promoted().joined());
    desk.set_on_error(OnError::ServeFromPeer);
    desk.results.clear();
    desk
}

/// The pool does what it was asked for.
fn pool(desk: &mut Desk) {
    desk.tell(Event::PoolDone(PoolOutcome::Done));
}

/// An operator wants a copy, and there is room for it.
fn create(desk: &mut Desk) {
    let name = CopyName::new("one").expect("a name");
    desk.command(Command::Snapshot(SnapshotAct::Create(name)));
    pool(desk);
}

fn held(desk: &Desk) -> Vec<KeptCopy> {
    desk.engine.view().copies().held.into_iter().map(|held| held.copy).collect()
}

/// The last command was refused, because the volume failed.
fn volume_failed(desk: &Desk) -> bool {
    matches!(desk.results.last(), Some(Err(refusal)) if refusal.code == "volume-failed")
}

#[test]
fn a_copy_whose_moment_is_before_the_record_of_a_lost_disk_is_not_consistent() {
    for recorded in [false, true] {
        let mut desk = preserving();
        create(&mut desk);
        desk.write(1);
        fail(&mut desk);
        peer_has_all(&mut desk);
        desk.now = desk.now + Duration::from_secs(2);
        desk.tell(Event::Tick);
        if recorded {
            desk.save_all();
        }
        pool(&mut desk);
        desk.store();
        pool(&mut desk);
        let images: Vec<bool> = held(&desk).iter().map(|copy| copy.image.consistent).collect();
        assert_eq!(
            images,
            [false],
            "the peer alone has what was written before, recorded: {recorded}"
        );
    }
}

#[test]
fn a_consistent_copy_is_not_replaced_by_one_that_is_not() {
    let mut desk = preserving();
    create(&mut desk);
    pool(&mut desk);
    desk.store();
    pool(&mut desk);
    let before = held(&desk);
    assert!(matches!(&before[..], [copy] if copy.image.consistent), "{before:?}");
    desk.write(1);
    // What the write replaces is preserved for the first copy.
    while !desk.ios.iter().any(|(_, op, _)| op.changes().is_some()) {
        if desk.ios.is_empty() { pool(&mut desk) } else { desk.store() }
    }
    fail(&mut desk);
    peer_has_all(&mut desk);
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    desk.save_all();
    desk.results.clear();
    let name = CopyName::new("one").expect("a name");
    desk.command(Command::Snapshot(SnapshotAct::Refresh(name)));
    while desk.results.is_empty() {
        pool(&mut desk);
    }
    let refused = matches!(desk.results.last(), Some(Err(it)) if it.code == "not-consistent");
    assert!(refused, "{:?}", desk.results);
    assert_eq!(held(&desk), before);
}

#[test]
fn a_copy_whose_moment_was_before_its_disk_was_given_up_is_not_held() {
    let mut desk = preserving();
    create(&mut desk);
    desk.write(1);
    pool(&mut desk);
    assert!(held(&desk).is_empty(), "it holds what the write brings");
    fail(&mut desk);
    desk.store();
    pool(&mut desk);
    assert!(volume_failed(&desk), "{:?}", desk.results);
    assert!(held(&desk).is_empty());
}

#[test]
fn a_copy_that_is_being_listed_when_its_disk_is_replaced_is_over() {
    let mut desk = preserving();
    desk.write(1);
    fail(&mut desk);
    peer_has_all(&mut desk);
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    desk.save_all();
    create(&mut desk);
    pool(&mut desk);
    desk.store();
    assert!(held(&desk).is_empty(), "the pool is about to list it");
    let volume = VolumeIndex(0);
    desk.command(Command::Replace { volume, identity: 7, block: 512 });
    let record = desk.save(true);
    assert_eq!(record.members[0], 7);
    assert_eq!(record.copies_over, CopyNumber(1), "the next process may find it held");
    pool(&mut desk);
    assert!(held(&desk).is_empty(), "it was of the disk before");
    pool(&mut desk);
    assert!(volume_failed(&desk), "{:?}", desk.results);
    assert!(held(&desk).is_empty());
}
