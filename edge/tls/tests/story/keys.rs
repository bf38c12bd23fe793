// SPDX-License-Identifier: Apache-2.0
//! Who may talk to whom, by key.

use crate::common::{End, key, talk};
use helio_tls::{NodeKey, PeerTls, PublicKey, Purpose, TlsError};
use proptest::prelude::*;

/// What became of a call from one holder to another.
fn call(
    caller: &NodeKey,
    expected: &[PublicKey],
    called: &NodeKey,
    trusted: &[PublicKey],
) -> (End, End) {
    let mut here = End::new(PeerTls::new(caller.clone()).dial(expected, Purpose::Peer));
    let mut there = End::new(PeerTls::new(called.clone()).accept(trusted, Purpose::Peer));
    talk(&mut here, &mut there, usize::MAX);
    (here, there)
}

#[test]
fn those_who_know_each_other_talk() {
    let (paris, lyon) = (key(), key());
    let (mut here, mut there) = call(&paris, &[lyon.public()], &lyon, &[paris.public()]);
    assert!(!here.session.is_handshaking() && !there.session.is_handshaking());
    assert_eq!(here.session.peer_key(), Some(lyon.public()));
    assert_eq!(there.session.peer_key(), Some(paris.public()));
    here.session.seal(b"hello");
    there.session.seal(b"and to you");
    talk(&mut here, &mut there, usize::MAX);
    assert_eq!((&here.heard[..], &there.heard[..]), (&b"and to you"[..], &b"hello"[..]));
    here.session.close();
    talk(&mut here, &mut there, usize::MAX);
    assert!(there.session.is_closed() && !here.session.is_closed());
}

#[test]
fn an_unknown_caller_is_refused_by_name_and_hears_so() {
    let (paris, lyon, nice) = (key(), key(), key());
    let (here, there) = call(&nice, &[lyon.public()], &lyon, &[paris.public()]);
    assert_eq!(there.failed, Some(TlsError::UnknownKey { key: nice.public() }));
    assert!(matches!(here.failed, Some(TlsError::RefusedByPeer { .. })), "{:?}", here.failed);
    assert!(there.heard.is_empty());
}

#[test]
fn somebody_else_at_the_address_is_refused_by_the_caller() {
    let (paris, lyon, nice) = (key(), key(), key());
    let (here, there) = call(&paris, &[lyon.public()], &nice, &[paris.public()]);
    assert_eq!(here.failed, Some(TlsError::UnknownKey { key: nice.public() }));
    assert!(matches!(there.failed, Some(TlsError::RefusedByPeer { .. })), "{:?}", there.failed);
}

#[test]
fn a_key_is_changed_by_trusting_both_for_a_while() {
    let (paris, next, lyon) = (key(), key(), key());
    let both = [paris.public(), next.public()];
    for caller in [&paris, &next] {
        let (here, there) = call(caller, &[lyon.public()], &lyon, &both);
        assert_eq!((here.failed, there.failed), (None, None));
    }
    let (_, there) = call(&paris, &[lyon.public()], &lyon, &[next.public()]);
    assert!(there.failed.is_some(), "the old key is trusted no more");
}

#[test]
fn nobody_is_trusted_where_nobody_is_named() {
    let (paris, lyon) = (key(), key());
    let (_, there) = call(&paris, &[lyon.public()], &lyon, &[]);
    assert!(there.failed.is_some());
    let (here, _) = call(&paris, &[], &lyon, &[paris.public()]);
    assert!(here.failed.is_some());
}

#[test]
fn a_key_trusted_for_one_purpose_opens_no_other_door() {
    let (paris, lyon) = (key(), key());
    let dial = PeerTls::new(paris.clone()).dial(&[lyon.public()], Purpose::Peer);
    let accept = PeerTls::new(lyon.clone()).accept(&[paris.public()], Purpose::Control);
    let (mut here, mut there) = (End::new(dial), End::new(accept));
    talk(&mut here, &mut there, usize::MAX);
    assert!(matches!(there.failed, Some(TlsError::OtherPurpose { .. })), "{:?}", there.failed);
    assert!(matches!(here.failed, Some(TlsError::OtherPurpose { .. })), "{:?}", here.failed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn however_the_wire_cuts_them_the_bytes_arrive(
        cut in 1usize..3000,
        lengths in prop::collection::vec(0usize..40_000, 1..12),
    ) {
        let (paris, lyon) = (key(), key());
        let mut here = End::new(PeerTls::new(paris.clone()).dial(&[lyon.public()], Purpose::Peer));
        let mut there =
            End::new(PeerTls::new(lyon).accept(&[paris.public()], Purpose::Peer));
        talk(&mut here, &mut there, cut);
        let mut said = Vec::new();
        for (n, length) in lengths.into_iter().enumerate() {
            let bytes = vec![n as u8; length];
            here.session.seal(&bytes);
            said.extend_from_slice(&bytes);
            if n % 3 == 2 {
                talk(&mut here, &mut there, cut);
            }
        }
        talk(&mut here, &mut there, cut);
        prop_assert_eq!(&there.failed, &None);
        prop_assert!(there.heard == said);
    }
}
