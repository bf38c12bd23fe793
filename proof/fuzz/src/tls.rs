// SPDX-License-Identifier: Apache-2.0
//! TLS. Input: a byte that says who hears, two that cut the stream, then:
//!
//! * hears a peer (0), an NBD client (1) or the peer that was called (2): the bytes themselves, from a stranger;
//! * others: two friends talk, and the bytes say where what the caller sends is damaged (place in two bytes, bits in
//!   one) and nothing else: then they are its places and its bits over and over.

use crate::pieces::{Cuts, byte, word};
use helio_driver::Linux;
use helio_tls::{NbdTls, NodeKey, PeerTls, Purpose, Session, TlsError};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// Room for plain bytes of one call; smaller than a record, so that records are cut.
const ROOM: usize = 5000;
/// Most a session answers to what is not a friend, in bytes: a flight of its handshake and an alert.
const ANSWER_MOST: usize = 8 << 10;
const FIRST: &[u8] = b"the first words, before anything is damaged";

/// Everybody's keys.
pub(crate) struct Keys {
    pub(crate) one: NodeKey,
    other: NodeKey,
    nbd: NbdTls,
}

/// The same in every run, but for the certificate, which nobody gets to trust.
pub(crate) fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            path
        };
        let node = |name: &str, letter: &str| {
            // The front of PKCS #8 around an Ed25519 key, then a key of one letter.
            let body = format!("MC4CAQAwBQYDK2VwBCIEI{}", letter.repeat(43));
            let text = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
            NodeKey::load(&Linux::host(), &file(name, &text)).expect("a key")
        };
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let chain = file("chain.pem", &cert.pem());
        let key = file("key.pem", &signing_key.serialize_pem());
        let nbd = NbdTls::load(&Linux::host(), &chain, &key, None::<&Path>).expect("they fit");
        Keys { one: node("one", "B"), other: node("other", "C"), nbd }
    })
}

/// One end, with what it has heard.
struct End {
    session: Session,
    heard: Vec<u8>,
    failed: Option<TlsError>,
}

impl End {
    fn new(session: Session) -> Self {
        Self { session, heard: Vec::new(), failed: None }
    }

    /// Takes bytes from the wire, all of them unless it fails; what failed stays so.
    fn hear(&mut self, mut wire: &[u8]) {
        let mut room = [0; ROOM];
        loop {
            match self.session.open(wire, &mut room) {
                Ok(did) => {
                    assert!(self.failed.is_none(), "it came back to life");
                    assert!(did.used <= wire.len() && did.written <= ROOM);
                    self.heard.extend_from_slice(&room[..did.written]);
                    wire = &wire[did.used..];
                    if did.used == 0 && did.written == 0 {
                        assert!(wire.is_empty() || self.session.is_closed(), "bytes were left");
                        return;
                    }
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    let before = self.failed.get_or_insert_with(|| error.clone());
                    assert_eq!(*before, error, "it failed in two ways");
                    return;
                }
            }
        }
    }

    fn say(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.session.take_output(&mut out);
        out
    }
}

pub(crate) fn run(mut data: &[u8]) {
    let (who, cuts) = (byte(&mut data), Cuts::take(&mut data));
    match who {
        0 => stranger(accepting, data, cuts),
        1 => stranger(|| keys().nbd.accept(), data, cuts),
        2 => stranger(dialling, data, cuts),
        _ => friends(data, cuts),
    }
}

fn accepting() -> Session {
    let Keys { one, other, .. } = keys();
    PeerTls::new(other.clone()).accept(&[one.public()], Purpose::Peer)
}

fn dialling() -> Session {
    let Keys { one, other, .. } = keys();
    PeerTls::new(one.clone()).dial(&[other.public()], Purpose::Peer)
}

/// Whoever has no key is never let in and never heard, however it says what it says.
fn stranger(door: impl Fn() -> Session, data: &[u8], cuts: Cuts) {
    let failed = [Cuts::WHOLE, cuts].map(|cuts| {
        let mut end = End::new(door());
        end.say();
        let mut answered = 0;
        for piece in cuts.of(data) {
            end.hear(piece);
            answered += end.say().len();
        }
        assert!(end.heard.is_empty(), "a stranger was heard");
        assert!(end.session.is_handshaking() && end.session.peer_key().is_none());
        assert!(answered <= ANSWER_MOST, "{answered} bytes for a stranger");
        end.failed.is_some()
    });
    assert_eq!(failed[0], failed[1], "the cut makes a difference");
}

/// Nothing that happens on the way makes one hear what the other did not say.
fn friends(data: &[u8], cuts: Cuts) {
    let (mut here, mut there) = (End::new(dialling()), End::new(accepting()));
    let mut damage = Damage::new(data);
    for turn in 0..6 {
        if turn == 3 && !here.session.is_handshaking() {
            here.session.seal(FIRST);
            here.session.seal(&[7; 2 * ROOM]);
        }
        let mut wire = here.say();
        damage.strike(&mut wire);
        cuts.of(&wire).for_each(|piece| there.hear(piece));
        here.hear(&there.say());
    }
    let said = [FIRST, &[7; 2 * ROOM]].concat();
    assert!(said.starts_with(&there.heard), "it heard what was not said");
    assert!(here.heard.is_empty());
    let known = there.session.peer_key();
    assert!(known.is_none() || known == Some(keys().one.public()), "let in with another key");
    if damage.done == 0 {
        assert_eq!(there.failed, None);
        assert_eq!(there.heard, said, "undamaged, and not heard");
    }
}

/// Flips bits at places counted from the beginning of all that passes.
struct Damage<'a> {
    places: &'a [u8],
    passed: usize,
    done: usize,
}

impl<'a> Damage<'a> {
    fn new(places: &'a [u8]) -> Self {
        Self { places, passed: 0, done: 0 }
    }

    fn strike(&mut self, wire: &mut [u8]) {
        let mut places = self.places;
        while !places.is_empty() {
            let (at, bits) = (word(&mut places), byte(&mut places));
            if let Some(byte) = at.checked_sub(self.passed).and_then(|at| wire.get_mut(at)) {
                *byte ^= bits;
                self.done += usize::from(bits != 0);
            }
        }
        self.passed += wire.len();
    }
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let cut = |who: u8, bytes: &[u8]| [&[who, 30, 200][..], bytes].concat();
    let hello = End::new(dialling()).say();
    let mut door = End::new(accepting());
    door.hear(&hello);
    let answer = door.say();
    vec![
        ("a-call", cut(0, &hello)),
        ("a-call-for-nbd", cut(1, &hello)),
        ("an-answer", cut(2, &answer)),
        ("undamaged", cut(3, &[])),
        ("damaged-hello", cut(3, &[60, 0, 1])),
        ("damaged-proof", cut(3, &[0x20, 1, 4])),
        ("damaged-words", cut(3, &[0xf0, 3, 128])),
        ("plain-text", cut(0, b"NBDMAGIC")),
    ]
}
