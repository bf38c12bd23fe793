// SPDX-License-Identifier: Apache-2.0
//! What is no TLS, or was damaged on the way.

use crate::common::{End, key, talk};
use helio_tls::{PeerTls, Purpose, TlsError};
use proptest::prelude::*;

fn door() -> End {
    let lyon = key();
    End::new(PeerTls::new(lyon).accept(&[key().public()], Purpose::Peer))
}

#[test]
fn plain_text_is_told_as_such() {
    for plain in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"NBDMAGIC", b"\0\0\0\x01"] {
        let mut there = door();
        there.hear(plain);
        assert_eq!(there.failed, Some(TlsError::NotTls { first: plain[0] }));
        there.hear(plain);
        assert!(there.failed.is_some(), "a session that failed stays so");
    }
}

#[test]
fn a_damaged_record_ends_the_session_and_none_of_it_is_heard() {
    let (paris, lyon) = (key(), key());
    let tls = (PeerTls::new(paris.clone()), PeerTls::new(lyon.clone()));
    let mut here = End::new(tls.0.dial(&[lyon.public()], Purpose::Peer));
    let mut there = End::new(tls.1.accept(&[paris.public()], Purpose::Peer));
    talk(&mut here, &mut there, usize::MAX);
    here.session.seal(b"the first");
    talk(&mut here, &mut there, usize::MAX);
    here.session.seal(b"the second");
    let mut wire = here.say();
    let last = wire.len() - 1;
    wire[last] ^= 1;
    there.hear(&wire);
    assert!(matches!(there.failed, Some(TlsError::Failed(_))), "{:?}", there.failed);
    assert_eq!(there.heard, b"the first");
}

#[test]
fn what_is_sealed_behind_a_failure_goes_nowhere() {
    let (paris, lyon) = (key(), key());
    let mut here = End::new(PeerTls::new(paris).dial(&[lyon.public()], Purpose::Peer));
    let mut there = End::new(PeerTls::new(lyon).accept(&[key().public()], Purpose::Peer));
    talk(&mut here, &mut there, usize::MAX);
    assert!(!here.session.is_handshaking() && here.failed.is_some(), "{:?}", here.failed);
    here.session.seal(b"too late");
    assert!(here.say().is_empty());
}

proptest! {
    #[test]
    fn noise_never_panics_and_is_never_heard(mut noise in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Some(first) = noise.first_mut() {
            *first = 0x16;
        }
        let mut there = door();
        there.hear(&noise);
        prop_assert!(there.heard.is_empty() && there.session.is_handshaking());
    }

    #[test]
    fn a_flipped_bit_in_the_handshake_lets_nobody_in(at in 0usize..3000, bit in 0u8..8) {
        let (paris, lyon) = (key(), key());
        let mut here = End::new(PeerTls::new(paris.clone()).dial(&[lyon.public()], Purpose::Peer));
        let mut there = End::new(PeerTls::new(lyon).accept(&[paris.public()], Purpose::Peer));
        let mut passed = 0;
        for _ in 0..4 {
            let mut wire = here.say();
            if let Some(byte) = at.checked_sub(passed).and_then(|at| wire.get_mut(at)) {
                *byte ^= 1 << bit;
            }
            passed += wire.len();
            there.hear(&wire);
            let back = there.say();
            here.hear(&back);
        }
        // Flips behind the handshake change nothing, and one in a legacy field may be ignored; but who is let in has
        // proved its key.
        let key = there.session.peer_key();
        prop_assert!(key.is_none() || key == Some(paris.public()));
        prop_assert!(there.heard.is_empty());
    }
}
