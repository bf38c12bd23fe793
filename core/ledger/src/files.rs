// SPDX-License-Identifier: Apache-2.0
//! Two metadata files of one group on a node: which one counts, and how one that does not count is made to count again.
//!
//! Each file has a record: *alone*, *both* or *stale*, and an epoch ([`helio_format::files`]). A file that fails is given up:
//! the other file records *alone* before any later change is reported as durable. So a file that says *both* may be out of date if
//! the other file is not there, and is refused.
//!
//! | one file | the other | |
//! |---|---|---|
//! | alone | unreadable | the first counts |
//! | alone | both, stale or never written | the first counts, the other one is made like it |
//! | alone | alone | refused: each of them went on by itself |
//! | both | both, of a later epoch | the other one counts, the first is made like it |
//! | both | both, of the same epoch | the one with the higher sequence counts, the other one is made like it |
//! | both | stale | the first counts, the other one is made like it: a crash cut that off |
//! | both | unreadable or never written | refused: the other one may have gone on |
//! | stale | stale, unreadable or never written | refused |
//! | never written | never written | a new group |
//! | never written | unreadable | refused: the other one may be the group's |
//! | unreadable | unreadable | refused |
//! | never written | not configured | a new group |
//! | any other | not configured | as beside one that is unreadable |
//!
//! A file is made like the other one in five steps, each of them durable before the next ([`join`]):
//!
//! ```text
//!   the other      the one that counts
//!   1 stale                                 from here on it does not count
//!                  2 alone, epoch e+1       from here on this one counts without it
//!   3 all pages copied, but for the record
//!                  4 both, epoch e+2        beside a stale one it still counts
//!   5 both, epoch e+2
//! ```

use crate::directory::FILES_AT;
use crate::open::MetadataFile;
use alloc::vec::Vec;
use core::fmt;
use helio_format::Checksum;
use helio_format::files::{self, FileRecord, Standing};
use helio_format::page::{self, Header, Kind, PAGE_BYTES, PAIR_BYTES, PageError, Place};

/// What was found where a file is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No such file is configured.
    None,
    /// It cannot be opened, or a daemon cannot use it.
    Unreadable,
    /// It was never written.
    Blank,
    /// A file that can be used.
    There {
        /// What it says of itself.
        record: FileRecord,
        /// Its metadata sequence.
        sequence: u64,
    },
}

/// What is done with two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Neither was ever written.
    New,
    /// This one counts (0 or 1). The other one is made like it, if it can be written.
    Use(usize),
    /// Neither is trusted.
    Refuse(Distrust),
}

/// Why neither file is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// This one (0 or 1) can be read, and the other one may have gone on without it.
    MayBeOld(usize),
    /// This one (0 or 1) cannot be read, and may be the group's; the other one was never written.
    MayExist(usize),
    /// Each says that the other one does not count.
    BothAlone,
    /// No file is left that counts.
    NoneCounts,
}

/// The table above.
#[must_use]
pub fn choose(seen: [Seen; 2]) -> Choice {
    use Standing::{Alone, Both, Stale};
    let standing = seen.map(|seen| match seen {
        Seen::There { record, .. } => Some(record.standing),
        Seen::None | Seen::Unreadable | Seen::Blank => None,
    });
    match standing {
        [Some(Alone), Some(Alone)] => Choice::Refuse(Distrust::BothAlone),
        [Some(Alone), _] => Choice::Use(0),
        [_, Some(Alone)] => Choice::Use(1),
        [Some(Both), Some(Both)] => Choice::Use(usize::from(age(seen[1]) > age(seen[0]))),
        [Some(Both), Some(Stale)] => Choice::Use(0),
        [Some(Stale), Some(Both)] => Choice::Use(1),
        [Some(Both), None] => Choice::Refuse(Distrust::MayBeOld(0)),
        [None, Some(Both)] => Choice::Refuse(Distrust::MayBeOld(1)),
        [None, None] => match seen {
            [Seen::Blank, Seen::Blank | Seen::None] | [Seen::None, Seen::Blank] => Choice::New,
            [Seen::Unreadable, Seen::Blank] => Choice::Refuse(Distrust::MayExist(0)),
            [Seen::Blank, Seen::Unreadable] => Choice::Refuse(Distrust::MayExist(1)),
            _ => Choice::Refuse(Distrust::NoneCounts),
        },
        [Some(Stale), Some(Stale) | None] | [None, Some(Stale)] => {
            Choice::Refuse(Distrust::NoneCounts)
        }
    }
}

/// What makes a file newer than another one.
fn age(seen: Seen) -> Option<(u64, u64)> {
    match seen {
        Seen::There { record, sequence } => Some((record.epoch, sequence)),
        Seen::None | Seen::Unreadable | Seen::Blank => None,
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MayBeOld(_) => {
                "only one of its two metadata files can be read, and the other one may be newer"
            }
            Self::MayExist(_) => {
                "one of its two metadata files cannot be read, and the other one was never written"
            }
            Self::BothAlone => "each of its two metadata files was used without the other one",
            Self::NoneCounts => "none of its metadata files is complete",
        })
    }
}

/// What a file says of itself, by the two copies of its record. None if neither can be used.
pub fn record<F: MetadataFile + ?Sized>(file: &F, checksum: Checksum) -> Option<FileRecord> {
    let [a, b] = [0, 1].map(|copy| {
        let mut page = [0; PAGE_BYTES];
        if !file.page(offset(copy), &mut page) {
            return Err(PageError::Damaged);
        }
        let (header, body) = page::decode(&page, checksum)?;
        header.belongs(Place::fixed(Kind::Files, 0), header.owner)?;
        files::decode(body)
    });
    match (a, b) {
        (Ok(a), Ok(b)) => Some(if b.epoch > a.epoch { b } else { a }),
        (Ok(record), Err(_)) | (Err(_), Ok(record)) => Some(record),
        // Never written, or torn in its first write.
        (Err(PageError::Empty | PageError::Damaged), Err(PageError::Empty)) => {
            Some(FileRecord::SINGLE)
        }
        (Err(_), Err(_)) => None,
    }
}

const fn offset(copy: u64) -> u64 {
    FILES_AT as u64 * PAIR_BYTES as u64 + copy * PAGE_BYTES as u64
}

/// The page of a record in a file with this owner's mark, which is written at [`record_places`], copy A first.
#[must_use]
pub fn record_page(record: FileRecord, owner: u32, checksum: Checksum) -> Vec<u8> {
    let header = Header { place: Place::fixed(Kind::Files, 0), owner, sequence: record.epoch };
    page::encode(&header, &files::encode(record), checksum)
}

/// The byte offsets of both copies of the record.
#[must_use]
pub const fn record_places() -> [u64; 2] {
    [offset(0), offset(1)]
}

/// A metadata file that is also written.
pub trait WritableFile: MetadataFile {
    /// What a failed operation says.
    type Error;

    /// Writes bytes at a byte offset.
    ///
    /// # Errors
    /// The file cannot be written.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The file cannot be made durable.
    fn flush(&mut self) -> Result<(), Self::Error>;
}

/// What became of a file that was to be made like the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined<E> {
    /// Both count.
    Both,
    /// The other one is given up, and the one that counts says so.
    GivenUp(E),
}

/// Makes `other` like `counts`, by the five steps above. Both have the same length; nothing else writes to them. Returns
/// the record of the one that counts, and what became of the other one.
///
/// # Errors
/// The one that counts cannot be written. It counts nevertheless at the next opening.
pub fn join<F: WritableFile>(
    counts: &mut F,
    other: &mut F,
    epoch: u64,
    owner: u32,
    checksum: Checksum,
) -> Result<(FileRecord, Joined<F::Error>), F::Error> {
    let page = |standing, epoch| record_page(FileRecord { standing, epoch }, owner, checksum);
    let stale = put(other, &page(Standing::Stale, epoch));
    let alone = FileRecord { standing: Standing::Alone, epoch: epoch + 1 };
    put(counts, &record_page(alone, owner, checksum))?;
    if let Err(error) = stale.and_then(|()| copy(counts, other)) {
        return Ok((alone, Joined::GivenUp(error)));
    }
    let both = FileRecord { standing: Standing::Both, epoch: epoch + 2 };
    put(counts, &record_page(both, owner, checksum))?;
    if let Err(error) = put(other, &page(both.standing, both.epoch)) {
        let alone = FileRecord { standing: Standing::Alone, epoch: epoch + 3 };
        put(counts, &record_page(alone, owner, checksum))?;
        return Ok((alone, Joined::GivenUp(error)));
    }
    Ok((both, Joined::Both))
}

/// Writes a record: copy A, flush, copy B, flush.
fn put<F: WritableFile>(file: &mut F, page: &[u8]) -> Result<(), F::Error> {
    record_places().into_iter().try_for_each(|place| {
        file.write(place, page)?;
        file.flush()
    })
}

/// Copies all pages that differ, but for the record.
fn copy<F: WritableFile>(from: &F, to: &mut F) -> Result<(), F::Error> {
    let (mut one, mut two) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    for number in 0..from.length() / PAGE_BYTES as u64 {
        let at = number * PAGE_BYTES as u64;
        if record_places().contains(&at) {
            continue;
        }
        if !from.page(at, &mut one) {
            // What cannot be read here is repaired from its second copy; the other file gets a page that is damaged too.
            one = [0xFF; PAGE_BYTES];
        }
        if !to.page(at, &mut two) || one != two {
            to.write(at, &one)?;
        }
    }
    to.flush()
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
