// SPDX-License-Identifier: Apache-2.0
//! Records of branches.

use super::*;

const BRANCH: CopyView = CopyView::Branch(CopyNumber(1));

impl Desk {
    /// Copy 1 with chunk 0, and chunks 0 and 1 of its branch in slots 1 and 2, whose batch is durable.
    fn with_branch() -> (Self, BeforeStore) {
        let mut desk = Self::default();
        let (mut store, _) = desk.open();
        desk.list(&mut store, &[1], 0);
        desk.batch(&mut store, 1, &[(0, 0)]);
        store.begin_batch();
        [(1, 0), (2, 1)]
            .into_iter()
            .for_each(|(slot, n)| desk.keep_of(&mut store, BRANCH, slot, n));
        store.flushed();
        (desk, store)
    }

    /// A durable header proves what is there.
    fn prove(&mut self, store: &mut BeforeStore) {
        self.header(&store.note().expect("it tells of what is new"));
        store.flushed();
    }

    /// A client overwrites what lies in a slot.
    fn amend(&mut self, slot: usize) {
        self.0[page(slot) + PAGE_BYTES + 100] ^= 1;
    }
}

/// Slot and owner of the records that count.
fn owners(found: &BeforeFound) -> Vec<(u32, CopyView)> {
    let mut owners: Vec<_> = found.records.iter().map(|it| (it.slot.0, it.of)).collect();
    owners.sort_unstable();
    owners
}

fn all() -> Vec<(u32, CopyView)> {
    vec![(0, CopyView::Cut(CopyNumber(1))), (1, BRANCH), (2, BRANCH)]
}

#[test]
fn a_proven_record_of_a_branch_counts_whatever_its_bytes_are() {
    let (mut desk, mut store) = Desk::with_branch();
    assert_eq!(owners(&desk.sound().1), all());
    desk.prove(&mut store);
    desk.amend(1);
    let (store, found) = desk.sound();
    assert_eq!(owners(&found), all());
    assert_ne!(desk.load(&store, 1, 0).expect("it is there").1, bytes(0));
    desk.amend(0);
    assert_eq!(desk.load(&store, 0, 0), None, "a before-image never changes");
}

#[test]
fn what_was_found_unproven_is_overwritten_only_once_it_is_proven() {
    let (desk, _) = Desk::with_branch();
    let mut careless = desk.clone();
    careless.amend(1);
    assert_eq!(careless.open().1.torn, [page(1) as u64], "it could have been torn");
    let mut desk = desk;
    let (mut store, _) = desk.sound();
    desk.prove(&mut store);
    desk.amend(1);
    assert_eq!(owners(&desk.sound().1), all());
    assert_eq!(desk.sound().0.note(), None, "there is nothing to tell");
}

#[test]
fn a_branch_goes_with_its_copy() {
    let (mut desk, mut store) = Desk::with_branch();
    desk.prove(&mut store);
    desk.amend(2);
    desk.list(&mut store, &[1, 2], 0);
    assert_eq!(owners(&desk.sound().1), all());
    let freed = [mark(0, 0), mark(1, 0), mark(2, 1)].into_iter().fold(0, u64::wrapping_add);
    desk.list(&mut store, &[2], freed);
    assert_eq!(owners(&desk.sound().1), []);
    desk.batch(&mut store, 2, &[(1, 5)]);
    assert_eq!(owners(&desk.sound().1), [(1, CopyView::Cut(CopyNumber(2)))]);
}

#[test]
fn a_lost_record_of_a_branch_is_damage() {
    let (mut desk, mut store) = Desk::with_branch();
    desk.prove(&mut store);
    desk.0[page(2) + 20] ^= 1;
    assert!(desk.is_damaged());
}
