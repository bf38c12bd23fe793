// SPDX-License-Identifier: Apache-2.0
//! The body of a directory page: which maps the file has, whose each is, and where its pages lie.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0..4 | next: the lowest map id that was never used when this page was written; at least 1 |
//! | 4..32 | zero |
//! | 32..4064 | 126 entries of 32 bytes |
//!
//! | bytes of an entry | field |
//! |---|---|
//! | 0 | owner: 0 the entry is free, 1 engine, 2 peer, 3 member, 4 copy |
//! | 1 | of a member: its number among those of its volume, from 0 to 5 |
//! | 2..4 | of a member: the number of its volume |
//! | 4..8 | of a peer or a copy: its number |
//! | 8..12 | map id, below `next` and not 0 |
//! | 12..16 | number of its first pair |
//! | 16..20 | how many pairs it has, at least 1 |
//! | 20..24 | zero |
//! | 24..32 | unit: how many bytes of a volume a bit or a slot stands for, a power of two |
//!
//! The map of the engine is made of hot pages ([`crate::hot`]); every other one is a bitmap ([`crate::marks`]). A body is
//! valid if and only if every field is as the tables say; bytes of an entry that its owner has no use for are zero. Of
//! all directory pages the highest `next` counts. Page, write order and version: [`crate::page`].

use crate::cursor::{Reader, Short, Writer};
use crate::members::MEMBERS_MAX;
use crate::message::VOLUMES_MAX;
use crate::page::{BODY_BYTES, PageError};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use helio_units::VolumeIndex;

/// Entries in one directory page: with four pages, room for six members of 64 volumes and 120 maps of others.
pub const ENTRIES_PER_PAGE: usize = 126;
const HEAD: usize = 32;
const ENTRY: usize = 32;

/// Whose map it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapOwner {
    /// The engine's hot extents.
    Engine,
    /// What may differ from the copy of a peer.
    Peer(u32),
    /// What a member missed.
    Member {
        /// Its volume.
        volume: VolumeIndex,
        /// Its number among the members of the volume.
        member: u8,
    },
    /// What was overwritten since a copy was made.
    Copy(u32),
}

/// One map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose it is.
    pub owner: MapOwner,
    /// Its id, unlike that of any map before in this file.
    pub id: u32,
    /// Number of its first pair.
    pub first: u32,
    /// How many pairs it has.
    pub pairs: u32,
    /// How many bytes a bit or a slot stands for.
    pub unit: u64,
}

/// What a directory page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The lowest map id that was never used.
    pub next: u32,
    /// Its entries, free ones too.
    pub slots: Vec<Option<Entry>>,
}

/// The body of a page with these entries.
///
/// # Panics
/// On values outside of the tables' bounds.
#[must_use]
pub fn encode(entries: &Entries) -> [u8; BODY_BYTES] {
    assert!(entries.slots.len() <= ENTRIES_PER_PAGE, "{} entries", entries.slots.len());
    let mut out = Vec::with_capacity(BODY_BYTES);
    let mut w = Writer(&mut out);
    w.u32(entries.next);
    for (at, slot) in entries.slots.iter().enumerate() {
        w.0.resize(HEAD + at * ENTRY, 0);
        let Some(entry) = slot else { continue };
        assert!(entry.is_valid(entries.next), "a map that cannot be: {entry:?}");
        let (code, member, volume, number) = match entry.owner {
            MapOwner::Engine => (1, 0, 0, 0),
            MapOwner::Peer(number) => (2, 0, 0, number),
            MapOwner::Member { volume, member } => (3, member, volume.0, 0),
            MapOwner::Copy(number) => (4, 0, 0, number),
        };
        w.u8(code);
        w.u8(member);
        w.u16(volume);
        for value in [number, entry.id, entry.first, entry.pairs, 0] {
            w.u32(value);
        }
        w.u64(entry.unit);
    }
    out.resize(BODY_BYTES, 0);
    let mut body = [0; BODY_BYTES];
    body.copy_from_slice(&out);
    body
}

/// Reads a page's entries.
///
/// # Errors
/// A byte of it is not as the tables say.
pub fn decode(body: &[u8; BODY_BYTES]) -> Result<Entries, PageError> {
    let mut r = Reader(body);
    let next = r.u32()?;
    if next == 0 || r.take(HEAD - 4)?.iter().any(|byte| *byte != 0) {
        return Err(PageError::Damaged);
    }
    let slots = (0..ENTRIES_PER_PAGE).map(|_| entry(r.take(ENTRY)?, next));
    Ok(Entries { next, slots: slots.collect::<Result<_, Short>>()? })
}

fn entry(bytes: &[u8], next: u32) -> Result<Option<Entry>, Short> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let mut r = Reader(bytes);
    let (code, member, volume, number) = (r.u8()?, r.u8()?, r.u16()?, r.u32()?);
    let (id, first, pairs, zero, unit) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?, r.u64()?);
    let owner = match (code, member, volume, number) {
        (1, 0, 0, 0) => MapOwner::Engine,
        (2, 0, 0, number) => MapOwner::Peer(number),
        (3, member, volume, 0) => MapOwner::Member { volume: VolumeIndex(volume), member },
        (4, 0, 0, number) => MapOwner::Copy(number),
        _ => return Err(Short),
    };
    let entry = Entry { owner, id, first, pairs, unit };
    if zero == 0 && entry.is_valid(next) { Ok(Some(entry)) } else { Err(Short) }
}

impl Entry {
    /// Its pairs.
    #[must_use]
    pub const fn range(&self) -> Range<u32> {
        self.first..self.first + self.pairs
    }

    fn is_valid(&self, next: u32) -> bool {
        let there = match self.owner {
            MapOwner::Member { volume, member } => {
                usize::from(volume.0) < VOLUMES_MAX && usize::from(member) < MEMBERS_MAX
            }
            MapOwner::Engine | MapOwner::Peer(_) | MapOwner::Copy(_) => true,
        };
        let placed = self.pairs > 0 && self.first.checked_add(self.pairs).is_some();
        there && placed && (1..next).contains(&self.id) && self.unit.is_power_of_two()
    }
}

impl fmt::Display for MapOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine => f.write_str("engine"),
            Self::Peer(number) => write!(f, "peer {number}"),
            Self::Member { volume, member } => write!(f, "volume {} member {member}", volume.0),
            Self::Copy(number) => write!(f, "copy {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn sample() -> Entries {
        let member = MapOwner::Member { volume: VolumeIndex(0x0102), member: 3 };
        let mut slots = vec![None; ENTRIES_PER_PAGE];
        let engine = Entry { owner: MapOwner::Engine, id: 1, first: 7, pairs: 4, unit: 4 << 20 };
        slots[0] = Some(engine);
        slots[1] = Some(Entry { owner: MapOwner::Peer(9), id: 2, first: 11, ..engine });
        let member = Entry { owner: member, id: 0x0506, first: 0x0708, ..engine };
        slots[125] = Some(Entry { owner: MapOwner::Copy(7), ..member });
        Entries { next: 0x0A00, slots }
    }

    #[test]
    fn entries_come_back_and_stand_where_the_table_says() {
        let mut entries = sample();
        let volume = VolumeIndex(63);
        entries.slots[2] = entries.slots[125]
            .map(|entry| Entry { owner: MapOwner::Member { volume, member: 5 }, ..entry });
        let body = encode(&entries);
        assert_eq!(body[..6], [0, 0x0A, 0, 0, 0, 0]);
        let third: &[u8] = &[
            3, 5, 63, 0, 0, 0, 0, 0, 6, 5, 0, 0, 8, 7, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0,
            0, 0, 0, 0,
        ];
        assert_eq!(&body[96..128], third);
        assert_eq!((body[32], body[64], body[68], body[4032], body[4036]), (1, 2, 9, 4, 7));
        assert_eq!(decode(&body), Ok(entries));
    }

    #[test]
    fn what_the_tables_do_not_have_is_damage() {
        let body = encode(&sample());
        for (at, value) in [
            (0, 1),
            (4, 1),
            (31, 1),
            (32, 5),
            (33, 1),
            (36, 1),
            (40, 0),
            (41, 0x0A),
            (48, 0),
            (52, 1),
            (56, 1),
            (96, 1),
            (4033, 6),
        ] {
            let mut odd = body;
            odd[at] = value;
            let whole = at == 0;
            assert_eq!(decode(&odd).is_ok(), whole, "byte {at}");
        }
        assert_eq!(decode(&[0; BODY_BYTES]), Err(PageError::Damaged), "a map id is never 0");
    }
}
