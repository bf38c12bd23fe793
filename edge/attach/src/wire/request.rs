// SPDX-License-Identifier: Apache-2.0
//! What the kernel says.

use super::bytes::Reader;
#[cfg(test)]
use super::bytes::Writer;

/// The operations that are answered with more than "not here".
pub(crate) mod opcode {
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
}

/// Every message begins with it.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 4 | length of the whole message |
/// | 4 | 4 | operation |
/// | 8 | 8 | unique number, for the answer |
/// | 16 | 8 | node: 1 is the file |
/// | 24 | 12 | user, group, process that asks |
/// | 36 | 4 | extensions: none are agreed on |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) opcode: u32,
    pub(crate) unique: u64,
    pub(crate) node: u64,
}

impl Header {
    pub(crate) const BYTES: usize = 40;

    /// The header, and what follows it.
    pub(crate) fn split(message: &[u8]) -> Option<(Self, &[u8])> {
        let mut r = Reader(message);
        let header = Self { length: r.u32()?, opcode: r.u32()?, unique: r.u64()?, node: r.u64()? };
        r.skip(16)?;
        Some((header, r.0))
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().u32(self.length).u32(self.opcode).u64(self.unique);
        out.u64(self.node).zeroes(16).0
    }
}

/// INIT: what the kernel speaks and can do.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 4 | major version |
/// | 4 | 4 | minor version |
/// | 8 | 4 | longest read-ahead |
/// | 12 | 4 | flags |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Introduction {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) readahead: u32,
    pub(crate) flags: u32,
}

impl Introduction {
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut r = Reader(body);
        Some(Self { major: r.u32()?, minor: r.u32()?, readahead: r.u32()?, flags: r.u32()? })
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().u32(self.major).u32(self.minor).u32(self.readahead);
        out.u32(self.flags).zeroes(48).0
    }
}

/// READ and WRITE take the same: where, how much, and the flags the file was opened with, or this one write was made
/// with. A write's payload follows.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 8 | handle |
/// | 8 | 8 | offset |
/// | 16 | 4 | length |
/// | 20 | 4 | flags of the transfer |
/// | 24 | 8 | owner of locks |
/// | 32 | 4 | flags of the open file |
/// | 36 | 4 | nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) flags: u32,
}

impl Transfer {
    pub(crate) const BYTES: usize = 40;

    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut r = Reader(body);
        r.skip(8)?;
        let (offset, length) = (r.u64()?, r.u32()?);
        r.skip(12)?;
        let flags = r.u32()?;
        r.skip(4)?;
        Some(Self { offset, length, flags })
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().zeroes(8).u64(self.offset).u32(self.length).zeroes(12);
        out.u32(self.flags).zeroes(4).0
    }
}

/// FALLOCATE.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 8 | handle |
/// | 8 | 8 | offset |
/// | 16 | 8 | length |
/// | 24 | 4 | mode, as fallocate(2) has it |
/// | 28 | 4 | nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fallocate {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) mode: u32,
}

impl Fallocate {
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        let mut r = Reader(body);
        r.skip(8)?;
        Some(Self { offset: r.u64()?, length: r.u64()?, mode: r.u32()? })
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        Writer::default().zeroes(8).u64(self.offset).u64(self.length).u32(self.mode).zeroes(4).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        let header = Header { length: 0, opcode: 0, unique: 0, node: 0 };
        assert_eq!(header.bytes().len(), Header::BYTES);
        let first = Introduction { major: 7, minor: 31, readahead: 0, flags: 0 };
        assert_eq!(first.bytes().len(), 64);
        let transfer = Transfer { offset: 0, length: 0, flags: 0 };
        assert_eq!(transfer.bytes().len(), Transfer::BYTES);
        assert_eq!(Fallocate { offset: 0, length: 0, mode: 0 }.bytes().len(), 32);
    }

    #[test]
    fn a_message_that_is_cut_is_none() {
        let transfer = Transfer { offset: 1, length: 2, flags: 3 }.bytes();
        for cut in 0..transfer.len() {
            assert_eq!(Transfer::read(&transfer[..cut]), None);
        }
        assert!(Header::split(&[0; 39]).is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            (length, opcode, flags, mode) in any::<(u32, u32, u32, u32)>(),
            (unique, node, offset, span) in any::<(u64, u64, u64, u64)>(),
        ) {
            let header = Header { length, opcode, unique, node };
            let mut message = header.bytes();
            message.push(9);
            prop_assert_eq!(Header::split(&message), Some((header, &[9][..])));
            let transfer = Transfer { offset, length, flags };
            prop_assert_eq!(Transfer::read(&transfer.bytes()), Some(transfer));
            let fallocate = Fallocate { offset, length: span, mode };
            prop_assert_eq!(Fallocate::read(&fallocate.bytes()), Some(fallocate));
            let first = Introduction { major: length, minor: opcode, readahead: mode, flags };
            prop_assert_eq!(Introduction::read(&first.bytes()), Some(first));
        }
    }
}
