// SPDX-License-Identifier: Apache-2.0
//! A small blocking client: for the quickstart, the tests, and tools that want one volume and no fuss.
//!
//! [`Client`] does one thing at a time. [`Client::split`] gives two halves for two threads, which keep as
//! many requests in flight as they like.

mod error;
mod handshake;
mod receiver;
mod sender;
mod wire;

pub use error::{ClientError, ServerError};
pub use handshake::{ExportShape, ListedExport};
pub use receiver::{ClientReceiver, Reply};
pub use sender::ClientSender;

use crate::codec::{Cookie, TransmissionFlags};
use handshake::Negotiation;
use helio_units::{Bytes, Extent};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use wire::Wire;

/// Longest trim or zeroes sent in one request, in bytes. The length on the wire has 32 bits; this is a
/// multiple of every block size.
const LONGEST_EFFECT: u64 = 1 << 30;

/// A connection to one export.
pub struct Client {
    sender: ClientSender,
    receiver: ClientReceiver,
    shape: ExportShape,
    next: u64,
}

impl Client {
    /// Connects to a Unix socket and opens `export`.
    ///
    /// # Errors
    /// Names what could not be done, with the server's words where it sent any.
    pub fn connect_unix(path: impl AsRef<Path>, export: &str) -> Result<Self, ClientError> {
        Self::open(Wire::unix(path.as_ref())?, export)
    }

    /// Connects over TCP and opens `export`.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn connect_tcp(address: impl ToSocketAddrs, export: &str) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).map_err(ClientError::io("connecting"))?;
        // Requests are small and waited for.
        stream.set_nodelay(true).map_err(ClientError::io("connecting"))?;
        Self::open(Wire::Tcp(stream), export)
    }

    /// Opens `export` over a connection that exists already.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn over_unix(stream: UnixStream, export: &str) -> Result<Self, ClientError> {
        Self::open(Wire::Unix(stream), export)
    }

    /// The exports a server shows, in its order.
    ///
    /// # Errors
    /// As [`Client::connect_unix`]; a list the server had to cut is an error too.
    pub fn list(path: impl AsRef<Path>) -> Result<Vec<ListedExport>, ClientError> {
        let mut negotiation = Negotiation::begin(Wire::unix(path.as_ref())?)?;
        let listed = negotiation.list()?;
        negotiation.abort();
        Ok(listed)
    }

    fn open(wire: Wire, export: &str) -> Result<Self, ClientError> {
        let mut negotiation = Negotiation::begin(wire)?;
        let structured = negotiation.structured_replies()?;
        let shape = negotiation.go(export)?;
        let (wire, reader) = negotiation.finish();
        let (sender, pending) = ClientSender::new(wire, shape.flags);
        let receiver = ClientReceiver::new(reader, pending, structured);
        Ok(Self { sender, receiver, shape, next: 0 })
    }

    /// The export's size.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.shape.size
    }

    /// What the export offers.
    #[must_use]
    pub const fn flags(&self) -> TransmissionFlags {
        self.shape.flags
    }

    /// Everything the server told about the export.
    #[must_use]
    pub const fn shape(&self) -> ExportShape {
        self.shape
    }

    /// Fills `buffer` from `offset` (bytes) on, in as many requests as the server's maximum asks for.
    ///
    /// # Errors
    /// The server's refusal, or what became of the connection.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ClientError> {
        let mut at = offset;
        for part in buffer.chunks_mut(self.shape.maximum_payload as usize) {
            // Parts are at most the maximum payload, so the cast is exact.
            let length = part.len() as u32;
            let data =
                self.call("read", Extent::new(at, u64::from(length)), |sender, cookie| {
                    sender.send_read(cookie, at, length)
                })?;
            part.copy_from_slice(&data);
            at += u64::from(length);
        }
        Ok(())
    }

    /// Writes `data` from `offset` (bytes) on; with `fua` each request is durable when it is answered.
    ///
    /// # Errors
    /// As [`Client::read`]. Parts before the one that failed may have been written.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), ClientError> {
        let mut at = offset;
        for part in data.chunks(self.shape.maximum_payload as usize) {
            let extent = Extent::new(at, part.len() as u64);
            self.call("write", extent, |sender, cookie| sender.send_write(cookie, at, part, fua))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Makes `length` bytes from `offset` on read as zero. `no_hole` keeps their space allocated.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub fn write_zeroes(
        &mut self,
        offset: u64,
        length: Bytes,
        fua: bool,
        no_hole: bool,
    ) -> Result<(), ClientError> {
        for (at, length) in effects(offset, length) {
            let extent = Extent::new(at, u64::from(length));
            self.call("write of zeroes", extent, |sender, cookie| {
                sender.send_write_zeroes(cookie, at, length, fua, no_hole)
            })?;
        }
        Ok(())
    }

    /// Tells the server that `length` bytes from `offset` on are no longer needed.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub fn trim(&mut self, offset: u64, length: Bytes, fua: bool) -> Result<(), ClientError> {
        for (at, length) in effects(offset, length) {
            let extent = Extent::new(at, u64::from(length));
            self.call("trim", extent, |sender, cookie| sender.send_trim(cookie, at, length, fua))?;
        }
        Ok(())
    }

    /// Makes everything answered so far durable.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.call("flush", Extent::default(), ClientSender::send_flush).map(drop)
    }

    /// Takes leave of the server.
    ///
    /// # Errors
    /// What became of the connection.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        self.sender.send_disconnect()
    }

    /// Two halves, to send from one thread and receive in another.
    #[must_use]
    pub fn split(self) -> (ClientSender, ClientReceiver) {
        (self.sender, self.receiver)
    }

    /// Sends one request and waits for its answer.
    fn call(
        &mut self,
        command: &'static str,
        extent: Extent,
        send: impl FnOnce(&mut ClientSender, Cookie) -> Result<(), ClientError>,
    ) -> Result<Vec<u8>, ClientError> {
        let cookie = Cookie(self.next);
        self.next += 1;
        send(&mut self.sender, cookie)?;
        // Nothing else is in flight, and the receiver refuses replies nobody waits for.
        let reply = self.receiver.receive()?;
        reply.result.map_err(|source| ClientError::Failed { command, extent, source })
    }
}

/// Cuts a long effect into requests: offset and length of each.
fn effects(offset: u64, length: Bytes) -> impl Iterator<Item = (u64, u32)> {
    let steps = length.0.div_ceil(LONGEST_EFFECT);
    (0..steps).map(move |n| {
        let done = n * LONGEST_EFFECT;
        // At most LONGEST_EFFECT, so the cast is exact.
        (offset.saturating_add(done), (length.0 - done).min(LONGEST_EFFECT) as u32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_effects_are_cut_without_gaps() {
        let cut: Vec<_> = effects(512, Bytes::gib(2) + Bytes(512)).collect();
        let gib = 1 << 30;
        assert_eq!(cut, [(512, gib), (512 + (1 << 30), gib), (512 + (2 << 30), 512)]);
        assert_eq!(effects(0, Bytes::ZERO).count(), 0);
    }
}
