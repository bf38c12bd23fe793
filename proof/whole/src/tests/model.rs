// SPDX-License-Identifier: Apache-2.0
//! The model's rules, each in a story of a few requests.

use crate::model::stamp::{Place, SECTOR, stamp};
use crate::model::{
    Action, Answer, ConnectionId, Heir, Model, Promise, Request, Ticket, Violation,
};
use helio_nbd::ErrorCode;
use helio_units::{Extent, Mode};

/// A model of one volume of eight sectors, with short words for what happens.
struct Tale {
    model: Model,
    connection: ConnectionId,
}

type Judged = Result<(), Promise>;

impl Tale {
    fn new() -> Self {
        let mut model = Model::new(&[8]);
        let connection = model.connected();
        Self { model, connection }
    }

    fn begin(&mut self, action: Action) -> Ticket {
        let connection = self.connection;
        self.model.begin(Request { connection, volume: 0, action })
    }

    fn writes(&mut self, sector: u64) -> Ticket {
        self.begin(Action::Write { extent: at(sector), fua: false })
    }

    fn done(&mut self, ticket: Ticket) {
        self.model.acknowledged(ticket, Answer::Done).unwrap();
    }

    fn written(&mut self, sector: u64) -> Ticket {
        let ticket = self.writes(sector);
        self.done(ticket);
        ticket
    }

    fn forced(&mut self, sector: u64) -> Ticket {
        let ticket = self.begin(Action::Write { extent: at(sector), fua: true });
        self.done(ticket);
        ticket
    }

    fn flushed(&mut self) {
        let ticket = self.begin(Action::Flush);
        self.done(ticket);
    }

    fn reading(&mut self, sector: u64) -> Ticket {
        self.begin(Action::Read(at(sector)))
    }

    /// A read ends with the bytes of that write, 0 for zeros.
    fn shows(&mut self, read: Ticket, sector: u64, write: u64) -> Judged {
        let bytes = bytes(write, sector);
        promise(self.model.acknowledged(read, Answer::Data(&bytes)))
    }

    fn reads(&mut self, sector: u64, write: u64) -> Judged {
        let read = self.reading(sector);
        self.shows(read, sector, write)
    }

    /// The image shows these writes in its first sectors, and zeros behind.
    fn image(&mut self, writes: &[u64]) -> Judged {
        let sectors = (0..8).map(|at| bytes(writes.get(at).copied().unwrap_or(0), at as u64));
        let image = sectors.collect::<Vec<_>>().concat();
        promise(self.model.read_image(&[&image]))
    }

    /// The connection ends, and the client opens another one.
    fn lost(&mut self) -> ConnectionId {
        self.model.connection_lost(self.connection);
        std::mem::replace(&mut self.connection, self.model.connected())
    }
}

fn at(sector: u64) -> Extent {
    Extent::new(sector * SECTOR as u64, SECTOR as u64)
}

fn bytes(write: u64, sector: u64) -> Vec<u8> {
    if write == 0 {
        return vec![0; SECTOR];
    }
    let mut bytes = Vec::new();
    stamp(write, Place { volume: 0, sector }, 1, &mut bytes);
    bytes
}

fn promise(judged: Result<(), Violation>) -> Judged {
    judged.map_err(|violation| violation.promise)
}

#[test]
fn a_read_returns_what_was_acknowledged_before_it_began_or_what_was_concurrent() {
    let mut tale = Tale::new();
    let one = tale.written(0);
    let two = tale.writes(0);
    for shown in [one, two] {
        assert_eq!(tale.reads(0, shown.0), Ok(()));
    }
    assert_eq!(tale.reads(0, 0), Err(Promise::ReadsBack));
    let early = tale.reading(0);
    tale.done(two);
    assert_eq!(tale.shows(early, 0, one.0), Ok(()));
    assert_eq!(tale.reads(0, one.0), Err(Promise::ReadsBack));
    assert_eq!(tale.reads(0, two.0), Ok(()));
    assert_eq!(tale.reads(0, 99), Err(Promise::KnownBytes));
    assert_eq!(tale.reads(1, two.0), Err(Promise::KnownBytes));
}

#[test]
fn two_concurrent_writes_have_one_order_for_every_later_read() {
    let mut tale = Tale::new();
    let (one, two) = (tale.writes(0), tale.writes(0));
    tale.done(two);
    tale.done(one);
    assert_eq!(tale.reads(0, two.0), Ok(()));
    assert_eq!(tale.reads(0, one.0), Err(Promise::ReadsBack));
    assert_eq!(tale.reads(0, two.0), Ok(()));
}

#[test]
fn an_unanswered_write_may_appear_until_nothing_of_its_connection_is_left() {
    let mut tale = Tale::new();
    let lost = tale.writes(0);
    let connection = tale.lost();
    let two = tale.written(0);
    assert_eq!(tale.reads(0, two.0), Ok(()));
    assert_eq!(tale.reads(0, lost.0), Ok(()));
    tale.model.settled(connection);
    // Two began before the first had ended: either may be the last.
    assert_eq!(tale.reads(0, lost.0), Ok(()));
    assert_eq!(tale.reads(0, two.0), Err(Promise::ReadsBack));
    let three = tale.written(0);
    assert_eq!(tale.reads(0, lost.0), Err(Promise::ReadsBack));
    assert_eq!(tale.reads(0, three.0), Ok(()));
}

#[test]
fn a_write_that_was_not_sent_whole_takes_no_effect() {
    let mut tale = Tale::new();
    let part = tale.writes(0);
    tale.model.withdrawn(part);
    tale.lost();
    assert_eq!(tale.reads(0, part.0), Err(Promise::KnownBytes));
    assert_eq!(tale.reads(0, 0), Ok(()));
}

#[test]
fn a_failed_write_may_show_or_not_and_replaces_nothing() {
    let mut tale = Tale::new();
    let one = tale.written(0);
    let two = tale.writes(0);
    tale.model.failed(two, ErrorCode::Io).unwrap();
    for shown in [one, two, one] {
        assert_eq!(tale.reads(0, shown.0), Ok(()));
    }
    let three = tale.written(0);
    assert_eq!(tale.reads(0, two.0), Err(Promise::ReadsBack));
    assert_eq!(tale.reads(0, three.0), Ok(()));
}

#[test]
fn every_request_is_answered_once() {
    let mut tale = Tale::new();
    let one = tale.written(0);
    let again = tale.model.acknowledged(one, Answer::Done);
    assert_eq!(promise(again), Err(Promise::AnsweredOnce));
    assert_eq!(promise(tale.model.failed(one, ErrorCode::Io)), Err(Promise::AnsweredOnce));
    let read = tale.reading(0);
    let bare = tale.model.acknowledged(read, Answer::Done);
    assert_eq!(promise(bare), Err(Promise::AnsweredOnce));
}

#[test]
fn a_power_cut_leaves_the_last_durable_write_or_a_later_one() {
    let mut tale = Tale::new();
    let zero = tale.written(0);
    let one = tale.written(0);
    tale.flushed();
    let two = tale.written(0);
    let three = tale.writes(0);
    tale.model.power_cut();
    for (shown, judged) in
        [(zero, Err(Promise::DurableHere)), (one, Ok(())), (two, Ok(())), (three, Ok(()))]
    {
        let mut tale = Tale { model: tale.model.clone(), connection: tale.connection };
        assert_eq!(tale.reads(0, shown.0), judged);
        if judged.is_ok() {
            // Whatever the cut left stays.
            let other = if shown == one { two } else { one };
            assert_eq!(tale.reads(0, other.0), Err(Promise::ReadsBack));
        }
    }
}

#[test]
fn what_a_cut_left_is_durable_once_it_was_read_and_flushed() {
    let mut tale = Tale::new();
    let one = tale.written(0);
    tale.model.power_cut();
    assert_eq!(tale.reads(0, one.0), Ok(()));
    let mut again = Tale { model: tale.model.clone(), connection: tale.connection };
    again.model.power_cut();
    assert_eq!(again.reads(0, 0), Ok(()));
    tale.flushed();
    tale.model.power_cut();
    assert_eq!(tale.reads(0, 0), Err(Promise::DurableHere));
    assert_eq!(tale.reads(0, one.0), Ok(()));
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_it_began() {
    let mut tale = Tale::new();
    let before = tale.written(0);
    let flush = tale.begin(Action::Flush);
    let after = tale.written(1);
    tale.done(flush);
    let forced = tale.forced(2);
    tale.model.power_cut();
    assert_eq!(tale.reads(1, 0), Ok(()));
    assert_eq!(tale.reads(1, after.0), Err(Promise::ReadsBack));
    assert_eq!(tale.reads(0, 0), Err(Promise::DurableHere));
    assert_eq!(tale.reads(2, 0), Err(Promise::DurableHere));
    assert_eq!((tale.reads(0, before.0), tale.reads(2, forced.0)), (Ok(()), Ok(())));
}

#[test]
fn an_answer_under_way_at_a_power_cut_promises_only_what_was_durable() {
    let mut tale = Tale::new();
    let one = tale.writes(0);
    let forced = tale.begin(Action::Write { extent: at(1), fua: true });
    tale.model.power_cut();
    tale.done(one);
    tale.done(forced);
    assert_eq!(tale.reads(0, 0), Ok(()));
    assert_eq!(tale.reads(1, 0), Err(Promise::DurableHere));
    assert_eq!(tale.reads(1, forced.0), Ok(()));
}

#[test]
fn an_answer_under_way_at_a_failover_shows_nothing_of_the_peer() {
    let mut tale = Tale::new();
    tale.written(0);
    let two = tale.written(1);
    let (read, forced) = (tale.reading(1), tale.begin(Action::Write { extent: at(2), fua: true }));
    tale.model.failed_over(Heir::Lived);
    assert_eq!(tale.shows(read, 1, two.0), Ok(()));
    tale.done(forced);
    assert_eq!(tale.image(&[]), Ok(()));
}

#[test]
fn a_flush_of_the_old_primary_makes_nothing_durable_at_its_heir() {
    let mut tale = Tale::new();
    tale.model.set_effective(Some(Mode::Sync));
    tale.written(0);
    let flush = tale.begin(Action::Flush);
    tale.model.failed_over(Heir::Restarted);
    tale.done(flush);
    let mut sound = Tale { model: tale.model.clone(), connection: tale.connection };
    assert_eq!(sound.reads(0, 0), Err(Promise::AtPeer));
    tale.model.power_cut();
    assert_eq!(tale.reads(0, 0), Ok(()));
}

#[test]
fn after_a_failed_flush_what_was_not_durable_may_be_forgotten() {
    let mut tale = Tale::new();
    let one = tale.forced(0);
    let two = tale.written(0);
    let flush = tale.begin(Action::Flush);
    tale.model.failed(flush, ErrorCode::Io).unwrap();
    for shown in [two, one, two] {
        assert_eq!(tale.reads(0, shown.0), Ok(()));
    }
    assert_eq!(tale.reads(0, 0), Err(Promise::ReadsBack));
    // A flush that is refused forgets nothing.
    let three = tale.written(0);
    let flush = tale.begin(Action::Flush);
    tale.model.failed(flush, ErrorCode::Shutdown).unwrap();
    assert_eq!(tale.reads(0, two.0), Err(Promise::ReadsBack));
    assert_eq!(tale.reads(0, three.0), Ok(()));
}

#[test]
fn a_failover_keeps_what_was_acknowledged_in_sync() {
    let mut tale = Tale::new();
    tale.written(0);
    tale.model.set_effective(Some(Mode::Sync));
    let sync = tale.written(1);
    tale.model.set_effective(None);
    let alone = tale.written(1);
    for heir in [Heir::Lived, Heir::Restarted] {
        let mut tale = Tale { model: tale.model.clone(), connection: tale.connection };
        tale.model.failed_over(heir);
        // The first one was acknowledged before sync came into force, and so is at the peer.
        assert_eq!(tale.reads(0, 0), Err(Promise::AtPeer));
        assert_eq!(tale.reads(1, 0), Err(Promise::AtPeer));
        assert_eq!(tale.reads(1, sync.0), Ok(()));
        assert_eq!(tale.reads(1, alone.0), Err(Promise::ReadsBack));
    }
    tale.model.failed_over(Heir::LostPower);
    assert_eq!(tale.reads(1, 0), Ok(()));
}

#[test]
fn in_nearsync_the_peers_memory_counts_for_as_long_as_its_process_lives() {
    let mut tale = Tale::new();
    tale.model.set_effective(Some(Mode::NearSync));
    tale.written(0);
    let mut restarted = Tale { model: tale.model.clone(), connection: tale.connection };
    restarted.model.failed_over(Heir::Restarted);
    assert_eq!(restarted.reads(0, 0), Ok(()));
    tale.model.failed_over(Heir::Lived);
    assert_eq!(tale.reads(0, 0), Err(Promise::AtPeer));
}

#[test]
fn an_answer_under_way_when_a_mode_comes_into_force_may_be_one_of_before() {
    let mut tale = Tale::new();
    let (one, forced) = (tale.writes(0), tale.begin(Action::Write { extent: at(1), fua: true }));
    tale.model.set_effective(Some(Mode::NearSync));
    tale.done(one);
    let mut near = Tale { model: tale.model.clone(), connection: tale.connection };
    near.model.failed_over(Heir::Lived);
    assert_eq!(near.reads(0, 0), Ok(()));
    let flush = tale.begin(Action::Flush);
    tale.model.set_effective(Some(Mode::Sync));
    tale.done(forced);
    tale.done(flush);
    let mut restarted = Tale { model: tale.model.clone(), connection: tale.connection };
    restarted.model.failed_over(Heir::Restarted);
    assert_eq!(restarted.reads(1, 0), Err(Promise::AtPeer));
    tale.model.failed_over(Heir::LostPower);
    assert_eq!((tale.reads(0, 0), tale.reads(1, 0)), (Ok(()), Ok(())));
}

#[test]
fn what_is_durable_in_sync_outlives_the_power_of_both() {
    let mut tale = Tale::new();
    tale.model.set_effective(Some(Mode::Sync));
    tale.written(0);
    tale.flushed();
    tale.forced(1);
    tale.written(2);
    tale.model.failed_over(Heir::LostPower);
    assert_eq!(tale.reads(0, 0), Err(Promise::AtPeer));
    assert_eq!(tale.reads(1, 0), Err(Promise::AtPeer));
    assert_eq!(tale.reads(2, 0), Ok(()));
}

#[test]
fn a_peer_that_takes_over_holds_one_cut_of_the_order() {
    let mut tale = Tale::new();
    tale.model.set_effective(Some(Mode::Async));
    let (one, two) = (tale.written(0), tale.written(1));
    let (three, four) = (tale.writes(2), tale.writes(3));
    tale.done(four);
    tale.done(three);
    let five = tale.written(0);
    tale.model.failed_over(Heir::Lived);
    let judge = |writes: [u64; 4]| {
        let mut tale = Tale { model: tale.model.clone(), connection: tale.connection };
        tale.image(&writes)
    };
    let [one, two, three, four, five] = [one, two, three, four, five].map(|ticket| ticket.0);
    // Three and four overlap in time: the cut may have either without the other one.
    for fine in [
        [0; 4],
        [one, 0, 0, 0],
        [one, two, three, 0],
        [one, two, 0, four],
        [five, two, three, four],
    ] {
        assert_eq!(judge(fine), Ok(()), "{fine:?}");
    }
    for torn in [[0, two, 0, 0], [one, 0, 0, four], [five, two, three, 0], [five, 0, three, four]] {
        assert_eq!(judge(torn), Err(Promise::Closed), "{torn:?}");
    }
}

#[test]
fn what_was_written_after_a_failover_is_no_part_of_the_cut() {
    let mut tale = Tale::new();
    let (one, two) = (tale.written(0), tale.written(1));
    tale.model.failed_over(Heir::Lived);
    let three = tale.written(2);
    assert_eq!(tale.image(&[one.0, 0, three.0]), Ok(()));
    assert_eq!(tale.reads(1, two.0), Err(Promise::ReadsBack));
    // What the peer has is durable there once it is flushed.
    tale.flushed();
    tale.model.power_cut();
    assert_eq!(tale.image(&[one.0, 0, three.0]), Ok(()));
    assert_eq!(tale.reads(0, 0), Err(Promise::DurableHere));
    assert_eq!(tale.reads(2, 0), Err(Promise::DurableHere));
}

#[test]
fn a_violation_tells_the_story() {
    let mut tale = Tale::new();
    let one = tale.written(0);
    let two = tale.written(0);
    let read = tale.reading(0);
    let violation = tale.model.acknowledged(read, Answer::Data(&bytes(one.0, 0))).unwrap_err();
    let told = violation.to_string();
    for part in [
        "broken: a read returns what was answered before it",
        &format!("read {} of connection 1 to volume 0 at 0+512", read.0),
        &format!("shows in sector 0 of volume 0 the bytes of write {}", one.0),
        &format!("behind it is: write {} of connection 1", two.0),
        "acknowledged at #",
    ] {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
}
