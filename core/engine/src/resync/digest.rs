// SPDX-License-Identifier: Apache-2.0
//! Digests of what the target holds: how many there are, and the target's side of telling them.
//!
//! The source asks ahead, in a bounded window; the target reads without any gate and answers in the order it was
//! asked, every question exactly once. So the source knows which answer belongs to which question, even where a
//! stream ended between the two. Nothing is read before the stream is adopted and what was received before it is
//! applied: from then on only its own items change the image, so that a digest that went stale can only make the source
//! ship too much. (An item of before may have failed at the source: its image is the one without it.)

use crate::effect::ReadAs;
use crate::event::StoreOutcome;
use crate::local::Local;
use crate::purpose::TellerIo;
use crate::resync::survey::STRETCH_MAX;
use crate::turn::Turn;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::copying::{Copying, DIGESTS_MAX, Digest};
use helio_format::message::Message;
use helio_plant::{Plant, planted};
use helio_stack::StoreOp;
use helio_units::{Bytes, Extent, VolumeIndex};

/// What one digest covers.
const BLOCK: Bytes = Bytes::kib(4);
/// What a coarse one covers.
const COARSE: Bytes = Bytes::kib(64);
/// Most bytes a source may have asked about without an answer: what a store that reads 640 MB/s gets through in
/// 50 ms, the round trip of a long link.
pub(crate) const ASKED_BYTES_MAX: Bytes = Bytes::mib(32);
/// The same before anything was ever answered: enough to learn which way costs less.
pub(crate) const ASKED_BLINDLY_MAX: Bytes = Bytes::mib(4);
/// Most questions a source may have open.
pub(crate) const ASKED_MAX: usize = 1024;
/// Most bytes of one question, but for a single region that is longer.
pub(crate) const RUN_BYTES_MAX: Bytes = Bytes::mib(1);
/// Bytes the target reads for digests at once: enough to keep a store busy, little beside what it applies.
const READING_MAX: Bytes = Bytes::mib(8);

/// Told where nothing could be read.
const UNREADABLE: Digest = [0xFF; 16];

/// What one digest covers, counted from where the extent begins; the last one may cover less.
#[must_use]
pub const fn digest_piece(coarse: bool) -> Bytes {
    if coarse { COARSE } else { BLOCK }
}

/// How many digests an extent has.
pub(crate) const fn digests_of(extent: Extent, coarse: bool) -> u64 {
    extent.length.div_ceil(digest_piece(coarse).0)
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// A digest per block.
    Blocks,
    /// A digest per region.
    Regions,
    /// Whether the whole extent is empty (`survey.rs`).
    Whole,
}

impl Pieces {
    /// How many digests answer it.
    fn count(self, extent: Extent) -> u64 {
        if self == Self::Whole { 0 } else { digests_of(extent, self == Self::Regions) }
    }

    /// Bytes that are read for it.
    fn read(self, extent: Extent) -> Bytes {
        if self == Self::Whole { Bytes::ZERO } else { Bytes(extent.length) }
    }
}

#[derive(Clone, Debug)]
enum Answer {
    Digests(Vec<Digest>),
    Empty(bool),
}

/// A question and how far its answer is.
#[derive(Clone, Debug)]
struct Asked {
    volume: VolumeIndex,
    extent: Extent,
    pieces: Pieces,
    /// Once it was read.
    answer: Option<Answer>,
}

impl Asked {
    /// Nothing is known: to be written anew.
    fn unknown(&self) -> Answer {
        match self.pieces {
            Pieces::Whole => Answer::Empty(false),
            pieces => Answer::Digests(vec![UNREADABLE; pieces.count(self.extent) as usize]),
        }
    }
}

/// The target's side, drawn above.
#[derive(Clone, Debug, Default)]
pub(crate) struct Teller {
    asked: VecDeque<Asked>,
    /// The number of the first of them.
    first: u64,
    /// How many of them are being read, or were.
    begun: usize,
    open: Bytes,
    reading: Bytes,
}

impl Teller {
    /// The source asks.
    ///
    /// # Errors
    /// It asks about what is not there, or more than it may: the connection must end.
    pub(crate) fn ask(
        &mut self,
        (volume, extent, pieces): (VolumeIndex, Extent, Pieces),
        turn: &Turn,
    ) -> Result<(), String> {
        let size = turn.config().volumes.get(usize::from(volume.0)).map_or(0, |b| b.0);
        let whole = extent.offset.is_multiple_of(BLOCK.0)
            && (extent.length.is_multiple_of(BLOCK.0) || extent.end() == size);
        let long = pieces == Pieces::Whole && Bytes(extent.length) > STRETCH_MAX;
        if extent.end() > size || !whole || long || pieces.count(extent) > DIGESTS_MAX as u64 {
            return Err(format!(
                "it requested digests of {extent} of volume {}, which has {size} bytes",
                turn.config().name_of(volume)
            ));
        }
        let bytes = self.open + pieces.read(extent);
        let full = self.asked.len() >= ASKED_MAX && !planted(Plant::FreeQuestions);
        if full || (bytes > ASKED_BYTES_MAX && !self.asked.is_empty()) {
            return Err(format!(
                "it requested digests of {bytes} at once, more than {ASKED_BYTES_MAX}"
            ));
        }
        self.open = bytes;
        self.asked.push_back(Asked { volume, extent, pieces, answer: None });
        Ok(())
    }

    /// Reads as much as may be read at once. What is suspect is not read: whatever it reads as, it must be written again.
    pub(crate) fn serve(&mut self, local: &mut Local, turn: &mut Turn) {
        while let Some(asked) = self.asked.get_mut(self.begun) {
            let length = asked.pieces.read(asked.extent);
            if self.reading > Bytes::ZERO && self.reading + length > READING_MAX {
                break;
            }
            if local.suspect().touches(asked.volume, asked.extent) {
                asked.answer = Some(asked.unknown());
                self.begun += 1;
                continue;
            }
            self.reading += length;
            let ask = self.first + self.begun as u64;
            let (volume, extent) = (asked.volume, asked.extent);
            self.begun += 1;
            if asked.pieces == Pieces::Whole {
                local.store(volume, StoreOp::Map { extent }, TellerIo::Empty(ask), turn);
            } else {
                let read_as = ReadAs::Digests { coarse: asked.pieces == Pieces::Regions };
                local.read((volume, extent), read_as, TellerIo::Digest { ask, length }, turn);
            }
        }
        self.tell(turn);
    }

    /// An operation of its own ended.
    pub(crate) fn ended(&mut self, io: TellerIo, outcome: StoreOutcome, turn: &mut Turn) {
        match io {
            TellerIo::Empty(ask) => self.looked(ask, &outcome, turn),
            TellerIo::Digest { ask, length } => self.read(ask, length, outcome, turn),
        }
    }

    /// A read for digests ended. What cannot be read is told as equal to nothing: to be written anew may mend it.
    fn read(&mut self, ask: u64, length: Bytes, outcome: StoreOutcome, turn: &mut Turn) {
        self.reading -= length;
        let Some(asked) = self.asked_mut(ask) else { return };
        match outcome {
            StoreOutcome::Digests(list) => asked.answer = Some(Answer::Digests(list)),
            StoreOutcome::Failed(fault) => {
                turn.warn(format!(
                    "volume {} cannot be read at {} for the resync: {fault}; the peer writes these blocks",
                    turn.config().name_of(asked.volume), asked.extent
                ));
                asked.answer = Some(asked.unknown());
            }
            other => panic!("digests were requested from the disk, which returned {other:?}"),
        }
        self.tell(turn);
    }

    /// The store told whether it holds anything there.
    fn looked(&mut self, ask: u64, outcome: &StoreOutcome, turn: &mut Turn) {
        let Some(asked) = self.asked_mut(ask) else { return };
        asked.answer = Some(Answer::Empty(matches!(outcome, StoreOutcome::Empty(true))));
        self.tell(turn);
    }

    /// A question; whoever asked it may be gone.
    fn asked_mut(&mut self, ask: u64) -> Option<&mut Asked> {
        let index = ask.checked_sub(self.first)? as usize;
        self.asked.get_mut(index)
    }

    /// The stream that these were asked for is not followed: every question gets its answer all the same, and a source
    /// that knows better ignores it.
    pub(crate) fn decline(&mut self, turn: &mut Turn) {
        for asked in self.asked.iter_mut().skip(self.begun) {
            asked.answer = Some(asked.unknown());
        }
        self.begun = self.asked.len();
        self.tell(turn);
    }

    /// Tells what is known, in the order it was asked.
    fn tell(&mut self, turn: &mut Turn) {
        while let Some(Asked { answer: Some(_), .. }) = self.asked.front() {
            let Some(Asked { volume, extent, pieces, answer: Some(answer) }) =
                self.asked.pop_front()
            else {
                return;
            };
            self.open -= pieces.read(extent);
            self.first += 1;
            self.begun -= 1;
            let coarse = pieces == Pieces::Regions;
            turn.send(Message::Copying(match answer {
                Answer::Digests(list) => Copying::Digests { volume, extent, coarse, list },
                Answer::Empty(empty) => Copying::Empty { volume, extent, empty },
            }));
        }
    }

    /// The connection is gone, and with it everybody who asked.
    pub(crate) fn forget(&mut self) {
        self.first += self.asked.len() as u64;
        self.asked.clear();
        self.begun = 0;
        self.open = Bytes::ZERO;
    }
}
