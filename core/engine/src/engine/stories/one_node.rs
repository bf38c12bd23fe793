// SPDX-License-Identifier: Apache-2.0
//! A group that has only this node.

use super::sets::{FIRST, SECOND, found};
use super::*;
use helio_format::members::CopyHealth;
use helio_stack::{LayerSetting, SetOp};
use helio_units::Verdict;

fn only() -> Config {
    Config { peer: String::new(), on_error: OnError::Pass, ..config() }
}

/// It serves, with nothing but its start.
fn serving(members: &[CopyHealth]) -> Desk {
    let mut desk = found(only(), members, &[]);
    desk.tell(Event::Tick);
    desk.save_all();
    assert!(desk.engine.view().is_primary());
    desk
}

/// The node starts again from this record.
fn started(record: Superblock) -> Desk {
    let mut desk = Desk::new(only());
    desk.engine = Engine::new(only(), durable(record), 2, 2, Moment::ZERO);
    desk.tell(Event::Tick);
    desk
}

/// Everything that people read of it.
fn texts(desk: &Desk) -> String {
    let status = desk.engine.view().status(desk.now);
    let fault = status.fault.unwrap_or_default();
    [status.reason, fault.what, fault.hint].join("; ")
}

fn stopped(mut desk: Desk) -> Superblock {
    desk.command(Command::Stop);
    desk.store_all();
    let mut last = None;
    while !desk.saves.is_empty() {
        last = Some(desk.save(true));
    }
    assert!(desk.results.pop().is_some_and(|result| result.is_ok()));
    last.expect("a stop is recorded")
}

#[test]
fn it_serves_after_every_start_and_its_verdict_is_ok() {
    let mut desk = serving(&[CopyHealth::Good]);
    desk.write(1);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true)]);
    let status = desk.engine.view().status(desk.now);
    assert_eq!((status.verdict, status.state), (Verdict::Ok, State::Logging));
    assert_eq!(texts(&desk), "this is the only node of the group; ; ");
    let crashed = desk.engine.record.superblock().clone();
    let clean = stopped(desk);
    let [stopped, crashed] = [clean, crashed].map(|record| {
        let before = record.lineage.generation.number;
        let mut desk = started(record);
        desk.save_all();
        assert!(desk.engine.view().is_primary());
        desk.engine.view().status(desk.now).generation.number - before
    });
    assert_eq!((stopped, crashed), (0, 1), "only a crash begins a generation");
}

#[test]
fn a_demoted_one_is_not_primary_before_an_operator_says_so() {
    let mut desk = serving(&[CopyHealth::Good]);
    desk.command(Command::Demote);
    desk.store_all();
    let record = desk.save(true);
    assert_eq!(
        desk.results.pop(),
        Some(Ok("secondary now; `helio promote db` serves it again".into()))
    );
    assert_eq!(desk.engine.view().status(desk.now).verdict, Verdict::NoPrimary);
    let mut desk = started(record);
    assert!(desk.saves.is_empty() && !desk.engine.view().is_primary());
    assert_eq!(texts(&desk), "this node is not primary; ; ");
    desk.command(Command::Promote { force: false });
    desk.save_all();
    assert!(desk.engine.view().is_primary());
}

#[test]
fn one_that_had_a_peer_is_not_primary_before_an_operator_says_so() {
    let record = stopped(serving(&[CopyHealth::Good]));
    let mut desk = started(Superblock { remembers: 7, ..record });
    assert!(desk.saves.is_empty() && !desk.engine.view().is_primary());
    desk.command(Command::Promote { force: false });
    desk.save_all();
    assert!(desk.engine.view().is_primary());
    let mut desk = started(stopped(desk));
    desk.save_all();
    assert!(desk.engine.view().is_primary(), "from then on by itself");
}

#[test]
fn a_copy_that_is_not_complete_or_was_given_up_is_not_served_by_itself() {
    let known = Superblock {
        role: Role::Primary,
        lineage: generation(1),
        ..Superblock::new("db", "paris", [SIZE.0].into())
    };
    for record in [
        Superblock { consistent: false, ..known.clone() },
        Superblock { suspect: 1, ..known.clone() },
        Superblock { role: Role::Secondary, ..known },
        Superblock { discarded: true, ..Superblock::new("db", "paris", [SIZE.0].into()) },
    ] {
        let desk = started(record);
        assert!(desk.saves.is_empty(), "{}", texts(&desk));
        assert_eq!(
            desk.engine.view().status(desk.now).verdict == Verdict::NoPrimary,
            desk.engine.view().fault().is_none()
        );
        assert!(
            !texts(&desk).contains("lyon") && !texts(&desk).contains("peer"),
            "{}",
            texts(&desk)
        );
    }
}

#[test]
fn a_volume_of_several_members_is_at_risk_while_fewer_than_two_are_full() {
    for lost in [
        CopyHealth::Removed,
        CopyHealth::Unproven,
        CopyHealth::Failed,
        CopyHealth::Withdrawn,
        CopyHealth::Copying,
    ] {
        let mut desk = serving(&[CopyHealth::Good, lost]);
        assert_eq!(desk.engine.view().status(desk.now).verdict, Verdict::AtRisk, "{lost:?}");
        if lost == CopyHealth::Removed {
            desk.command(Command::Set(SetOp::Add { leg: SECOND, by_bitmap: true }));
        }
        desk.store_all();
        let full = matches!(lost, CopyHealth::Removed | CopyHealth::Copying);
        let verdict = if full { Verdict::Ok } else { Verdict::AtRisk };
        assert_eq!(desk.engine.view().status(desk.now).verdict, verdict, "{lost:?}");
    }
    assert!(!serving(&[CopyHealth::Good; 2]).engine.view().lacks_members(FIRST.volume));
}

#[test]
fn a_member_that_the_configuration_names_no_more_counts_for_nothing() {
    let mut desk = serving(&[CopyHealth::Good; 2]);
    let verdict = |desk: &Desk| desk.engine.view().status(desk.now).verdict;
    desk.command(Command::Set(SetOp::Remove { leg: SECOND, force: false }));
    desk.store_all();
    assert_eq!(verdict(&desk), Verdict::AtRisk);
    desk.tell(Event::Layers(LayerSetting::Unnamed(SECOND)));
    assert_eq!(verdict(&desk), Verdict::Ok);

    desk.command(Command::Set(SetOp::Add { leg: SECOND, by_bitmap: true }));
    assert_eq!(verdict(&desk), Verdict::AtRisk, "it is named again");
    desk.store_all();
    assert_eq!(verdict(&desk), Verdict::Ok);
}

#[test]
fn a_pause_of_the_process_withholds_nothing() {
    let mut desk = serving(&[CopyHealth::Good]);
    desk.write(1);
    desk.now = desk.now + config().peer_timeout * 100;
    desk.store_all();
    assert_eq!(
        (desk.answers.as_slice(), desk.engine.view().awaits_check()),
        (&[(1, true)][..], None)
    );
}

#[test]
fn every_command_about_a_peer_is_refused_alike_whatever_the_node_is() {
    let demoted = || {
        let mut desk = serving(&[CopyHealth::Good]);
        desk.command(Command::Demote);
        desk.store_all();
        desk.save_all();
        desk
    };
    for situation in [|| serving(&[CopyHealth::Good]), demoted] {
        for command in refusals::commands() {
            let mut desk = situation();
            desk.results.clear();
            desk.command(command);
            let refusal = desk.results.pop().and_then(Result::err);
            let refused = refusal.as_ref().is_some_and(|refusal| refusal.code == "no-peer");
            assert_eq!(refused, command.needs_peer(), "{command:?}: {refusal:?}");
            let text = refusal.map_or_else(String::new, |refusal| refusal.text + &refusal.hint);
            assert!(
                refused || !text.contains("peer") && !text.contains("force"),
                "{command:?}: {text}"
            );
        }
    }
}
