// SPDX-License-Identifier: Apache-2.0
//! Stories of what operators decide by: lag, the age of what is known, and promotion by force.

use super::*;
use helio_format::message::Ping;

impl Desk {
    fn reported(&self) -> Ping {
        let ping = |m: &Message| match m {
            Message::Ping(ping) => Some(*ping),
            _ => None,
        };
        self.said.iter().rev().find_map(ping).expect("it pings")
    }

    fn lag(&self) -> Lag {
        self.engine.view().status(self.now).lag
    }

    /// A secondary whose primary reports.
    fn following(ping: Ping) -> Self {
        let line = generation(1);
        let mut desk = Self::new(config());
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(line, true) });
        desk.hear(Message::Start(start(line, 1, true)));
        desk.store_all();
        desk.save_all();
        desk.hear(Message::Ping(ping));
        desk
    }

    fn force(&mut self) -> Option<Refusal> {
        self.command(Command::Promote { force: true });
        self.save_all();
        self.results.pop().and_then(Result::err)
    }
}

#[test]
fn what_was_written_while_only_the_bitmap_is_kept_counts_as_lag_by_whole_regions() {
    let mut desk = Desk::replicating(Mode::Async);
    assert_eq!(desk.lag(), Lag::default());
    desk.command(Command::Pause);
    desk.write(1);
    desk.write(17);
    desk.store_all();
    assert_eq!(desk.answers, [(1, true), (17, true)]);
    let lag = desk.lag();
    assert_eq!((lag.bytes, lag.dirty), (REGION * 2, REGION * 2), "an upper bound");
    desk.now = desk.now + Duration::from_secs(3);
    assert!(desk.lag().oldest >= Duration::from_secs(3), "as old as the first of them");
    desk.now = desk.now + Duration::from_secs(1);
    desk.hear(Message::Pong { token: 0, flushing: false, waits: false, short: false, metadata: 1 });
    let told = desk.reported();
    assert_eq!(told.backlog_bytes, REGION.0 * 2, "and the peer is told so");
    assert!(told.backlog_age >= 3000, "{told:?}");
}

#[test]
fn writes_that_the_peer_has_not_completed_count_as_lag_until_it_has() {
    let mut desk = Desk::replicating(Mode::Async);
    let accepted_at = desk.now;
    (1..4).for_each(|id| desk.write(id));
    desk.store_all();
    desk.now = accepted_at + Duration::from_secs(3);
    let lag = desk.lag();
    assert_eq!((lag.writes, lag.bytes, lag.dirty), (3, Bytes(3 * 4096), Bytes::ZERO));
    assert!(lag.oldest >= Duration::from_millis(2900), "{:?}", lag.oldest);
    desk.hear(ack(6, 5));
    assert_eq!((desk.lag().writes, desk.lag().bytes), (1, Bytes(4096)), "it received the last");
    desk.acked(6);
    assert_eq!(desk.lag(), Lag::default());
}

#[test]
fn a_status_says_since_when_its_state_is_what_it_is() {
    let mut desk = Desk::replicating(Mode::Async);
    let since = |desk: &Desk| desk.engine.view().status(desk.now).state_since;
    let before = since(&desk);
    desk.now = desk.now + Duration::from_secs(3);
    desk.tell(Event::Tick);
    assert_eq!(since(&desk), before, "nothing changed");
    desk.lose_link();
    assert_eq!((desk.engine.view().state(), since(&desk)), (State::Queuing, desk.now));
}

#[test]
fn that_a_connection_stands_is_no_news_of_the_peer() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.lose_link();
    let heard = desk.engine.view().status(desk.now).link.last_heard;
    assert!(heard.is_some());
    for _ in 0..3 {
        desk.now = desk.now + Duration::from_secs(4);
        desk.tell(Event::Connected);
        desk.tell(Event::Disconnected { why: String::from("a relay gave up") });
    }
    assert_eq!(desk.engine.view().status(desk.now).link.last_heard, heard);
}

#[test]
fn a_secondary_reports_what_its_primary_did_and_how_old_that_is() {
    let ping = Ping {
        token: 1,
        accepted: Sequence(2824),
        backlog_bytes: 11 << 20,
        backlog_items: 2824,
        backlog_age: 250,
        state: Some(State::Replicating),
        mode: Some(Mode::Async),
        ..Ping::default()
    };
    let mut desk = Desk::following(ping);
    let at = desk.now;
    desk.now = desk.now + Duration::from_secs(2);
    let status = desk.engine.view().status(desk.now);
    assert_eq!(status.lag_reported, Some(at));
    assert_eq!((status.lag.bytes, status.lag.writes), (Bytes::mib(11), 2824));
    assert_eq!(status.lag.oldest, Duration::from_millis(2250), "the oldest write ages");
}

#[test]
fn force_breaks_with_a_primary_of_which_nothing_comes_and_with_no_other() {
    let (state, mode) = (Some(State::Replicating), Some(Mode::Async));
    let mut desk = Desk::following(Ping { token: 1, state, mode, ..Ping::default() });
    let refusal = desk.force().expect("it answers");
    assert_eq!(refusal.code, "peer-is-primary");
    assert!(refusal.retry && refusal.hint.contains("repeat this in 2.0 s"), "{refusal:?}");
    desk.now = desk.now + Duration::from_secs(3);
    desk.command(Command::Promote { force: false });
    let refusal = desk.results.pop().and_then(Result::err).expect("nobody was fenced");
    assert!(refusal.retry && refusal.text.contains("counts as lost in"), "{refusal:?}");
    assert_eq!(desk.force(), None, "its word is worth more than a silent line");
    assert!(desk.engine.view().is_primary());
}

#[test]
fn a_peer_that_stopped_uncleanly_is_said_to_be_at_least_where_its_record_or_its_memory_is() {
    let mut desk = Desk::replicating(Mode::Async);
    desk.lose_link();
    let (received, durable) = (Sequence(3), Sequence(2));
    let line = desk.lineage();
    desk.meet(Hello { clean: false, received, durable, ..hello(line, true) });
    let facts =
        helio_recovery::facts_in_words(desk.engine.view().last_decision().expect("they met"));
    let peer = facts.iter().find(|fact| fact.starts_with("lyon was secondary, in generation"));
    assert!(peer.is_some_and(|fact| fact.contains("at position 3 or later")), "{facts:?}");
}

#[test]
fn a_primary_reports_since_when_its_peer_is_level_and_a_secondary_whom_it_follows() {
    let mut desk = Desk::replicating(Mode::Sync);
    assert!(
        desk.engine.view().status(desk.now).level_since.is_some()
            && desk.engine.view().words().level
    );
    desk.lose_link();
    assert!(
        desk.engine.view().status(desk.now).level_since.is_none()
            && !desk.engine.view().words().level
    );
    let follows = follower(generation(1), true);
    assert_eq!(follows.engine.view().status(follows.now).reason, "follows lyon");
    let mut desk = Desk::new(config());
    desk.meet(hello(generation(1), true));
    let reason = desk.engine.view().status(desk.now).reason;
    assert_eq!(reason, "lyon is connected and not primary either");
}

/// A peer that completes items out of their order moves no cursor.
#[test]
fn a_peer_is_not_lost_while_it_reports_progress_of_any_kind() {
    for progress in [true, false] {
        let mut desk = Desk::replicating(Mode::Async);
        (1..5).for_each(|id| desk.write(id));
        desk.store_all();
        desk.hear(ack(7, 3));
        for at in 5..8 {
            desk.now = desk.now + Duration::from_secs(3);
            let mut ranges = Ranges::default();
            assert!(!progress || ranges.push(Sequence(at)));
            let (received, rest) = (Sequence(7), Sequence(3));
            let (stream, completed, durable) = (LATEST, rest, rest);
            desk.hear(Message::Ack(Ack { stream, received, completed, durable, ranges }));
        }
        assert_eq!(desk.engine.view().is_link_down(), !progress);
    }
}

#[test]
fn a_secondary_that_applied_all_items_reports_the_regions_that_its_primary_must_still_copy() {
    let (state, mode) = (Some(State::Syncing), Some(Mode::Async));
    let backlog_bytes = REGION.0;
    let desk = Desk::following(Ping { token: 1, backlog_bytes, state, mode, ..Ping::default() });
    let lag = desk.lag();
    assert_eq!((lag.bytes, lag.dirty, lag.writes), (REGION, REGION, 0));
}

/// The primary sends what it must copy behind the start of the stream, and its next ping behind that.
#[test]
fn a_secondary_counts_its_dirty_regions_as_lag_until_its_primary_reports_after_the_start() {
    let (queuing, syncing) = (Some(State::Queuing), Some(State::Syncing));
    let ping = Ping { token: 1, accepted: Sequence(1), state: queuing, ..Ping::default() };
    let line = generation(1);
    let mut desk = Desk::new(config());
    desk.engine.record.superblock_mut().marks_void = false;
    let volume = VolumeIndex(0);
    desk.engine.standing.marks_mut(&mut desk.engine.record).set(volume, Extent::new(0, REGION.0));
    desk.meet(Hello { serving: true, role: Role::Primary, ..hello(line, true) });
    desk.hear(Message::Ping(Ping { backlog_bytes: 4096, backlog_items: 1, ..ping }));
    let both = REGION + Bytes(4096);
    assert_eq!(desk.lag().bytes, both);
    desk.hear(Message::Start(start(line, 1, false)));
    desk.store_all();
    desk.save_all();
    assert_eq!(desk.lag().bytes, both, "the last report is from before the start");
    let backlog_bytes = both.0;
    desk.hear(Message::Ping(Ping { token: 2, backlog_bytes, state: syncing, ..ping }));
    assert_eq!(desk.lag().bytes, both, "the primary counts them from now on");
}

#[test]
fn a_node_that_returns_reports_no_less_than_its_records_cover_and_no_more_than_the_volumes_hold() {
    let new = Superblock::new("db", "paris", [SIZE.0].into());
    let (role, lineage, wrote) = (Role::Primary, generation(1), true);
    for (hot, marked, marks_void, expected) in [
        (false, false, false, Bytes::ZERO),
        (false, true, false, REGION),
        // It wrote in that extent until it died: nothing else tells where.
        (true, false, false, SIZE),
        (true, true, false, SIZE),
        (false, false, true, SIZE),
    ] {
        let record = Superblock { role, lineage, wrote, marks_void, ..new.clone() };
        let hot = if hot { [0].into() } else { Vec::new() };
        let mut desk = Desk::new(config());
        let before = Durable { hot, ..durable(record) };
        desk.engine = Engine::new(config(), before, 1, 1, Moment::ZERO);
        if marked {
            let marks = desk.engine.standing.marks_mut(&mut desk.engine.record);
            marks.set(VolumeIndex(0), Extent::new(0, REGION.0));
        }
        let fork = lineage.fork(Generation { number: 9, tag: 9 }, Sequence(3));
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(fork, true) });
        let (state, mode) = (Some(State::Logging), Some(Mode::Async));
        desk.hear(Message::Ping(Ping { token: 1, state, mode, ..Ping::default() }));
        assert_eq!(desk.lag().bytes, expected, "marked {marked}, void {marks_void}");
    }
}
