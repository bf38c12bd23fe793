// SPDX-License-Identifier: Apache-2.0
//! The body of a mark page: one bit per region that may differ from the peer's.
//!
//! | bytes of the body | field |
//! |---|---|
//! | 0..4064 | 32512 bits: bit `b` of byte `n` is region `8 * n + b` of the page |
//!
//! A region is as many bytes as the superblock's granularity says. Regions are numbered through the group, the volumes
//! one behind the other, each beginning with a region of its own; page `p` holds those from `32512 * p`. A body is valid
//! if and only if the bits behind the group's last region are zero. A page never written has no bit set. Page, write
//! order and version: [`crate::page`].

use crate::page::{self, BODY_BYTES, PageError, Words};
use alloc::boxed::Box;

/// Regions in one page. With the feature `small-pages`, which only the simulator's build has, a page is as long and holds the
/// marks of 64 regions: the small volumes of the simulator have many pages.
pub const REGIONS_PER_PAGE: u32 =
    if cfg!(feature = "small-pages") { 64 } else { 8 * BODY_BYTES as u32 };

/// The body of a page with these bits: region `64 * n + b` is bit `b` of word `n`.
#[must_use]
pub fn encode(bits: &Words) -> [u8; BODY_BYTES] {
    page::of_words(bits)
}

/// Reads the bits of a page that holds that many regions.
///
/// # Errors
/// A bit behind the last region is set.
pub fn decode(body: &[u8; BODY_BYTES], regions: u32) -> Result<Box<Words>, PageError> {
    let bits = page::words(body);
    if within(&bits, regions) { Ok(bits) } else { Err(PageError::Damaged) }
}

/// Whether no bit is set behind the first `regions`.
#[must_use]
pub fn within(bits: &Words, regions: u32) -> bool {
    let (whole, rest) = ((regions / 64) as usize, regions % 64);
    bits.iter().enumerate().skip(whole).all(|(at, word)| {
        let allowed = if at == whole { (1 << rest) - 1 } else { 0 };
        word & !allowed == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::BODY_WORDS;

    #[test]
    fn bits_come_back_and_stand_where_the_table_says() {
        let mut bits = [0; BODY_WORDS];
        (bits[0], bits[507]) = (1 << 9, 1 << 63);
        let body = encode(&bits);
        assert_eq!((body[0], body[1], body[4063]), (0, 2, 0x80));
        assert_eq!(decode(&body, REGIONS_PER_PAGE).as_deref(), Ok(&bits));
    }

    #[test]
    fn a_bit_behind_the_last_region_is_damage() {
        for region in [0, 1, 63, 64, 100, REGIONS_PER_PAGE - 1] {
            let mut bits = [0; BODY_WORDS];
            bits[region as usize / 64] = 1 << (region % 64);
            assert_eq!(decode(&encode(&bits), region), Err(PageError::Damaged), "{region}");
            assert!(decode(&encode(&bits), region + 1).is_ok(), "{region}");
        }
    }
}
