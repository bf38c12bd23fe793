// SPDX-License-Identifier: Apache-2.0
//! Members whose blocks differ: what is offered, who is refused, and what is done with writes that do not fit.

use super::*;

/// A secondary's hello whose member has blocks of 4 KiB.
fn large(lineage: Lineage) -> Hello {
    Hello { blocks: [Blocks { member: 4096, volume: 4096 }].into(), ..hello(lineage, true) }
}

fn offered(desk: &Desk) -> u64 {
    desk.engine.view().block(VolumeIndex(0)).0
}

fn in_use(desk: &mut Desk, used: bool) {
    desk.tell(Event::Used { volumes: u64::from(used) });
}

/// A write of one sector.
fn write_sector(desk: &mut Desk, id: u64) {
    let payload = Payload { id: PayloadId(1000 + id), length: 512 };
    let extent = Extent::new(512 * id, 512);
    desk.ask(id, Operation::Write { extent, payload, fua: false });
}

fn refused(desk: &Desk) -> Option<&str> {
    desk.said.iter().rev().find_map(|message| match message {
        Message::Goodbye { parting: Parting::Refused, text } => Some(text.as_str()),
        _ => None,
    })
}

fn follows(desk: &Desk) -> bool {
    desk.said.iter().any(|message| matches!(message, Message::Start(_)))
}

#[test]
fn a_peer_with_larger_blocks_is_refused_while_clients_use_smaller_ones() {
    let mut desk = Desk::primary(config());
    in_use(&mut desk, true);
    write_sector(&mut desk, 1);
    assert_eq!(desk.ios.len(), 1, "a sector is written");
    desk.meet(large(Lineage::default()));
    let text = refused(&desk).expect("the peer is refused");
    assert!(text.contains("block-size") && text.contains("blocks of 4 KiB"), "{text}");
    let hint = desk.engine.view().status(desk.now).link.hint.expect("something helps");
    assert!(hint.contains("detach its volumes"), "{hint}");
    assert!(!follows(&desk));
    assert_eq!(offered(&desk), 512, "what clients were told stays");
    write_sector(&mut desk, 2);
    assert_eq!(desk.ios.len(), 2);

    in_use(&mut desk, false);
    assert_eq!(offered(&desk), 4096);
    desk.store_all();
    desk.meet(large(Lineage::default()));
    assert!(follows(&desk), "it follows once nobody keeps to smaller ones");
}

#[test]
fn larger_blocks_of_the_peer_are_offered_and_stay_so_without_it() {
    let mut desk = Desk::primary(config());
    assert_eq!(offered(&desk), 512);
    desk.meet(large(Lineage::default()));
    assert_eq!(offered(&desk), 4096);
    write_sector(&mut desk, 8);
    assert_eq!(desk.answers, [(8, false)], "a sector is not written any more");
    let record = desk.engine.record.superblock().clone();
    assert_eq!(record.blocks, [4096]);
    let found = MemberFound { identity: 0, block: 512, shown: String::new() };
    let durable = Durable { members: [found].into(), ..durable(record) };
    let restarted = Engine::new(config(), durable, 2, 2, Moment::ZERO);
    assert_eq!(restarted.view().block(VolumeIndex(0)), Bytes(4096));
}

#[test]
fn a_refused_peer_is_remembered_too() {
    let mut desk = Desk::primary(config());
    in_use(&mut desk, true);
    desk.meet(large(Lineage::default()));
    assert!(refused(&desk).is_some());
    assert_eq!(desk.engine.record.superblock().blocks, [4096]);
}

#[test]
fn who_takes_over_offers_no_smaller_blocks_than_its_primary_had() {
    let mut desk = Desk::new(config());
    desk.meet(Hello { serving: true, role: Role::Primary, ..large(generation(1)) });
    desk.lose_link();
    assert_eq!(offered(&desk), 4096);
}

#[test]
fn writes_that_do_not_fit_the_peer_any_more_are_marks() {
    let mut desk = Desk::replicating(Mode::Async);
    let lineage = desk.lineage_now();
    in_use(&mut desk, true);
    desk.lose_link();
    write_sector(&mut desk, 9);
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.engine.view().state(), State::Queuing);
    in_use(&mut desk, false);
    let level = Hello { received: Sequence(3), durable: Sequence(3), ..large(lineage) };
    desk.meet(level.clone());
    let asks =
        |desk: &Desk| desk.said.iter().any(|m| matches!(m, Message::Copying(Copying::MarksWanted)));
    assert!(asks(&desk), "order is given up: the queue holds a sector");
    let mut fits = Desk::replicating(Mode::Async);
    let lineage = fits.lineage_now();
    fits.lose_link();
    fits.write(2);
    fits.store_all();
    fits.save_all();
    fits.meet(Hello { lineage, ..level });
    assert!(!asks(&fits), "what fits goes on in its order");
}

#[test]
fn a_write_that_waited_behind_another_is_not_made_once_the_blocks_are_larger() {
    let mut desk = Desk::primary(config());
    in_use(&mut desk, true);
    write_sector(&mut desk, 1);
    write_sector(&mut desk, 1);
    assert_eq!(desk.ios.len(), 1, "the second one waits");
    desk.meet(large(Lineage::default()));
    in_use(&mut desk, false);
    desk.store();
    assert!(desk.ios.is_empty(), "it is given up with its client");
    assert!(desk.answers.contains(&(1, false)));
    desk.write(3);
    assert_eq!(desk.ios.len(), 1, "the gate is free");
}

#[test]
fn an_item_that_does_not_keep_to_the_members_blocks_breaks_the_protocol_and_no_store() {
    let found = MemberFound { identity: 0, block: 4096, shown: String::new() };
    let mut desk = Desk::new(config());
    let superblock = Superblock::new("db", "paris", [SIZE.0].into());
    let durable = Durable { members: [found].into(), ..durable(superblock) };
    desk.engine = Engine::new(config(), durable, 1, 1, Moment::ZERO);
    let lineage = generation(1);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(lineage, true) });
    desk.hear(Message::Start(Start {
        lineage,
        from: Sequence(1),
        consistent: true,
        keep: false,
        whole: true,
        to_copy: 0,
        stream: 1,
        ships: false,
    }));
    desk.save_all();
    let (sequence, after) = (Sequence(1), Sequence::ZERO);
    desk.hear(Message::Item(Item {
        sequence,
        after,
        kind: ItemKind::Zero,
        fua: false,
        punch: false,
        resync: false,
        volume: VolumeIndex(0),
        extent: Extent::new(512, 512),
        payload: None,
    }));
    assert!(desk.accuses());
    assert!(desk.engine.view().status(desk.now).fault.is_none(), "the store was not asked");
}
