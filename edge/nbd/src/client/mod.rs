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

use crate::codec::{Context, Contexts, Cookie, Form, StatusExtent, TransmissionFlags};
use handshake::Negotiation;
use helio_units::{Bytes, Extent};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use wire::Wire;

/// Longest trim, zeroes or cache sent in one request, in bytes. The length on the wire may have 32 bits only,
/// and where it has 64 servers may refuse long ones; this is a multiple of every block size.
const LONGEST_EFFECT: u64 = 1 << 30;

/// What a client asks a server for when it connects. Where a server cannot, less is agreed on: see
/// [`Client::form`] and [`Client::contexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The form of replies.
    pub form: Form,
    /// The contexts [`Client::block_status`] is to tell about. They need more than simple replies.
    pub contexts: Contexts,
}

impl Default for ClientOptions {
    /// Structured replies and no contexts.
    fn default() -> Self {
        Self { form: Form::Structured, contexts: Contexts::NONE }
    }
}

/// The contexts agreed on, and the numbers the server calls them by.
#[derive(Clone, Debug, Default)]
struct Chosen(Vec<(Context, u32)>);

impl Chosen {
    fn add(&mut self, context: Context, number: u32) {
        self.0.push((context, number));
    }

    fn contexts(&self) -> Contexts {
        self.0.iter().fold(Contexts::NONE, |all, (context, _)| all.with(*context))
    }

    fn number(&self, context: Context) -> Option<u32> {
        self.0.iter().find(|(chosen, _)| *chosen == context).map(|(_, number)| *number)
    }

    fn context(&self, number: u32) -> Option<Context> {
        self.0.iter().find(|(_, chosen)| *chosen == number).map(|(context, _)| *context)
    }
}

/// A connection to one export.
pub struct Client {
    sender: ClientSender,
    receiver: ClientReceiver,
    shape: ExportShape,
    form: Form,
    contexts: Contexts,
    next: u64,
}

impl Client {
    /// Connects to a Unix socket and opens `export`.
    ///
    /// # Errors
    /// Names what could not be done, with the server's words where it sent any.
    pub fn connect_unix(path: impl AsRef<Path>, export: &str) -> Result<Self, ClientError> {
        Self::connect_unix_with(path, export, ClientOptions::default())
    }

    /// As [`Client::connect_unix`], asking for more or less.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn connect_unix_with(
        path: impl AsRef<Path>,
        export: &str,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        Self::open(Wire::unix(path.as_ref())?, export, options)
    }

    /// Connects over TCP and opens `export`.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn connect_tcp(address: impl ToSocketAddrs, export: &str) -> Result<Self, ClientError> {
        Self::connect_tcp_with(address, export, ClientOptions::default())
    }

    /// As [`Client::connect_tcp`], asking for more or less.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn connect_tcp_with(
        address: impl ToSocketAddrs,
        export: &str,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).map_err(ClientError::io("connecting"))?;
        // Requests are small and waited for.
        stream.set_nodelay(true).map_err(ClientError::io("connecting"))?;
        Self::open(Wire::Tcp(stream), export, options)
    }

    /// Opens `export` over a connection that exists already.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn over_unix(stream: UnixStream, export: &str) -> Result<Self, ClientError> {
        Self::over_unix_with(stream, export, ClientOptions::default())
    }

    /// As [`Client::over_unix`], asking for more or less.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn over_unix_with(
        stream: UnixStream,
        export: &str,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        Self::open(Wire::Unix(stream), export, options)
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

    /// The names of the metadata contexts an export offers.
    ///
    /// # Errors
    /// As [`Client::connect_unix`].
    pub fn offered_contexts(
        path: impl AsRef<Path>,
        export: &str,
    ) -> Result<Vec<String>, ClientError> {
        let mut negotiation = Negotiation::begin(Wire::unix(path.as_ref())?)?;
        negotiation.form(Form::Structured)?;
        let offered = negotiation.offered(export)?;
        negotiation.abort();
        Ok(offered)
    }

    fn open(wire: Wire, export: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let mut negotiation = Negotiation::begin(wire)?;
        let form = negotiation.form(options.form)?;
        let chosen = if options.contexts.is_empty() || form == Form::Simple {
            Chosen::default()
        } else {
            negotiation.choose(export, options.contexts)?
        };
        let shape = negotiation.go(export)?;
        let (wire, reader) = negotiation.finish();
        let contexts = chosen.contexts();
        let (sender, pending) = ClientSender::new(wire, shape.flags, form, chosen.clone());
        let receiver = ClientReceiver::new(reader, pending, form, chosen);
        Ok(Self { sender, receiver, shape, form, contexts, next: 0 })
    }

    /// The form of replies agreed on.
    #[must_use]
    pub const fn form(&self) -> Form {
        self.form
    }

    /// The contexts agreed on.
    #[must_use]
    pub const fn contexts(&self) -> Contexts {
        self.contexts
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
            let extent = Extent::new(at, u64::from(length));
            let reply =
                self.call("read", extent, |sender, cookie| sender.send_read(cookie, at, length))?;
            part.copy_from_slice(&reply.data);
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
        for extent in effects(offset, length) {
            let Extent { offset: at, length } = extent;
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
        for extent in effects(offset, length) {
            let Extent { offset: at, length } = extent;
            self.call("trim", extent, |sender, cookie| sender.send_trim(cookie, at, length, fua))?;
        }
        Ok(())
    }

    /// Makes `length` bytes from `offset` on read as zero, or fails at once where that is no faster than
    /// writing them.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub fn fast_zeroes(&mut self, offset: u64, length: Bytes) -> Result<(), ClientError> {
        for extent in effects(offset, length) {
            self.call("fast write of zeroes", extent, |sender, cookie| {
                sender.send_fast_zeroes(cookie, extent.offset, extent.length)
            })?;
        }
        Ok(())
    }

    /// Tells the server that `length` bytes from `offset` on will be wanted soon.
    ///
    /// # Errors
    /// As [`Client::read`].
    pub fn cache(&mut self, offset: u64, length: Bytes) -> Result<(), ClientError> {
        for extent in effects(offset, length) {
            self.call("cache", extent, |sender, cookie| {
                sender.send_cache(cookie, extent.offset, extent.length)
            })?;
        }
        Ok(())
    }

    /// What each context agreed on says of `length` bytes from `offset` on: stretches one behind the other.
    /// The server may stop before the end, or go beyond it. With `one` only the first stretch of each.
    ///
    /// # Errors
    /// As [`Client::read`]; also where no context was agreed on.
    pub fn block_status(
        &mut self,
        offset: u64,
        length: Bytes,
        one: bool,
    ) -> Result<Vec<(Context, Vec<StatusExtent>)>, ClientError> {
        let extent = Extent::new(offset, length.0);
        let reply = self.call("block status", extent, |sender, cookie| {
            sender.send_block_status(cookie, offset, length.0, one)
        })?;
        Ok(reply.status)
    }

    /// As [`Client::block_status`], of these contexts only. Needs extended headers.
    ///
    /// # Errors
    /// As [`Client::block_status`].
    pub fn filtered_block_status(
        &mut self,
        offset: u64,
        length: Bytes,
        contexts: Contexts,
    ) -> Result<Vec<(Context, Vec<StatusExtent>)>, ClientError> {
        let extent = Extent::new(offset, length.0);
        let reply = self.call("block status", extent, |sender, cookie| {
            sender.send_filtered_block_status(cookie, offset, length.0, contexts)
        })?;
        Ok(reply.status)
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
    ) -> Result<Answer, ClientError> {
        let cookie = Cookie(self.next);
        self.next += 1;
        send(&mut self.sender, cookie)?;
        // Nothing else is in flight, and the receiver refuses replies nobody waits for.
        let Reply { result, status, .. } = self.receiver.receive()?;
        match result {
            Ok(data) => Ok(Answer { data, status }),
            Err(source) => Err(ClientError::Failed { command, extent, source }),
        }
    }
}

/// What a request that went well brought.
struct Answer {
    data: Vec<u8>,
    status: Vec<(Context, Vec<StatusExtent>)>,
}

/// Cuts a long effect into requests.
fn effects(offset: u64, length: Bytes) -> impl Iterator<Item = Extent> {
    let steps = length.0.div_ceil(LONGEST_EFFECT);
    (0..steps).map(move |n| {
        let done = n * LONGEST_EFFECT;
        Extent::new(offset.saturating_add(done), (length.0 - done).min(LONGEST_EFFECT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_effects_are_cut_without_gaps() {
        let cut: Vec<_> =
            effects(512, Bytes::gib(2) + Bytes(512)).map(|e| (e.offset, e.length)).collect();
        let gib = 1 << 30;
        assert_eq!(cut, [(512, gib), (512 + gib, gib), (512 + 2 * gib, 512)]);
        assert_eq!(effects(0, Bytes::ZERO).count(), 0);
    }
}
