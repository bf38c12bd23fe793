// SPDX-License-Identifier: Apache-2.0
//! STARTTLS under each policy.

use super::*;

fn start() -> Vec<u8> {
    sent_option(option::STARTTLS, &[])
}

/// A session that was sent all of `bytes`, each option by itself, up to a failure.
fn sent(tls: TlsPolicy, bytes: &[Vec<u8>]) -> Told {
    let mut session = Session::with(SessionOptions { tls });
    let (mut steps, mut out, mut error) = (Vec::new(), Vec::new(), None);
    for piece in bytes {
        match session.consume(piece, &Shelf, &mut out) {
            Ok((used, step)) => {
                assert_eq!(used, piece.len());
                steps.push(step);
            }
            Err(found) => {
                error = Some(found);
                break;
            }
        }
    }
    Told { steps, payloads: Vec::new(), out, error, held: session.held() }
}

#[test]
fn a_client_asks_for_tls_and_begins_anew_under_it() {
    for tls in [TlsPolicy::Offered, TlsPolicy::Required] {
        let mut session = Session::with(SessionOptions { tls });
        let mut out = Vec::new();
        session.consume(&hello(), &Shelf, &mut out).unwrap();
        assert_eq!(session.consume(&start(), &Shelf, &mut out).unwrap(), (16, Step::StartTls));
        // Magic, option 5, acknowledgement, no data.
        let acknowledged =
            [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(out, acknowledged);
        session.secured();
        out.clear();
        session.consume(&start(), &Shelf, &mut out).unwrap();
        assert_eq!(kinds(&out), [reply::ERR_INVALID], "TLS within TLS");
        let enter = sent_option(option::GO, &go("db/data", &[]));
        let (_, step) = session.consume(&enter, &Shelf, &mut out).unwrap();
        assert_eq!(step, Step::Ready { handle: 7, name: "db/data".into() });
    }
}

#[test]
fn plaintext_behind_starttls_ends_the_session() {
    let planted = sent_option(option::STRUCTURED_REPLY, &[]);
    for tls in [TlsPolicy::Offered, TlsPolicy::Required] {
        let injected = Some(SessionError::PlaintextBehindStartTls);
        // In the same input, down to a single byte: nothing is acknowledged.
        for length in [1, planted.len()] {
            let both = [&start()[..], &planted[..length]].concat();
            let told = sent(tls, &[hello(), both]);
            assert_eq!((told.steps, &told.error), (vec![Step::Negotiating], &injected));
            assert!(told.out.is_empty());
        }
        // And in the next, before TLS is in place.
        let told = sent(tls, &[hello(), start(), planted.clone()]);
        assert_eq!((told.steps, &told.error), (vec![Step::Negotiating, Step::StartTls], &injected));
        // No bytes are no plaintext.
        let told = sent(tls, &[hello(), start(), Vec::new()]);
        assert_eq!((told.steps.last(), &told.error), (Some(&Step::NeedMore), &None));
    }
}

#[test]
fn behind_a_refused_starttls_the_conversation_goes_on() {
    for (tls, reply) in
        [(TlsPolicy::Off, reply::ERR_POLICY), (TlsPolicy::Active, reply::ERR_INVALID)]
    {
        let stream = [hello(), start(), sent_option(option::ABORT, &[])].concat();
        let told = feed_with(tls, &Shelf, &stream, &[usize::MAX]);
        assert_eq!(kinds(&told.out), [reply, reply::ACK]);
        assert_eq!(told.steps.last(), Some(&Step::Disconnect));
    }
}

#[test]
fn what_was_agreed_on_in_plaintext_is_forgotten() {
    let mut session = Session::with(SessionOptions { tls: TlsPolicy::Offered });
    let mut out = Vec::new();
    for piece in [
        hello(),
        sent_option(option::EXTENDED_HEADERS, &[]),
        sent_option(option::SET_META_CONTEXT, &queries("db/data", &["base:allocation"])),
        start(),
    ] {
        session.consume(&piece, &Shelf, &mut out).unwrap();
    }
    assert!(session.held() > Bytes::ZERO);
    session.secured();
    assert_eq!(session.held(), Bytes::ZERO, "the choice is still held");
    out.clear();
    let again = sent_option(option::SET_META_CONTEXT, &queries("db/data", &["base:allocation"]));
    session.consume(&again, &Shelf, &mut out).unwrap();
    assert_eq!(kinds(&out), [reply::ERR_INVALID], "chunks were not agreed on under TLS");
    let enter = sent_option(option::GO, &go("db/data", &[]));
    session.consume(&enter, &Shelf, &mut out).unwrap();
    assert_eq!(session.form(), Form::Simple);
    out.clear();
    session.consume(&request(command::BLOCK_STATUS, 1, 0, 1), &Shelf, &mut out).unwrap();
    let invalid = SimpleReply { error: 22, cookie: Cookie(1) };
    assert_eq!(out, invalid.encode());
}

#[test]
fn a_client_that_wants_no_zeroes_is_still_spared_them_under_tls() {
    let stream = [hello(), start()].concat();
    let mut session = Session::with(SessionOptions { tls: TlsPolicy::Required });
    let mut out = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        at += session.consume(&stream[at..], &Shelf, &mut out).unwrap().0;
    }
    session.secured();
    out.clear();
    session.consume(&sent_option(option::EXPORT_NAME, b"db/data"), &Shelf, &mut out).unwrap();
    assert_eq!(out.len(), 10);
}

#[test]
fn where_tls_is_required_nothing_else_is_told_before() {
    for number in (2..12).chain([4711]).filter(|number| *number != option::STARTTLS) {
        for data in [Vec::new(), go("db/data", &[]), vec![0; MAX_OPTION_DATA as usize + 1]] {
            let told = feed_with(
                TlsPolicy::Required,
                &Shelf,
                &[hello(), sent_option(number, &data)].concat(),
                &[usize::MAX],
            );
            let leaves = number == option::ABORT && data.len() <= MAX_OPTION_DATA as usize;
            let oversized_leave = number == option::ABORT && !leaves;
            let wanted = match () {
                () if leaves => reply::ACK,
                () if oversized_leave => reply::ERR_TOO_BIG,
                () => reply::ERR_TLS_REQD,
            };
            assert_eq!(kinds(&told.out), [wanted], "option {number}");
            assert_eq!(told.error, None);
        }
    }
    let old = [hello(), sent_option(option::EXPORT_NAME, b"db/data")].concat();
    let told = feed_with(TlsPolicy::Required, &Shelf, &old, &[usize::MAX]);
    assert_eq!(told.error, Some(SessionError::TlsRequired));
    assert!(told.out.is_empty());
}

#[test]
fn where_tls_is_offered_nobody_is_told_to_use_it() {
    let enter = [hello(), sent_option(option::GO, &go("db/data", &[]))].concat();
    let told = feed_with(TlsPolicy::Offered, &Shelf, &enter, &[usize::MAX]);
    assert_eq!(told.steps.last(), Some(&Step::Ready { handle: 7, name: "db/data".into() }));
}

#[test]
fn starttls_carries_no_data() {
    let told = sent(TlsPolicy::Required, &[hello(), sent_option(option::STARTTLS, b"x")]);
    assert_eq!(kinds(&told.out), [reply::ERR_INVALID]);
    assert_eq!(told.steps.last(), Some(&Step::Negotiating));
}

#[test]
fn securing_at_another_time_means_nothing() {
    let mut session = Session::with(SessionOptions { tls: TlsPolicy::Required });
    let mut out = Vec::new();
    session.consume(&hello(), &Shelf, &mut out).unwrap();
    session.secured();
    session.consume(&sent_option(option::LIST, &[]), &Shelf, &mut out).unwrap();
    assert_eq!(kinds(&out), [reply::ERR_TLS_REQD]);
}
