// SPDX-License-Identifier: Apache-2.0
//! Bytes as decisions, from the front. Behind the end there is nothing more to do, and every number is zero.

/// See the module.
#[derive(Debug)]
pub(super) struct Schedule<'a>(&'a [u8]);

impl<'a> Schedule<'a> {
    pub(super) const fn of(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next byte, if there is one.
    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A byte as a number.
    pub(super) fn number(&mut self) -> u32 {
        self.next().unwrap_or_default().into()
    }

    /// A number below that one.
    pub(super) fn below(&mut self, below: u8) -> u8 {
        self.next().unwrap_or_default() % below
    }

    /// Two bytes as a number.
    pub(super) fn word(&mut self) -> u32 {
        self.number() | self.number() << 8
    }

    /// So many bytes, or as many as there are.
    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// Bytes behind a byte that says how many.
    pub(super) fn bytes(&mut self) -> &'a [u8] {
        let count = self.number() as usize;
        self.take(count)
    }
}
