// SPDX-License-Identifier: Apache-2.0
//! Keys under a test's hand, and a caller that speaks TLS and anything it likes behind it.

use helio_driver::Linux;
use helio_e2e::PATIENCE;
use helio_testkit::{Pair, helio, timely};
use helio_tls::{NodeKey, PeerTls, PublicKey, Purpose, Session, TlsError};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// Makes a key in a file.
#[track_caller]
pub(crate) fn new_key(file: &Path) -> PublicKey {
    helio(&["key", "new", "--out", &file.to_string_lossy()]).expect_success();
    public(file)
}

/// The public half of the key in a file.
#[track_caller]
pub(crate) fn public(file: &Path) -> PublicKey {
    NodeKey::load(&Linux::host(), file).expect("the key is there").public()
}

/// The public half of a node's key.
#[track_caller]
pub(crate) fn node_key(pair: &Pair, node: &str) -> PublicKey {
    public(&pair.state(node).join("node.key"))
}

/// Changes the pair's configuration, and lets both nodes apply it; what each of them says it changed.
#[track_caller]
pub(crate) fn apply(pair: &Pair, from: &str, to: &str) -> [String; 2] {
    rewrite(pair, from, to);
    ["lyon", "paris"].map(|node| pair.helio(node, &["apply"]).expect_success())
}

/// Changes the pair's configuration.
#[track_caller]
pub(crate) fn rewrite(pair: &Pair, from: &str, to: &str) {
    let text = fs::read_to_string(pair.config()).expect("it was written");
    assert!(text.contains(from), "no `{from}` in:\n{text}");
    pair.scratch().write("heliograph.toml", &text.replace(from, to));
}

/// Fails unless the text has every one of these phrases.
#[track_caller]
pub(crate) fn assert_says(text: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(text.contains(phrase), "it should say `{phrase}`, and says:\n{text}");
    }
}

/// A caller under a key of its own.
pub(crate) struct Caller {
    stream: TcpStream,
    session: Session,
    wire: Vec<u8>,
}

impl Caller {
    /// Shakes hands as far as it goes: whether this end is accepted shows in what is heard then.
    #[track_caller]
    pub(crate) fn call(at: SocketAddr, key: &Path, server: PublicKey, purpose: Purpose) -> Self {
        Self::try_call(at, key, server, purpose).expect("the server shakes hands")
    }

    /// As `call`, of a server that may refuse in the middle of it.
    #[track_caller]
    pub(crate) fn try_call(
        at: SocketAddr,
        key: &Path,
        server: PublicKey,
        purpose: Purpose,
    ) -> Result<Self, TlsError> {
        let key = PeerTls::new(NodeKey::load(&Linux::host(), key).expect("the key is there"));
        let stream = TcpStream::connect(at).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("takes a limit");
        let mut caller = Self { stream, session: key.dial(&[server], purpose), wire: Vec::new() };
        while caller.session.is_handshaking() {
            assert!(caller.step(&mut Vec::new())?, "it hung up and did not say why");
        }
        caller.send(b"");
        Ok(caller)
    }

    /// Says something; whether it arrives shows in what is heard.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.session.seal(bytes);
        }
        let mut out = Vec::new();
        self.session.take_output(&mut out);
        // A server that has hung up already is heard, not written to.
        let _unheard = self.stream.write_all(&out);
    }

    /// Hears until the server ends the conversation: what it said, and why it ended, where that was said.
    #[track_caller]
    pub(crate) fn hear_out(&mut self) -> (Vec<u8>, Option<TlsError>) {
        let mut said = Vec::new();
        loop {
            match self.step(&mut said) {
                Ok(true) => {}
                Ok(false) => return (said, None),
                Err(error) => return (said, Some(error)),
            }
        }
    }

    /// Hears until the server has said this.
    #[track_caller]
    pub(crate) fn hear(&mut self, what: &str) {
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(what) {
            assert!(self.step(&mut said).expect("goes on"), "it hung up before it said `{what}`");
        }
    }

    /// Takes in what comes next; false where the server has hung up.
    #[track_caller]
    fn step(&mut self, said: &mut Vec<u8>) -> Result<bool, TlsError> {
        self.send(b"");
        let mut bytes = [0; 4096];
        match timely(self.stream.read(&mut bytes), "the server to speak or to hang up") {
            Ok(0) => return Ok(false),
            Ok(count) => self.wire.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => panic!("the server neither speaks nor hangs up: {error}"),
        }
        loop {
            let did = self.session.open(&self.wire, &mut bytes)?;
            self.wire.drain(..did.used);
            said.extend_from_slice(&bytes[..did.written]);
            if did.used == 0 && did.written == 0 {
                return Ok(true);
            }
        }
    }
}
