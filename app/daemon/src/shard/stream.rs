// SPDX-License-Identifier: Apache-2.0
//! One connection's bytes: what arrived and is not used yet, and one receive and one send at a time.

use helio_driver::{Buffer, Op, Piece, Socket};
use std::ops::Range;

/// A connected socket with the buffer it is read through.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    /// Where bytes arrive; with the driver while it receives.
    buffer: Option<Buffer>,
    /// The part of it not used yet.
    unread: Range<usize>,
    receiving: bool,
    sending: bool,
}

impl Stream {
    /// Over a connected socket; one receive brings at most `capacity` bytes.
    pub(crate) fn new(socket: Socket, capacity: usize) -> Self {
        let buffer = Some(Buffer::zeroed(capacity));
        Self { socket, buffer, unread: 0..0, receiving: false, sending: false }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Makes room for more bytes at once. Only between two receives.
    pub(crate) fn enlarge(&mut self, capacity: usize) {
        if self.unread.is_empty() && self.buffer.as_ref().is_some_and(|b| b.len() < capacity) {
            self.buffer = Some(Buffer::zeroed(capacity));
        }
    }

    /// Whether a send is under way.
    pub(crate) fn is_sending(&self) -> bool {
        self.sending
    }

    /// What arrived and is not used yet.
    pub(crate) fn unread(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[self.unread.clone()])
    }

    /// The first `count` bytes of it were used.
    pub(crate) fn consume(&mut self, count: usize) {
        self.unread.start = (self.unread.start + count).min(self.unread.end);
    }

    /// Asks for more bytes, once everything that came was used and no receive is under way.
    pub(crate) fn receive(&mut self) -> Option<Op> {
        if self.receiving || !self.unread.is_empty() {
            return None;
        }
        let buffer = self.buffer.take()?;
        let range = 0..buffer.len();
        self.receiving = true;
        Some(Op::Recv { socket: self.socket.clone(), buffer, range })
    }

    /// Asks for bytes straight into somebody's buffer, under the same conditions; else gives the buffer back.
    pub(crate) fn receive_into(
        &mut self,
        buffer: Buffer,
        range: Range<usize>,
    ) -> Result<Op, Buffer> {
        if self.receiving || !self.unread.is_empty() {
            return Err(buffer);
        }
        self.receiving = true;
        Ok(Op::Recv { socket: self.socket.clone(), buffer, range })
    }

    /// A receive of [`Stream::receive`] ended with that many bytes.
    pub(crate) fn received(&mut self, buffer: Buffer, count: usize) {
        self.receiving = false;
        self.unread = 0..count.min(buffer.len());
        self.buffer = Some(buffer);
    }

    /// A receive of [`Stream::receive_into`] ended; its buffer is the caller's.
    pub(crate) fn received_elsewhere(&mut self) {
        self.receiving = false;
    }

    /// Sends the pieces, if no send is under way and there is a byte to send; else they stay.
    pub(crate) fn send(&mut self, pieces: &mut Vec<Piece>) -> Option<Op> {
        if self.sending || pieces.iter().all(Piece::is_empty) {
            return None;
        }
        self.sending = true;
        Some(Op::Send { socket: self.socket.clone(), pieces: std::mem::take(pieces) })
    }

    /// A send ended. Its emptied vector may serve again.
    pub(crate) fn sent(&mut self, mut spent: Vec<Piece>, next: &mut Vec<Piece>) {
        self.sending = false;
        if next.is_empty() {
            spent.clear();
            *next = spent;
        }
    }
}
