// SPDX-License-Identifier: Apache-2.0
//! No command discards the last complete copy, as far as the node knows, unless the operator names it as that.

use super::switch::diverged;
use super::*;
use crate::local::members::Members;
use alloc::format;

/// What paris finds lyon to be: a name, lyon's hello, and whether its copy is known to be complete.
type Found = (&'static str, fn() -> Option<Hello>, bool);

const FOUND: [Found; 9] = [
    ("complete", || Some(followed()), true),
    ("inconsistent", || Some(Hello { consistent: false, ..followed() }), false),
    ("suspect", || Some(Hello { suspect: true, consistent: false, ..followed() }), false),
    ("failed", || Some(Hello { report: failed(), ..followed() }), false),
    ("given up", || Some(Hello { alone: true, clean: false, ..followed() }), false),
    (
        "given up whole",
        || Some(Hello { discarded: true, ..hello(Lineage::default(), true) }),
        false,
    ),
    ("none", || Some(hello(Lineage::default(), true)), false),
    ("primary that lacks regions", || Some(Hello { consistent: false, ..rival() }), false),
    ("unheard", || None, false),
];

fn followed() -> Hello {
    hello(generation(1), true)
}

/// A primary that went on without paris.
fn rival() -> Hello {
    let lineage = generation(1).fork(Generation { number: 9, tag: 9 }, Sequence(3));
    Hello { serving: true, role: Role::Primary, wrote: true, alone: true, ..hello(lineage, true) }
}

fn failed() -> Report {
    Report { fault: "volume data: I/O error".into(), ..Report::default() }
}

/// A secondary that was primary and has writes of its own, on a complete copy.
fn paris(consistent: bool) -> Desk {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let (lineage, head) = (generation(1), Sequence(5));
    let (wrote, alone, clean, marks_void) = (true, true, true, false);
    let record = Superblock { lineage, head, consistent, wrote, alone, clean, marks_void, ..new };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    desk
}

fn give_up(desk: &mut Desk, last_copy: bool) -> Option<Refusal> {
    desk.results.clear();
    let generation = generation(1).generation;
    desk.command(Command::Yield { generation, last_copy });
    desk.save_all();
    desk.results.pop().expect("it was answered").err()
}

#[test]
fn a_copy_is_given_up_for_a_complete_one_or_if_the_operator_names_it_as_the_last() {
    for (name, found, complete) in FOUND {
        for (consistent, cut) in [(true, false), (true, true), (false, false), (false, true)] {
            let begin = || {
                let mut desk = paris(consistent);
                if let Some(hello) = found() {
                    desk.meet(hello);
                }
                if cut && !desk.engine.view().is_link_down() {
                    desk.lose_link();
                }
                desk
            };
            let what = format!("{name}, own consistent: {consistent}, cut: {cut}");
            let refusal = give_up(&mut begin(), false);
            assert_eq!(refusal.is_some(), consistent && !complete, "{what}: {refusal:?}");
            if let Some(Refusal { code, text, hint, .. }) = refusal {
                assert_eq!(code, "last-copy", "{what}");
                assert!(text.contains("the copy of db on paris may be the last"), "{what}: {text}");
                assert!(text.contains("lyon"), "{what}: {text}");
                assert!(hint.ends_with("add `--last-copy paris`"), "{what}: {hint}");
                assert!(!hint.contains("--discard paris"), "{what}: {hint}");
            }
            assert_eq!(give_up(&mut begin(), true), None, "{what}");
        }
    }
}

#[test]
fn the_way_to_keep_the_last_complete_copy_is_open() {
    let mut desk = paris(true);
    desk.meet(Hello { consistent: false, ..followed() });
    let hint = give_up(&mut desk, false).expect("it is the last one").hint;
    assert!(hint.starts_with("`helio promote db` on paris, which then copies to lyon"), "{hint}");
    desk.command(Command::Promote { force: false });
    let asked = |m: &Message| matches!(m, Message::PromoteRequest { .. });
    assert!(desk.said.iter().any(asked), "it is asked for");
}

#[test]
fn a_primary_that_was_demoted_amid_a_resync_knows_that_it_left_no_complete_copy() {
    for ended in [false, true] {
        let mut desk = Desk::primary(config());
        desk.meet(hello(Lineage::default(), true));
        if ended {
            desk.store_all();
            desk.acked(2);
            desk.acked(3);
            desk.save_all();
        }
        desk.lose_link();
        desk.command(Command::Demote);
        desk.store_all();
        desk.save_all();
        assert!(!desk.engine.view().is_primary());
        let generation = desk.lineage_now().generation;
        desk.results.clear();
        desk.command(Command::Yield { generation, last_copy: false });
        desk.save_all();
        let refusal = desk.results.pop().and_then(Result::err);
        assert_eq!(refusal.map(|it| it.code), (!ended).then_some("last-copy"), "ended: {ended}");
    }
}

#[test]
fn of_two_that_diverged_the_second_is_not_discarded_once_the_first_was() {
    // The first one has news for its peer at once, until it has said hello.
    let (mut first, rival) = diverged();
    let generation = first.engine.view().stake(false).expect("it may be given up").generation;
    assert_eq!(first.engine.view().has_news_for_peer(), None);
    first.command(Command::Yield { generation, last_copy: false });
    first.save_all();
    assert!(first.engine.view().has_news_for_peer().is_some());
    first.tell(Event::Connected);
    let says = |m: &Message| match m {
        Message::Hello(hello) => Some(hello.clone()),
        _ => None,
    };
    let said = first.said.iter().rev().find_map(says).expect("it says hello");
    first.hear(Message::Hello(Hello { serving: true, role: Role::Primary, ..hello(rival, true) }));
    assert_eq!(first.engine.view().has_news_for_peer(), None);
    // The second one was refused by the first, and hears of the choice.
    let mut second = paris(true);
    second.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert!(second.engine.view().stake(false).is_ok(), "the choice is open");
    second.meet(Hello { node: "lyon".into(), ..said });
    let refusal = give_up(&mut second, false).expect("the other one was discarded");
    assert_eq!(refusal.code, "last-copy");
    assert!(refusal.text.ends_with("an operator discarded the copy of lyon"), "{}", refusal.text);
}

#[test]
fn a_reverse_resync_takes_no_copy_that_is_not_complete() {
    for (name, hello, complete) in [
        ("complete", followed(), true),
        ("given up", Hello { alone: true, clean: false, ..followed() }, false),
        ("failed", Hello { report: failed(), ..followed() }, false),
    ] {
        let mut desk = Desk::replicating(Mode::Async);
        let lineage = desk.lineage_now();
        desk.command(Command::Pause);
        desk.lose_link();
        desk.meet(Hello { lineage, ..hello });
        if desk.said.contains(&Message::Copying(Copying::MarksWanted)) {
            desk.hear(Message::Copying(Copying::MarksEnd { trusted: true }));
        }
        let stake =
            |last_copy| desk.engine.view().reversal_stake(Reversal { full: false, last_copy });
        let refusal = stake(false).err();
        assert_eq!(refusal.is_none(), complete, "{name}: {refusal:?}");
        if let Some(Refusal { code, hint, .. }) = refusal {
            assert_eq!(code, "last-copy", "{name}");
            assert!(hint.contains("`helio resync db` on paris"), "{name}: {hint}");
        }
        assert!(stake(true).is_ok(), "{name}: it was named");
    }
}

#[test]
fn the_advice_for_two_that_diverged_offers_no_discard_of_the_only_complete_copy() {
    for (consistent, suspect) in [(true, false), (false, false), (false, true)] {
        let mut desk = paris(true);
        desk.meet(Hello { consistent, suspect, ..rival() });
        let status = desk.engine.view().status(desk.now);
        let hint = status.link.hint.expect("lyon refuses paris");
        assert_eq!(hint.contains("--discard paris"), consistent, "{hint}");
        let lyon = "`helio demote db` on lyon, then `helio resolve db --discard lyon` on lyon";
        assert_eq!(hint.contains(lyon), !consistent, "{hint}");
        assert_eq!(desk.engine.view().only_choice().is_some(), !consistent);
    }
}

#[test]
fn two_that_diverged_and_have_no_complete_copy_are_told_what_to_repair_first() {
    let report = Report { hint: "repair the disk on lyon".into(), ..failed() };
    let mut desk = paris(false);
    desk.meet(Hello { report, ..rival() });
    let told = desk.engine.view().status(desk.now).link.hint.expect("lyon refuses paris");
    let shown = desk.engine.view().only_choice().expect("there is one");
    for hint in [told, shown] {
        assert!(hint.ends_with(" To complete one: repair the disk on lyon"), "{hint}");
    }
}

#[test]
fn a_suspect_copy_that_is_inconsistent_is_not_accepted_for_a_complete_one() {
    for (consistent, peer_consistent) in [(true, false), (false, false), (false, true)] {
        let new = Superblock::new("db", "paris", [SIZE.0].into());
        let lineage = generation(1);
        let record = Superblock { lineage, consistent, suspect: 1, ..new };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        desk.meet(Hello { consistent: peer_consistent, ..hello(lineage, true) });
        let view = desk.engine.view();
        let hint = view.fault().expect("a flush failed").hint;
        let accepts = view.no_complete_copy().contains("`helio member accept db/data` on paris");
        assert_eq!(accepts, consistent, "{}", view.no_complete_copy());
        let nowhere = hint.starts_with("no node has a complete copy: restore db from a backup");
        assert_eq!(nowhere, !consistent && !peer_consistent, "{hint}");
        assert_eq!(
            hint.contains("`helio promote db` on lyon"),
            consistent || peer_consistent,
            "{hint}"
        );
    }
}

#[test]
fn a_disk_that_was_taken_out_is_put_back_where_the_peer_has_no_complete_copy_to_fill_another_one() {
    for complete in [true, false] {
        let mut record = Superblock::new("db", "paris", [SIZE.0].into());
        (record.lineage, record.members[0]) = (generation(1), 6);
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        let found = MemberFound { identity: 7, block: 512, shown: "disk seven".into() };
        *desk.engine.local.members_mut() = Members::look(desk.engine.record.superblock(), &[found]);
        desk.meet(Hello { consistent: complete, ..followed() });
        let view = desk.engine.view();
        let shown = view.fault().expect("it is on another disk").hint;
        let refused = view.may_promote(true, false).expect_err("the same").hint;
        let replaced = view.may_replace(VolumeIndex(0)).expect_err("the same").hint;
        for hint in [&shown, &refused, &replaced] {
            assert_eq!(hint.contains("`helio promote db` on lyon"), complete, "{hint}");
            assert!(complete || hint.starts_with("put the right disk back"), "{hint}");
        }
        let both = view.no_complete_copy();
        assert!(both.contains("To complete one: put the right disk back on paris"), "{both}");
    }
}
