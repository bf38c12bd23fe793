// SPDX-License-Identifier: Apache-2.0
//! Stories of metadata that cannot be written.

use super::*;
use helio_format::invalid::Invalid;

#[test]
fn a_primary_whose_metadata_fails_goes_on_once_its_peer_has_recorded_that_and_not_without_it() {
    for mode in Mode::IN_ORDER {
        let mut desk = Desk::replicating(mode);
        desk.unwritable = true;
        desk.write(1);
        assert!(desk.ios.is_empty() && desk.answers.is_empty(), "nothing covers it");
        let generation = desk.lineage().generation;
        assert!(desk.said.contains(&Message::Invalid(Invalid::Failed { generation })));
        desk.hear(Message::Invalid(Invalid::Recorded));
        desk.write(2);
        desk.store_all();
        desk.acked(5);
        assert_eq!(desk.answers, [(1, true), (2, true)], "{mode}");
        let fault = desk.engine.view().fault().unwrap_or_default().what;
        assert!(fault.starts_with("bitmap failed") && fault.contains("lyon recorded"), "{fault}");

        desk.lose_link();
        desk.write(3);
        assert!(desk.ios.is_empty());
        assert_eq!(desk.answers.last(), Some(&(3, false)), "{mode}: without a peer writes fail");
        let lineage = desk.lineage();
        desk.meet(Hello { doubts: true, received: Sequence(5), ..hello(lineage, true) });
        let row = desk.engine.view().last_decision().map(|met| met.label.clone());
        assert_eq!(row.as_deref(), Some("resume-received"), "its memory still tells all");
    }
}

#[test]
fn a_secondary_says_that_it_recorded_once_it_has() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    let since = generation(1).generation;
    desk.hear(Message::Invalid(Invalid::Failed { generation: since }));
    let said = |desk: &Desk| desk.said.contains(&Message::Invalid(Invalid::Recorded));
    assert!(!said(&desk));
    assert_eq!(desk.save(true).peer_invalid, since);
    assert!(said(&desk));
    desk.lose_link();
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    let doubts = |desk: &Desk| {
        let doubts = |m: &Message| match m {
            Message::Hello(hello) => Some(hello.doubts),
            _ => None,
        };
        desk.said.iter().rev().find_map(doubts).expect("it introduced itself")
    };
    assert!(doubts(&desk), "a primary that restarted must compare everything");
    desk.hear(Message::Start(start(generation(1), 9, false)));
    assert_eq!(desk.save(true).peer_invalid, since, "a copy that proves it is yet to come");
    let Message::Item(marker) = item(9) else { panic!("no item") };
    let extent = Extent::default();
    desk.hear(Message::Item(Item { kind: ItemKind::Consistent, extent, ..marker }));
    desk.store_all();
    assert_eq!(desk.save(true).peer_invalid, Generation::NONE);
    desk.lose_link();
    desk.tell(Event::Connected);
    assert!(!doubts(&desk), "everything was compared");
}

#[test]
fn a_primary_that_restarted_compares_everything_where_its_peer_doubts_its_metadata() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.lose_link();
    let lineage = desk.lineage();
    desk.meet_before_saving(Hello { doubts: true, ..hello(lineage, true) });
    let row = desk.engine.view().last_decision().map(|met| met.label.clone());
    assert_eq!(row.as_deref(), Some("metadata-failed"));
    let record = desk.save(true);
    assert!(record.marks_void, "that everything is to be copied is durable first");
    assert!(desk.last_start().whole);
}

#[test]
fn a_record_that_proves_nothing_ends_behind_a_flush_of_what_a_process_before_wrote() {
    let mut desk = Desk::replicating(Mode::Async);
    let kept = |desk: &mut Desk| {
        desk.now = desk.now + Duration::from_secs(2);
        desk.tell(Event::Tick);
    };
    kept(&mut desk);
    assert!(desk.saves.is_empty(), "what both read the same may lie in a cache alone");
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush, _))), "{:?}", desk.ios);
    desk.store_all();
    desk.acked(9);
    kept(&mut desk);
    desk.save_all();
    assert!(!desk.engine.record.superblock().marks_void);
}

#[test]
fn a_secondary_whose_record_of_a_broken_image_failed_calls_it_broken() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.lose_link();
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    desk.hear(Message::Start(start(generation(1), 9, false)));
    assert!(!desk.save(false).consistent, "a restart may find this");
    desk.lose_link();
    desk.said.clear();
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    let consistent = desk.said.iter().find_map(|m| match m {
        Message::Hello(hello) => Some(hello.consistent),
        _ => None,
    });
    assert_eq!(consistent, Some(false), "nobody may count on it, or take it over another");
}

#[test]
fn a_secondary_that_cannot_record_that_its_image_is_consistent_stops_all_the_same() {
    let mut desk = follower(generation(1), false);
    desk.save_all();
    let Message::Item(first) = item(1) else { panic!("no item") };
    let extent = Extent::default();
    desk.hear(Message::Item(Item { kind: ItemKind::Consistent, extent, ..first }));
    desk.hear(item(2));
    desk.store_all();
    assert!(desk.save(false).consistent);
    desk.command(Command::Stop);
    desk.store_all();
    let text = desk.results.pop().expect("it ended").expect("and is no refusal");
    assert!(text.contains("this could not be recorded"), "{text}");
    assert_eq!(desk.engine.view().standing(), "stopped");
}

#[test]
fn a_primary_that_cannot_record_that_it_goes_on_alone_denies_what_waits_for_that() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    desk.store_all();
    desk.lose_link();
    assert!(desk.answers.is_empty() && !desk.saves.is_empty(), "the record is under way");
    desk.engine.record.keeping_mut().page_begins(desk.now);
    desk.tell(Event::Kept { kept: Kept::Marks { page: 0 }, ok: false, sequence: 1 });
    assert_eq!(desk.answers, [(1, false)]);
}
