// SPDX-License-Identifier: Apache-2.0
//! The body of the page that says whether this file counts, of the two that a node may keep of its metadata.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0 | standing: 1 alone, 2 both, 3 stale |
//! | 1..8 | zero |
//! | 8..16 | epoch: raised with every change of the standing |
//! | 16..4064 | zero |
//!
//! | standing | meaning |
//! |---|---|
//! | alone | this file has everything; another one, if there is one, does not count |
//! | both | everything was on this file and the other one when this was written; the other one may say *alone* since |
//! | stale | this file does not count: it is being made like the other one, or that was cut off |
//!
//! A file without this page is the only one, and alone in epoch 0. The sequence in the page's header is the epoch, apart from
//! the count of the file. A body is valid if and only if every byte is as these tables say. Page, write order and version:
//! [`crate::page`].

use crate::cursor::{Reader, Short, Writer};
use crate::page::{BODY_BYTES, PageError};
use alloc::vec::Vec;

/// Whether a file counts; see the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has everything; another one does not count.
    Alone,
    /// Everything was on both files.
    Both,
    /// It does not count.
    Stale,
}

/// What a file says of itself and the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Whether it counts.
    pub standing: Standing,
    /// Raised with every change of the standing.
    pub epoch: u64,
}

impl FileRecord {
    /// Of a file without this page.
    pub const SINGLE: Self = Self { standing: Standing::Alone, epoch: 0 };
}

/// The body of the page.
#[must_use]
pub fn encode(record: FileRecord) -> [u8; BODY_BYTES] {
    let mut out = Vec::with_capacity(BODY_BYTES);
    let mut w = Writer(&mut out);
    w.u64(match record.standing {
        Standing::Alone => 1,
        Standing::Both => 2,
        Standing::Stale => 3,
    });
    w.u64(record.epoch);
    let mut body = [0; BODY_BYTES];
    body[..out.len()].copy_from_slice(&out);
    body
}

/// Reads the page.
///
/// # Errors
/// A byte of it is not as the tables say.
pub fn decode(body: &[u8; BODY_BYTES]) -> Result<FileRecord, PageError> {
    let mut r = Reader(body);
    let standing = match r.u64()? {
        1 => Standing::Alone,
        2 => Standing::Both,
        3 => Standing::Stale,
        _ => return Err(PageError::Damaged),
    };
    let epoch = r.count()?;
    if r.0.iter().any(|byte| *byte != 0) {
        return Err(Short.into());
    }
    Ok(FileRecord { standing, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_stands_where_the_table_says() {
        for (standing, code) in [(Standing::Alone, 1), (Standing::Both, 2), (Standing::Stale, 3)] {
            let record = FileRecord { standing, epoch: 0x0605 };
            let body = encode(record);
            assert_eq!((body[0], body[8], body[9]), (code, 5, 6));
            assert_eq!(decode(&body), Ok(record));
        }
    }

    #[test]
    fn what_the_table_does_not_have_is_damage() {
        for (at, value) in [(0, 0), (0, 4), (1, 1), (15, 0xFF), (16, 1), (BODY_BYTES - 1, 1)] {
            let mut odd = encode(FileRecord::SINGLE);
            odd[at] = value;
            assert_eq!(decode(&odd), Err(PageError::Damaged), "byte {at}");
        }
    }
}
