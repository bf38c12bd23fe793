// SPDX-License-Identifier: Apache-2.0
//! Numbers and structures of the kernel's interface, as `linux/ublk_cmd.h` of Linux 6.12 has them, byte by byte in the
//! machine's own order. The interface is stable; only what one volume needs is here.

use crate::Shape;
use crate::wire::bytes::{Reader, Writer};

/// Commands to `/dev/ublk-control`, with what is encoded around their number: direction, length of [`Command`], the
/// letter `u`, as ioctl(2) numbers are made.
pub(super) mod command {
    use super::Command;

    const fn numbered(direction: u32, number: u32) -> u32 {
        direction << 30 | (Command::BYTES as u32) << 16 | (b'u' as u32) << 8 | number
    }
    const fn asks(number: u32) -> u32 {
        numbered(2, number)
    }
    const fn does(number: u32) -> u32 {
        numbered(3, number)
    }
    pub(in crate::ublk) const GET_DEVICE: u32 = asks(0x02);
    pub(in crate::ublk) const ADD: u32 = does(0x04);
    pub(in crate::ublk) const DELETE: u32 = does(0x05);
    pub(in crate::ublk) const START: u32 = does(0x06);
    pub(in crate::ublk) const STOP: u32 = does(0x07);
    pub(in crate::ublk) const SET_PARAMETERS: u32 = does(0x08);
    pub(in crate::ublk) const GET_PARAMETERS: u32 = asks(0x09);
    pub(in crate::ublk) const START_RECOVERY: u32 = does(0x10);
    pub(in crate::ublk) const END_RECOVERY: u32 = does(0x11);
    pub(in crate::ublk) const GET_FEATURES: u32 = asks(0x13);
    pub(in crate::ublk) const DELETE_LATER: u32 = asks(0x14);
}

/// Commands to a device's own descriptor: the first one for a tag, and the answer that asks for the next.
pub(super) mod io {
    use super::Commit;

    const fn does(number: u32) -> u32 {
        3 << 30 | (Commit::BYTES as u32) << 16 | (b'u' as u32) << 8 | number
    }
    pub(in crate::ublk) const FETCH: u32 = does(0x20);
    pub(in crate::ublk) const COMMIT_AND_FETCH: u32 = does(0x21);
}

/// What a device can be made with.
pub(super) mod feature {
    /// It stays when its server goes.
    pub(in crate::ublk) const RECOVERY: u64 = 1 << 3;
    /// What was under way then is asked again.
    pub(in crate::ublk) const RECOVERY_REISSUE: u64 = 1 << 4;
    /// Commands have their numbers encoded.
    pub(in crate::ublk) const ENCODED: u64 = 1 << 6;
    /// Payload is read from and written to its descriptor.
    pub(in crate::ublk) const USER_COPY: u64 = 1 << 7;
    /// All of ours.
    pub(in crate::ublk) const WANTED: u64 = RECOVERY | RECOVERY_REISSUE | ENCODED | USER_COPY;
}

/// How a device is doing: it waits for a server.
pub(super) const QUIESCED: u16 = 2;
/// How a device is doing: it is served.
pub(super) const LIVE: u16 = 1;

/// Tags a queue can have at most: descriptors of queues lie that far apart.
pub(super) const DEPTH_MOST: usize = 4096;
/// Payload of all requests begins there on a device's descriptor.
const PAYLOAD_AT: u64 = 0x8000_0000;

/// Where the payload of a request lies on its device's descriptor.
pub(super) const fn payload_at(queue: u16, tag: u16) -> u64 {
    PAYLOAD_AT + ((queue as u64) << 41 | (tag as u64) << 25)
}

/// `ublksrv_ctrl_cmd`.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 4 | device |
/// | 4 | 2 | queue; all ones for none |
/// | 6 | 2 | length of what is pointed at |
/// | 8 | 8 | address of that |
/// | 16 | 8 | a number |
/// | 24 | 8 | a path's length, for devices of others than root; nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) device: u32,
    pub(super) length: u16,
    pub(super) address: u64,
    pub(super) number: u64,
}

impl Command {
    pub(super) const BYTES: usize = 32;

    /// As the second part of a submission takes it.
    pub(super) fn bytes(&self) -> [u8; 80] {
        let out = Writer::default().u32(self.device).u16(u16::MAX).u16(self.length);
        let bytes = out.u64(self.address).u64(self.number).zeroes(8).0;
        let mut whole = [0; 80];
        whole[..bytes.len()].copy_from_slice(&bytes);
        whole
    }
}

/// `ublksrv_ctrl_dev_info`.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 2 | queues |
/// | 2 | 2 | tags of one |
/// | 4 | 2 | how it is doing |
/// | 6 | 2 | nothing |
/// | 8 | 4 | longest payload |
/// | 12 | 4 | device; all ones for any |
/// | 16 | 8 | its server's process, nothing |
/// | 24 | 8 | features |
/// | 32 | 8 | the server's own, which the kernel only keeps |
/// | 40 | 24 | owner, nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) longest: u32,
    pub(super) device: u32,
    pub(super) features: u64,
    pub(super) mark: u64,
}

impl Info {
    pub(super) const BYTES: usize = 64;

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        let (sizes, state, longest, device) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
        r.skip(8)?;
        let (features, mark) = (r.u64()?, r.u64()?);
        let [queues, depth] = halves(sizes);
        let [state, _] = halves(state);
        Some(Self { queues, depth, state, longest, device, features, mark })
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let out = Writer::default().u16(self.queues).u16(self.depth).u16(self.state).u16(0);
        let out = out.u32(self.longest).u32(self.device).zeroes(8);
        out.u64(self.features).u64(self.mark).zeroes(24).0
    }
}

/// The two numbers that lie where one of twice their size was read.
const fn halves(both: u32) -> [u16; 2] {
    let [a, b, c, d] = both.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

/// `ublk_params`, as far as a plain disk needs it.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 8 | length of all, which parts are there: 1 the next, 2 the one after it |
/// | 8 | 4 | attributes: 1 read only, 2 rotational, 4 has a cache, 8 takes FUA |
/// | 12 | 4 | binary logarithms: logical block, physical block, best and least transfer |
/// | 16 | 8 | longest request, chunk, in sectors of 512 bytes |
/// | 24 | 8 | size in sectors |
/// | 32 | 8 | boundary in memory |
/// | 40 | 8 | alignment and granularity of discards, in bytes |
/// | 48 | 8 | longest discard, longest zeroing, in sectors |
/// | 56 | 4 | extents of one discard, nothing |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters(pub(super) Shape);

impl Parameters {
    pub(super) const BYTES: usize = 60;
    const READ_ONLY: u32 = 1;
    const CACHE: u32 = 4;
    const FUA: u32 = 8;
    /// The longest the kernel gives at once where it can: its lengths are 32 bits of bytes.
    const LONG_SECTORS: u32 = u32::MAX >> 9;

    pub(super) fn bytes(&self) -> Vec<u8> {
        let Shape { size, block, read_only, trims } = self.0;
        let shift = u32::from_ne_bytes([block.trailing_zeros() as u8; 4]);
        let attributes = Self::CACHE | Self::FUA | if read_only { Self::READ_ONLY } else { 0 };
        let out = Writer::default().u32(Self::BYTES as u32).u32(3).u32(attributes).u32(shift);
        let out = out.u32(crate::MAX_WRITE / 512).u32(0).u64(size.0 / 512).u64(0);
        let discard = if trims && !read_only {
            Self::LONG_SECTORS / (block / 512) * (block / 512)
        } else {
            0
        };
        let zero = if read_only { 0 } else { Self::LONG_SECTORS / (block / 512) * (block / 512) };
        out.u32(0).u32(block).u32(discard).u32(zero).u16(1).u16(0).0
    }
}

/// `ublksrv_io_desc`: one request.
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 4 | operation in the lowest byte, flags above |
/// | 4 | 4 | sectors of 512 bytes |
/// | 8 | 8 | first sector |
/// | 16 | 8 | an address of ours, where payload is not copied by us |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) operation: u8,
    pub(super) fua: bool,
    /// Zeroes must keep their space.
    pub(super) keeps: bool,
    pub(super) sectors: u32,
    pub(super) first: u64,
}

/// What is asked for.
pub(super) mod operation {
    pub(in crate::ublk) const READ: u8 = 0;
    pub(in crate::ublk) const WRITE: u8 = 1;
    pub(in crate::ublk) const FLUSH: u8 = 2;
    pub(in crate::ublk) const DISCARD: u8 = 3;
    pub(in crate::ublk) const ZERO: u8 = 5;
}

impl Descriptor {
    pub(super) const BYTES: usize = 24;
    const FUA: u32 = 1 << 13;
    const KEEPS: u32 = 1 << 15;

    pub(super) fn read(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut r = Reader(bytes);
        let (flags, sectors, first) = (r.u32()?, r.u32()?, r.u64()?);
        let [fua, keeps] = [Self::FUA, Self::KEEPS].map(|flag| flags & flag != 0);
        Some(Self { operation: (flags & 0xff) as u8, fua, keeps, sectors, first })
    }
}

/// `ublksrv_io_cmd`: queue u16, tag u16, result i32, eight bytes for what we do not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) queue: u16,
    pub(super) tag: u16,
    pub(super) result: i32,
}

impl Commit {
    pub(super) const BYTES: usize = 16;

    pub(super) fn bytes(&self) -> [u8; Self::BYTES] {
        let out = Writer::default().u16(self.queue).u16(self.tag).u32(self.result.cast_unsigned());
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&out.0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Bytes;
    use proptest::prelude::*;

    const SHAPE: Shape = Shape { size: Bytes::mib(8), block: 4096, read_only: false, trims: true };

    #[test]
    fn numbers_are_those_a_c_compiler_makes_of_the_header() {
        assert_eq!(command::ADD, 0xC020_7504);
        assert_eq!(command::GET_DEVICE, 0x8020_7502);
        assert_eq!(command::GET_FEATURES, 0x8020_7513);
        assert_eq!(command::DELETE_LATER, 0x8020_7514);
        assert_eq!((io::FETCH, io::COMMIT_AND_FETCH), (0xC010_7520, 0xC010_7521));
        assert_eq!(payload_at(1, 2), 0x8000_0000 + (1 << 41) + (2 << 25));
        assert_eq!(payload_at(0, 64), 0x1_0000_0000, "added, where bits meet");
    }

    #[test]
    fn structures_lie_where_the_kernel_looks_for_them() {
        let told = Command { device: 7, length: 64, address: 0x1122, number: 9 }.bytes();
        assert_eq!((&told[..4], &told[4..8]), (&7u32.to_ne_bytes()[..], &[255, 255, 64, 0][..]));
        assert_eq!(told[8..16], 0x1122u64.to_ne_bytes());
        assert_eq!(told[16..24], 9u64.to_ne_bytes());
        let parameters = Parameters(SHAPE).bytes();
        assert_eq!(parameters.len(), Parameters::BYTES);
        assert_eq!(
            (parameters[8], &parameters[12..16]),
            (12, &[12; 4][..]),
            "cache and FUA; 4 KiB"
        );
        assert_eq!(parameters[16..20], 2048u32.to_ne_bytes());
        assert_eq!(parameters[24..32], 16384u64.to_ne_bytes());
        assert_eq!(parameters[44..48], 4096u32.to_ne_bytes());
        assert_eq!(parameters[56..58], 1u16.to_ne_bytes());
        let commit = Commit { queue: 1, tag: 2, result: -5 }.bytes();
        assert_eq!((&commit[..4], &commit[4..8]), (&[1, 0, 2, 0][..], &(-5i32).to_ne_bytes()[..]));
    }

    #[test]
    fn what_may_not_be_changed_takes_no_discards() {
        let fixed = Parameters(Shape { read_only: true, ..SHAPE }).bytes();
        assert_eq!((fixed[8], &fixed[48..56]), (13, &[0; 8][..]));
        let firm = Parameters(Shape { trims: false, ..SHAPE }).bytes();
        assert_eq!(firm[48..52], [0; 4]);
        assert_ne!(firm[52..56], [0; 4]);
    }

    #[test]
    fn a_request_is_read() {
        let mut bytes = [0; Descriptor::BYTES];
        bytes[..4].copy_from_slice(&(1u32 | 1 << 13).to_ne_bytes());
        bytes[4..8].copy_from_slice(&8u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&16u64.to_ne_bytes());
        let read = Descriptor { operation: 1, fua: true, keeps: false, sectors: 8, first: 16 };
        assert_eq!(Descriptor::read(&bytes), Some(read));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            (queues, depth, state) in any::<(u16, u16, u16)>(),
            (longest, device, features, mark) in any::<(u32, u32, u64, u64)>(),
        ) {
            let info = Info { queues, depth, state, longest, device, features, mark };
            prop_assert_eq!(info.bytes().len(), Info::BYTES);
            prop_assert_eq!(Info::read(&info.bytes()), Some(info));
        }
    }
}
