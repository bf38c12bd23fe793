// SPDX-License-Identifier: Apache-2.0
//! An NBD client that keeps a number of writes under way.

use helio_nbd::Cookie;
use helio_nbd::codec::{
    GREETING_LENGTH, OptionHeader, RequestHeader, SimpleReply, client_flag, command, option,
};
use helio_world::{Received, SimStream, Stream};

/// Bytes of a write.
pub(crate) const BLOCK: u64 = 4096;
/// The reply to the chosen export: its size and its flags.
const EXPORT_LENGTH: usize = 10;
/// Bytes that one call takes from the stream.
const PIECE: usize = 64 << 10;
/// From one written block to the next: odd, so that each block of a volume with a power of two of them is written before one is again.
const STRIDE: u64 = 2_531;

/// See the module.
pub(crate) struct Client {
    stream: SimStream,
    blocks: u64,
    depth: u64,
    payload: Vec<u8>,
    out: Vec<u8>,
    input: Vec<u8>,
    /// Bytes of the handshake that have not come yet.
    handshake: usize,
    left: u64,
    sent: u64,
    waiting: u64,
}

impl Client {
    /// A client of an export of so many blocks.
    pub(crate) fn new(stream: SimStream, export: &str, blocks: u64, depth: u64) -> Self {
        let flags = client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES;
        let header = OptionHeader { option: option::EXPORT_NAME, length: export.len() as u32 };
        let mut out = flags.to_be_bytes().to_vec();
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(export.as_bytes());
        Self {
            stream,
            blocks,
            depth,
            payload: (0..BLOCK).map(|at| at as u8).collect(),
            out,
            input: Vec::new(),
            handshake: GREETING_LENGTH + EXPORT_LENGTH,
            left: 0,
            sent: 0,
            waiting: 0,
        }
    }

    /// It makes so many more writes.
    pub(crate) fn write(&mut self, writes: u64) {
        self.left += writes;
    }

    /// Whether the server replied to every write.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.waiting == 0
    }

    /// Goes on as far as it can now.
    ///
    /// # Errors
    /// The server refused something, or ended the connection.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        match self.stream.receive(&mut self.input, PIECE) {
            Received::Bytes | Received::Nothing => {}
            Received::End | Received::Reset => return Err("the connection ended".to_owned()),
        }
        let greeted = self.handshake.min(self.input.len());
        self.input.drain(..greeted);
        self.handshake -= greeted;
        while let Some(reply) = self.input.first_chunk::<{ SimpleReply::LENGTH }>() {
            let error = u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
            if error != 0 {
                return Err(format!("a write failed with {error}"));
            }
            self.input.drain(..SimpleReply::LENGTH);
            self.waiting -= 1;
        }
        while self.handshake == 0 && self.left > 0 && self.waiting < self.depth {
            self.ask();
        }
        if !self.out.is_empty() {
            let sent = self.stream.send(&self.out).unwrap_or(0);
            self.out.drain(..sent);
        }
        Ok(())
    }

    fn ask(&mut self) {
        let offset = self.sent.wrapping_mul(STRIDE) % self.blocks * BLOCK;
        let (command, cookie, length) = (command::WRITE, Cookie(self.sent), BLOCK);
        let header = RequestHeader { flags: 0, command, cookie, offset, length };
        self.out.extend_from_slice(&header.encode());
        // Each write has bytes of its own.
        self.payload[..8].copy_from_slice(&self.sent.to_be_bytes());
        self.out.extend_from_slice(&self.payload);
        (self.sent, self.left, self.waiting) = (self.sent + 1, self.left - 1, self.waiting + 1);
    }
}
