// SPDX-License-Identifier: Apache-2.0
//! Stories of a volume with several members below the layer that preserves copies.

use super::*;
use helio_format::members::{CopyHealth, MEMBERS_MAX};
use helio_shadow::Shadow;

/// A consistent copy on two members.
fn of_two_members() -> Desk {
    let mut found = [None; MEMBERS_MAX];
    found[..2].fill(Some(CopyHealth::Good));
    let set = Shadow::new(&[SIZE], crate::config::REGION, &[found]);
    let layers = vec![
        Snapshot::new(&[SIZE], &BeforeFound::default(), CopyNumber(0), None).boxed(),
        set.boxed(),
    ];
    let record = Superblock { head: Sequence(20), ..record(true) };
    Desk::above(layers, (SIZE, crate::config::HOT_EXTENTS), record, None)
}

/// Time passes, and the peer is connected.
fn pass(desk: &mut Desk, time: Duration) {
    let until = desk.now + time;
    while desk.now < until {
        desk.now = desk.now + Duration::from_millis(499);
        desk.tell(Event::Message(Message::Ping(Default::default())));
    }
}

#[test]
fn a_cut_does_not_wait_for_the_late_operation_of_a_member_that_was_removed() {
    let mut desk = of_two_members();
    desk.meet();
    desk.start_in_order();
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save();
    }
    desk.zero(21, 3);
    assert_eq!(desk.ios.len(), 2, "both members are written");
    desk.store(StoreOutcome::Done);
    let (late, _) = desk.ios.remove(0);
    pass(&mut desk, Duration::from_secs(121));
    let silent = |text: &String| text.contains("the disk of member 1 of volume 0 is silent");
    assert!(desk.logged.iter().any(silent), "{:?}", desk.logged);
    desk.store_all();
    desk.go_on(22, false);
    assert!(matches!(desk.pools[..], [PoolOp::Reserve { .. }]), "{:?}", desk.pools);
    assert_eq!(desk.cut().0.head, Sequence(21));
    desk.tell(Event::StoreDone { io: late, outcome: StoreOutcome::Done });
}
