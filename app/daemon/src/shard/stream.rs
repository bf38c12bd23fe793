// SPDX-License-Identifier: Apache-2.0
//! One connection's bytes, sealed by TLS or not: what arrived and is not used yet, and one receive and one send at a
//! time.

use helio_driver::{Buffer, Op, Piece, Socket};
use helio_tls::{PublicKey, Session, TlsError};
use std::ops::Range;

/// A connected socket with the buffer it is read through.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    /// The most that one receive may bring.
    capacity: usize,
    /// Where bytes arrive; with the driver while it receives.
    buffer: Option<Buffer>,
    /// The part of it not used yet.
    arrived: Range<usize>,
    receiving: bool,
    sending: bool,
    seal: Option<Seal>,
}

/// TLS over a stream.
#[derive(Debug)]
struct Seal {
    session: Session,
    plain: Buffer,
    /// The plain bytes not used yet.
    unread: Range<usize>,
    failed: Option<TlsError>,
    /// Memory of the last batch sent.
    spare: Vec<u8>,
}

impl Stream {
    /// Over a connected socket; one receive brings at most `capacity` bytes.
    pub(crate) fn new(socket: Socket, capacity: usize) -> Self {
        let buffer = Some(Buffer::zeroed(capacity));
        Self {
            socket,
            capacity,
            buffer,
            arrived: 0..0,
            receiving: false,
            sending: false,
            seal: None,
        }
    }

    /// From here on everything is sealed, what arrived and was not used included. No send may be under way.
    pub(crate) fn secure(&mut self, session: Session) {
        assert!(!self.sending, "TLS begins while a send is under way");
        let plain = Buffer::zeroed(self.capacity);
        self.seal = Some(Seal { session, plain, unread: 0..0, failed: None, spare: Vec::new() });
        self.unseal();
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether TLS is on.
    pub(crate) fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// The key the other end proved to hold; none without TLS.
    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        self.seal.as_ref()?.session.peer_key()
    }

    /// Why TLS ended the conversation, if it did.
    pub(crate) fn failure(&self) -> Option<&TlsError> {
        self.seal.as_ref()?.failed.as_ref()
    }

    /// The next receive may bring so many bytes.
    pub(crate) const fn enlarge(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Whether a receive is under way.
    pub(crate) fn is_receiving(&self) -> bool {
        self.receiving
    }

    /// Whether a send is under way.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending
    }

    /// What arrived and is not used yet, in plain.
    pub(crate) fn unread(&self) -> &[u8] {
        match &self.seal {
            Some(seal) => &seal.plain[seal.unread.clone()],
            None => self.buffer.as_ref().map_or(&[], |buffer| &buffer[self.arrived.clone()]),
        }
    }

    /// The first `count` bytes of it were used.
    pub(crate) fn consume(&mut self, count: usize) {
        let unread = match &mut self.seal {
            Some(seal) => &mut seal.unread,
            None => &mut self.arrived,
        };
        unread.start = (unread.start + count).min(unread.end);
        self.unseal();
    }

    /// Opens what arrived, as far as there is room for plain bytes.
    fn unseal(&mut self) {
        let (Some(seal), Some(buffer)) = (&mut self.seal, &self.buffer) else { return };
        while seal.unread.is_empty() && seal.failed.is_none() {
            match seal.session.open(&buffer[self.arrived.clone()], &mut seal.plain) {
                Ok(did) => {
                    self.arrived.start += did.used;
                    seal.unread = 0..did.written;
                    if did.used == 0 && did.written == 0 {
                        return;
                    }
                }
                Err(error) => seal.failed = Some(error),
            }
        }
    }

    /// Asks for more bytes, once everything that came was used and no receive is under way.
    pub(crate) fn receive(&mut self) -> Option<Op> {
        self.receive_most(self.capacity)
    }

    /// Asks for at most so many bytes, under the same conditions.
    pub(crate) fn receive_most(&mut self, most: usize) -> Option<Op> {
        if !self.is_hungry() {
            return None;
        }
        let mut buffer = self.buffer.take()?;
        // Everything that came was used.
        if buffer.len() < self.capacity {
            buffer = Buffer::zeroed(self.capacity);
        }
        if let Some(seal) = self.seal.as_mut().filter(|seal| seal.plain.len() < self.capacity) {
            seal.plain = Buffer::zeroed(self.capacity);
        }
        let range = 0..buffer.len().min(most);
        self.receiving = true;
        Some(Op::Recv { socket: self.socket.clone(), buffer, range })
    }

    /// Asks for bytes straight into somebody's buffer, under the same conditions and only where nothing is sealed; else
    /// gives the buffer back.
    pub(crate) fn receive_into(
        &mut self,
        buffer: Buffer,
        range: Range<usize>,
    ) -> Result<Op, Buffer> {
        if !self.is_hungry() || self.seal.is_some() {
            return Err(buffer);
        }
        self.receiving = true;
        Ok(Op::Recv { socket: self.socket.clone(), buffer, range })
    }

    /// Everything that came was used, and no receive is under way.
    pub(crate) fn is_hungry(&self) -> bool {
        !self.receiving && self.unread().is_empty() && self.failure().is_none()
    }

    /// A receive of [`Stream::receive`] ended with that many bytes.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        self.receiving = false;
        self.arrived = 0..count.min(buffer.len());
        self.buffer = Some(buffer);
        self.unseal();
    }

    /// A receive of [`Stream::receive_into`] ended; its buffer is the caller's.
    pub(crate) fn received_elsewhere(&mut self) {
        self.receiving = false;
    }

    /// Sends the pieces and what TLS has to say, if no send is under way and there is a byte to send; else they stay.
    pub(crate) fn send(&mut self, pieces: &mut Vec<Piece>) -> Option<Op> {
        if self.sending {
            return None;
        }
        let pieces = match &mut self.seal {
            Some(seal) => vec![Piece::Bytes(seal.wrap(pieces)?)],
            None if pieces.iter().all(Piece::is_empty) => return None,
            None => std::mem::take(pieces),
        };
        self.sending = true;
        Some(Op::Send { socket: self.socket.clone(), pieces })
    }

    /// A send ended. Its emptied memory may serve again.
    pub(crate) fn sent(&mut self, mut spent: Vec<Piece>, next: &mut Vec<Piece>) {
        self.sending = false;
        match (&mut self.seal, spent.pop()) {
            (Some(seal), Some(Piece::Bytes(bytes))) => seal.spare = bytes,
            _ if next.is_empty() => {
                spent.clear();
                *next = spent;
            }
            _ => {}
        }
    }

    /// Nothing more will be said: TLS tells the other end so.
    pub(crate) fn finish(&mut self) {
        if let Some(seal) = &mut self.seal {
            seal.session.close();
        }
    }
}

impl Seal {
    /// The bytes to send: pieces wait for the end of the handshake, and are dropped where it failed.
    fn wrap(&mut self, pieces: &mut Vec<Piece>) -> Option<Vec<u8>> {
        let mut out = std::mem::take(&mut self.spare);
        out.clear();
        if self.failed.is_some() {
            pieces.clear();
        } else if !self.session.is_handshaking() {
            for piece in pieces.drain(..) {
                self.session.seal(piece.bytes().unwrap_or_default());
            }
        }
        self.session.take_output(&mut out);
        if out.is_empty() {
            self.spare = out;
            return None;
        }
        Some(out)
    }
}
