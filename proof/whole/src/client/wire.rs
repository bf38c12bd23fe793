// SPDX-License-Identifier: Apache-2.0
//! The bytes between a client and its stream.

use helio_world::{Received, Stream};

/// What is to be sent, and what was received and not used yet.
#[derive(Debug, Default)]
pub(super) struct Wire {
    out: Vec<u8>,
    queued: u64,
    pub(super) input: Vec<u8>,
    /// The stream takes nothing more.
    deaf: bool,
    ended: bool,
}

impl Wire {
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.queued += bytes.len() as u64;
    }

    /// Bytes queued in all.
    pub(super) const fn queued(&self) -> u64 {
        self.queued
    }

    /// Bytes that the stream took in all.
    pub(super) const fn sent(&self) -> u64 {
        self.queued - self.out.len() as u64
    }

    /// Bytes that wait for the stream.
    pub(super) const fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing more will come.
    pub(super) const fn ended(&self) -> bool {
        self.ended
    }

    /// Gives the stream what it takes.
    pub(super) fn push(&mut self, stream: &mut dyn Stream) {
        while !self.out.is_empty() && !self.deaf {
            match stream.send(&self.out) {
                Ok(0) => return,
                Ok(count) => drop(self.out.drain(..count)),
                Err(()) => self.deaf = true,
            }
        }
    }

    /// Receives at most that many bytes; whether there may be more.
    pub(super) fn pull(&mut self, stream: &mut dyn Stream, most: usize) -> bool {
        let before = self.input.len();
        while self.input.len() - before < most && !self.ended {
            let room = most - (self.input.len() - before);
            match stream.receive(&mut self.input, room) {
                Received::Bytes => {}
                Received::Nothing => {
                    // What can no longer be sent to is not waited for.
                    self.ended = self.deaf;
                    return false;
                }
                Received::End | Received::Reset => self.ended = true,
            }
        }
        !self.ended
    }
}
