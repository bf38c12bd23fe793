// SPDX-License-Identifier: Apache-2.0
//! Stories of figures that only grow, or only shrink, and that advice is given by.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// The pings that were said, by their tokens.
fn pings(desk: &Desk) -> Vec<u64> {
    let token = |m: &Message| match m {
        Message::Ping(ping) => Some(ping.token),
        _ => None,
    };
    desk.said.iter().filter_map(token).collect()
}

/// The peer answers every ping that was said, so much later.
fn answer_pings(desk: &mut Desk, later: Duration) {
    desk.now = desk.now + later;
    for token in pings(desk) {
        desk.hear(Message::Pong {
            token,
            flushing: false,
            waits: false,
            short: false,
            metadata: 0,
        });
    }
}

/// The next ping is said, and answered so much later.
fn heartbeat(desk: &mut Desk, later: Duration) {
    let before = pings(desk).len();
    while pings(desk).len() == before {
        desk.now = desk.now + SECOND / 10;
        desk.tell(Event::Tick);
    }
    answer_pings(desk, later);
}

#[test]
fn the_least_heartbeat_is_kept_for_as_long_as_its_connection() {
    let mut desk = Desk::replicating(Mode::Async);
    let told = |desk: &Desk| desk.engine.view().status(desk.now).link;
    // The first answer proves the peer, which is told in a ping of its own.
    answer_pings(&mut desk, SECOND);
    answer_pings(&mut desk, SECOND);
    assert!(told(&desk).round_trip_least.is_some_and(|least| least >= SECOND));
    heartbeat(&mut desk, SECOND / 10);
    let least = told(&desk).round_trip_least.expect("it was answered");
    assert!(least >= SECOND / 10 && least < SECOND / 5, "{least:?}");
    heartbeat(&mut desk, SECOND / 5);
    let now = told(&desk);
    assert_eq!(now.round_trip_least, Some(least), "what came later took longer");
    assert!(now.round_trip.is_some_and(|last| last >= SECOND / 5), "{now:?}");
    desk.lose_link();
    desk.meet_before_saving(hello(Lineage::default(), true));
    assert_eq!(told(&desk).round_trip_least, None, "another connection may go another way");
}

#[test]
fn how_long_a_write_took_is_counted_once_it_is_answered() {
    let mut desk = Desk::replicating(Mode::Sync);
    let counters = |desk: &Desk| desk.engine.view().status(desk.now).counters;
    let before = counters(&desk);
    desk.write(1);
    desk.store_all();
    assert_eq!(counters(&desk).timed, before.timed, "the peer has not said a word");
    desk.now = desk.now + SECOND;
    let head = desk.engine.view().status(desk.now).cursors.head.0;
    desk.acked(head);
    let after = counters(&desk);
    assert_eq!(after.timed, before.timed + 1);
    let took = after.time - before.time;
    assert!(took >= SECOND && took < SECOND * 2, "{took:?}");
    let times = |desk: &Desk| desk.engine.view().answer_times().expect("it is a primary");
    let told = times(&desk).writes;
    assert_eq!((told.count, told.median, told.p99), (1, took, took), "nothing took longer");
    assert_eq!(times(&desk).flushes.count, 0, "nobody flushed");

    desk.tell(Event::Command { id: CommandId(9), command: Command::ResetQueueMarks });
    assert_eq!(times(&desk), AnswerTimes::default());
}

#[test]
fn each_request_of_a_client_counts_to_the_operation_it_asks_for() {
    let (extent, punch, fua) = (Extent::new(0, 4096), false, false);
    let payload = Payload { id: PayloadId(9), length: 4096 };
    let mut desk = Desk::replicating(Mode::Async);
    for (times, operation) in [
        (1, Operation::Read(extent)),
        (2, Operation::Write { extent, payload, fua }),
        (3, Operation::Zero { extent, punch, fua }),
        (4, Operation::Discard { extent, fua }),
        (5, Operation::Flush),
    ] {
        (0..times).for_each(|n| desk.ask(10 * times + n, operation));
        desk.store_all();
    }
    let c = desk.engine.view().status(desk.now).counters;
    assert_eq!((c.reads, c.writes, c.zeroes, c.discards, c.flushes), (1, 2, 3, 4, 5));
    assert_eq!((c.read_bytes, c.write_bytes), (4096, 2 * 4096));
}
