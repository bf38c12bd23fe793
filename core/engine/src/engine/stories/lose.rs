// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary whose own store fails while its peer is level.

mod full;
mod leave;
mod snapshot;

use super::*;
use crate::role::leave::STOP_PATIENCE;
use helio_format::reading::Reading;

fn level() -> Desk {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.set_on_error(OnError::ServeFromPeer);
    desk
}

/// The store fails at the first thing it was asked for.
pub(super) fn fail(desk: &mut Desk) {
    let (io, ..) = desk.ios.pop_front().expect("the store has something to do");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
}

/// Everything accepted so far is durable at the peer.
fn peer_has_all(desk: &mut Desk) {
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
}

#[test]
fn a_write_that_the_own_store_refuses_is_answered_once_the_peer_has_it_and_the_record_says_so() {
    let mut desk = level();
    desk.write(1);
    fail(&mut desk);
    peer_has_all(&mut desk);
    assert!(desk.answers.is_empty(), "no record says yet that this node's image is not whole");
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    let record = desk.save(true);
    assert!(!record.consistent);
    desk.save_all();
    assert_eq!(desk.answers, [(1, true)]);
    desk.write(0);
    assert!(desk.ios.is_empty(), "nothing is issued to a store that is given up");
    peer_has_all(&mut desk);
    assert_eq!(desk.answers, [(1, true), (0, true)]);
    let fault = desk.engine.view().fault().unwrap_or_default().what;
    assert!(fault.contains("the disk of volume data failed; served from lyon"), "{fault}");
}

/// The peer lets an extent cool as soon as its primary has completed what is in it: the primary's record covers it from then on.
#[test]
fn a_write_behind_a_store_that_is_given_up_counts_as_completed_once_its_mark_is_kept() {
    let mut desk = level();
    desk.ask(9, Operation::Read(Extent::new(0, 4096)));
    let (io, ..) = desk.ios.pop_front().expect("it is read");
    let (payload, extent) = (Payload { id: PayloadId(1), length: 4096 }, Extent::new(4096, 4096));
    let operation = Operation::Write { extent, payload, fua: false };
    desk.said.clear();
    desk.tell_together([
        Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) },
        Event::Request(Request { id: RequestId(1), volume: VolumeIndex(0), operation }),
    ]);
    assert!(desk.ios.is_empty(), "the peer's copy alone gets it");
    let head = desk.engine.view().status(desk.now).cursors.head;
    let told = |m: &Message| if let Message::Ping(p) = m { Some(p.completed) } else { None };
    let before = Some(Sequence(head.0 - 1));
    assert_eq!(desk.said.iter().find_map(told), before, "no record here would tell of it yet");
    desk.said.clear();
    while desk.said.iter().find_map(told).is_none() {
        desk.now = desk.engine.view().deadline();
        desk.tell(Event::Tick);
    }
    assert_eq!(desk.said.iter().find_map(told), Some(head));
}

#[test]
fn a_read_that_the_own_store_refuses_is_asked_of_the_peer() {
    let mut desk = level();
    desk.ask(9, Operation::Read(Extent::new(0, 4096)));
    fail(&mut desk);
    let asked = |m: &Message| matches!(m, Message::Reading(Reading::Wanted { zeros: false, .. }));
    assert!(desk.said.iter().any(asked));
    assert!(desk.answers.is_empty());
}

#[test]
fn what_was_read_beside_the_first_failure_is_asked_of_the_peer_as_well() {
    let mut desk = level();
    desk.ask(8, Operation::Read(Extent::new(0, 4096)));
    desk.ask(9, Operation::Read(Extent::new(4096, 4096)));
    fail(&mut desk);
    fail(&mut desk);
    let asked = |m: &&Message| matches!(m, Message::Reading(Reading::Wanted { .. }));
    assert_eq!(desk.said.iter().filter(asked).count(), 2);
    assert!(desk.answers.is_empty());
}

#[test]
fn without_a_level_peer_the_client_gets_the_error() {
    let mut desk = level();
    desk.lose_link();
    desk.write(1);
    fail(&mut desk);
    assert_eq!(desk.answers, [(1, false)]);
}

/// The write of a primary failed, and it gave its store up.
pub(super) fn given_up() -> Desk {
    let mut desk = level();
    desk.write(1);
    fail(&mut desk);
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    desk.save_all();
    desk
}

/// A write is answered that the peer completed and did not flush, and the own store is given up.
pub(super) fn answered_at_the_peer_alone() -> Desk {
    let mut desk = given_up();
    let head = desk.engine.view().status(desk.now).cursors.head;
    desk.hear(Message::Ack(Ack {
        stream: LATEST,
        received: head,
        completed: head,
        durable: Sequence(head.0 - 1),
        ranges: Ranges::default(),
    }));
    desk.save_all();
    assert_eq!(desk.answers, [(1, true)]);
    desk.results.clear();
    desk
}

/// The answer to the last command.
fn refused(desk: &Desk) -> Option<&str> {
    desk.results.last().and_then(|result| result.as_ref().err()).map(|refusal| refusal.code)
}

#[test]
fn a_queue_that_alone_holds_what_was_answered_is_not_let_go() {
    let mut desk = answered_at_the_peer_alone();
    desk.lose_link();
    desk.command(Command::Demote);
    assert_eq!(refused(&desk), Some("last-copy"));
    assert!(desk.engine.view().is_primary());
}

#[test]
fn a_demotion_goes_back_where_the_peer_leaves_before_it_has_flushed() {
    let mut desk = answered_at_the_peer_alone();
    desk.command(Command::Demote);
    assert_eq!(desk.results.len(), 0, "the peer is waited for");
    desk.lose_link();
    assert_eq!(refused(&desk), Some("last-copy"));
    assert!(desk.engine.view().is_primary());
}

#[test]
fn a_stop_waits_for_the_peer_that_is_to_flush_the_last_copy_and_not_for_ever() {
    let mut desk = answered_at_the_peer_alone();
    desk.lose_link();
    desk.command(Command::Stop);
    assert!(desk.results.is_empty() && desk.engine.view().is_primary());
    let due = desk.engine.view().deadline();
    assert!(due <= desk.now + STOP_PATIENCE, "it waits until {due:?}");
    let until = desk.engine.view().stop_deadline();
    desk.now = Moment(until.0 - 2_000_000);
    desk.tell(Event::Tick);
    assert!(desk.engine.view().is_primary() && desk.engine.view().stop_wants_peer());
    desk.tell(Event::Tick);
    assert_eq!(desk.now, until);
    assert!(!desk.engine.view().is_primary(), "it leaves what the peer may have");
    desk.command(Command::Stop);
    assert!(
        desk.engine.view().stop_deadline() > desk.now,
        "the second stop waits for the end of the first"
    );
    assert!(!desk.engine.view().stop_wants_peer(), "and no longer for the peer");
}

/// The peer has item 4 and did not flush it; the answer to it was given before, in a generation that the peer has not
/// taken up. Then the own store is given up, and the link breaks.
fn lost_in_a_generation_the_peer_does_not_know() -> (Desk, Hello) {
    let mut desk = level();
    let known = hello(desk.lineage_now(), true);
    desk.write(1);
    desk.lose_link();
    desk.meet(Hello { received: Sequence(3), durable: Sequence(3), ..known.clone() });
    desk.store();
    desk.save_all();
    assert_eq!(desk.answers, [(1, true)], "the stream is behind: the answer was given alone");
    desk.hear(ack(4, 3));
    assert_eq!(
        (desk.last_start().lineage, desk.last_start().from),
        (desk.lineage_now(), Sequence(5))
    );
    desk.write(2);
    fail(&mut desk);
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    assert!(!desk.save(true).consistent);
    desk.lose_link();
    desk.said.clear();
    (desk, Hello { received: Sequence(4), durable: Sequence(3), ..known })
}

#[test]
fn a_lost_store_takes_nothing_off_the_line_that_the_peer_knows_in_its_old_generation() {
    let (mut desk, known) = lost_in_a_generation_the_peer_does_not_know();
    desk.meet(known);
    assert_eq!(
        desk.engine.view().last_decision().map(|met| met.label.as_str()),
        Some("resume-received")
    );
    assert_eq!(desk.last_start().from, Sequence(5), "nothing is applied twice");
}

#[test]
fn with_a_lost_store_a_peer_that_restarted_in_its_old_generation_is_out_of_order_until_it_has_all()
{
    let (mut desk, known) = lost_in_a_generation_the_peer_does_not_know();
    desk.meet(Hello { incarnation: PEER + 1, received: Sequence(3), ..known });
    let start = desk.last_start();
    assert_eq!((start.from, start.consistent), (Sequence(4), false));
}

#[test]
fn a_queue_of_writes_that_were_not_answered_keeps_no_primary_from_being_demoted() {
    let mut desk = given_up();
    peer_has_all(&mut desk);
    desk.save_all();
    assert_eq!(desk.answers, [(1, true)]);
    desk.lose_link();
    desk.write(2);
    desk.results.clear();
    desk.command(Command::Demote);
    assert_eq!((refused(&desk), desk.engine.view().standing()), (None, "leaving"));
    desk.now = desk.now + Duration::from_secs(61);
    desk.tell(Event::Tick);
    assert_eq!(desk.answers, [(1, true), (2, false)], "the peer stayed away");
}

#[test]
fn a_region_that_could_not_be_written_is_copied_once_an_operator_says_update() {
    let mut desk = Desk::replicating(Mode::Sync);
    desk.write(1);
    fail(&mut desk);
    peer_has_all(&mut desk);
    assert_eq!((&desk.answers[..], desk.asked.len()), (&[(1, false)][..], 0));
    desk.command(Command::Resync);
    let text = desk.results.pop().expect("an answer").expect("the peer is connected");
    assert!(text.contains("dirty regions are copied"), "{text}");
    assert_eq!((desk.asked.len(), desk.engine.view().state()), (1, State::Syncing));
    desk.store_all();
    peer_has_all(&mut desk);
    assert_eq!(desk.engine.view().state(), State::Replicating);
}
