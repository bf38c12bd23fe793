// SPDX-License-Identifier: Apache-2.0
//! Messages of FUSE as the kernel writes them, and what it accepts as a response. Written from the kernel's header, not from the
//! product's code.

use helio_units::Extent;

/// Bytes before the body of a message, and of a response.
pub(super) const HEADER: usize = 40;
const RESPONSE: usize = 16;

/// Numbers of operations.
pub(super) mod opcode {
    pub(in crate::kernel) const LOOKUP: u32 = 1;
    pub(in crate::kernel) const FORGET: u32 = 2;
    pub(in crate::kernel) const GETATTR: u32 = 3;
    pub(in crate::kernel) const SETATTR: u32 = 4;
    pub(in crate::kernel) const OPEN: u32 = 14;
    pub(in crate::kernel) const READ: u32 = 15;
    pub(in crate::kernel) const WRITE: u32 = 16;
    pub(in crate::kernel) const STATFS: u32 = 17;
    pub(in crate::kernel) const RELEASE: u32 = 18;
    pub(in crate::kernel) const FSYNC: u32 = 20;
    pub(in crate::kernel) const FLUSH: u32 = 25;
    pub(in crate::kernel) const INIT: u32 = 26;
    pub(in crate::kernel) const INTERRUPT: u32 = 36;
    pub(in crate::kernel) const DESTROY: u32 = 38;
    pub(in crate::kernel) const BATCH_FORGET: u32 = 42;
    pub(in crate::kernel) const FALLOCATE: u32 = 43;
}

/// What the kernel accepts as a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expects {
    /// None must come.
    Nothing,
    /// So many bytes behind the header, or one of these errors.
    Body(usize, &'static [i32]),
    /// This error.
    Error(i32),
    /// Whatever it is, if anything.
    Anything,
}

/// Errors that a request may end with which has nothing wrong with it.
pub(super) const FAILURES: &[i32] = &[libc::EIO, libc::ENOSPC];
/// The same of a discard: a volume may have none, by its file.
pub(super) const DISCARD_FAILURES: &[i32] = &[libc::EIO, libc::ENOSPC, libc::EOPNOTSUPP];

/// A message. All that the daemon needs of the header is set.
pub(super) fn message(unique: u64, opcode: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    out.extend_from_slice(&opcode.to_ne_bytes());
    out.extend_from_slice(&unique.to_ne_bytes());
    // The root, which is the file.
    out.extend_from_slice(&1_u64.to_ne_bytes());
    // User, group, process; extensions.
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(body);
    out
}

/// Numbers behind one another.
#[derive(Default)]
pub(super) struct Body(pub(super) Vec<u8>);

impl Body {
    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }
}

/// The versions and abilities of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// The abilities that a kernel offers. All of them: the daemon chooses.
pub(super) const OFFERED: u32 = 0x7fff_ffff;
const READAHEAD: u32 = 131_072;

pub(super) fn init(version: Version) -> Vec<u8> {
    let body = Body::default().u32(version.major).u32(version.minor).u32(READAHEAD).u32(OFFERED);
    // Kernels from 7.36 on have more abilities, and room for others.
    let more = if version.minor >= 36 { 48 } else { 0 };
    let mut bytes = body.0;
    bytes.resize(bytes.len() + more, 0);
    bytes
}

/// READ and WRITE without its payload.
pub(super) fn transfer(extent: Extent, forced: bool) -> Vec<u8> {
    let flags = libc::O_RDWR | libc::O_DIRECT | if forced { libc::O_DSYNC } else { 0 };
    let body = Body::default().u64(0).u64(extent.offset).u32(extent.length as u32).u32(0);
    body.u64(0).u32(flags as u32).u32(0).0
}

pub(super) fn fallocate(extent: Extent, mode: i32) -> Vec<u8> {
    Body::default().u64(0).u64(extent.offset).u64(extent.length).u32(mode as u32).u32(0).0
}

pub(super) fn open(writes: bool) -> Vec<u8> {
    let access = if writes { libc::O_RDWR } else { libc::O_RDONLY };
    Body::default().u32((access | libc::O_DIRECT) as u32).u32(0).0
}

/// Takes a response apart: its unique number, and its body or error.
///
/// # Errors
/// Why the kernel refuses it.
pub(super) fn response(bytes: &[u8]) -> Result<(u64, Result<&[u8], i32>), String> {
    let head = bytes.first_chunk::<RESPONSE>().ok_or("a response without a header")?;
    let word = |at: usize| {
        head[at..at + 4].iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let unique = u64::from(word(8)) | u64::from(word(12)) << 32;
    if word(0) as usize != bytes.len() {
        return Err(format!("a response of {} bytes that says it has {}", bytes.len(), word(0)));
    }
    let error = word(4) as i32;
    if error > 0 || error <= -512 {
        return Err(format!("a response with the error {error}"));
    }
    if error != 0 && bytes.len() > RESPONSE {
        return Err(format!("a response with the error {error} and a body"));
    }
    Ok((unique, if error == 0 { Ok(&bytes[RESPONSE..]) } else { Err(-error) }))
}

impl Expects {
    /// Whether a response must come.
    pub(super) const fn is_owed(self) -> bool {
        !matches!(self, Self::Nothing | Self::Anything)
    }

    /// Whether a response is one that the kernel accepts and that is promised.
    pub(super) fn admits(self, result: Result<&[u8], i32>) -> bool {
        match (self, result) {
            (Self::Nothing, _) | (Self::Error(_), Ok(_)) => false,
            (Self::Anything, _) => true,
            (Self::Body(length, _), Ok(body)) => body.len() == length,
            (Self::Body(_, errors), Err(error)) => errors.contains(&error),
            (Self::Error(wanted), Err(error)) => wanted == error,
        }
    }
}

/// A number in a body.
pub(super) fn number(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// A long number in a body.
pub(super) fn long(body: &[u8], at: usize) -> Option<u64> {
    body.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
