// SPDX-License-Identifier: Apache-2.0
//! What a node tells its peer for its status, and the verdict that comes of it.

use super::*;
use crate::{Fault, Unsteady};
use helio_format::report::Report;
use helio_units::Verdict;

fn verdict(desk: &Desk) -> Verdict {
    desk.engine.view().status(desk.now).verdict
}

fn reports(desk: &Desk) -> Vec<&Report> {
    desk.said
        .iter()
        .filter_map(|message| match message {
            Message::Report(report) => Some(report),
            _ => None,
        })
        .collect()
}

#[test]
fn a_fault_that_the_peer_reports_makes_the_verdict_until_it_reports_none() {
    let mut desk = Desk::replicating(Mode::Sync);
    assert_eq!(verdict(&desk), Verdict::Ok);
    let fault = Fault { what: "volume data: I/O error".into(), hint: "replace it".into() };
    let report =
        Report { fault: fault.what.clone(), hint: fault.hint.clone(), ..Report::default() };
    desk.hear(Message::Report(report));
    assert_eq!(verdict(&desk), Verdict::DiskFailed);
    assert_eq!(desk.engine.view().status(desk.now).peer_fault, Some(fault));
    desk.hear(Message::Report(Report::default()));
    assert_eq!(verdict(&desk), Verdict::Ok);
}

#[test]
fn a_metadata_file_that_failed_beside_another_one_is_a_fault_that_both_nodes_show_and_stops_nothing()
 {
    let mut desk = Desk::replicating(Mode::Sync);
    let (what, hint) = (String::from("one of two files failed"), String::from("repair it"));
    desk.tell(Event::MetadataFault { what: what.clone(), hint: hint.clone() });
    let status = desk.engine.view().status(desk.now);
    assert_eq!((status.verdict, status.state), (Verdict::DiskFailed, State::Replicating));
    assert_eq!(status.fault, Some(Fault { what: what.clone(), hint: hint.clone() }));
    assert!(status.reason.contains(&what), "{}", status.reason);
    let told = *reports(&desk).last().expect("the peer gets a report");
    assert_eq!((&told.fault, &told.hint), (&what, &hint));
    desk.write(1);
    desk.store_all();
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
    assert_eq!(desk.answers, [(1, true)]);
}

#[test]
fn of_metadata_that_cannot_be_written_the_fault_names_the_file_and_one_hint() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.unwritable = true;
    desk.tell(Event::MetadataFault { what: "file f failed".into(), hint: "repair f".into() });
    desk.write(1);
    let fault = desk.engine.view().fault().expect("it failed");
    assert!(
        fault.what.starts_with("bitmap failed") && fault.what.ends_with("; file f failed"),
        "{fault:?}"
    );
    assert_eq!(fault.hint, "repair f");
}

#[test]
fn a_peer_that_hangs_up_because_its_disk_failed_stays_failed_while_it_is_away() {
    let mut desk = Desk::replicating(Mode::Sync);
    let text = String::from("volume data: no space left");
    desk.hear(Message::Goodbye { parting: Parting::VolumeFailed, text });
    assert_eq!(verdict(&desk), Verdict::DiskFailed);
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    let status = desk.engine.view().status(desk.now);
    assert_eq!((status.role, status.verdict), (Role::Secondary, Verdict::DiskFailed));
    assert!(status.peer_fault.is_some_and(|fault| fault.what == "volume data: no space left"));
}

#[test]
fn that_its_primary_is_away_counts_more_than_what_failed_there() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    let (fault, hint) = (String::from("volume data failed"), String::from("repair it"));
    desk.hear(Message::Report(Report { fault, hint, ..Report::default() }));
    assert_eq!(verdict(&desk), Verdict::DiskFailed);
    desk.hear(Message::Goodbye { parting: Parting::VolumeFailed, text: String::from("failed") });
    assert_eq!(verdict(&desk), Verdict::AtRisk);
}

#[test]
fn a_report_is_sent_when_it_changed_and_not_again() {
    let mut desk = Desk::replicating(Mode::Sync);
    let sent = reports(&desk).len();
    desk.write(1);
    desk.store_all();
    assert_eq!(reports(&desk).len(), sent, "writes change no report");
    desk.command(Command::Pause);
    assert_eq!(reports(&desk).last().map(|report| report.paused), Some(true));
}

#[test]
fn the_time_of_a_verdict_goes_on_while_the_state_changes_under_it() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.lose_link();
    let since = desk.engine.view().status(desk.now).verdict_since;
    assert_eq!(verdict(&desk), Verdict::AtRisk);
    desk.now = desk.now + Duration::from_secs(60);
    desk.command(Command::Pause);
    assert_eq!(desk.engine.view().status(desk.now).state, State::Logging);
    assert_eq!(desk.engine.view().status(desk.now).verdict_since, since);
}

#[test]
fn a_pause_ends_with_the_primary_that_was_paused() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    desk.hear(Message::Report(Report { paused: true, ..Report::default() }));
    assert!(desk.engine.view().status(desk.now).paused);
    desk.lose_link();
    desk.command(Command::Promote { force: true });
    desk.save_all();
    let status = desk.engine.view().status(desk.now);
    assert_eq!((status.role, status.paused), (Role::Primary, false));
}

#[test]
fn a_connection_on_which_nothing_comes_does_not_begin_the_absence_of_the_peer_again() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.now = desk.now + Duration::from_secs(5);
    desk.lose_link();
    let apart = |desk: &Desk| desk.engine.view().status(desk.now).link.apart_since;
    let lost = apart(&desk);
    assert!(lost > Moment::ZERO + Duration::from_secs(5));
    desk.now = desk.now + Duration::from_secs(5);
    desk.tell(Event::Connected);
    desk.lose_link();
    assert_eq!(apart(&desk), lost);
}

#[test]
fn the_last_write_at_the_peer_is_shown_while_its_handshake_is_refused() {
    let last_write = Some(Duration::from_secs(3));
    let report = Report { last_write, ..Report::default() };
    let mut desk = Desk::replicating(Mode::Async);
    desk.hear(Message::Report(report.clone()));
    assert_eq!(desk.engine.view().status(desk.now).last_write_at_peer, None);
    let (mut desk, rival) = switch::diverged();
    let serving = Hello { serving: true, role: Role::Primary, ..hello(rival, true) };
    desk.meet(Hello { report, ..serving.clone() });
    let told = desk.engine.view().status(desk.now).last_write_at_peer;
    assert_eq!(told, Some((Duration::from_secs(3), desk.now)));
    // Its daemon was restarted since, and no client has written.
    desk.meet(Hello { report: Report::default(), ..serving });
    assert_eq!(desk.engine.view().status(desk.now).link.state, LinkState::Refused);
    assert_eq!(desk.engine.view().status(desk.now).last_write_at_peer, None);
}

#[test]
fn connections_that_end_without_data_leave_the_group_at_risk_until_one_lasts() {
    let mut desk = Desk::replicating(Mode::Async);
    let lineage = desk.lineage();
    let told = |desk: &Desk| desk.engine.view().status(desk.now).link;
    for ends in 1..4 {
        // What is sent is not acknowledged, and nothing else comes.
        desk.write(ends);
        desk.store_all();
        while told(&desk).state == LinkState::Connected {
            wait(&mut desk);
        }
        assert_eq!(told(&desk).attempts.count(), ends);
        desk.meet(Hello { received: Sequence(3), ..hello(lineage, true) });
    }
    assert_eq!(told(&desk).unsteady, Some(Unsteady::Silent));
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
    assert_eq!((desk.engine.view().state(), verdict(&desk)), (State::Replicating, Verdict::AtRisk));
    while verdict(&desk) == Verdict::AtRisk {
        assert!(told(&desk).attempts.count() > 0);
        wait(&mut desk);
        switch::answer_ping(&mut desk);
    }
    assert_eq!((told(&desk).attempts.count(), verdict(&desk)), (0, Verdict::Ok));
}

fn wait(desk: &mut Desk) {
    desk.now = desk.now + Duration::from_millis(500);
    desk.tell(Event::Tick);
}
