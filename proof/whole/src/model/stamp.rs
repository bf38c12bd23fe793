// SPDX-License-Identifier: Apache-2.0
//! What clients write: every sector identifies the write that put it there.
//!
//! | bytes of a sector | content, little-endian |
//! |---|---|
//! | 0..8 | number of the write, never 0 |
//! | 8..10 | volume |
//! | 10..12 | the word `0x5e1f` |
//! | 12..16 | lower 32 bits of the sector's number |
//! | 16..512 | filler, derived from the bytes before |

use std::fmt;

/// Bytes of a sector, the unit that a write changes as a whole or not at all.
pub const SECTOR: usize = 512;

const MARK: u16 = 0x5e1f;

/// A sector of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which volume of the group.
    pub volume: u16,
    /// Which sector of it.
    pub sector: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {} of volume {}", self.sector, self.volume)
    }
}

/// What a sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Zeros, whichever write put them there.
    Zeros,
    /// The bytes of the write of this number.
    Write(u64),
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("zeros"),
            Self::Write(number) => write!(f, "the bytes of write {number}"),
        }
    }
}

/// Why the bytes of a sector are not what any client wrote there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// They are the bytes of another sector.
    Elsewhere {
        /// Of this write.
        write: u64,
        /// The volume they were written to.
        volume: u16,
        /// Lower 32 bits of the sector's number.
        sector: u32,
    },
    /// They were written by no client, or are parts of several sectors.
    Strange {
        /// The first byte that does not fit the bytes before it.
        at: usize,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere { write, volume, sector } => {
                write!(f, "the bytes that write {write} put at sector {sector} of volume {volume}")
            }
            Self::Strange { at } => write!(f, "bytes that no client wrote, from byte {at} on"),
        }
    }
}

/// The filler of a sector, in words of eight bytes.
fn filler(write: u64, volume: u16, sector: u32) -> impl Iterator<Item = [u8; 8]> {
    let seed = write ^ (u64::from(volume) << 48) ^ (u64::from(sector) << 20);
    // Steps of a linear congruential generator: distinct words suffice here.
    let step = |state: &u64| {
        Some(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f))
    };
    let states = std::iter::successors(step(&seed), step);
    states.map(|state| (state ^ (state >> 29)).to_le_bytes())
}

fn whole(write: u64, volume: u16, sector: u32) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    bytes[..8].copy_from_slice(&write.to_le_bytes());
    bytes[8..10].copy_from_slice(&volume.to_le_bytes());
    bytes[10..12].copy_from_slice(&MARK.to_le_bytes());
    bytes[12..16].copy_from_slice(&sector.to_le_bytes());
    for (word, filler) in bytes[16..].chunks_exact_mut(8).zip(filler(write, volume, sector)) {
        word.copy_from_slice(&filler);
    }
    bytes
}

/// Appends the sectors that the write of that number puts there, from `first` on.
pub fn stamp(write: u64, first: Place, sectors: u64, out: &mut Vec<u8>) {
    out.reserve(sectors as usize * SECTOR);
    for sector in first.sector..first.sector + sectors {
        out.extend_from_slice(&whole(write, first.volume, sector as u32));
    }
}

/// What the bytes of one sector are.
///
/// # Errors
/// They are not what a client wrote to that place.
pub fn read(bytes: &[u8], place: Place) -> Result<Content, Flaw> {
    if bytes == [0; SECTOR] {
        return Ok(Content::Zeros);
    }
    let Some(head) = bytes.first_chunk::<16>() else { return Err(Flaw::Strange { at: 0 }) };
    let [n @ .., v0, v1, m0, m1, s0, s1, s2, s3] = head;
    let write = n.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (volume, sector) =
        (u16::from_le_bytes([*v0, *v1]), u32::from_le_bytes([*s0, *s1, *s2, *s3]));
    if u16::from_le_bytes([*m0, *m1]) != MARK {
        return Err(Flaw::Strange { at: 10 });
    }
    let mut words = bytes[16..].chunks_exact(8).zip(filler(write, volume, sector));
    if bytes.len() != SECTOR || !words.all(|(word, filler)| *word == filler) {
        let expected = whole(write, volume, sector);
        let same = expected.iter().zip(bytes).take_while(|(one, other)| one == other);
        return Err(Flaw::Strange { at: same.count() });
    }
    if (volume, sector) != (place.volume, place.sector as u32) {
        return Err(Flaw::Elsewhere { write, volume, sector });
    }
    Ok(Content::Write(write))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { volume: 3, sector: 70_000 };

    #[test]
    fn a_sector_identifies_its_write() {
        let mut bytes = Vec::new();
        stamp(u64::MAX - 5, PLACE, 2, &mut bytes);
        assert_eq!(read(&bytes[..SECTOR], PLACE), Ok(Content::Write(u64::MAX - 5)));
        let next = Place { sector: PLACE.sector + 1, ..PLACE };
        assert_eq!(read(&bytes[SECTOR..], next), Ok(Content::Write(u64::MAX - 5)));
        assert_eq!(read(&[0; SECTOR], PLACE), Ok(Content::Zeros));
    }

    #[test]
    fn misplaced_torn_and_strange_bytes_are_recognised() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        stamp(7, PLACE, 1, &mut one);
        stamp(8, PLACE, 1, &mut other);
        let next = Place { sector: 1, ..PLACE };
        let elsewhere = Flaw::Elsewhere { write: 7, volume: 3, sector: 70_000 };
        assert_eq!(read(&one, next), Err(elsewhere));
        one[256..].copy_from_slice(&other[256..]);
        assert_eq!(read(&one, PLACE), Err(Flaw::Strange { at: 256 }));
        assert_eq!(read(&[9; SECTOR], PLACE), Err(Flaw::Strange { at: 10 }));
    }
}
