// SPDX-License-Identifier: Apache-2.0
//! Everything the engine can ask for.

use crate::event::{CommandId, HookQuestion, Kept};
use crate::refusal::{Denial, Refusal};
use crate::stream::ack::AckProof;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::copying::{Digest, PageBits};
use helio_format::message::Message;
use helio_format::superblock::Superblock;
use helio_stack::{LayerRecord, Leg, PoolOp, StoreOp};
use helio_units::{Bytes, Extent, IoId, Payload, PayloadId, RequestId, VolumeIndex};

/// What the host reports of the bytes that were read. The store does not get this: the host derives it from a finished read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadAs {
    /// The bytes.
    #[default]
    Bytes,
    /// The bytes, and whether all of them are zero.
    BytesOrZero,
    /// Zeros and other bytes apart, piece by piece.
    Runs {
        /// The length of a piece, counted from where the extent begins; the last one may be shorter.
        piece: Bytes,
    },
    /// The digest of every [`digest_piece`](crate::digest_piece).
    Digests {
        /// One per region, not per block.
        coarse: bool,
    },
    /// The bytes that differ from these digests of the peer's.
    Differing {
        /// One for every [`digest_piece`](crate::digest_piece).
        digests: Vec<Digest>,
        /// One per region, not per block.
        coarse: bool,
    },
    /// Digests in place of the bytes: 16 bytes for every block of 4 KiB, the last one short.
    DigestPayload,
    /// The blocks that differ from such digests.
    Unequal {
        /// The digests.
        payload: Payload,
    },
}

/// A client's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A write, zero, discard or flush is done as its mode promises. Only `ack.rs` can mint the proof.
    Done(AckProof),
    /// A write to the branch of a copy, or a flush of it, is done. No volume is concerned, so there is nothing to acknowledge.
    Branch,
    /// The bytes read; the front end releases them once sent.
    Read(Payload),
    /// It was not done.
    Denied(Denial),
}

/// What the metadata file is to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Hot extents begin and end, by their numbers (`core/ledger`).
    Hot {
        /// Names the change.
        ticket: u64,
        /// Those that begin.
        add: Vec<u64>,
        /// Those that end.
        remove: Vec<u64>,
    },
    /// A page of marks.
    Marks {
        /// Which.
        page: u32,
        /// All of its bits.
        bits: PageBits,
    },
}

impl Keep {
    /// What [`crate::Event::Kept`] calls it.
    #[must_use]
    pub const fn kept(&self) -> Kept {
        match *self {
            Self::Hot { ticket, .. } => Kept::Hot { ticket },
            Self::Marks { page, .. } => Kept::Marks { page },
        }
    }
}

/// A command was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// A sentence for the operator.
    pub text: String,
    /// The node was demoted, and its peer may lack writes that it acknowledged.
    pub peer_behind: bool,
}

impl From<String> for Done {
    fn from(text: String) -> Self {
        Self { text, peer_behind: false }
    }
}

/// Everything the engine can ask for. Order within one batch matters only where a doc line says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a client.
    Reply {
        /// Which request.
        request: RequestId,
        /// How.
        answer: Answer,
    },
    /// Do this to the store and report its end exactly once.
    Store {
        /// Its name.
        io: IoId,
        /// Which member of which volume.
        leg: Leg,
        /// What.
        op: StoreOp,
        /// What to report of the bytes, if it is a read.
        read_as: ReadAs,
    },
    /// Make a layer's record durable, and report that with [`crate::Event::Recorded`]. One at a time.
    Record(LayerRecord),
    /// Compare two payloads of one length, and report that with [`crate::Event::Compared`].
    Compare {
        /// The question's name.
        name: u64,
        /// The payloads.
        pair: [PayloadId; 2],
    },
    /// Look at bytes that were read, report that as the end of the operation, and release them where they are not what is
    /// reported.
    Look {
        /// Its name.
        io: IoId,
        /// On which volume.
        volume: VolumeIndex,
        /// Where the bytes were read.
        extent: Extent,
        /// The bytes.
        payload: Payload,
        /// What to report of them.
        read_as: ReadAs,
    },
    /// Say this to the peer, in the order of the effects; payload of items goes with it.
    Send(Message),
    /// End the connection. `refused` asks for a long pause before the next attempt.
    Hangup {
        /// Why, for people and for the log.
        why: String,
        /// The two must not mirror each other now.
        refused: bool,
    },
    /// Save this superblock durably, then say [`crate::Event::SuperblockSaved`].
    SaveSuperblock(Superblock),
    /// Keep this durably in the metadata file, then say [`crate::Event::Kept`]. What is asked for together may be kept
    /// together, in the order asked for.
    Keep(Keep),
    /// Let the group's clients go: what they asked is answered, and they should ask the other node from now on.
    DismissClients,
    /// Do this with the pool of before-images, then say [`crate::Event::PoolDone`]. One at a time.
    Pool(PoolOp),
    /// The engine needs this payload no more.
    Release(PayloadId),
    /// Stop (true) or resume (false) reading from the peer: its items fill our memory.
    PauseReceiving(bool),
    /// A command ended.
    CommandDone {
        /// Which.
        id: CommandId,
        /// Done or refused.
        result: Result<Done, Refusal>,
    },
    /// Something an operator may want to read in the log.
    Note(Note),
    /// A clean stop is complete: nothing more will be asked for.
    Stopped,
    /// Ask the operator's hook whether an update may begin, then say [`crate::Event::HookAnswered`] of this question. An answer to
    /// an earlier one counts no more.
    AskHook(HookQuestion),
}

/// How loud a note is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loudness {
    /// Ordinary.
    Info,
    /// Somebody should look.
    Warning,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How loud.
    pub loudness: Loudness,
    /// What happened.
    pub text: String,
}
