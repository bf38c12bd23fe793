// SPDX-License-Identifier: Apache-2.0
//! What a primary that lacks regions of its own store says to the peer that holds them, and hears.
//!
//! | kind | body, in order |
//! |---|---|
//! | 25 read wanted | ticket u64, after u64, volume u16, offset u64, length u64, zeros flag |
//! | 26 read told | ticket u64, how u8: 1 zeros, 2 bytes (payload follows), 3 failed |
//!
//! Integers are as in [`crate::message`]. A body is valid if and only if every field decodes, the extent is not empty
//! and no longer than [`PAYLOAD_BYTES_MAX`], payload follows where and only where the table says so, and no byte is left
//! over.

use crate::cursor::{Reader, Short, Writer};
use crate::message::PAYLOAD_BYTES_MAX;
use helio_units::{Extent, Payload, PayloadId, Sequence, VolumeIndex};

/// Everything that is said about reading from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The primary asks for bytes of the follower's store.
    Wanted {
        /// Names the question.
        ticket: u64,
        /// To be read once everything up to here has completed there.
        after: Sequence,
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
        /// Where all bytes are zero, the word alone is enough.
        zeros: bool,
    },
    /// The answer.
    Told {
        /// The question's name.
        ticket: u64,
        /// What is there.
        what: Told,
    },
}

/// What the peer's store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Zeros.
    Zeros,
    /// These bytes. The identifier never travels.
    Bytes(Payload),
    /// It could not be read.
    Failed,
}

impl Reading {
    /// The kind byte of its frame.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Wanted { .. } => 25,
            Self::Told { .. } => 26,
        }
    }

    /// The payload that follows its body.
    #[must_use]
    pub const fn payload(&self) -> Option<Payload> {
        match self {
            Self::Told { what: Told::Bytes(payload), .. } => Some(*payload),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::Wanted { ticket, after, volume, extent, zeros } => {
                w.u64(*ticket);
                w.sequence(*after);
                w.u16(volume.0);
                w.u64(extent.offset);
                w.u64(extent.length);
                w.flag(*zeros);
            }
            Self::Told { ticket, what } => {
                w.u64(*ticket);
                w.u8(match what {
                    Told::Zeros => 1,
                    Told::Bytes(_) => 2,
                    Told::Failed => 3,
                });
            }
        }
    }

    pub(crate) fn decode(code: u8, r: &mut Reader<'_>, payload: u32) -> Result<Self, Short> {
        if code == 25 {
            let (ticket, after, volume) = (r.u64()?, r.sequence()?, VolumeIndex(r.u16()?));
            let (offset, length) = (r.u64()?, r.u64()?);
            let fits = (1..=u64::from(PAYLOAD_BYTES_MAX)).contains(&length);
            if !fits || offset.checked_add(length).is_none() {
                return Err(Short);
            }
            let extent = Extent::new(offset, length);
            return Ok(Self::Wanted { ticket, after, volume, extent, zeros: r.flag()? });
        }
        let ticket = r.u64()?;
        let what = match r.u8()? {
            1 => Told::Zeros,
            2 if payload > 0 => Told::Bytes(Payload { id: PayloadId(0), length: payload }),
            3 => Told::Failed,
            _ => return Err(Short),
        };
        Ok(Self::Told { ticket, what })
    }
}
