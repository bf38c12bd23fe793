// SPDX-License-Identifier: Apache-2.0
//! A disk that both nodes reach: the peer is refused before one of the two writes it on behalf of the other.

use super::super::*;
use helio_format::disks::Disk;
use helio_format::members::DiskMark;

const fn disk(identity: u128, whole: bool) -> Disk {
    Disk { volume: VolumeIndex(0), mark: DiskMark::of(identity), whole }
}

fn own(identity: u128) -> OwnDisk {
    OwnDisk { disk: disk(identity, true), path: String::from("/dev/a") }
}

fn refused(desk: &Desk) -> bool {
    let goodbye = |message: &Message| match message {
        Message::Goodbye { parting: Parting::Refused, text } => text.starts_with("same-disk: "),
        _ => false,
    };
    desk.said.iter().any(goodbye)
}

#[test]
fn what_tells_the_disks_follows_the_hello_before_anything_else() {
    let mut desk = Desk::primary(config());
    desk.tell(Event::Disks([own(7)].into()));
    desk.meet(hello(Lineage::default(), true));
    let of = |wanted: fn(&Message) -> bool| desk.said.iter().position(wanted);
    let [greeting, disks, start] = [
        of(|it| matches!(it, Message::Hello(_))),
        of(|it| matches!(it, Message::Disks(_))),
        of(|it| matches!(it, Message::Start(_))),
    ];
    assert!(greeting.is_some() && greeting < disks && disks < start, "{:?}", desk.said);
}

#[test]
fn a_peer_that_has_a_disk_of_this_node_is_refused_by_whichever_node_compares() {
    let lineage = generation(1);
    for (theirs, is_refused) in
        [(disk(7, true), true), (disk(7, false), true), (disk(8, true), false)]
    {
        for leads in [true, false] {
            let mut desk = if leads { Desk::primary(config()) } else { follower(lineage, true) };
            desk.tell(Event::Disks([own(7)].into()));
            if leads {
                desk.meet(hello(Lineage::default(), true));
            }
            desk.hear(Message::Disks([theirs].into()));
            assert_eq!(refused(&desk), is_refused, "{theirs:?}, leads: {leads}");
            let status = desk.engine.view().status(desk.now).link;
            assert_eq!(status.hint.is_some_and(|it| it.contains("own-disk")), is_refused);
        }
    }
}

#[test]
fn a_disk_of_the_connected_peer_does_not_become_a_member() {
    let mut desk = Desk::primary(config());
    desk.meet(hello(Lineage::default(), true));
    let may_use = |desk: &Desk, identity| desk.engine.view().may_use(&[own(identity)]);
    assert_eq!(may_use(&desk, 7), Ok(()));
    desk.hear(Message::Disks([disk(7, false)].into()));
    let refusal = may_use(&desk, 7).expect_err("the peer has it");
    assert_eq!(refusal.code, "same-disk");
    assert!(
        refusal.text.contains("/dev/a of volume data on paris is a disk of"),
        "{}",
        refusal.text
    );
    assert_eq!(may_use(&desk, 8), Ok(()));
    desk.hear(Message::Disks(Vec::new()));
    assert_eq!(may_use(&desk, 7), Ok(()), "the last ones count");
}

#[test]
fn that_the_last_disk_is_gone_is_told_once_to_a_peer_that_knows_of_it() {
    let mut desk = Desk::primary(config());
    desk.meet(hello(Lineage::default(), true));
    let told = |desk: &Desk| {
        let disks = |message: &Message| match message {
            Message::Disks(disks) => Some(disks.len()),
            _ => None,
        };
        desk.said.iter().filter_map(disks).collect::<Vec<_>>()
    };
    desk.tell(Event::Disks(Vec::new()));
    desk.tell(Event::Disks([own(7)].into()));
    desk.tell(Event::Disks(Vec::new()));
    desk.tell(Event::Disks(Vec::new()));
    assert_eq!(told(&desk), [1, 0]);
}
