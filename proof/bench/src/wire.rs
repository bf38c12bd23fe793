// SPDX-License-Identifier: Apache-2.0
//! A stream socket that is tried and not waited for. It remembers what the last try told, so that a try that must
//! fail is left out.

use anyhow::{Context, Result, bail};
use helio_nbd::codec::{SimpleReply, magic};
use helio_nbd::{Client, ClientOptions, Form};
use helio_units::Bytes;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// One connection.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    /// Whether a receive may find something.
    pub readable: bool,
    /// Whether the last send met a full socket.
    pub blocked: bool,
}

impl Wire {
    /// Takes over a connected socket.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, readable: true, blocked: false }
    }

    /// Connects to an NBD server's Unix socket and opens `export` with simple replies. Returns the export's size, too.
    ///
    /// # Errors
    /// No server listens, or it refuses the export.
    pub fn open(socket: &Path, export: &str) -> Result<(Self, Bytes)> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        let options = ClientOptions { form: Form::Simple, ..ClientOptions::default() };
        // The client has its own handle and goes: a server sends nothing between the handshake and the first request.
        let client = Client::over_unix_with(stream.try_clone()?, export, options)?;
        Ok((Self::new(stream.into()), client.size()))
    }

    /// The socket, to be polled.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives what is there now; 0 where nothing is.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` where the other end hung up.
    pub fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive_with(into, RecvFlags::DONTWAIT)
    }

    /// Waits until there is something, and receives it.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn wait(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive_with(into, RecvFlags::empty())
    }

    fn receive_with(&mut self, into: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let wanted = into.len();
        match recv(&self.socket, into, flags) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((got, _)) => {
                // Less than asked for: the rest has not come yet.
                self.readable = got == wanted;
                Ok(got)
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.readable = false;
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends as much of the parts, one behind the other, as the socket takes now.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&self.socket, parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(sent) => {
                self.blocked = sent < wanted;
                Ok(sent)
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.blocked = true;
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The slot that a simple reply without an error answers: its request's cookie.
///
/// # Errors
/// It is something else, or tells an error.
pub fn answered(reply: &[u8; SimpleReply::LENGTH]) -> Result<usize> {
    let (word, rest) = reply.split_first_chunk::<4>().context("a reply cut short")?;
    if u32::from_be_bytes(*word) != magic::SIMPLE_REPLY {
        bail!("the server sent something else than a simple reply");
    }
    let reply = SimpleReply::decode_after_magic(rest.try_into()?);
    if reply.error != 0 {
        bail!("the server answered with error {}", reply.error);
    }
    Ok(reply.cookie.0 as usize)
}

/// Bytes on their way to a socket.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Queues bytes. The caller bounds them: no more than an answer per slot.
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether everything is gone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// The system's.
    pub fn flush(&mut self, wire: &mut Wire) -> io::Result<()> {
        if self.bytes.is_empty() || wire.blocked {
            return Ok(());
        }
        self.sent += wire.send(&[IoSlice::new(&self.bytes[self.sent..])])?;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
        Ok(())
    }
}

/// Most messages one send carries.
const BATCH: usize = 32;

/// Messages on their way to a socket, each a header and the payload of a slot, sent from where they lie.
#[derive(Debug)]
pub struct Gather {
    queue: VecDeque<usize>,
    sent: usize,
}

impl Gather {
    /// At most one message for each of `slots`.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self { queue: VecDeque::with_capacity(slots), sent: 0 }
    }

    /// Queues the message of a slot.
    pub fn put(&mut self, slot: usize) {
        self.queue.push_back(slot);
    }

    /// Whether everything is gone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Sends what the socket takes; `parts` tells a slot's header and payload.
    ///
    /// # Errors
    /// The system's.
    pub fn flush<'a>(
        &mut self,
        wire: &mut Wire,
        parts: impl Fn(usize) -> (&'a [u8], &'a [u8]),
    ) -> io::Result<()> {
        while !self.queue.is_empty() && !wire.blocked {
            let mut slices = [IoSlice::new(&[]); 2 * BATCH];
            let mut used = 0;
            let mut skip = self.sent;
            for slot in self.queue.iter().take(BATCH) {
                let (header, payload) = parts(*slot);
                for part in [header, payload] {
                    let gone = skip.min(part.len());
                    skip -= gone;
                    slices[used] = IoSlice::new(&part[gone..]);
                    used += 1;
                }
            }
            self.sent += wire.send(&slices[..used])?;
            while let Some(slot) = self.queue.front() {
                let (header, payload) = parts(*slot);
                let length = header.len() + payload.len();
                if self.sent < length {
                    break;
                }
                self.sent -= length;
                self.queue.pop_front();
            }
        }
        Ok(())
    }
}
