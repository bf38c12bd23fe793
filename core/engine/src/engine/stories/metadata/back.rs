// SPDX-License-Identifier: Apache-2.0
//! Stories of a node whose machine goes back, perhaps with its memory: mostly a secondary beside a primary that still serves.

use super::*;

/// A primary whose secondary confirmed items up to 7, and lost the connection then. Returns its lineage, too.
fn confirmed() -> (Desk, Lineage) {
    let mut desk = Desk::replicating(Mode::Async);
    for id in 1..5 {
        desk.write(id);
    }
    desk.store_all();
    desk.acked(7);
    desk.lose_link();
    let lineage = desk.lineage_now();
    (desk, lineage)
}

#[test]
fn a_target_behind_what_it_reported_as_durable_is_compared_whole() {
    let (mut desk, lineage) = confirmed();
    let at = Sequence(5);
    let metadata = 9;
    desk.meet(Hello { head: at, received: at, durable: at, metadata, ..hello(lineage, true) });
    assert_eq!(row(&desk), Some("target-rolled-back"));
    assert!(desk.last_start().whole && !desk.last_start().consistent);
}

/// After a crash, and before it follows its primary again, a secondary reports the head of its record, and no cursors.
#[test]
fn a_target_from_before_its_stream_is_compared_whole_although_it_had_crashed_then() {
    let rows = [
        (PEER, false, 3, "target-rolled-back"),
        (PEER, true, 7, "target-rolled-back"),
        (PEER + 1, false, 3, "resume-durable"),
        (PEER + 1, false, 2, "target-rolled-back"),
    ];
    for (incarnation, clean, head, label) in rows {
        // The marker behind the first copy is item 3: a record says so before it is acknowledged.
        let (mut desk, lineage) = confirmed();
        let head = Sequence(head);
        let back = Hello { incarnation, clean, head, metadata: 9, ..hello(lineage, true) };
        desk.meet(back);
        assert_eq!(row(&desk), Some(label), "{incarnation} at {head}, clean: {clean}");
    }
}

/// Both stopped in step, and the primary started again: its record alone says what its peer has. The peer's machine goes back with
/// its memory, so nothing else tells of it.
#[test]
fn a_target_behind_what_the_record_of_a_primary_that_started_again_says_is_compared_whole() {
    for (head, label) in [(7, "resume-equal"), (5, "target-rolled-back")] {
        let mut record = Desk::replicating(Mode::Async).engine.record.superblock().clone();
        (record.clean, record.equal, record.head) = (true, true, Sequence(7));
        record.marks_void = false;
        let lineage = record.lineage;
        let peer = |head| {
            let at = Sequence(head);
            let metadata = 9;
            Hello { head: at, received: at, durable: at, metadata, ..hello(lineage, true) }
        };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), super::durable(record), 2, 2, Moment::ZERO);
        desk.meet(peer(7));
        let (token, flushing, waits, short, metadata) = (1, false, false, false, 9);
        desk.hear(Message::Pong { token, flushing, waits, short, metadata });
        desk.save_all();
        assert!(desk.engine.view().is_primary());
        desk.lose_link();
        desk.meet(peer(head));
        assert_eq!(row(&desk), Some(label), "head {head}");
    }
}

#[test]
fn a_target_that_followed_and_is_back_in_the_generation_that_it_led_is_compared_whole() {
    let rows = [
        (false, PEER, false, "update-marks"),
        (false, PEER + 1, false, "resume-durable"),
        (true, PEER, false, "target-rolled-back"),
        (true, PEER + 1, false, "target-rolled-back"),
        (true, PEER + 1, true, "target-rolled-back"),
    ];
    for (followed, incarnation, alone, label) in rows {
        let mut desk = Desk::replicating(Mode::Async);
        desk.lose_link();
        let durable = desk.engine.view().status(desk.now).cursors.peer_durable;
        let fork = Sequence(durable.0 - u64::from(followed));
        let led = generation(1);
        desk.engine.record.superblock_mut().lineage =
            led.fork(Generation { number: 2, tag: 9 }, fork);
        let back =
            Hello { wrote: true, head: fork, durable: fork, metadata: 9, ..hello(led, true) };
        desk.meet(Hello { incarnation, alone, ..back });
        assert_eq!(row(&desk), Some(label), "an earlier process comes back with its machine");
    }
}

/// Its dice go back with it, and its peer may hold what it sent in the generation that it began the first time.
#[test]
fn a_machine_that_goes_back_with_its_memory_begins_another_generation_than_before() {
    let desk = Desk::new(config());
    let begun = [0, 1].map(|later| {
        let mut back = Desk::new(config());
        back.engine = desk.engine.clone();
        back.now = desk.now + Duration::from_secs(later);
        back.promoted().lineage_now().generation
    });
    assert_eq!(begun.map(|generation| generation.number), [1, 1]);
    assert_ne!(begun[0].tag, begun[1].tag, "two histories would have one name");
}

/// The follower started again since: its record alone tells.
#[test]
fn a_source_without_the_generation_that_its_target_followed_is_rolled_back() {
    let [led, again] =
        [8, 9].map(|tag| generation(1).fork(Generation { number: 2, tag }, Sequence(4)));
    for (wrote, label) in [(false, "source-rolled-back"), (true, "split-brain")] {
        let mut desk = restarted(Role::Secondary);
        let record = desk.engine.record.superblock().clone();
        let record = Superblock { lineage: led, wrote, alone: wrote, ..record };
        desk.engine = Engine::new(config(), super::durable(record), 2, 2, Moment::ZERO);
        // Its metadata is no older than it was last heard of.
        let (head, metadata) = (Sequence(9), 50);
        let peer = Hello { head, metadata, wrote: true, ..hello(again, true) };
        desk.meet(Hello { serving: true, role: Role::Primary, ..peer });
        assert_eq!(row(&desk), Some(label), "wrote: {wrote}");
        assert!(desk.engine.view().is_link_down());
    }
}
