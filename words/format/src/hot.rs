// SPDX-License-Identifier: Apache-2.0
//! The body of a hot page: extents that may differ from the peer's because writes to them are under way.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0..4064 | 508 slots of 8 bytes: 0 free, else 1 + the extent's number |
//!
//! An extent is 4 MiB of the group's bytes, in which every volume begins at a multiple of 4 MiB; its number counts
//! them from 0. A body is valid if and only if every number is one of the group's. The same extent in two slots means
//! what one means: a crash between the two page writes that move it leaves that. Slots are filled in any order, so
//! that an extent turns hot with one page written. Page, write order and version: [`crate::page`].

use crate::page::{self, BODY_BYTES, BODY_WORDS, PageError, Words};
use alloc::boxed::Box;

/// Slots in one page.
pub const SLOTS_PER_PAGE: usize = BODY_WORDS;
/// Size of an extent in bytes.
pub const EXTENT_BYTES: u64 = 4 << 20;

/// The body of a page with these slots.
#[must_use]
pub fn encode(slots: &Words) -> [u8; BODY_BYTES] {
    page::of_words(slots)
}

/// Reads the slots of a page of a group that has that many extents.
///
/// # Errors
/// A slot names an extent that the group does not have.
pub fn decode(body: &[u8; BODY_BYTES], extents: u64) -> Result<Box<Words>, PageError> {
    let slots = page::words(body);
    if slots.iter().any(|slot| *slot > extents) { Err(PageError::Damaged) } else { Ok(slots) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_and_stand_where_the_table_says() {
        let mut slots = [0; SLOTS_PER_PAGE];
        (slots[0], slots[1], slots[507]) = (1, 0x0201, 900);
        let body = encode(&slots);
        assert_eq!((body[0], body[8], body[9], body[4056], body[4057]), (1, 1, 2, 0x84, 3));
        assert_eq!(decode(&body, 900).as_deref(), Ok(&slots));
    }

    #[test]
    fn an_extent_that_the_group_does_not_have_is_damage() {
        let mut slots = [0; SLOTS_PER_PAGE];
        slots[3] = 11;
        assert_eq!(decode(&encode(&slots), 10), Err(PageError::Damaged));
        assert!(decode(&encode(&slots), 11).is_ok(), "number 10 is the eleventh");
    }
}
