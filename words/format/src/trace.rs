// SPDX-License-Identifier: Apache-2.0
//! Trace files: what applications asked of a group's volumes, and when, without a byte of their data.
//!
//! A header, then blocks, one behind the other; the last one is an end. Every block can be read without those in front
//! of it, so a trace that was cut off, or has a damaged block, tells all the rest.
//!
//! Header, magic `HLTR`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (1) |
//! | 6..8 | volumes, at least one and at most [`VOLUMES_MAX`] |
//! | 8..12 | bytes of the header, its checksum included |
//! | 12..16 | zero |
//! | 16..24 | when the recording began, milliseconds since 1970 |
//! | 24.. | name of the group, then per volume its size in bytes (u64) and its name; a name is a length byte and UTF-8 |
//! | last 4 | CRC-32C of everything in front |
//!
//! Block, magic `HLTB`, 40 bytes and its body:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..8 | bytes of the body; zero for an end |
//! | 8..12 | requests in it, at most [`REQUESTS_MAX`]; zero for an end |
//! | 12..16 | 1 requests, 2 end |
//! | 16..24 | moment: of the first request, or when the recording ended; nanoseconds since it began |
//! | 24..32 | dropped: requests that came since the block in front and were not recorded |
//! | 32..36 | CRC-32C of the body |
//! | 36..40 | CRC-32C of bytes 0..36 |
//!
//! A request in a body. A varint has 7 bits a byte, the lowest first, the highest bit saying that more follow:
//!
//! | field | meaning |
//! |---|---|
//! | byte | bits 0..3 kind (0 read, 1 write, 2 zero, 3 discard, 4 flush); 3 FUA; 4 a volume follows; 5 places are in sectors of 512 bytes, otherwise in bytes; 6 the length is that of the request before; 7 zero |
//! | varint | nanoseconds since the request before, or since the block's moment |
//! | varint | with bit 4: the volume, where it is not that of the request before (volume 0 for the first) |
//! | varint | but for a flush: offset less the end of the request before, zigzag (0, −1, 1, −2, …) |
//! | varint | but for a flush, and without bit 6: the length |
//!
//! "The request before" is the one before in the same block; places and lengths pass over flushes. A block is valid if
//! and only if magic, checksums and counts are right and no shorter way to say the same is left: bits 4, 5 and 6 are set
//! exactly where they can be, and no varint ends in a zero byte.

use crate::Checksum;
use crate::cursor::{Reader, Short, Writer};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use helio_units::{Bytes, Extent, Items, Moment, SECTOR, VolumeIndex, WallTime};

/// The format this build writes.
pub const VERSION: u16 = 1;
/// What a trace begins with.
pub const MAGIC: [u8; 4] = *b"HLTR";
const BLOCK_MAGIC: [u8; 4] = *b"HLTB";
/// The most volumes of a trace.
pub const VOLUMES_MAX: usize = 1 << 10;
/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes that say how long the header is.
pub const HEADER_LEAD_BYTES: usize = 16;
/// The longest header.
pub const HEADER_BYTES_MAX: usize =
    28 + 1 + NAME_BYTES_MAX + VOLUMES_MAX * (8 + 1 + NAME_BYTES_MAX);
/// Bytes in front of a block's body.
pub const BLOCK_HEAD_BYTES: usize = 40;
/// The most requests of a block.
pub const REQUESTS_MAX: usize = 4096;
/// The longest way to say a request: its tag, two varints of ten bytes, one of three, and one of ten.
const REQUEST_BYTES_MAX: usize = 34;
/// The longest body.
pub const BODY_BYTES_MAX: usize = REQUESTS_MAX * REQUEST_BYTES_MAX;

const FUA: u8 = 1 << 3;
const OTHER_VOLUME: u8 = 1 << 4;
const IN_SECTORS: u8 = 1 << 5;
const SAME_LENGTH: u8 = 1 << 6;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The bytes of the extent.
    Read,
    /// New bytes for the extent.
    Write,
    /// Zeros for the extent.
    Zero,
    /// The extent's space may be freed.
    Discard,
    /// Everything answered on the volume becomes durable. It has no extent.
    Flush,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Zero, Self::Discard, Self::Flush];

    /// The word in tables and in CSV.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Zero => "zero",
            Self::Discard => "discard",
            Self::Flush => "flush",
        }
    }

    /// The kind of that word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether it changes what the volume reads as, so that the peer must hear of it.
    #[must_use]
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Zero | Self::Discard)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One request, in 32 bytes: an hour of 2,000 a second is 7.2 million of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was made, by a clock that stood at zero when the recording began.
    pub at: Moment,
    /// Where; empty at byte 0 for a flush.
    pub extent: Extent,
    /// On which of the volumes.
    pub volume: VolumeIndex,
    /// What.
    pub kind: Kind,
    /// It is answered only once it is durable; never set for a read or a flush.
    pub fua: bool,
}

const _: () = assert!(size_of::<Request>() <= 32);

/// A volume of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name, at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its size.
    pub size: Bytes,
}

/// Why bytes are no trace, or no block of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// They do not begin as a trace does.
    Foreign,
    /// Another version wrote them.
    Version {
        /// Which.
        found: u16,
    },
    /// Something in them is wrong.
    Damaged,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("is not a trace of Heliograph"),
            Self::Version { found } => {
                write!(f, "has format version {found}, this build reads {VERSION}")
            }
            Self::Damaged => f.write_str("is damaged"),
        }
    }
}

impl core::error::Error for TraceError {}

impl From<Short> for TraceError {
    fn from(_: Short) -> Self {
        Self::Damaged
    }
}

/// What a trace begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// When the recording began.
    pub began: WallTime,
    /// The group whose volumes these are; empty where it was none.
    pub group: String,
    /// The volumes, which requests name by their index.
    pub volumes: Vec<Volume>,
}

impl Header {
    /// The header's bytes. More volumes and longer names than the bounds are our own mistake.
    #[must_use]
    pub fn encode(&self, checksum: Checksum) -> Vec<u8> {
        let count = self.volumes.len();
        assert!((1..=VOLUMES_MAX).contains(&count), "a trace of {count} volumes");
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.0.extend_from_slice(&MAGIC);
        w.u16(VERSION);
        w.u16(count as u16);
        w.u64(0);
        w.u64(self.began.0);
        name(&mut w, &self.group);
        for volume in &self.volumes {
            w.u64(volume.size.0);
            name(&mut w, &volume.name);
        }
        let length = bytes.len() as u32 + 4;
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// How long the header is, from its first bytes.
    ///
    /// # Errors
    /// They do not begin a trace that this build reads.
    pub fn length(lead: &[u8; HEADER_LEAD_BYTES]) -> Result<usize, TraceError> {
        let mut r = Reader(lead);
        if r.take(4)? != MAGIC {
            return Err(TraceError::Foreign);
        }
        let found = r.u16()?;
        if found != VERSION {
            return Err(TraceError::Version { found });
        }
        let (_volumes, length) = (r.u16()?, r.u32()? as usize);
        let least = HEADER_LEAD_BYTES + 8 + 1 + 9 + 4;
        if (least..=HEADER_BYTES_MAX).contains(&length) {
            Ok(length)
        } else {
            Err(TraceError::Damaged)
        }
    }

    /// Reads a header that is exactly `bytes`.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(bytes: &[u8], checksum: Checksum) -> Result<Self, TraceError> {
        let lead = bytes.first_chunk().ok_or(TraceError::Damaged)?;
        if Self::length(lead)? != bytes.len() {
            return Err(TraceError::Damaged);
        }
        let (fields, sum) = bytes.split_at(bytes.len() - 4);
        if checksum(fields).to_le_bytes() != sum {
            return Err(TraceError::Damaged);
        }
        Ok(Self::fields(&mut Reader(&fields[6..]))?)
    }

    fn fields(r: &mut Reader<'_>) -> Result<Self, Short> {
        let count = usize::from(r.u16()?);
        let (_length, zero) = (r.u32()?, r.u32()?);
        if !(1..=VOLUMES_MAX).contains(&count) || zero != 0 {
            return Err(Short);
        }
        let began = WallTime(r.u64()?);
        let group = text(r)?;
        let mut volumes = Vec::new();
        for _ in 0..count {
            let size = Bytes(r.u64()?);
            volumes.push(Volume { name: text(r)?, size });
        }
        r.finished()?;
        Ok(Self { began, group, volumes })
    }
}

fn name(w: &mut Writer<'_>, name: &str) {
    assert!(name.len() <= NAME_BYTES_MAX, "a name of {} bytes reached a trace", name.len());
    w.u8(name.len() as u8);
    w.0.extend_from_slice(name.as_bytes());
}

fn text(r: &mut Reader<'_>) -> Result<String, Short> {
    let length = usize::from(r.u8()?);
    core::str::from_utf8(r.take(length)?).map(String::from).map_err(|_| Short)
}

/// What stands in front of a block's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// Bytes of the body.
    pub body: usize,
    /// Requests in it.
    pub requests: usize,
    /// It is the last one, and says when the recording ended.
    pub end: bool,
    /// Of the first request, or of the end.
    pub at: Moment,
    /// Requests that came since the block in front and were not recorded.
    pub dropped: Items,
    sum: u32,
}

impl BlockHead {
    fn encode(&self, checksum: Checksum) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = Vec::with_capacity(BLOCK_HEAD_BYTES);
        let mut w = Writer(&mut bytes);
        w.0.extend_from_slice(&BLOCK_MAGIC);
        w.u32(self.body as u32);
        w.u32(self.requests as u32);
        w.u32(if self.end { 2 } else { 1 });
        w.u64(self.at.0);
        w.u64(self.dropped.0);
        w.u32(self.sum);
        let sum = checksum(w.0);
        w.u32(sum);
        bytes.try_into().unwrap_or_else(|_| unreachable!("the fields above are 40 bytes"))
    }

    /// Reads what stands in front of a body.
    ///
    /// # Errors
    /// It is damaged, so where the next block begins is not known.
    pub fn decode(bytes: &[u8; BLOCK_HEAD_BYTES], checksum: Checksum) -> Result<Self, TraceError> {
        let (fields, sum) = bytes.split_at(BLOCK_HEAD_BYTES - 4);
        if checksum(fields).to_le_bytes() != sum || fields[..4] != BLOCK_MAGIC {
            return Err(TraceError::Damaged);
        }
        let mut r = Reader(&fields[4..]);
        let (body, requests, kind) = (r.u32()? as usize, r.u32()? as usize, r.u32()?);
        let (at, dropped, sum) = (Moment(r.u64()?), Items(r.u64()?), r.u32()?);
        let end = match (kind, requests, body) {
            (1, 1..=REQUESTS_MAX, 2..=BODY_BYTES_MAX) => false,
            (2, 0, 0) => true,
            _ => return Err(TraceError::Damaged),
        };
        Ok(Self { body, requests, end, at, dropped, sum })
    }

    /// Reads the body behind it, and appends its requests; appends nothing where it is damaged.
    ///
    /// # Errors
    /// It is damaged; the next block begins behind it all the same.
    pub fn decode_body(
        &self,
        body: &[u8],
        checksum: Checksum,
        out: &mut Vec<Request>,
    ) -> Result<(), TraceError> {
        let before = out.len();
        let mut read = || {
            if body.len() != self.body || checksum(body) != self.sum {
                return Err(Short);
            }
            let mut r = Reader(body);
            let mut last = Last::new(self.at);
            for n in 0..self.requests {
                let request = last.decode(&mut r)?;
                if n == 0 && request.at != self.at {
                    return Err(Short);
                }
                out.push(request);
            }
            r.finished()
        };
        read().map_err(|Short| {
            out.truncate(before);
            TraceError::Damaged
        })
    }
}

/// Appends a block of these requests, at least one and at most [`REQUESTS_MAX`], in the order of their moments.
pub fn encode_block(requests: &[Request], dropped: Items, checksum: Checksum, out: &mut Vec<u8>) {
    assert!((1..=REQUESTS_MAX).contains(&requests.len()), "a block of {}", requests.len());
    let at = requests[0].at;
    let begin = out.len();
    out.resize(begin + BLOCK_HEAD_BYTES, 0);
    let mut last = Last::new(at);
    let mut w = Writer(out);
    for request in requests {
        last.encode(&mut w, request);
    }
    let body = &out[begin + BLOCK_HEAD_BYTES..];
    let (length, sum) = (body.len(), checksum(body));
    let requests = requests.len();
    let head = BlockHead { body: length, requests, end: false, at, dropped, sum };
    out[begin..begin + BLOCK_HEAD_BYTES].copy_from_slice(&head.encode(checksum));
}

/// Appends the end of a recording.
pub fn encode_end(at: Moment, dropped: Items, checksum: Checksum, out: &mut Vec<u8>) {
    let head = BlockHead { body: 0, requests: 0, end: true, at, dropped, sum: checksum(&[]) };
    out.extend_from_slice(&head.encode(checksum));
}

/// What a request is told against.
struct Last {
    at: Moment,
    volume: VolumeIndex,
    end: u64,
    length: u64,
}

impl Last {
    fn new(at: Moment) -> Self {
        Self { at, volume: VolumeIndex(0), end: 0, length: 0 }
    }

    fn encode(&mut self, w: &mut Writer<'_>, request: &Request) {
        let Extent { offset, length } = request.extent;
        let flush = request.kind == Kind::Flush;
        let sectors = !flush && in_sectors(request.extent);
        let same = !flush && length == self.length;
        let other = request.volume != self.volume;
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        w.u8(number(request.kind)
            | flag(request.fua, FUA)
            | flag(other, OTHER_VOLUME)
            | flag(sectors, IN_SECTORS)
            | flag(same, SAME_LENGTH));
        varint(w, nanos(request.at.since(self.at)));
        if other {
            varint(w, request.volume.0.into());
        }
        (self.at, self.volume) = (self.at.max(request.at), request.volume);
        if flush {
            return;
        }
        let unit = if sectors { SECTOR } else { 1 };
        varint(w, zigzag((offset / unit).wrapping_sub(self.end / unit)));
        if !same {
            varint(w, length / unit);
        }
        (self.end, self.length) = (request.extent.end(), length);
    }

    fn decode(&mut self, r: &mut Reader<'_>) -> Result<Request, Short> {
        let tag = r.u8()?;
        let kind = *Kind::ALL.get(usize::from(tag & 7)).ok_or(Short)?;
        let set = |bit| tag & bit != 0;
        let flush = kind == Kind::Flush;
        if tag >= 0x80
            || (set(FUA) && !kind.changes())
            || (flush && (set(IN_SECTORS) || set(SAME_LENGTH)))
        {
            return Err(Short);
        }
        let at = Moment(self.at.0.checked_add(read_varint(r)?).ok_or(Short)?);
        let mut volume = self.volume;
        if set(OTHER_VOLUME) {
            volume = VolumeIndex(u16::try_from(read_varint(r)?).map_err(|_| Short)?);
            if volume == self.volume {
                return Err(Short);
            }
        }
        (self.at, self.volume) = (at, volume);
        let mut extent = Extent::default();
        if !flush {
            let unit = if set(IN_SECTORS) { SECTOR } else { 1 };
            let offset = (self.end / unit).wrapping_add(unzigzag(read_varint(r)?));
            extent.offset = offset.checked_mul(unit).ok_or(Short)?;
            extent.length = match set(SAME_LENGTH) {
                true => self.length,
                false => read_varint(r)?.checked_mul(unit).ok_or(Short)?,
            };
            let told_twice = !set(SAME_LENGTH) && extent.length == self.length;
            if told_twice || in_sectors(extent) != set(IN_SECTORS) {
                return Err(Short);
            }
            (self.end, self.length) = (extent.end(), extent.length);
        }
        Ok(Request { at, extent, volume, kind, fua: set(FUA) })
    }
}

fn in_sectors(extent: Extent) -> bool {
    extent.offset.is_multiple_of(SECTOR) && extent.length.is_multiple_of(SECTOR)
}

const fn number(kind: Kind) -> u8 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Zero => 2,
        Kind::Discard => 3,
        Kind::Flush => 4,
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Small differences of either sign become small numbers.
const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

fn varint(w: &mut Writer<'_>, mut value: u64) {
    while value >= 0x80 {
        w.u8(value as u8 | 0x80);
        value >>= 7;
    }
    w.u8(value as u8);
}

fn read_varint(r: &mut Reader<'_>) -> Result<u64, Short> {
    let mut value = 0;
    for n in 0..10 {
        let byte = r.u8()?;
        let bits = u64::from(byte & 0x7f);
        if n == 9 && bits > 1 {
            return Err(Short);
        }
        value |= bits << (7 * n);
        if byte < 0x80 {
            return if byte == 0 && n > 0 { Err(Short) } else { Ok(value) };
        }
    }
    Err(Short)
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
