// SPDX-License-Identifier: Apache-2.0
//! How a stream is cut: the first bytes of an input say it, and nothing may depend on it.

/// Takes a byte off the front; zero behind the end.
pub(crate) fn byte(data: &mut &[u8]) -> u8 {
    let Some((first, rest)) = data.split_first() else { return 0 };
    *data = rest;
    *first
}

/// Takes two bytes off the front, little-endian.
pub(crate) fn word(data: &mut &[u8]) -> usize {
    usize::from(byte(data)) | usize::from(byte(data)) << 8
}

/// Lengths of pieces, over and over: two of them, each at least one byte long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cuts([usize; 2]);

impl Cuts {
    /// The stream in one piece.
    pub(crate) const WHOLE: Self = Self([usize::MAX; 2]);

    /// As two bytes say.
    pub(crate) fn take(data: &mut &[u8]) -> Self {
        Self([usize::from(byte(data)) + 1, usize::from(byte(data)) + 1])
    }

    /// The stream cut so.
    pub(crate) fn of(self, mut stream: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut lengths = self.0.into_iter().cycle();
        std::iter::from_fn(move || {
            let length = lengths.next()?.min(stream.len());
            let (piece, rest) = stream.split_at(length);
            stream = rest;
            (!piece.is_empty()).then_some(piece)
        })
    }
}
