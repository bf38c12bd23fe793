// SPDX-License-Identifier: Apache-2.0
//! Places: on a volume, on a group's line, in the pool of payloads.

use core::fmt;

/// Which volume of a group, by its order in the group's configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeIndex(pub u16);

/// Which member of a volume on this node, counted from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIndex(pub u8);

/// A run of bytes on one volume: `offset` to `offset + length`, never empty on a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes covered.
    pub length: u64,
}

impl Extent {
    /// The extent that begins at `offset` and covers `length` bytes.
    #[must_use]
    pub const fn new(offset: u64, length: u64) -> Self {
        Self { offset, length }
    }

    /// The first byte behind the extent; `u64::MAX` where the sum would overflow.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// Whether the two share at least one byte.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset, self.length)
    }
}

/// A place on one generation's line; the first item is 1, and 0 means "before any".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first item.
    pub const ZERO: Self = Self(0);

    /// The next place.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A stretch of history written by one primary: its number counts up, its tag makes two primaries that
/// started from the same point tell apart. Number 0 is a node that never took part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Counts up with every fork.
    pub number: u64,
    /// Drawn at random when the generation began.
    pub tag: u64,
}

impl Generation {
    /// Of a node that never took part.
    pub const NONE: Self = Self { number: 0, tag: 0 };
}

/// Prints as `3.9f02`: the number and the last four hexadecimal digits of the tag.
impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04x}", self.number, self.tag & 0xffff)
    }
}

/// A place on a group's line. Positions of different generations compare only through a fork point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Which stretch of history.
    pub generation: Generation,
    /// Where in it.
    pub sequence: Sequence,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.generation, self.sequence)
    }
}

/// A client's request, named by the front end that must answer it exactly once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One operation on a local store, named by the engine that must hear its end exactly once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// A buffer in the daemon's pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PayloadId(pub u64);

/// What the engine knows of a write's bytes: where they are and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Payload {
    /// The buffer.
    pub id: PayloadId,
    /// Bytes of it that belong to the write.
    pub length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_touching_end_to_end_do_not_overlap() {
        let a = Extent::new(0, 4096);
        assert!(!a.overlaps(Extent::new(4096, 512)));
        assert!(a.overlaps(Extent::new(4095, 1)));
        assert!(Extent::new(u64::MAX - 1, 10).end() == u64::MAX);
    }
}
