// SPDX-License-Identifier: Apache-2.0
//! What every room of the engine may use: configuration, the time it was told, the effects it collects, and the
//! names of operations under way.

use crate::config::Config;
use crate::effect::{Answer, Effect, Loudness, Note, StoreOp};
use crate::marks::Region;
use crate::verify::{Check, Verify};
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::message::Message;
use helio_units::{IoId, Moment, PayloadId, RequestId, Sequence, VolumeIndex};

/// Why an operation on the store was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client reads.
    Read(RequestId),
    /// The local leg of an item of a primary.
    Local(Sequence),
    /// The copier reads a region.
    Copy(Region),
    /// A verify reads a region.
    Verify(Check),
    /// A follower applies an item.
    Apply(Sequence),
    /// A flush of the engine's own on a volume.
    Flush(VolumeIndex),
}

/// Counters for status; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads asked for by clients.
    pub reads: u64,
    /// Writes accepted from clients.
    pub writes: u64,
    /// Flushes accepted from clients.
    pub flushes: u64,
    /// Discards accepted from clients.
    pub discards: u64,
    /// Write-zeroes accepted from clients.
    pub zeroes: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub write_bytes: u64,
    /// Payload bytes handed to the link.
    pub sent_bytes: u64,
    /// Payload bytes received from the peer.
    pub received_bytes: u64,
    /// Requests answered.
    pub answered: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) now: Moment,
    pub(crate) out: Vec<Effect>,
    pub(crate) counters: Counters,
    /// Where a verify is; it outlives the primary that runs it.
    pub(crate) verify: Verify,
    ios: Vec<Option<Purpose>>,
    free: Vec<u32>,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        let (ios, free) = (Vec::new(), Vec::new());
        Self {
            verify: Verify::new(config.volumes.len()),
            config,
            now: Moment::ZERO,
            out: Vec::new(),
            counters: Counters::default(),
            ios,
            free,
        }
    }

    pub(crate) fn store(&mut self, volume: VolumeIndex, op: StoreOp, purpose: Purpose) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ios.push(None);
            (self.ios.len() - 1) as u32
        });
        self.ios[slot as usize] = Some(purpose);
        self.out.push(Effect::Store { io: IoId(u64::from(slot)), volume, op });
    }

    /// Why the operation that just ended was asked for. Each ends exactly once.
    pub(crate) fn finish_io(&mut self, io: IoId) -> Purpose {
        let slot = io.0 as usize;
        let Some(purpose) = self.ios.get_mut(slot).and_then(Option::take) else {
            panic!("store operation {} ended twice or never began", io.0);
        };
        self.free.push(slot as u32);
        purpose
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.out.push(Effect::Send(message));
    }

    pub(crate) fn release(&mut self, payload: PayloadId) {
        self.out.push(Effect::Release(payload));
    }

    pub(crate) fn reply(&mut self, request: RequestId, answer: Answer) {
        self.counters.answered += 1;
        self.out.push(Effect::Reply { request, answer });
    }

    pub(crate) fn info(&mut self, text: String) {
        self.out.push(Effect::Note(Note { loudness: Loudness::Info, text }));
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.out.push(Effect::Note(Note { loudness: Loudness::Warning, text }));
    }
}
