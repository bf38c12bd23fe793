// SPDX-License-Identifier: Apache-2.0
//! Messages that arrive in pieces. A message that arrives whole is not copied here.

use std::borrow::Cow;

/// The front of a message whose rest is still to come.
#[derive(Debug, Default)]
pub(super) struct Partial {
    held: Vec<u8>,
}

impl Partial {
    /// How much of `input` was used, and the header once it is complete.
    pub(super) fn header<const N: usize>(&mut self, input: &[u8]) -> (usize, Option<[u8; N]>) {
        if self.held.is_empty()
            && let Some(whole) = input.first_chunk::<N>()
        {
            return (N, Some(*whole));
        }
        let used = self.hold(input, N);
        let whole = self.held.first_chunk::<N>().copied();
        if whole.is_some() {
            self.held.clear();
        }
        (used, whole)
    }

    /// How much of `input` was used, and the `length` bytes once they are complete. The caller bounds
    /// `length`, and with it what is held.
    pub(super) fn data<'a>(
        &mut self,
        input: &'a [u8],
        length: usize,
    ) -> (usize, Option<Cow<'a, [u8]>>) {
        if self.held.is_empty()
            && let Some(whole) = input.get(..length)
        {
            return (length, Some(Cow::Borrowed(whole)));
        }
        let used = self.hold(input, length);
        let complete = self.held.len() == length;
        (used, complete.then(|| Cow::Owned(std::mem::take(&mut self.held))))
    }

    /// Keeps what is missing to `wanted` bytes, and says how much of `input` that was.
    fn hold(&mut self, input: &[u8], wanted: usize) -> usize {
        let used = wanted.saturating_sub(self.held.len()).min(input.len());
        // Exactly: doubling would hold up to twice the bound.
        self.held.reserve_exact(wanted.saturating_sub(self.held.len()));
        self.held.extend_from_slice(&input[..used]);
        used
    }

    /// Bytes of memory held.
    pub(super) fn capacity(&self) -> usize {
        self.held.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_in_pieces_comes_out_whole() {
        let mut partial = Partial::default();
        assert_eq!(partial.header::<4>(b"ab"), (2, None));
        assert_eq!(partial.header::<4>(b"cdef"), (2, Some(*b"abcd")));
        assert_eq!(partial.header::<4>(b"efgh"), (4, Some(*b"efgh")));
    }

    #[test]
    fn data_that_is_all_there_is_lent_and_not_copied() {
        let mut partial = Partial::default();
        assert!(matches!(partial.data(b"abcd", 3), (3, Some(Cow::Borrowed(b"abc")))));
        assert_eq!(partial.data(b"a", 2), (1, None));
        assert_eq!(partial.data(b"bc", 2), (1, Some(Cow::Owned(b"ab".to_vec()))));
        assert!(matches!(partial.data(b"", 0), (0, Some(_))));
    }
}
