// SPDX-License-Identifier: Apache-2.0
//! What to write or send, in pieces that are not copied together.

use crate::buffer::Shared;
use std::io::IoSlice;
use std::ops::Range;

/// How many pieces go to the kernel in one call. The kernel takes 1024; this many fit the stack, and a
/// batch of more is sent in several calls.
const VECTOR: usize = 64;

/// One run of bytes to send or write.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes of its own: headers and other small things.
    Bytes(Vec<u8>),
    /// A range of a shared buffer: payload. A range outside the buffer fails the operation as a misfit.
    Shared(Shared, Range<usize>),
}

impl Piece {
    /// Bytes in the piece.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes().map_or(0, <[u8]>::len)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, or `None` where the range lies outside its buffer.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Shared(buffer, range) => buffer.get(range.clone()),
        }
    }
}

/// The bytes in all pieces, or `None` where one lies outside its buffer.
pub(crate) fn total(pieces: &[Piece]) -> Option<usize> {
    pieces.iter().try_fold(0, |sum, piece| Some(sum + piece.bytes()?.len()))
}

/// How far a list of pieces has been taken by the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    piece: usize,
    within: usize,
}

impl Cursor {
    /// Calls `act` with the next bytes not yet taken, as many pieces as one call carries, and with their
    /// total length. The list is empty at the end.
    pub(crate) fn with_slices<R>(
        self,
        pieces: &[Piece],
        act: impl FnOnce(&[IoSlice<'_>], usize) -> R,
    ) -> R {
        let mut slices = [IoSlice::new(&[]); VECTOR];
        let (mut count, mut length, mut skip) = (0, 0, self.within);
        for bytes in pieces.iter().skip(self.piece).filter_map(Piece::bytes) {
            let rest = bytes.get(skip..).unwrap_or_default();
            skip = 0;
            if rest.is_empty() {
                continue;
            }
            if count == VECTOR {
                break;
            }
            slices[count] = IoSlice::new(rest);
            count += 1;
            length += rest.len();
        }
        act(&slices[..count], length)
    }

    /// Notes that the kernel took `taken` more bytes.
    pub(crate) fn advance(&mut self, pieces: &[Piece], mut taken: usize) {
        while let Some(piece) = pieces.get(self.piece) {
            let left = piece.len() - self.within;
            if taken < left {
                self.within += taken;
                return;
            }
            taken -= left;
            self.piece += 1;
            self.within = 0;
        }
    }

    /// Whether all of it was taken.
    pub(crate) fn is_done(self, pieces: &[Piece]) -> bool {
        pieces.iter().skip(self.piece).map(Piece::len).sum::<usize>() == self.within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn however_the_kernel_splits_them_the_bytes_arrive_in_order(
            lengths in prop::collection::vec(0usize..300, 0..100),
            bites in prop::collection::vec(1usize..500, 1..20),
        ) {
            let mut source = Buffer::zeroed(lengths.iter().sum());
            for (index, byte) in source.iter_mut().enumerate() {
                *byte = (index % 251) as u8;
            }
            let source = source.into_shared();
            let mut at = 0;
            let mut pieces = Vec::new();
            for (index, length) in lengths.iter().enumerate() {
                let range = at..at + length;
                at += length;
                pieces.push(if index % 2 == 0 {
                    Piece::Bytes(source[range].to_vec())
                } else {
                    Piece::Shared(source.clone(), range)
                });
            }
            prop_assert_eq!(total(&pieces), Some(source.len()));
            let (mut cursor, mut taken) = (Cursor::default(), Vec::new());
            for bite in bites.iter().cycle() {
                if cursor.is_done(&pieces) {
                    break;
                }
                let count = cursor.with_slices(&pieces, |slices, length| {
                    let offered: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                    assert_eq!(offered.len(), length);
                    let count = length.min(*bite);
                    taken.extend_from_slice(&offered[..count]);
                    count
                });
                cursor.advance(&pieces, count);
            }
            prop_assert_eq!(&taken[..], &source[..]);
        }
    }

    #[test]
    fn a_range_outside_its_buffer_is_found_out() {
        let piece = Piece::Shared(Buffer::zeroed(10).into_shared(), 5..11);
        assert_eq!(total(&[piece]), None);
    }
}
