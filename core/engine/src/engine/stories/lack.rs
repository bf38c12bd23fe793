// SPDX-License-Identifier: Apache-2.0
//! Stories of a primary that lacks regions which its peer holds.

use super::*;
use alloc::format;
use alloc::vec;
use helio_format::reading::{Reading, Told};

/// A primary in logging whose peer is consistent; the first region differs.
pub(super) fn logging() -> Desk {
    logs(Desk::replicating(Mode::Async))
}

/// The same from a primary whose peer is level.
fn logs(mut desk: Desk) -> Desk {
    // The record that everything counts as marked ends behind a flush.
    desk.settle_pages();
    desk.store_all();
    desk.save_all();
    desk.command(Command::Pause);
    desk.write(1);
    desk.store_all();
    desk.save_all();
    // What the copier asked before is answered.
    while desk.digests_wanted().is_some() {}
    desk
}

/// It took the peer's copy over its own, and the peer took the stream up.
pub(super) fn reversed() -> Desk {
    let mut desk = logging();
    desk.command(Command::Reverse(Reversal { full: false, last_copy: false }));
    desk.settle_pages();
    let record = desk.save(true);
    assert!(!record.consistent && !record.alone && record.role == Role::Primary);
    desk.save_all();
    desk.acked(head(&desk));
    desk
}

/// As [`reversed`], of a volume that the peer was brought level with first.
fn reversed_whole(size: Bytes, config: Config, full: bool) -> Desk {
    let (mut desk, peer) = Desk::primary_of(&[size], config);
    desk.meet(peer);
    while desk.engine.view().state() != State::Replicating {
        desk.settle_pages();
        desk.store_all();
        desk.acked(head(&desk));
        desk.save_all();
    }
    let mut desk = logs(desk);
    desk.command(Command::Reverse(Reversal { full, last_copy: false }));
    for _ in 0..3 {
        desk.settle_pages();
        desk.save_all();
    }
    desk
}

fn head(desk: &Desk) -> u64 {
    desk.engine.view().status(desk.now).cursors.head.0
}

impl Desk {
    /// Pages of marks are kept when it is their time.
    pub(super) fn settle_pages(&mut self) {
        self.now = self.now + Duration::from_secs(2);
        self.tell(Event::Tick);
    }

    /// The peer tells digests of every region it was asked about; nothing of it is as it is here.
    fn all_differ(&mut self) {
        while let Some((volume, extent)) = self.digests_wanted() {
            self.tell_lacking(volume, extent);
            let read = self
                .ios
                .iter()
                .rposition(|(.., read_as)| matches!(read_as, ReadAs::Differing { .. }));
            let (io, ..) = self.ios.remove(read.expect("compared")).expect("it is there");
            let runs = [Run { extent, payload: None }].into();
            self.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing(runs) });
        }
    }

    /// The oldest question about digests, taken out.
    fn digests_wanted(&mut self) -> Option<(VolumeIndex, Extent)> {
        let wanted = |m: &Message| match m {
            Message::Copying(Copying::DigestsWanted { volume, extent, .. }) => {
                Some((*volume, *extent))
            }
            _ => None,
        };
        let at = self.said.iter().position(|m| wanted(m).is_some())?;
        wanted(&self.said.remove(at))
    }

    fn tell_lacking(&mut self, volume: VolumeIndex, extent: Extent) {
        let list = vec![[7; 16]; extent.length.div_ceil(4096) as usize];
        self.hear(Message::Copying(Copying::Digests { volume, extent, coarse: false, list }));
    }

    /// The questions about its store that the peer was asked, oldest first.
    pub(super) fn reads_wanted(&mut self) -> Vec<(u64, Sequence, Extent, bool)> {
        self.all_differ();
        let wanted = self.said.iter().filter_map(|message| match message {
            Message::Reading(Reading::Wanted { ticket, after, extent, zeros, .. }) => {
                Some((*ticket, *after, *extent, *zeros))
            }
            _ => None,
        });
        let wanted = wanted.collect();
        self.said.retain(|message| !matches!(message, Message::Reading(_)));
        wanted
    }

    pub(super) fn told(&mut self, ticket: u64, what: Told) {
        self.hear(Message::Reading(Reading::Told { ticket, what }));
    }
}

#[test]
fn a_reversal_answers_the_resync_that_waits_for_its_hook() {
    let mut desk = logging();
    let config = Config { hook_before_sync: true, ..desk.engine.turn.config().clone() };
    desk.tell(Event::Reconfigure { config });
    desk.results.clear();
    desk.command(Command::Resync);
    assert_eq!((desk.hooks, desk.results.len()), (1, 0));
    desk.command(Command::Reverse(Reversal { full: false, last_copy: false }));
    let first = desk.results.first().cloned().expect("an answer").expect("no error");
    assert!(first.starts_with("the resync is no longer requested"), "{first}");
    let said = desk.said.len();
    desk.hook_answers(None);
    assert_eq!(desk.said.len(), said, "it begins nothing");
}

#[test]
fn a_reversal_serves_the_peers_copy_once_the_record_says_so() {
    let mut desk = logging();
    desk.command(Command::Reverse(Reversal { full: false, last_copy: false }));
    desk.ask(50, Operation::Read(Extent::new(0, 4096)));
    assert!(
        desk.reads_wanted().is_empty() && desk.ios.is_empty(),
        "nothing is read before the record"
    );
    desk.settle_pages();
    assert!(desk.results.iter().all(|result| !format!("{result:?}").contains("served from now")));
    desk.save(true);
    let start = desk.last_start();
    assert!(start.consistent, "the peer's image stays in order");
    let wanted = desk.reads_wanted();
    assert_eq!(wanted.len(), 2, "the client's read, and the region");
    assert_eq!((wanted[0].2, wanted[0].3), (Extent::new(0, 4096), false));
    assert_eq!((wanted[1].2, wanted[1].3), (Extent::new(0, 65536), true));
    assert_eq!(desk.engine.view().effective(), Some(Mode::Sync));
    assert!(!desk.engine.view().words().consistent);
}

#[test]
fn what_was_pulled_is_written_flushed_and_recorded_and_then_the_mode_is_as_it_was() {
    let mut desk = reversed();
    let (ticket, _, extent, _) = desk.reads_wanted()[0];
    let payload = desk.payload(extent.length as u32);
    desk.told(ticket, Told::Bytes(payload));
    assert!(matches!(desk.ios[0].1, StoreOp::Write { extent: at, .. } if at == extent));
    assert!(desk.engine.view().is_pulling(VolumeIndex(0), extent));
    desk.store();
    assert!(!desk.engine.view().is_pulling(VolumeIndex(0), extent));
    assert!(matches!(desk.ios[0].1, StoreOp::Flush), "flushed before the record");
    assert!(!desk.engine.view().words().consistent);
    desk.store();
    let record = desk.save(true);
    assert!(record.consistent);
    assert_eq!(desk.engine.view().effective(), Some(Mode::Async));
    assert_eq!(desk.engine.view().state(), State::Replicating);
}

#[test]
fn only_what_differs_is_asked_for_and_the_region_is_good_with_the_last_piece() {
    let mut desk = reversed();
    let (volume, region) = desk.digests_wanted().expect("it compares first");
    desk.tell_lacking(volume, region);
    let (io, op, read_as) = desk.ios.pop_front().expect("its own bytes are read");
    assert_eq!(op.reads(), Some(region));
    assert!(matches!(read_as, ReadAs::Differing { coarse: false, .. }));
    let pieces = [Extent::new(0, 4096), Extent::new(8192, 8192)];
    let payload = desk.payload(4096);
    let runs = [
        Run { extent: pieces[0], payload: Some(payload) },
        Run { extent: pieces[1], payload: None },
    ];
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing(runs.into()) });
    let wanted = desk.reads_wanted();
    assert_eq!(wanted.iter().map(|w| w.2).collect::<Vec<_>>(), pieces);
    desk.told(wanted[1].0, Told::Zeros);
    desk.store();
    assert!(desk.ios.is_empty(), "half a region is not good");
    desk.told(wanted[0].0, Told::Zeros);
    desk.store();
    assert!(matches!(desk.ios[0].1, StoreOp::Flush), "all regions are here");
}

#[test]
fn a_region_that_is_as_the_peers_is_good_without_a_byte_of_it() {
    let mut desk = reversed();
    let (volume, region) = desk.digests_wanted().expect("it compares first");
    desk.tell_lacking(volume, region);
    let (io, ..) = desk.ios.pop_front().expect("its own bytes are read");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Differing(Vec::new()) });
    assert!(matches!(desk.ios[0].1, StoreOp::Flush), "all regions are here");
    assert!(desk.reads_wanted().is_empty());
}

#[test]
fn a_write_while_a_region_is_compared_has_it_compared_again() {
    let mut desk = reversed();
    let (volume, region) = desk.digests_wanted().expect("it compares first");
    desk.write(2);
    desk.store();
    desk.tell_lacking(volume, region);
    assert!(desk.ios.is_empty(), "what was told may lack the write");
    assert_eq!(desk.digests_wanted(), Some((volume, region)));
}

#[test]
fn digests_that_nobody_asked_for_end_the_connection() {
    let mut desk = reversed();
    let (volume, _) = desk.digests_wanted().expect("it compares first");
    desk.tell_lacking(volume, Extent::new(65536, 65536));
    assert!(desk.accuses());
}

#[test]
fn a_region_that_a_write_touched_meanwhile_is_asked_for_again_behind_it() {
    let mut desk = reversed();
    let (ticket, after, ..) = desk.reads_wanted()[0];
    desk.write(2);
    let at = head(&desk);
    desk.told(ticket, Told::Zeros);
    assert!(
        desk.ios.iter().all(|(_, op, _)| !matches!(op, StoreOp::Zero { .. })),
        "the gate is held"
    );
    desk.store();
    assert!(desk.ios.is_empty(), "what was fetched lacks the write, and is dropped");
    let again = desk.reads_wanted();
    assert_eq!(again.len(), 1);
    assert!(again[0].1 > after && again[0].1 == Sequence(at));
}

#[test]
fn no_answer_is_given_without_the_peer_while_regions_are_lacking() {
    let mut desk = reversed();
    desk.write(3);
    desk.store();
    assert!(!desk.answers.contains(&(3, true)), "async was asked for, and yet it waits");
    desk.acked(head(&desk));
    assert!(desk.answers.contains(&(3, true)));
    desk.lose_link();
    desk.write(4);
    desk.store_all();
    desk.ask(51, Operation::Read(Extent::new(0, 4096)));
    desk.now = desk.now + Duration::from_secs(59);
    desk.tell(Event::Tick);
    assert!(desk.answers.iter().all(|(id, _)| *id != 4 && *id != 51), "the peer is waited for");
    assert!(desk.engine.view().deadline() < Moment::NEVER);
    desk.now = desk.now + Duration::from_secs(2);
    desk.tell(Event::Tick);
    assert!(desk.answers.contains(&(4, false)) && desk.answers.contains(&(51, false)));
}

#[test]
fn a_lost_link_asks_anew_and_the_queue_is_never_dropped() {
    let mut desk = reversed();
    desk.reads_wanted();
    desk.ask(52, Operation::Read(Extent::new(4096, 4096)));
    assert_eq!(desk.reads_wanted().len(), 1);
    desk.lose_link();
    let refused = desk.results.len();
    desk.command(Command::Pause);
    assert!(desk.results[refused].is_err(), "marks could not take the queue's place");
    assert_eq!(desk.engine.view().state(), State::Queuing);
    let (lineage, at) = (desk.lineage_now(), head(&desk));
    let known = Hello { received: Sequence(at), ..hello(lineage, true) };
    desk.meet(known);
    assert_eq!(desk.reads_wanted().len(), 2, "the client's read, and the region");
}

#[test]
fn a_peer_that_is_not_the_copy_it_was_is_refused() {
    let mut desk = reversed();
    desk.lose_link();
    desk.meet(Hello { discarded: true, ..hello(Lineage::default(), true) });
    let refused = |m: &Message| matches!(m, Message::Goodbye { parting: Parting::Refused, text } if text.contains("source-lacks"));
    assert!(desk.said.iter().any(refused), "there is nothing to copy from");
}

#[test]
fn a_primary_that_lacks_regions_does_not_go_on_alone_after_a_restart() {
    let superblock = Superblock {
        role: Role::Primary,
        consistent: false,
        wrote: true,
        marks_void: false,
        lineage: generation(1),
        ..Superblock::new("db", "paris", [SIZE.0].into())
    };
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(superblock), 1, 1, Moment::ZERO);
    desk.meet(Hello { received: Sequence(0), ..hello(generation(1), true) });
    assert_eq!(desk.engine.view().standing(), "returning");
    desk.command(Command::Promote { force: true });
    assert!(matches!(&desk.results[..], [Err(refusal)] if refusal.code == "needs-sync"));
    desk.hear(Message::PromoteRequest {
        generation: generation(1).generation,
        durable: Sequence(0),
    });
    assert!(
        desk.said.iter().any(|m| matches!(m, Message::PromoteReply { .. })),
        "the peer may ask to lead"
    );
}

#[test]
fn a_reversal_is_refused_where_the_peer_has_no_consistent_copy() {
    let mut desk = Desk::primary(Config { mode: Mode::Async, autosync: false, ..config() });
    desk.command(Command::Reverse(Reversal { full: true, last_copy: false }));
    desk.meet(hello(Lineage::default(), true));
    desk.command(Command::Pause);
    desk.command(Command::Reverse(Reversal { full: true, last_copy: false }));
    let codes: Vec<&str> =
        desk.results.iter().filter_map(|r| r.as_ref().err().map(|r| r.code)).collect();
    assert_eq!(codes, ["peer-lost", "needs-sync"]);
}

#[test]
fn a_follower_reads_for_its_primary_once_everything_before_has_completed() {
    let lineage = generation(1);
    let mut desk = follower(lineage, true);
    desk.save_all();
    let extent = Extent::new(0, 4096);
    let wanted = |ticket, after| {
        let (volume, after) = (VolumeIndex(0), Sequence(after));
        Message::Reading(Reading::Wanted { ticket, after, volume, extent, zeros: true })
    };
    desk.hear(wanted(1, 0));
    assert!(matches!(desk.ios.pop_front(), Some((_, StoreOp::Read { .. }, _))));
    desk.hear(wanted(2, 1));
    assert!(desk.ios.is_empty(), "item 1 has not come yet");
    desk.hear(item(1));
    assert_eq!(desk.ios.len(), 1, "it is being applied");
    desk.store();
    assert!(desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Read { .. })));
    desk.store_all();
    let told =
        |m: &Message| matches!(m, Message::Reading(Reading::Told { ticket: 2, what: Told::Zeros }));
    assert!(desk.said.iter().any(told));
    desk.hear(Message::Reading(Reading::Wanted {
        ticket: 3,
        after: Sequence(0),
        volume: VolumeIndex(0),
        extent: Extent::new(SIZE.0, 4096),
        zeros: true,
    }));
    assert!(desk.accuses(), "it leaves the volume");
}

#[test]
fn a_peer_without_a_history_tells_nothing_before_it_took_the_stream_up() {
    let mut record = Superblock::new("db", "paris", [SIZE.0].into());
    record.head = Sequence(202);
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 2, 1, Moment::ZERO);
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) });
    desk.hear(Message::Start(start(generation(1), 1, true)));
    desk.hear(item(1));
    let (volume, extent) = (VolumeIndex(0), Extent::new(0, 4096));
    let wanted = Reading::Wanted { ticket: 1, after: Sequence(1), volume, extent, zeros: true };
    desk.hear(Message::Reading(wanted));
    let reads = |desk: &Desk| desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Read { .. }));
    assert!(!reads(&desk), "the item is not applied, whatever line its own cursors were of");
    while !desk.saves.is_empty() || desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Flush)) {
        desk.save_all();
        assert!(
            !reads(&desk)
                || desk.engine.standing.follower().expect("it follows").completed() == Sequence(1)
        );
        desk.store();
    }
    desk.store_all();
    let told = |m: &Message| matches!(m, Message::Reading(Reading::Told { .. }));
    assert!(desk.said.iter().any(told), "{}", desk.engine.peer.session().why());
}

/// The place of the first write in the metadata is taken until the peer has it: the second one must not wait for ever.
#[test]
fn a_write_that_waits_for_a_hot_extent_fails_too_once_the_peer_stays_away() {
    let config = Config { hot_extents: 1, ..config() };
    let mut desk = reversed_whole(Bytes::mib(8), config, false);
    desk.acked(head(&desk));
    desk.lose_link();
    desk.write(2);
    desk.store_all();
    desk.write(1024);
    assert!(desk.ios.is_empty(), "the only place is taken: {:?}", desk.ios);
    assert!(!desk.answers.iter().any(|(id, _)| *id == 1024));
    desk.now = desk.now + Duration::from_secs(61);
    desk.tell(Event::Tick);
    assert!(desk.answers.contains(&(1024, false)), "{:?}", desk.answers);
}

#[test]
fn a_primary_that_stops_waits_for_the_reads_that_its_peer_was_asked_about() {
    let mut desk = reversed();
    desk.ask(50, Operation::Read(Extent::new(0, 4096)));
    let wanted = desk.reads_wanted();
    let (ticket, ..) = wanted.iter().find(|(.., zeros)| !zeros).expect("the client's read");
    desk.command(Command::Stop);
    desk.tell(Event::Tick);
    assert!(!desk.ios.iter().any(|(_, op, _)| matches!(op, StoreOp::Flush)), "it is not done yet");
    assert!(desk.answers.iter().all(|(id, _)| *id != 50));
    let payload = desk.payload(4096);
    desk.told(*ticket, Told::Bytes(payload));
    assert!(desk.answers.iter().any(|(id, _)| *id == 50));
}

#[test]
fn a_primary_that_lacks_nothing_is_demoted_although_its_queue_holds_what_its_peer_must_still_get() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.command(Command::Verify(VerifyWish { repair: true, ..VerifyWish::default() }));
    desk.store_all();
    let checked = desk.said.iter().find_map(|m| match m {
        Message::Item(item) if item.kind == ItemKind::Verify => Some(item.sequence),
        _ => None,
    });
    let (volume, extent) = (VolumeIndex(0), Extent::new(4096, 4096));
    let sequence = checked.expect("a block is compared");
    desk.hear(Message::Copying(Copying::Differs { volume, extent, sequence }));
    desk.lose_link();
    desk.write(1);
    desk.store_all();
    desk.save_all();
    assert_eq!((&desk.answers[..], desk.engine.view().state()), (&[(1, true)][..], State::Queuing));
    assert!(desk.engine.view().is_marked(volume, extent.offset));
    desk.command(Command::Demote);
    desk.store_all();
    assert_eq!(desk.save(true).role, Role::Secondary);
}

/// The peer refuses more than twice as many, and the copier may have open questions, too.
#[test]
fn a_primary_that_lacks_many_regions_asks_about_512_of_them_at_once() {
    let config = Config { granularity: Bytes::kib(4), ..config() };
    let mut desk = reversed_whole(Bytes::mib(4), config, true);
    let mut asked = 0;
    while desk.digests_wanted().is_some() {
        asked += 1;
    }
    assert_eq!(asked, 512);
}

#[test]
fn a_reversal_whose_marks_cannot_be_kept_is_refused_and_nothing_is_served_from_the_peer() {
    let mut desk = logging();
    desk.unwritable = true;
    desk.command(Command::Reverse(Reversal { full: true, last_copy: false }));
    let refused = desk.results.last().and_then(|r| r.as_ref().err()).map(|refusal| refusal.code);
    assert_eq!(refused, Some("metadata-failed"));
    assert_eq!(desk.engine.view().state(), State::Logging);
}

/// The primary cannot record that it has all regions, and must not wait for that record.
#[test]
fn without_its_metadata_a_primary_still_pulls_what_becomes_lacking_behind_the_last_flush() {
    let mut desk = reversed();
    let (ticket, ..) = desk.reads_wanted()[0];
    desk.told(ticket, Told::Zeros);
    desk.store();
    assert!(matches!(desk.ios[0].1, StoreOp::Flush), "all regions are here");
    desk.engine.record.keeping_mut().page_begins(desk.now);
    desk.tell(Event::Kept { kept: Kept::Marks { page: 0 }, ok: false, sequence: 1 });
    desk.store();
    desk.write(2);
    let (io, ..) = desk.ios.pop_front().expect("the write is issued");
    desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
    desk.acked(head(&desk));
    assert_eq!(desk.reads_wanted().len(), 1, "its region is pulled");
}

/// A follower that is asked about all of its volume so often, before it has what the questions wait for.
fn asked_about_everything(times: u64) -> Desk {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    let (volume, extent, after) = (VolumeIndex(0), Extent::new(0, SIZE.0), Sequence(1));
    for ticket in 0..times {
        let wanted = Reading::Wanted { ticket, after, volume, extent, zeros: true };
        desk.hear(Message::Reading(wanted));
    }
    desk
}

#[test]
fn a_primary_that_asks_for_more_bytes_at_once_than_its_peer_holds_breaks_the_protocol() {
    let most = crate::peer::read_server::ASKED_BYTES_MAX.0 / SIZE.0;
    assert!(!asked_about_everything(most).accuses());
    assert!(asked_about_everything(most + 1).accuses());
}

#[test]
fn a_primary_that_lacks_regions_verifies_nothing_before_a_record_says_that_it_is_whole() {
    let mut desk = reversed();
    let (ticket, ..) = desk.reads_wanted()[0];
    desk.told(ticket, Told::Zeros);
    desk.store();
    desk.command(Command::Verify(VerifyWish::default()));
    let verifies =
        |desk: &Desk| desk.ios.iter().any(|(.., read_as)| *read_as == ReadAs::DigestPayload);
    assert!(!verifies(&desk), "the last flush is under way");
    desk.store();
    assert!(!verifies(&desk), "the record is under way");
    desk.save(true);
    assert!(verifies(&desk));
}

#[test]
fn a_follower_answers_any_number_of_questions_that_come_one_after_the_other() {
    let mut desk = follower(generation(1), true);
    desk.save_all();
    let (volume, extent, after) = (VolumeIndex(0), Extent::new(0, 4096), Sequence::ZERO);
    for ticket in 0..1100 {
        let wanted = Reading::Wanted { ticket, after, volume, extent, zeros: true };
        desk.hear(Message::Reading(wanted));
        desk.store();
    }
    assert!(!desk.accuses());
    let told = |m: &&Message| matches!(m, Message::Reading(Reading::Told { .. }));
    assert_eq!(desk.said.iter().filter(told).count(), 1100);
}

/// 16 regions are lacking, and the ceiling lets ten through in a second.
fn pulls_slowly() -> Desk {
    let max_rate = Some(helio_units::Rate(10 * REGION.0));
    let resync = ResyncConfig { max_rate, ..ResyncConfig::default() };
    let peer_timeout = Duration::from_secs(60);
    reversed_whole(Bytes::mib(1), Config { resync, peer_timeout, ..config() }, true)
}

#[test]
fn the_ceiling_of_the_resync_rate_holds_for_what_is_pulled() {
    let mut desk = pulls_slowly();
    let mut asked = 0;
    while desk.digests_wanted().is_some() {
        asked += 1;
    }
    assert!((1..=4).contains(&asked), "{asked} regions at once");
    desk.settle_pages();
    assert!(desk.digests_wanted().is_some(), "time has passed");
    assert!(desk.digests_wanted().is_none(), "the burst is one region");
}

#[test]
fn a_primary_that_lacks_regions_waits_for_its_peer_without_waking_up_to_pull() {
    let mut desk = pulls_slowly();
    desk.settle_pages();
    assert!(
        desk.engine.view().deadline() <= desk.now + Duration::from_millis(200),
        "the next region"
    );
    desk.lose_link();
    let due = desk.engine.view().deadline();
    assert!(due >= desk.now + Duration::from_millis(900), "{due:?} at {:?}", desk.now);
}
