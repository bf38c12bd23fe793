// SPDX-License-Identifier: Apache-2.0
//! Stories of point-in-time copies that operators name.

use super::*;
use alloc::format;
use alloc::string::ToString;
use helio_format::before::{CopyId, CopyOwner, EXPENDABLE_MOST};
use helio_format::snapshot::SnapshotAct;
use helio_units::CopyName;

pub(super) fn name(text: &str) -> CopyName {
    CopyName::new(text).expect("a name")
}

fn create(text: &str) -> Command {
    Command::Snapshot(SnapshotAct::Create(name(text)))
}

fn delete(text: &str) -> Command {
    Command::Snapshot(SnapshotAct::Delete(name(text)))
}

impl Desk {
    /// A primary, whose pool held that.
    pub(super) fn leading(found: BeforeFound) -> Self {
        let mut desk = Self::of(record(true), None, found);
        desk.lead();
        desk
    }

    fn lead(&mut self) {
        self.command(Command::Promote { force: true });
        while !self.saves.is_empty() {
            self.save();
        }
        assert!(self.engine.view().is_primary());
    }

    /// A secondary that cuts a copy alone, once item 21 is applied.
    fn cutting_alone() -> Self {
        let mut desk = Self::following(holding(1));
        desk.zero(21, 1);
        desk.pool(PoolOutcome::Done);
        desk.preserve();
        desk.command(Command::SnapshotHere(SnapshotAct::Create(name("here"))));
        desk.comes();
        desk
    }

    /// There is room for a cut, and the copy is listed as coming.
    pub(super) fn comes(&mut self) {
        assert!(matches!(self.pool(PoolOutcome::Done), PoolOp::Reserve { .. }));
        self.listed(CopyStage::Coming);
    }

    /// The pool ends a list whose last copy is this far. Returns that.
    pub(super) fn listed(&mut self, stage: CopyStage) -> KeptCopy {
        let PoolOp::List { copies, .. } = self.pool(PoolOutcome::Done) else {
            panic!("copies are listed")
        };
        let last = copies.last().copied().expect("one is listed");
        assert_eq!(last.stage, stage);
        last
    }

    /// Whether a primary could refresh that one now.
    fn may(&self, text: &str) -> Result<(), &'static str> {
        let may = self.engine.view().may_snapshot(SnapshotAct::Refresh(name(text)));
        may.map_err(|refusal| refusal.code)
    }

    fn names(&self) -> Vec<String> {
        let held = self.engine.view().copies().held;
        held.iter().filter_map(|held| held.copy.name()).map(|name| name.to_string()).collect()
    }

    fn missing(&self) -> Vec<String> {
        self.engine.view().copies().missing.into_iter().map(|missing| missing.why).collect()
    }

    /// The primary announces what its next item is about, and sends it.
    fn snapshot(&mut self, at: u64, act: SnapshotAct) {
        self.snapshot_of(at, act, CopyId::of(1));
    }

    fn snapshot_of(&mut self, at: u64, act: SnapshotAct, id: CopyId) {
        use helio_format::snapshot::Snapshot;
        self.tell(Event::Message(Message::Snapshot(Snapshot { at: Sequence(at), act, id })));
        let (volume, extent) = (VolumeIndex(0), Extent::default());
        let (sequence, after) = (Sequence(at), Sequence(at - 1));
        let (fua, punch, resync, payload) = (false, false, false, None);
        let kind = ItemKind::Snapshot;
        let item = Item { sequence, after, kind, fua, punch, resync, volume, extent, payload };
        self.tell(Event::Message(Message::Item(item)));
    }

    /// A secondary that follows in order from item 21 on.
    pub(super) fn following(found: BeforeFound) -> Self {
        let record = Superblock { head: Sequence(20), ..record(true) };
        let mut desk = Self::of(record, None, found);
        desk.meet();
        desk.start_in_order();
        desk.store_all();
        while !desk.saves.is_empty() {
            desk.save();
        }
        desk
    }
}

/// A pool that holds so many copies.
pub(super) fn holding(count: usize) -> BeforeFound {
    let copy = |number: usize| KeptCopy {
        number: CopyNumber(number as u64),
        class: CopyClass::Expendable,
        stage: CopyStage::Held,
        owner: CopyOwner::Operator(name(&format!("copy-{number}")), CopyId::of(number as u64)),
        image: KeptImage::default(),
    };
    let copies: Vec<_> = (1..=count).map(copy).collect();
    BeforeFound { copies, last: CopyNumber(count as u64), ..BeforeFound::default() }
}

#[test]
fn a_primary_cuts_at_the_end_of_its_line_and_lists_the_copy_once_it_is_durable() {
    let mut desk = Desk::leading(BeforeFound::default());
    desk.command(create("one"));
    desk.comes();
    assert_eq!(desk.names(), Vec::<String>::new());
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    let copy = desk.listed(CopyStage::Held);
    assert_eq!((copy.name(), copy.class), (Some(name("one")), CopyClass::Expendable));
    assert!(copy.image.consistent && copy.image.exact);
    assert_eq!(desk.names(), ["one"]);
    desk.command(create("one"));
    desk.command(delete("two"));
    assert_eq!(desk.refused, ["snapshot-exists", "unknown-snapshot"]);
    desk.command(delete("one"));
    desk.command(create("two"));
    assert_eq!(desk.refused.pop(), Some("busy"), "one at a time");
    assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::List { copies: Vec::new(), freed: 0 });
    assert_eq!(desk.names(), Vec::<String>::new());
}

#[test]
fn a_full_list_and_a_pool_without_room_refuse_a_copy() {
    let mut desk = Desk::leading(holding(EXPENDABLE_MOST));
    desk.command(create("one"));
    let mut full = Desk::leading(holding(1));
    full.bound(Some(Bytes::ZERO));
    full.command(create("one"));
    assert_eq!(
        full.pool(PoolOutcome::NoRoom { free: Bytes::ZERO }),
        PoolOp::Reserve { records: 0 }
    );
    assert_eq!([desk.refused, full.refused].concat(), ["too-many-snapshots", "no-snapshot-space"]);
}

#[test]
fn a_secondary_makes_no_copy_of_its_own() {
    let mut desk = Desk::following(BeforeFound::default());
    desk.command(create("one"));
    assert_eq!(desk.refused, ["not-primary"]);
    assert_eq!(desk.may("one"), Err("not-primary"));
}

fn refresh(text: &str) -> Command {
    Command::Snapshot(SnapshotAct::Refresh(name(text)))
}

#[test]
fn a_refreshed_copy_replaces_the_old_one_once_it_is_held() {
    let mut desk = Desk::leading(holding(2));
    desk.command(refresh("one"));
    assert_eq!(desk.refused, ["unknown-snapshot"]);
    assert_eq!(desk.may("one"), Err("unknown-snapshot"), "the look says the same");
    assert_eq!(desk.may("copy-1"), Ok(()));
    desk.command(refresh("copy-1"));
    assert_eq!(desk.may("copy-1"), Err("busy"));
    desk.comes();
    assert_eq!(desk.names(), ["copy-1", "copy-2"], "the old one is there until then");
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    let copy = desk.listed(CopyStage::Held);
    assert_eq!((copy.name(), copy.number), (Some(name("copy-1")), CopyNumber(3)));
    let PoolOp::List { copies, .. } = desk.pool(PoolOutcome::Done) else { panic!("one goes") };
    let numbers: Vec<_> = copies.iter().map(|copy| copy.number.0).collect();
    assert_eq!((numbers, desk.names()), (vec![2, 3], vec!["copy-2".into(), "copy-1".into()]));
}

#[test]
fn a_secondary_refreshes_at_the_item_and_one_that_cannot_keeps_the_old_copy() {
    let mut desk = Desk::following(holding(1));
    desk.snapshot(21, SnapshotAct::Refresh(name("copy-1")));
    desk.comes();
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert_eq!(desk.listed(CopyStage::Held).image.head, Sequence(21));
    desk.pool(PoolOutcome::Done);
    assert_eq!(desk.names(), ["copy-1"]);
    desk.snapshot(22, SnapshotAct::Refresh(name("copy-1")));
    desk.pool(PoolOutcome::NoRoom { free: Bytes::ZERO });
    assert_eq!((desk.names().len(), desk.missing().len()), (1, 1));
}

#[test]
fn a_secondary_keeps_a_copy_that_only_has_the_name_of_the_one_that_its_primary_means() {
    let other = CopyId::of(77);
    for act in [SnapshotAct::Create, SnapshotAct::Refresh] {
        let mut desk = Desk::following(holding(1));
        desk.snapshot_of(21, act(name("copy-1")), other);
        desk.store_all();
        let held = desk.engine.view().copies().held;
        assert_eq!(held.iter().map(|it| it.copy.number).collect::<Vec<_>>(), [CopyNumber(1)]);
        assert!(desk.missing()[0].contains("another snapshot copy-1"), "{:?}", desk.missing());
        // That one is not here, and so nothing is dropped with it.
        desk.snapshot_of(22, SnapshotAct::Delete(name("copy-1")), other);
        desk.store_all();
        assert_eq!((desk.names(), desk.missing()), (vec!["copy-1".into()], vec![]));
        desk.snapshot(23, SnapshotAct::Delete(name("copy-1")));
        desk.pool(PoolOutcome::Done);
        assert_eq!(desk.names(), Vec::<String>::new());
    }
}

/// The primary sends again what the secondary had applied when it crashed.
#[test]
fn an_item_that_comes_again_neither_replaces_nor_drops_a_later_copy() {
    for (act, of) in [
        (SnapshotAct::Refresh(name("copy-1")), CopyId::of(1)),
        (SnapshotAct::Create(name("copy-1")), CopyId::of(1)),
        (SnapshotAct::Delete(name("copy-1")), CopyId::of(77)),
    ] {
        let mut found = holding(1);
        let (lineage, head) = (record(true).lineage, Sequence(30));
        found.copies[0].image =
            KeptImage { lineage, head, consistent: true, ..KeptImage::default() };
        let mut desk = Desk::following(found);
        desk.snapshot_of(21, act, of);
        desk.store_all();
        let held = desk.engine.view().copies().held;
        assert_eq!(held.iter().map(|it| it.copy.image.head).collect::<Vec<_>>(), [head], "{act:?}");
        assert!(desk.missing().is_empty() && desk.pools.is_empty(), "{act:?}");
    }
}

#[test]
fn a_secondary_that_catches_up_does_not_replace_its_consistent_copy() {
    let [held, missing] = [true, false].map(|consistent| {
        let mut found = holding(1);
        found.copies[0].image.consistent = consistent;
        let mut desk = Desk::of(Superblock { head: Sequence(20), ..record(true) }, None, found);
        desk.meet();
        desk.start(false);
        desk.store_all();
        while !desk.saves.is_empty() {
            desk.save();
        }
        desk.snapshot(21, SnapshotAct::Refresh(name("copy-1")));
        desk.zero(22, 2);
        assert_eq!(desk.names(), ["copy-1"]);
        (desk.missing().len(), desk.pools.len())
    });
    assert_eq!(held.0, 1, "the old copy is preserved, and the new one is missing");
    assert_eq!(missing, (0, 1), "an inconsistent one is replaced");
}

#[test]
fn what_was_to_be_replaced_when_the_process_ended_is_no_copy_any_more() {
    let mut found = holding(2);
    found.copies[1].owner = CopyOwner::Operator(name("copy-1"), CopyId::of(1));
    let desk = Desk::leading(found);
    let held = desk.engine.view().copies().held;
    assert_eq!(held.iter().map(|held| held.copy.number.0).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_secondary_cuts_alone_where_all_that_was_issued_is_applied_and_nothing_behind_is_issued_before()
{
    let mut desk = Desk::cutting_alone();
    desk.zero(22, 2);
    assert_eq!(desk.ios.len(), 1, "item 22 waits until item 21 is applied");
    desk.store(StoreOutcome::Done);
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { .. }), "item 22 goes on");
    let copy = desk.listed(CopyStage::Held);
    let image = copy.image;
    assert_eq!((image.head, image.exact, image.consistent), (Sequence(21), true, true));
    assert_eq!(desk.names(), ["copy-1", "here"]);
    assert!(desk.refused.is_empty());
}

#[test]
fn a_copy_of_a_secondary_that_is_being_listed_when_its_disk_is_replaced_is_over() {
    let mut desk = Desk::cutting_alone();
    desk.store(StoreOutcome::Done);
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    desk.tell(Event::Disconnected { why: String::from("cut") });
    let volume = VolumeIndex(0);
    let follower = desk.engine.standing.follower_mut().expect("it does not lead");
    follower.stop_applying(volume, StoreFault::Io);
    assert_eq!(desk.engine.view().may_replace(volume), Ok(()));
    desk.command(Command::Replace { volume, identity: 7, block: 512 });
    assert_eq!(desk.save().copies_over, CopyNumber(2), "the next process may find both held");
    while !desk.pools.is_empty() {
        desk.pool(PoolOutcome::Done);
    }
    assert_eq!(desk.names(), Vec::<String>::new());
    assert_eq!(desk.refused, ["volume-failed"]);
}

/// Its source resumes behind item 22, which waits for the cut: no item of that stream has its turn before.
#[test]
fn a_secondary_cuts_alone_behind_what_it_received_before_its_source_resumed() {
    let mut desk = Desk::cutting_alone();
    desk.zero(22, 1);
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.tell(Event::Connected);
    desk.tell(Event::Message(Message::Hello(Hello { head: Sequence(22), ..paris(true) })));
    desk.starts_in_order(Sequence(23), 2);
    desk.zero(23, 1);
    while desk.names() == ["copy-1"] {
        match desk.pools.is_empty() {
            true => drop(desk.store(StoreOutcome::Done)),
            false => drop(desk.pool(PoolOutcome::Done)),
        }
    }
    let held = desk.engine.view().copies().held;
    assert_eq!(held.last().map(|held| held.copy.image.head), Some(Sequence(22)));
}

#[test]
fn a_primary_creates_no_copy_of_its_own() {
    let mut desk = Desk::leading(BeforeFound::default());
    desk.command(Command::SnapshotHere(SnapshotAct::Create(name("here"))));
    desk.command(Command::SnapshotHere(SnapshotAct::Delete(name("here"))));
    assert_eq!(desk.refused, ["is-primary", "unknown-snapshot"]);
}

#[test]
fn a_secondary_whose_copy_is_not_consistent_cuts_none_alone() {
    let mut desk = Desk::of(record(false), None, BeforeFound::default());
    desk.command(Command::SnapshotHere(SnapshotAct::Create(name("here"))));
    assert_eq!(desk.refused, ["not-consistent"]);
}

#[test]
fn a_secondary_cuts_once_everything_before_is_applied_and_nothing_behind_is_issued_before() {
    let mut desk = Desk::following(holding(1));
    desk.zero(21, 1);
    desk.pool(PoolOutcome::Done);
    desk.preserve();
    desk.snapshot(22, SnapshotAct::Create(name("one")));
    desk.zero(23, 2);
    assert_eq!(desk.ios.len(), 1, "what is behind it waits");
    desk.comes();
    assert!(desk.pools.is_empty() && desk.ios.len() == 1, "its turn has not come");
    desk.store(StoreOutcome::Done);
    assert_eq!(desk.store(StoreOutcome::Done), StoreOp::Flush);
    assert!(desk.ios.is_empty(), "what is behind it is preserved first");
    assert!(matches!(desk.pool(PoolOutcome::Done), PoolOp::Reserve { .. }));
    let copy = desk.listed(CopyStage::Held);
    assert_eq!((copy.image.head, copy.image.consistent), (Sequence(22), true));
    assert_eq!(desk.names(), ["copy-1", "one"]);
    let ops: Vec<_> = desk.ios.iter().map(|(_, op)| *op).collect();
    assert_eq!(ops, [StoreOp::Read { extent: chunk(2) }]);
}

#[test]
fn a_secondary_without_room_applies_on_and_shows_the_copy_as_missing() {
    let mut desk = Desk::following(BeforeFound::default());
    desk.snapshot(21, SnapshotAct::Create(name("one")));
    desk.zero(22, 2);
    assert!(desk.ios.is_empty());
    desk.pool(PoolOutcome::NoRoom { free: Bytes::ZERO });
    assert!(desk.changes(), "replication does not wait for it");
    assert_eq!(desk.names(), Vec::<String>::new());
    assert!(desk.missing()[0].contains("space"), "{:?}", desk.missing());
    desk.snapshot(23, SnapshotAct::Delete(name("one")));
    desk.store_all();
    assert!(desk.missing().is_empty(), "it was deleted before");
}

#[test]
fn what_was_received_is_cut_and_applied_before_a_promotion() {
    let mut desk = Desk::following(holding(1));
    desk.zero(21, 1);
    desk.pool(PoolOutcome::Done);
    desk.preserve();
    desk.snapshot(22, SnapshotAct::Create(name("one")));
    desk.comes();
    desk.tell(Event::Disconnected { why: String::from("cut") });
    desk.command(Command::Promote { force: true });
    desk.store_all();
    desk.listed(CopyStage::Held);
    assert_eq!(desk.names(), ["copy-1", "one"]);
}

#[test]
fn an_item_that_was_not_announced_and_one_announced_out_of_order_end_the_connection() {
    let mut desk = Desk::following(BeforeFound::default());
    desk.item(21, ItemKind::Snapshot, Extent::default());
    assert!(desk.gone);
    let mut desk = Desk::following(BeforeFound::default());
    desk.snapshot(22, SnapshotAct::Create(name("one")));
    assert!(desk.gone);
}

#[test]
fn on_a_suspect_volume_no_copy_is_cut() {
    let mut desk =
        Desk::of(Superblock { suspect: 1, ..record(true) }, None, BeforeFound::default());
    desk.meet();
    desk.start_in_order();
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save();
    }
    desk.snapshot(21, SnapshotAct::Create(name("one")));
    assert!(desk.pools.is_empty());
    assert!(desk.missing()[0].contains("suspect"), "{:?}", desk.missing());
}

#[test]
fn copies_of_a_damaged_pool_or_of_a_node_without_history_are_missing_and_dropped() {
    let damaged = BeforeFound { damaged: true, ..holding(1) };
    let unknown = Superblock::new("db", "lyon", [SIZE.0].into());
    for (record, found) in [(record(true), damaged), (unknown, holding(1))] {
        let mut desk = Desk::of(record, None, found);
        assert_eq!(desk.missing().len(), 1);
        assert_eq!(desk.pool(PoolOutcome::Done), PoolOp::List { copies: Vec::new(), freed: 0 });
        assert_eq!(desk.names(), Vec::<String>::new());
    }
}

#[test]
fn a_pool_that_fails_ends_the_copies_once_the_record_says_so() {
    let mut desk = Desk::leading(holding(1));
    desk.command(create("two"));
    desk.pool(PoolOutcome::Failed(StoreFault::Io));
    assert_eq!(desk.refused, ["before-failed"]);
    let extent = Extent::new(0, 4096);
    let operation = Operation::Zero { extent, punch: false, fua: false };
    desk.tell(Event::Request(Request { id: RequestId(1), volume: VolumeIndex(0), operation }));
    assert!(desk.ios.is_empty(), "nothing is overwritten before");
    assert_eq!(desk.save().copies_over, CopyNumber(1));
    assert!(desk.changes());
    assert!(desk.missing()[0].contains("failed"), "{:?}", desk.missing());
}
