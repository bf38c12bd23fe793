// SPDX-License-Identifier: Apache-2.0
//! What the two ends say, read back, damaged, and by strangers.

use super::*;
use proptest::prelude::*;

const FLUSH: u64 = 65_536;

fn hello() -> Hello {
    let send = Granted { asked: 65_536, actual: 131_072 };
    Hello { stream: 3, run: 77, send, receive: Granted { asked: 0, actual: 131_072 } }
}

fn plan() -> Plan {
    let began_ms = 1_795_205_704_000;
    Plan { mode: Mode::Async, compressed: true, streams: 4, run: 7, flush: FLUSH, began_ms }
}

fn frames() -> Vec<(Frame, Vec<u8>)> {
    let head = Head { stored: 30_000, raw: FLUSH as u32, number: 9 };
    let ack = Ack { number: 9, bytes: 9 * FLUSH, waiting: 5 };
    let end = End { flushes: 9, again: Some(Again { buffer: 131_072 }) };
    let last = End { flushes: 0, again: None };
    let report = Report {
        scaling: true,
        flushes: 9,
        bytes: 9 * FLUSH,
        span: Duration::from_nanos(12_460_158_000),
        late_bytes: 4 * FLUSH,
        late_span: Duration::from_secs(6),
        send: 1,
        receive: 2,
        calls: 3,
        blocked: Duration::from_micros(4),
        most_waiting: 5,
    };
    vec![
        (Frame::Flush(head), head.encode().to_vec()),
        (Frame::Ack(ack), ack.encode().to_vec()),
        (Frame::End(end), end.encode().to_vec()),
        (Frame::End(last), last.encode().to_vec()),
        (Frame::Report(report), report.encode().to_vec()),
    ]
}

/// A frame of that kind whose fields are these bytes, with check digits that are right.
fn sealed<const N: usize>(kind: [u8; 4], body: &[u8; REPORT]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&body[..N]);
    put(&mut bytes, 0, kind);
    seal(bytes)
}

/// Sizes around one.
fn edge(size: u64) -> std::ops::RangeInclusive<u32> {
    size as u32 - 2..=size as u32 + 2
}

proptest! {
    #[test]
    fn bytes_that_nobody_sealed_are_refused(
        kind in 0..5usize,
        bytes in prop::collection::vec(any::<u8>(), GREETING..200),
    ) {
        let mut all = [&b"HLfl"[..], b"HLak", b"HLen", b"HLre", b""][kind].to_vec();
        all.extend(bytes);
        prop_assert!(!matches!(Frame::read(&all, FLUSH), Ok(Some(_))));
        if let Some(greeting) = all.first_chunk::<GREETING>() {
            prop_assert!(Hello::decode(greeting).is_err() && Plan::decode(greeting).is_err());
        }
    }

    #[test]
    fn a_sealed_head_of_any_sizes_is_read_within_the_bounds_and_refused_beyond(
        stored in prop_oneof![0..=2 * HEAD as u32, edge(longest(FLUSH)), any::<u32>()],
        raw in prop_oneof![Just(FLUSH as u32), edge(FLUSH), any::<u32>()],
        number in any::<u64>(),
    ) {
        let head = Head { stored, raw, number };
        let fits = u64::from(raw) == FLUSH
            && (HEAD as u64 + 1..=longest(FLUSH)).contains(&u64::from(stored));
        let read = Frame::read(&head.encode(), FLUSH);
        let wanted = if fits { Ok(Some(Frame::Flush(head))) } else { Err(WireError::Bound("a flush")) };
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn sealed_frames_of_any_fields_are_read_whatever_they_say(
        body in any::<[u8; REPORT]>(),
    ) {
        let word = |n: usize| u64_at(&body, 8 + 8 * n);
        let ack: [u8; ACK] = sealed(*b"HLak", &body);
        let said = Ack { number: word(0), bytes: word(1), waiting: word(2) };
        prop_assert_eq!(Frame::read(&ack, FLUSH), Ok(Some(Frame::Ack(said))));
        let end: [u8; ACK] = sealed(*b"HLen", &body);
        let Ok(Some(Frame::End(end))) = Frame::read(&end, FLUSH) else {
            return Err(TestCaseError::fail("no end"));
        };
        prop_assert_eq!(end.flushes, word(0));
        prop_assert_eq!(end.again.is_some(), u32_at(&body, 4) == 1);
        let report: [u8; REPORT] = sealed(*b"HLre", &body);
        let Ok(Some(Frame::Report(report))) = Frame::read(&report, FLUSH) else {
            return Err(TestCaseError::fail("no report"));
        };
        prop_assert_eq!((report.flushes, report.most_waiting), (word(0), word(9)));
        prop_assert_eq!(report.span, Duration::from_nanos(word(2)));
    }

    #[test]
    fn a_sealed_greeting_of_any_fields_is_read_within_the_bounds_and_refused_beyond(
        mode in 0..6u8,
        streams in prop_oneof![0..=MOST_STREAMS + 1, any::<u16>()],
        flush in prop_oneof![0..=2 * LEAST_FLUSH, MOST_FLUSH - 1..=MOST_FLUSH + 1, any::<u64>()],
        stream in prop_oneof![0..=u32::from(MOST_STREAMS) + 1, any::<u32>()],
        run in any::<u64>(),
    ) {
        let mut bytes = greeting(PLAN);
        bytes[12] = mode;
        put(&mut bytes, 14, streams.to_le_bytes());
        put(&mut bytes, 16, run.to_le_bytes());
        put(&mut bytes, 24, flush.to_le_bytes());
        let fits = (1..=4).contains(&mode)
            && (1..=MOST_STREAMS).contains(&streams)
            && (LEAST_FLUSH..=MOST_FLUSH).contains(&flush);
        let read = Plan::decode(&seal(bytes)).map(|plan| (plan.run, plan.streams, plan.flush));
        prop_assert_eq!(read.ok(), fits.then_some((run, streams, flush)));
        let read = Hello::decode(&Hello { stream, run, ..hello() }.encode());
        prop_assert_eq!(read.is_ok(), stream < u32::from(MOST_STREAMS));
    }
}

#[test]
fn what_is_said_is_heard() {
    assert_eq!(Hello::decode(&hello().encode()), Ok(hello()));
    assert_eq!(Plan::decode(&plan().encode()), Ok(plan()));
    for (frame, bytes) in frames() {
        assert_eq!(Frame::read(&bytes, FLUSH), Ok(Some(frame)));
        for cut in 0..bytes.len() {
            assert_eq!(Frame::read(&bytes[..cut], FLUSH), Ok(None), "{cut} of {frame:?}");
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    for at in 0..GREETING * 8 {
        let flip = |mut bytes: [u8; GREETING]| {
            bytes[at / 8] ^= 1 << (at % 8);
            bytes
        };
        assert!(Hello::decode(&flip(hello().encode())).is_err(), "bit {at} of a hello");
        assert!(Plan::decode(&flip(plan().encode())).is_err(), "bit {at} of a plan");
    }
    for (frame, bytes) in frames() {
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[at / 8] ^= 1 << (at % 8);
            // A kind turned into another may ask for more bytes; it is judged once they are there.
            bad.resize(bytes.len().max(REPORT), 0);
            assert!(Frame::read(&bad, FLUSH).is_err(), "bit {at} of {frame:?}");
        }
    }
}

#[test]
fn sizes_beyond_a_bound_are_refused_and_the_bound_itself_is_not() {
    let flush = |flush| Plan::decode(&Plan { flush, ..plan() }.encode()).is_ok();
    assert!(flush(LEAST_FLUSH) && flush(MOST_FLUSH));
    assert!(!flush(LEAST_FLUSH - 1) && !flush(MOST_FLUSH + 1));
    let streams = |streams| Plan::decode(&Plan { streams, ..plan() }.encode()).is_ok();
    assert!(streams(1) && streams(MOST_STREAMS) && !streams(0) && !streams(MOST_STREAMS + 1));
    let head = |stored: u64| {
        let head = Head { stored: stored as u32, raw: FLUSH as u32, number: 1 };
        Frame::read(&head.encode(), FLUSH).is_ok()
    };
    assert!(head(33) && head(longest(FLUSH)) && !head(32) && !head(longest(FLUSH) + 1));
    let other = Head { stored: 100, raw: FLUSH as u32 + 1, number: 1 };
    assert_eq!(Frame::read(&other.encode(), FLUSH), Err(WireError::Bound("a flush")));
}

#[test]
fn strangers_and_other_versions_are_told_apart() {
    let mut web = [b' '; GREETING];
    web[..14].copy_from_slice(b"GET / HTTP/1.1");
    assert_eq!(Hello::decode(&web), Err(WireError::Magic));
    let mut newer = hello().encode();
    newer[8] = 9;
    assert_eq!(Hello::decode(&newer), Err(WireError::Version(9)));
    assert_eq!(Hello::decode(&plan().encode()), Err(WireError::Kind));
}
