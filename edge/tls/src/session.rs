// SPDX-License-Identifier: Apache-2.0
//! One conversation: bytes from the wire in, plain bytes out, and the other way.
//!
//! ```text
//!   handshaking ──> open ──> closed (the other end said so)
//!        └───────────┴─────> failed
//! ```

use crate::{PublicKey, Purpose, TlsError};
use rustls::Connection;
use std::io::{ErrorKind, Read, Write};

/// Most bytes a handshake may take from a stranger: as many as the library holds of one message.
const HANDSHAKE_BYTES: usize = (64 << 10) - 1;
/// What TLS may begin with: a handshake, or the alert of an end that refuses the other's first message.
const FIRST_BYTES: [u8; 2] = [0x16, 0x15];

/// What [`Session::open`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of the wire's it used.
    pub used: usize,
    /// Plain bytes it wrote.
    pub written: usize,
}

/// One end of a conversation. What it holds is bounded by a few records of 16 KiB, and by what its owner seals before
/// taking the output.
#[derive(Debug)]
pub struct Session {
    connection: Box<Connection>,
    purpose: Option<Purpose>,
    /// Bytes taken before the handshake was done.
    heard: usize,
    greeted: bool,
    closed: bool,
    failed: Option<TlsError>,
}

impl Session {
    pub(crate) fn new(mut connection: Connection, purpose: Option<Purpose>) -> Self {
        // What is sealed is bounded by whoever hands it in, and taken out at once.
        connection.set_buffer_limit(None);
        Self {
            connection: Box::new(connection),
            purpose,
            heard: 0,
            greeted: false,
            closed: false,
            failed: None,
        }
    }

    /// Takes bytes from the wire and writes what they say to the front of `plain`, as far as there is room. Call it
    /// again with the rest, and without any, until it uses and writes nothing.
    ///
    /// Every call may leave something to send in [`Session::take_output`], also a failed one: the other end is told why.
    ///
    /// # Errors
    /// The conversation is over; every later call fails the same way.
    pub fn open(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<Opened, TlsError> {
        self.unless_failed(|session| session.try_open(wire, plain))
    }

    /// Takes bytes from the wire as far as the handshake needs them, and returns how many: its arithmetic, in which a key of RSA takes
    /// milliseconds, without any plain bytes. [`Session::open`] has what comes behind it, and why it failed.
    pub fn shake(&mut self, wire: &[u8]) -> usize {
        let mut rest = wire;
        let _in_open = self.unless_failed(|session| {
            session.greet(rest)?;
            while !rest.is_empty() && session.is_handshaking() && session.feed(&mut rest)? > 0 {}
            Ok(())
        });
        wire.len() - rest.len()
    }

    fn unless_failed<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, TlsError>,
    ) -> Result<T, TlsError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        work(self).inspect_err(|error| {
            // Adds nothing where an alert that says more is on its way, and would be noise to plain text.
            if !matches!(error, TlsError::NotTls { .. }) {
                self.connection.send_close_notify();
            }
            self.failed = Some(error.clone());
        })
    }

    /// Whether it begins as TLS does.
    fn greet(&self, wire: &[u8]) -> Result<(), TlsError> {
        match wire.first() {
            Some(&first) if self.heard == 0 && !FIRST_BYTES.contains(&first) => {
                Err(TlsError::NotTls { first })
            }
            _ => Ok(()),
        }
    }

    /// Takes some bytes, and returns how many.
    fn feed(&mut self, rest: &mut &[u8]) -> Result<usize, TlsError> {
        let before = rest.len();
        self.connection.read_tls(rest).map_err(|e| TlsError::Failed(e.to_string()))?;
        let used = before - rest.len();
        let processed = self.connection.process_new_packets();
        processed.map_err(|error| TlsError::explain(error, self.purpose))?;
        self.watch_handshake(used)?;
        Ok(used)
    }

    fn try_open(&mut self, wire: &[u8], plain: &mut [u8]) -> Result<Opened, TlsError> {
        self.greet(wire)?;
        let mut rest = wire;
        let mut written = self.read(plain);
        while !rest.is_empty() && written < plain.len() && !self.closed {
            let used = self.feed(&mut rest)?;
            let more = self.read(&mut plain[written..]);
            written += more;
            if used == 0 && more == 0 {
                break;
            }
        }
        Ok(Opened { used: wire.len() - rest.len(), written })
    }

    fn watch_handshake(&mut self, used: usize) -> Result<(), TlsError> {
        if self.greeted {
            return Ok(());
        }
        self.heard += used;
        if self.heard >= HANDSHAKE_BYTES && self.connection.is_handshaking() {
            return Err(TlsError::TooLong { bound: HANDSHAKE_BYTES });
        }
        self.greeted = !self.connection.is_handshaking();
        let wanted = self.purpose.map(Purpose::name).filter(|_| self.greeted);
        match wanted {
            Some(wanted) if self.connection.alpn_protocol() != Some(wanted.as_bytes()) => {
                Err(TlsError::OtherPurpose { wanted })
            }
            _ => Ok(()),
        }
    }

    /// Reads plain bytes there are; none before the handshake is done.
    fn read(&mut self, plain: &mut [u8]) -> usize {
        let mut count = 0;
        while count < plain.len() {
            match self.connection.reader().read(&mut plain[count..]) {
                Ok(0) => {
                    self.closed = true;
                    break;
                }
                Ok(more) => count += more,
                Err(error) => {
                    debug_assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        count
    }

    /// Seals bytes; [`Session::take_output`] has them. Only once the handshake is done. A conversation that failed
    /// drops them.
    ///
    /// # Panics
    /// While the handshake goes on: bytes sealed then would be kept without a bound.
    pub fn seal(&mut self, plain: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        assert!(self.greeted, "sealed before the handshake was done");
        if self.connection.writer().write_all(plain).is_err() {
            unreachable!("the sealed bytes have no bound of their own");
        }
    }

    /// Moves what is to be sent to the end of `out`.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            if self.connection.write_tls(out).is_err() {
                unreachable!("a vector takes every byte");
            }
        }
    }

    /// Whether it has processed bytes of the other end.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.heard > 0
    }

    /// Whether the conversation failed.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether the handshake still goes on. A client's end is done before the server has looked at the client's key:
    /// only what the server says next shows that it was accepted.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        !self.greeted
    }

    /// The key the other end proved to hold, once the handshake is done; none where the conversation failed.
    #[must_use]
    pub fn peer_key(&self) -> Option<PublicKey> {
        let known = self.greeted && self.failed.is_none();
        let shown = self.connection.peer_certificates().filter(|_| known)?;
        PublicKey::from_spki(shown.first()?)
    }

    /// Tells the other end that nothing more comes.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether the other end said that nothing more comes. A stream that ends without it was cut.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}
