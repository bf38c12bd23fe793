// SPDX-License-Identifier: Apache-2.0
//! What the kernel is told.

use super::bytes::Writer;
use super::{MAX_WRITE, MINOR};

/// The 16 bytes before a body of that length.
fn head(unique: u64, body: usize) -> Writer {
    Writer::default().u32(16 + body as u32).u32(0).u64(unique)
}

/// An answer: the head, and the body behind it. What a read found is sent behind an empty one with its length named.
pub(crate) fn answer(unique: u64, body: &[u8], payload: usize) -> Vec<u8> {
    let mut out = head(unique, body.len() + payload).0;
    out.extend_from_slice(body);
    out
}

/// A refusal, with the number errno(3) has.
pub(crate) fn error(unique: u64, errno: i32) -> Vec<u8> {
    Writer::default().u32(16).u32((-errno) as u32).u64(unique).0
}

/// The answer to INIT.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 8 | major, minor version |
/// | 8 | 4 | longest read-ahead |
/// | 12 | 4 | flags agreed on |
/// | 16 | 2 | requests in the background at once |
/// | 18 | 2 | from how many on the kernel counts us as congested |
/// | 20 | 4 | longest write |
/// | 24 | 4 | granularity of times, in nanoseconds |
/// | 28 | 2 | pages of one request |
/// | 30 | 34 | nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) minor: u32,
    pub(crate) readahead: u32,
    pub(crate) flags: u32,
    pub(crate) background: u16,
}

impl Greeting {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().u32(super::MAJOR).u32(self.minor.min(MINOR));
        let out = out.u32(self.readahead).u32(self.flags);
        let out = out.u16(self.background).u16(self.background);
        let pages = (MAX_WRITE / 4096) as u16;
        out.u32(MAX_WRITE).u32(1).u16(pages).zeroes(34).0
    }
}

/// The answer to GETATTR and SETATTR: how long it holds (seconds u64, nanoseconds u32, nothing u32), then the
/// attributes: ino, size, blocks of 512 bytes u64; three times u64 and their nanoseconds u32; mode, links, user, group,
/// device, block size, nothing u32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) block: u32,
}

/// Nothing of the file changes while it is there.
const HOLDS_SECONDS: u64 = 3600;

impl Attributes {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().u64(HOLDS_SECONDS).zeroes(8);
        let out = out.u64(1).u64(self.size).u64(self.size / 512).zeroes(24 + 12);
        // One link, the owner is root, no device.
        out.u32(self.mode).u32(1).zeroes(12).u32(self.block).zeroes(4).0
    }
}

/// The answer to OPEN: handle u64, flags u32, nothing u32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened;

impl Opened {
    /// Nothing of the file is kept in the page cache.
    const DIRECT_IO: u32 = 1;
    /// No FLUSH when it is closed.
    const NO_FLUSH: u32 = 1 << 5;
    /// Writes need not wait for each other.
    const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

    pub(crate) fn bytes() -> Vec<u8> {
        let flags = Self::DIRECT_IO | Self::NO_FLUSH | Self::PARALLEL_DIRECT_WRITES;
        Writer::default().u64(0).u32(flags).zeroes(4).0
    }
}

/// The answer to STATFS: blocks, free, available, files, free files u64; block size, name length, fragment size u32;
/// 28 bytes of nothing. The loop device discards in units of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) size: u64,
    pub(crate) block: u32,
}

impl Statistics {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().u64(self.size / u64::from(self.block.max(1))).zeroes(16);
        out.u64(1).u64(0).u32(self.block).u32(255).u32(self.block).zeroes(28).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_long_as_the_kernel_wants_them() {
        let greeting = Greeting { minor: 36, readahead: 0, flags: 0, background: 64 };
        assert_eq!(greeting.bytes().len(), 64);
        assert_eq!(Attributes { size: 4096, mode: 0, block: 512 }.bytes().len(), 104);
        assert_eq!(Opened::bytes().len(), 16);
        assert_eq!(Statistics { size: 4096, block: 4096 }.bytes().len(), 80);
    }

    #[test]
    fn numbers_lie_where_the_kernel_looks_for_them() {
        let attributes = Attributes { size: 0x0102_0304_0506, mode: 0o100_600, block: 4096 };
        let bytes = attributes.bytes();
        assert_eq!(bytes[24..32], 0x0102_0304_0506u64.to_ne_bytes());
        assert_eq!(bytes[76..80], 0o100_600u32.to_ne_bytes());
        assert_eq!(bytes[80..84], 1u32.to_ne_bytes());
        assert_eq!(bytes[96..100], 4096u32.to_ne_bytes());
        let statistics = Statistics { size: 1 << 30, block: 4096 }.bytes();
        assert_eq!(statistics[..8], (1u64 << 18).to_ne_bytes());
        assert_eq!(statistics[40..44], 4096u32.to_ne_bytes());
        let greeting = Greeting { minor: 99, readahead: 0, flags: 5, background: 64 }.bytes();
        assert_eq!(greeting[4..8], MINOR.to_ne_bytes());
        assert_eq!(greeting[20..24], MAX_WRITE.to_ne_bytes());
        assert_eq!(greeting[28..30], 256u16.to_ne_bytes());
    }

    #[test]
    fn an_answer_names_its_whole_length_and_an_error_is_negated() {
        let told = answer(7, b"abc", 100);
        assert_eq!((&told[..4], told.len()), (&119u32.to_ne_bytes()[..], 19));
        let refused = error(7, libc::EIO);
        assert_eq!(refused[4..8], (-libc::EIO).to_ne_bytes());
        assert_eq!(refused[8..], 7u64.to_ne_bytes());
    }
}
