// SPDX-License-Identifier: Apache-2.0
//! Short stories of planned changes of roles.

use super::*;
use helio_format::copying::Copying;
use helio_format::invalid::Invalid;
use helio_format::roles::Roles;

fn said_roles(desk: &Desk) -> Option<&Roles> {
    desk.said.iter().rev().find_map(|m| match m {
        Message::Roles(talk) if !matches!(talk, Roles::Row { .. }) => Some(talk),
        _ => None,
    })
}

/// A primary that has laid its role down and invited its peer.
pub(super) fn handing() -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.role, record.equal, record.clean), (Role::Secondary, true, true));
    assert!(matches!(said_roles(&desk), Some(Roles::Invite { head: Sequence(3), .. })));
    assert!(desk.results.len() == 1, "it is not over before the peer serves");
    desk
}

fn last_refusal(desk: &Desk) -> Option<&'static str> {
    desk.results.last().and_then(|r| r.as_ref().err()).map(|refusal| refusal.code)
}

#[test]
fn a_switch_is_over_when_the_peer_serves() {
    let mut desk = handing();
    let lineage = desk.lineage();
    desk.lose_link();
    let next = lineage.fork(Generation { number: 9, tag: 9 }, Sequence(3));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(next, true) });
    assert!(desk.results.last().is_some_and(Result::is_ok));
    assert!(!desk.engine.view().is_primary());
}

#[test]
fn a_peer_that_did_not_take_over_gives_the_role_back() {
    let mut desk = handing();
    let (lineage, tenure) = (desk.lineage(), desk.engine.view().tenure());
    desk.lose_link();
    let head = Sequence(3);
    let level = Hello { head, received: head, durable: head, ..hello(lineage, true) };
    desk.meet_before_saving(level);
    assert_eq!(desk.results.len(), 1, "what it says may have waited in a connection of before");
    answer_ping(&mut desk);
    assert_eq!(last_refusal(&desk), Some("not-switched"));
    let record = desk.save(true);
    assert_eq!(record.role, Role::Primary);
    assert_eq!(record.lineage, lineage, "nothing forked: nobody else wrote");
    assert_eq!(record.tenure, tenure, "so what lies on the volumes may go on");
    assert!(desk.engine.view().is_primary());
}

#[test]
fn what_a_peer_answered_before_it_was_invited_proves_nothing_of_what_it_did_then() {
    let mut desk = Desk::replicating(Mode::Sync);
    let (lineage, head) = (desk.lineage(), Sequence(3));
    desk.lose_link();
    let level = Hello { head, received: head, durable: head, ..hello(lineage, true) };
    desk.meet_before_saving(level);
    desk.acked(3);
    desk.command(Command::Switch);
    desk.store_all();
    desk.save(true);
    let pings = |desk: &Desk| {
        let token = |m: &Message| match m {
            Message::Ping(ping) => Some(ping.token),
            _ => None,
        };
        desk.said.iter().filter_map(token).collect::<Vec<_>>()
    };
    let invited = desk.said.iter().rposition(|m| matches!(m, Message::Roles(Roles::Invite { .. })));
    let asked = desk.said.iter().rposition(|m| matches!(m, Message::Ping(_)));
    assert!(invited < asked, "it is asked again behind the invitation");
    for token in pings(&desk).iter().rev().skip(1) {
        let (flushing, short) = (false, false);
        desk.hear(Message::Pong { token: *token, flushing, waits: false, short, metadata: 0 });
        assert_eq!(last_refusal(&desk), None, "it may take over yet");
    }
    answer_ping(&mut desk);
    assert_eq!(last_refusal(&desk), Some("not-switched"));
}

#[test]
fn a_role_is_not_handed_to_one_that_has_not_taken_the_newest_stream_up() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Pause);
    desk.command(Command::Resync);
    desk.command(Command::Switch);
    desk.store_all();
    assert!(last_refusal(&desk).is_none() && desk.saves.is_empty(), "it waits for the peer");
    desk.acked(3);
    assert!(desk.save(true).equal);
}

#[test]
fn a_peer_that_is_not_heard_of_may_be_primary() {
    let mut desk = handing();
    desk.lose_link();
    desk.now = desk.now + Duration::from_secs(11);
    desk.tell(Event::Tick);
    assert_eq!(last_refusal(&desk), Some("unsure"));
    assert!(!desk.engine.view().is_primary() && desk.saves.is_empty());
}

#[test]
fn a_switch_that_loses_its_peer_before_the_invitation_changes_nothing() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    desk.lose_link();
    desk.tell(Event::Tick);
    assert!(desk.engine.view().is_primary() || !desk.ios.is_empty());
    desk.store_all();
    while !desk.saves.is_empty() {
        desk.save(true);
    }
    assert_eq!(last_refusal(&desk), Some("not-switched"));
    assert!(desk.engine.view().is_primary());
}

#[test]
fn a_switch_waits_for_a_peer_that_is_level() {
    let mut desk = Desk::primary(config());
    desk.command(Command::Switch);
    assert_eq!(last_refusal(&desk), Some("peer-lost"));
    desk.meet(hello(Lineage::default(), true));
    desk.command(Command::Switch);
    assert_eq!(last_refusal(&desk), Some("not-level"));
    assert!(desk.engine.view().is_primary());
}

/// The refusal of a switch.
fn refused(desk: &mut Desk) -> Refusal {
    desk.command(Command::Switch);
    let last = desk.results.last().cloned().expect("it has a result");
    last.expect_err("it is refused")
}

#[test]
fn a_switch_to_a_node_on_which_something_failed_names_its_repair_before_the_resync() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Pause);
    assert!(refused(&mut desk).hint.contains("`helio resync db --wait`"));
    let report = Report {
        fault: "volume data failed".into(),
        hint: "repair it".into(),
        ..Report::default()
    };
    desk.hear(Message::Report(report));
    let refusal = refused(&mut desk);
    let hint = "repair it; then `helio resync db --wait`, then switch";
    assert_eq!((refusal.code, refusal.hint.as_str()), ("not-level", hint));
    assert!(refusal.text.ends_with("; on lyon: volume data failed"), "{refusal:?}");
    let hint = String::from("nothing; wait");
    desk.hear(Message::Report(Report { fault: "a copy".into(), hint, ..Report::default() }));
    assert_eq!(refused(&mut desk).hint, "`helio resync db --wait`, then switch");
}

#[test]
fn a_primary_whose_metadata_failed_refuses_a_switch_and_stays_primary() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.unwritable = true;
    desk.write(1);
    assert_eq!(refused(&mut desk).code, "metadata-failed");
    assert!(desk.engine.view().is_primary());
}

#[test]
fn a_promotion_beside_a_primary_that_failed_names_the_way_that_works() {
    let hint = |desk: &mut Desk| {
        desk.command(Command::Promote { force: false });
        let last = desk.results.last().cloned().expect("it has a result");
        last.expect_err("it is refused").hint
    };
    let mut desk = follower(generation(1), true);
    desk.save_all();
    let fails = |hint: &str| {
        let (fault, hint) = (String::from("volume data failed"), String::from(hint));
        Message::Report(Report { fault, hint, ..Report::default() })
    };
    let pings = |desk: &mut Desk, state| {
        desk.hear(Message::Ping(Ping { state: Some(state), ..Ping::default() }));
    };
    pings(&mut desk, State::Syncing);
    desk.hear(fails("nothing; wait"));
    assert!(hint(&mut desk).starts_with("`helio switch db` "), "nothing is to be repaired");
    desk.hear(fails("repair it"));
    assert!(hint(&mut desk).starts_with("`helio switch db` "), "this copy takes its place");
    pings(&mut desk, State::Replicating);
    assert!(hint(&mut desk).starts_with("`helio switch db` "), "the copies are in sync");
    desk.hear(Message::Invalid(Invalid::Failed { generation: generation(1).generation }));
    desk.save_all();
    let repair = hint(&mut desk);
    assert!(
        repair.starts_with("repair the file system of the state directory on lyon "),
        "{repair}"
    );
}

#[test]
fn a_switch_from_a_node_whose_copy_its_peers_replaces_needs_no_complete_copy_here() {
    let mut desk = lack::reversed();
    desk.command(Command::Switch);
    assert_eq!((last_refusal(&desk), desk.engine.view().standing()), (None, "leaving"));
}

#[test]
fn a_secondary_whose_disk_failed_is_not_told_to_wait() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    let (io, ..) = desk.ios.pop_front().expect("the item is written");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    desk.lose_link();
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    let refusal = refused(&mut desk);
    assert_eq!(refusal.code, "volume-failed");
    assert!(refusal.hint.starts_with("repair the disk on paris, "), "{refusal:?}");
}

#[test]
fn a_switch_without_a_connection_says_so_and_advises_no_promotion() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.lose_link();
    let refusal = refused(&mut desk);
    assert_eq!((refusal.code, refusal.hint.contains("promote")), ("peer-lost", false));
}

#[test]
fn an_invited_follower_becomes_primary_and_knows_the_copies_equal() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    desk.store_all();
    desk.command(Command::Switch);
    assert_eq!(said_roles(&desk), Some(&Roles::SwitchWanted));
    let invite = Roles::Invite { generation: generation(1).generation, head: Sequence(1) };
    desk.hear(Message::Roles(invite));
    desk.store_all();
    let record = desk.save(true);
    assert_eq!((record.role, record.lineage.generation.number), (Role::Primary, 2));
    let peer_role = desk.engine.view().status(desk.now).link.peer_role;
    assert_eq!(peer_role, Some(Role::Secondary), "it handed its role over");
    assert_eq!(record.lineage.ancestors()[0].fork, Sequence(1));
    assert!(desk.engine.view().is_primary() && desk.results.last().is_some_and(Result::is_ok));
    assert_eq!(
        desk.engine.view().state(),
        State::Queuing,
        "the copies are equal, so order is kept"
    );
}

#[test]
fn a_follower_that_lacks_something_declines() {
    let mut desk = follower(generation(1), true);
    desk.save(true);
    desk.hear(item(1));
    let invite = Roles::Invite { generation: generation(1).generation, head: Sequence(2) };
    desk.hear(Message::Roles(invite));
    assert!(desk.engine.view().is_link_down(), "its next hello tells that it did not take over");
    desk.store_all();
    assert!(desk.saves.is_empty());
}

#[test]
fn a_stop_during_a_change_of_roles_comes_after_it() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    desk.command(Command::Stop);
    desk.store_all();
    desk.save(true);
    desk.tell(Event::Tick);
    let ends: Vec<bool> = desk.results.iter().map(Result::is_ok).collect();
    assert_eq!(ends, [true, false, true], "promoted; switched, perhaps; stopped");
    assert!(!desk.engine.view().is_primary());
}

/// A primary whose peer went on without it, and which is secondary again.
pub(super) fn diverged() -> (Desk, Lineage) {
    let mut desk = Desk::replicating(Mode::Async);
    let parent = desk.lineage();
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    desk.command(Command::Demote);
    desk.store_all();
    desk.save(true);
    let rival = parent.fork(Generation { number: 9, tag: 9 }, Sequence(3));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    (desk, rival)
}

#[test]
fn both_nodes_name_the_row_that_fired() {
    let (desk, _) = diverged();
    let met = desk.engine.view().last_decision().expect("they met");
    assert_eq!((met.label.as_str(), met.as_source), ("diverged", false));
    assert!(met.facts.own && desk.engine.view().is_link_down());
    let mut desk = follower(generation(1), true);
    desk.hear(Message::Roles(Roles::Row { label: "resume-durable".into() }));
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("resume-durable")
    );
    let told =
        |m: &Message| matches!(m, Message::Roles(Roles::Row { label }) if label == "new-peer");
    let source = Desk::replicating(Mode::Async);
    assert!(source.said.iter().any(told), "the source tells its row");
}

/// What the peer marked itself, and that these marks are all.
fn marks_of_the_peer(desk: &mut Desk) {
    let wanted = Message::Copying(Copying::MarksWanted);
    assert!(desk.said.iter().rev().any(|m| *m == wanted), "the marks are not asked for");
    desk.hear(Message::Copying(Copying::MarksEnd { trusted: true }));
}

#[test]
fn a_side_that_is_given_up_may_follow() {
    let (mut desk, rival) = diverged();
    let stake = desk.engine.view().stake(false).expect("it holds something of its own");
    assert_eq!(stake.differing, [(VolumeIndex(0), Extent::new(0, REGION.0))], "what it marked");
    desk.command(Command::Yield { generation: stake.generation, last_copy: false });
    let record = desk.save(true);
    assert_eq!((record.wrote, record.clean, record.role), (false, false, Role::Secondary));
    assert!(!record.marks_void, "its marks prove what they did");
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("update-marks")
    );
    assert!(!desk.engine.view().is_link_down());
}

#[test]
fn a_primary_that_comes_back_and_agrees_to_its_peer_does_not_go_on_before_that_was_heard_of_again()
{
    let line = generation(1);
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let (role, marks_void) = (Role::Primary, false);
    let record =
        Superblock { role, lineage: line, consistent: true, wrote: true, marks_void, ..new };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    let at = Sequence(4);
    let peer = Hello { head: at, received: at, durable: at, ..hello(line, true) };
    desk.meet(peer.clone());
    desk.hear(Message::PromoteRequest { generation: line.generation, durable: at });
    let agrees = |m: &Message| matches!(m, Message::PromoteReply { granted: true, .. });
    assert!(desk.said.iter().any(agrees));
    answer_ping(&mut desk);
    assert_eq!((desk.engine.view().standing(), desk.saves.len()), ("returning", 0));
    desk.lose_link();
    desk.meet(peer);
    answer_ping(&mut desk);
    assert_eq!(desk.save(true).role, Role::Primary, "the peer did not become primary");
}

pub(super) fn answer_ping(desk: &mut Desk) {
    let token = |m: &Message| match m {
        Message::Ping(ping) => Some(ping.token),
        _ => None,
    };
    let token = desk.said.iter().rev().find_map(token).expect("it is pinged");
    desk.hear(Message::Pong { token, flushing: false, waits: false, short: false, metadata: 0 });
}

#[test]
fn a_node_that_never_took_part_is_told_who_did_and_not_to_use_force() {
    for (line, advice) in [
        (Lineage::default(), "`helio promote db` on lyon"),
        (generation(1), "`helio resolve db --discard lyon`"),
    ] {
        let record =
            Superblock { lineage: line, ..Superblock::new("db", "paris", [SIZE.0].into()) };
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
        desk.meet(hello(generation(2), true));
        desk.command(Command::Promote { force: false });
        let text = String::from("unrelated: paris and lyon never shared a history");
        desk.hear(Message::PromoteReply { granted: false, text });
        let refusal = desk.results.pop().expect("it was asked").expect_err("lyon does not agree");
        assert_eq!(refusal.code, "peer-refuses");
        assert!(refusal.hint.contains(advice), "{}", refusal.hint);
    }
}

#[test]
fn of_two_that_forked_the_one_given_up_goes_back_to_where_they_were_one() {
    let (mut desk, rival) = diverged();
    let parent = Lineage::default().fork(rival.ancestors()[0].generation, Sequence::ZERO);
    desk.command(Command::Promote { force: true });
    desk.save(true);
    desk.write(2);
    desk.store_all();
    desk.command(Command::Demote);
    desk.store_all();
    let head = desk.save(true).head;
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("split-brain")
    );
    let generation = desk.engine.view().stake(false).expect("it holds something").generation;
    let left = desk.lineage_now().fork_from(parent.generation);
    assert!(left.is_some_and(|fork| fork < head), "{left:?} {head:?}");
    desk.command(Command::Yield { generation, last_copy: false });
    let record = desk.save(true);
    assert_eq!(record.lineage, parent);
    assert_eq!(Some(record.head), left, "of that line it holds nothing behind the fork");
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(rival, true) });
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("update-marks")
    );
    // Its primary has not been told yet what this node wrote.
    let (state, mode) = (Some(State::Queuing), Some(Mode::Async));
    desk.hear(Message::Ping(Ping {
        token: 1,
        backlog_bytes: 4096,
        state,
        mode,
        ..Ping::default()
    }));
    let lag = desk.engine.view().status(desk.now).lag;
    assert_eq!(lag.bytes, REGION + Bytes(4096), "what it wrote is what it lacks");
}

#[test]
fn of_two_that_share_no_history_the_one_given_up_joins_as_new() {
    let (mut desk, _) = diverged();
    let stranger = generation(5);
    let serving = |remembers| Hello {
        serving: true,
        role: Role::Primary,
        metadata: remembers,
        ..hello(stranger, true)
    };
    desk.meet(serving(2));
    assert_eq!(desk.engine.view().last_decision().map(|met| met.label.as_str()), Some("unrelated"));
    let generation = desk.engine.view().stake(false).expect("it holds something").generation;
    desk.command(Command::Yield { generation, last_copy: false });
    let record = desk.save(true);
    assert_eq!(
        (record.lineage, record.marks_void, record.remembers),
        (Lineage::default(), true, 0)
    );
    desk.meet(serving(2));
    assert_eq!(desk.engine.view().last_decision().map(|met| met.label.as_str()), Some("new-peer"));
}

#[test]
fn a_primary_whose_record_is_older_than_its_peer_remembers_is_believed_once_that_gave_up() {
    let (mut desk, rival) = diverged();
    let serving =
        |metadata| Hello { serving: true, role: Role::Primary, metadata, ..hello(rival, true) };
    desk.hear(Message::Goodbye { parting: Parting::Stopping, text: String::new() });
    desk.meet(serving(0));
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("source-rolled-back")
    );
    let generation = desk.engine.view().stake(false).expect("it holds something").generation;
    desk.command(Command::Yield { generation, last_copy: false });
    desk.save_all();
    desk.meet(serving(0));
    assert_eq!(desk.engine.view().last_decision().map(|met| met.label.as_str()), Some("new-peer"));
}

#[test]
fn no_line_is_resumed_towards_a_side_that_was_given_up() {
    // The peer restarted, or was primary meanwhile: then its record is where it was, and its image is not.
    for (alone, row) in [(false, "resume-durable"), (true, "update-marks")] {
        let mut desk = Desk::replicating(Mode::Async);
        let lineage = desk.lineage();
        desk.lose_link();
        desk.write(1);
        desk.store_all();
        let (incarnation, clean, head) = (PEER + 1, false, Sequence(3));
        desk.meet(Hello { incarnation, clean, head, alone, ..hello(lineage, true) });
        assert_eq!(desk.engine.view().last_decision().map(|met| met.label.as_str()), Some(row));
        if alone {
            marks_of_the_peer(&mut desk);
            assert!(!desk.last_start().consistent, "order is not kept over what it holds");
        }
    }
}

#[test]
fn a_hand_over_is_proven_equal_although_the_old_primary_told_not_how_far_it_was() {
    let lineage = generation(1);
    let mut desk = follower(lineage, true);
    desk.save(true);
    desk.hear(item(1));
    desk.store_all();
    let here = Sequence(1);
    desk.lose_link();
    let left = Hello { wrote: true, head: here, durable: here, ..hello(lineage, true) };
    desk.meet(left.clone());
    desk.command(Command::Promote { force: false });
    desk.hear(Message::PromoteReply { granted: true, text: String::new() });
    desk.store_all();
    desk.save(true);
    desk.meet(left);
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("equal-at-fork")
    );
    assert!(desk.last_start().consistent, "nothing is copied");
}

#[test]
fn nothing_is_given_up_that_was_not_looked_at() {
    let (mut desk, _) = diverged();
    desk.command(Command::Yield {
        generation: Generation { number: 99, tag: 1 },
        last_copy: false,
    });
    assert_eq!(last_refusal(&desk), Some("busy"));
    assert!(desk.saves.is_empty());
    let mut primary = Desk::primary(config());
    primary
        .command(Command::Yield { generation: Generation { number: 1, tag: 1 }, last_copy: false });
    assert_eq!(last_refusal(&primary), Some("is-primary"));
}

#[test]
fn what_was_asked_just_before_clients_are_let_go_is_still_answered() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Switch);
    desk.write(1);
    desk.store_all();
    desk.acked(4);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true)]);
    assert!(matches!(desk.save(true).head, Sequence(4)));
    assert!(matches!(said_roles(&desk), Some(Roles::Invite { head: Sequence(4), .. })));
}

#[test]
fn a_peer_does_not_take_the_role_from_who_is_served_here() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.tell(Event::Held { by: Some("attached as /dev/x".into()) });
    desk.hear(Message::Roles(Roles::SwitchWanted));
    assert!(desk.engine.view().is_primary() && desk.saves.is_empty());
    let denied = desk.said.iter().rev().find_map(|said| match said {
        Message::PromoteReply { granted, text } => Some((*granted, text.clone())),
        _ => None,
    });
    let (granted, text) = denied.expect("a word");
    assert!(!granted && text.contains("attached as /dev/x"), "{text}");
    desk.tell(Event::Held { by: None });
    desk.hear(Message::Roles(Roles::SwitchWanted));
    desk.store_all();
    assert_eq!(desk.save(true).role, Role::Secondary);
}

#[test]
fn a_tenure_lasts_until_others_may_have_written() {
    let promoted = |record: Superblock, dice: u64| {
        let mut desk = Desk::new(config());
        desk.engine = Engine::new(config(), durable(record), 2, dice, Moment::ZERO);
        desk.command(Command::Promote { force: true });
        desk.save(true)
    };
    let first = promoted(Superblock::new("db", "paris", [SIZE.0].into()), 2);
    assert_ne!(first.tenure, 0);
    // It is killed and goes on by itself: its line forks, and the image is the one it left.
    let next = promoted(first.clone(), 3);
    assert_eq!((next.tenure, next.lineage == first.lineage), (first.tenure, false));
    // It followed somebody in between.
    let mut desk = Desk::new(config());
    let record = Superblock { role: Role::Secondary, ..next.clone() };
    desk.engine = Engine::new(config(), durable(record.clone()), 3, 3, Moment::ZERO);
    assert_eq!(desk.engine.view().tenure(), first.tenure);
    assert_ne!(promoted(record, 4).tenure, first.tenure);
}

#[test]
fn a_primary_whose_last_flush_before_a_switch_fails_hands_over_what_its_peer_has() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.command(Command::Switch);
    assert!(matches!(desk.ios.front(), Some((_, StoreOp::Flush, _))), "{:?}", desk.ios);
    let (io, ..) = desk.ios.pop_front().expect("it flushes before it hands its role over");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    desk.store_all();
    let mut record = None;
    while !desk.saves.is_empty() {
        record = Some(desk.save(true));
    }
    let record = record.expect("it leaves");
    assert_eq!((record.suspect, record.consistent, record.equal), (1, false, true));
    assert!(matches!(said_roles(&desk), Some(Roles::Invite { head: Sequence(3), .. })));
}
