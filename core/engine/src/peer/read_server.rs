// SPDX-License-Identifier: Apache-2.0
//! A follower reads for its primary, which lacks regions of its own store (`lead/lack`).
//!
//! ```text
//!   asked ──everything up to `after` completed here──> read ──> told
//! ```
//! Questions are taken up in the order they came. What is asked at once is bounded in bytes and items, so is what is
//! read at once, and so is what was told and the socket has not taken. Nothing is read before the stream of this connection is
//! adopted: before that our image is not the one the primary means.

use crate::effect::ReadAs;
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::purpose::PeerRead;
use crate::purpose::Purpose;
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use helio_format::message::Message;
use helio_format::reading::{Reading, Told};
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Sequence, VolumeIndex};

/// Most questions a primary may have open.
pub(crate) const ASKED_MAX: usize = 1024;
/// Most bytes it may have asked for without an answer, but for one question that is longer.
pub(crate) const ASKED_BYTES_MAX: Bytes = Bytes::mib(64);

/// Bytes read at once, or told and not taken by the socket.
const READING_MAX: Bytes = Bytes::mib(8);

#[derive(Clone, Copy, Debug)]
struct Asked {
    ticket: u64,
    after: Sequence,
    volume: VolumeIndex,
    extent: Extent,
    zeros: bool,
}

/// See the drawing above.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerReads {
    asked: VecDeque<Asked>,
    /// How many are being read.
    begun: usize,
    /// Bytes in all of them.
    open: Bytes,
    reading: Bytes,
    unsent: Bytes,
    round: u32,
}

impl PeerReads {
    /// The primary asks.
    ///
    /// # Errors
    /// It asks for what is not there, or for more than it may: the connection must end.
    pub(crate) fn ask(&mut self, talk: Reading, local: &Local, turn: &Turn) -> Result<(), String> {
        let Reading::Wanted { ticket, after, volume, extent, zeros } = talk else {
            return Err(String::from("it sent the result of a read without a request"));
        };
        let size = turn.config().volumes.get(usize::from(volume.0)).map_or(0, |b| b.0);
        if extent.end() > size {
            return Err(format!(
                "it requested {extent} of volume {}, which has {size} bytes",
                turn.config().name_of(volume)
            ));
        }
        local.blocks().check_member(volume, extent, turn.config())?;
        let bytes = self.open + Bytes(extent.length);
        let count = self.asked.len() + self.begun;
        let full = count >= ASKED_MAX && !planted(Plant::FreeQuestions);
        if full || (bytes > ASKED_BYTES_MAX && count > 0) {
            return Err(format!("it requested {bytes} at once, more than {ASKED_BYTES_MAX}"));
        }
        self.open = bytes;
        self.asked.push_back(Asked { ticket, after, volume, extent, zeros });
        Ok(())
    }

    /// Reads what may be read now, everything up to `completed` being in the image.
    pub(crate) fn serve(&mut self, completed: Sequence, local: &mut Local, turn: &mut Turn) {
        while let Some(Asked { ticket, after, volume, extent, zeros }) = self.asked.front().copied()
        {
            let length = Bytes(extent.length);
            let busy = self.reading + self.unsent;
            let early = after > completed && !planted(Plant::ReadEarly);
            if early || (busy > Bytes::ZERO && busy + length > READING_MAX) {
                return;
            }
            self.asked.pop_front();
            self.begun += 1;
            self.reading += length;
            let read = PeerRead { ticket, length, zeros, round: self.round };
            let read_as = if zeros { ReadAs::BytesOrZero } else { ReadAs::Bytes };
            local.read((volume, extent), read_as, Purpose::PeerRead(read), turn);
        }
    }

    /// A read ended.
    pub(crate) fn read(&mut self, read: PeerRead, outcome: StoreOutcome, turn: &mut Turn) {
        let what = match &outcome {
            StoreOutcome::Read { zero: true, .. } if read.zeros => Told::Zeros,
            StoreOutcome::Read { payload, .. } => Told::Bytes(*payload),
            StoreOutcome::Failed(_) => Told::Failed,
            other => panic!("a read for the primary ended as {other:?}"),
        };
        // Whoever asked may be gone.
        if read.round == self.round {
            self.begun -= 1;
            self.reading -= read.length;
            self.open -= read.length;
            if let StoreOutcome::Failed(fault) = &outcome {
                turn.warn(format!(
                    "the disk of this node could not be read for the primary: {fault}"
                ));
            }
            let talk = Reading::Told { ticket: read.ticket, what };
            self.unsent += talk.payload().map_or(Bytes::ZERO, |p| Bytes(u64::from(p.length)));
            turn.send(Message::Reading(talk));
        }
        if let StoreOutcome::Read { payload, .. } = outcome {
            turn.release(payload.id);
        }
    }

    /// The socket took bytes.
    pub(crate) fn link_took(&mut self, bytes: u64) {
        self.unsent = self.unsent.saturating_sub(Bytes(bytes));
    }

    /// The connection is gone, and with it who asked.
    pub(crate) fn forget(&mut self) {
        *self = Self { round: self.round.wrapping_add(1), ..Self::default() };
    }
}
