// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::slow_crc32c;

const SAMPLE: Header =
    Header { kind: Kind::Marks, index: 0x0302, owner: 0x0807_0605, sequence: 0x0A_0000_0009 };

fn page(header: &Header) -> [u8; PAGE_BYTES] {
    let body = core::array::from_fn(|at| at as u8 | 1);
    encode(header, &body, slow_crc32c).try_into().expect("one page")
}

fn mended(mut page: [u8; PAGE_BYTES]) -> [u8; PAGE_BYTES] {
    page[CRC_AT..HEADER_BYTES].fill(0);
    let crc = slow_crc32c(&page).to_le_bytes();
    page[CRC_AT..HEADER_BYTES].copy_from_slice(&crc);
    page
}

#[test]
fn a_page_comes_back_as_it_was_written() {
    for kind in [Kind::Superblock, Kind::Hot, Kind::Marks] {
        let header = Header { kind, ..SAMPLE };
        let page = page(&header);
        let (read, body) = decode(&page, slow_crc32c).expect("whole");
        assert_eq!((read, &body[..]), (header, &page[HEADER_BYTES..]));
    }
}

/// The table above, read against the bytes.
#[test]
fn the_fields_stand_where_the_table_says() {
    let page = page(&SAMPLE);
    let header: &[u8] = &[
        b'H', b'L', b'M', b'D', 2, 0, 3, 0, 2, 3, 0, 0, 5, 6, 7, 8, 9, 0, 0, 0, 10, 0, 0, 0, 0, 0,
        0, 0,
    ];
    assert_eq!(&page[..CRC_AT], header);
    assert_eq!(page, mended(page));
    assert_eq!(owner("db", "paris", slow_crc32c), slow_crc32c(b"db\0paris"));
}

#[test]
fn a_page_of_this_version_is_read_in_all_versions_to_come() {
    // Written once by this build; not to be made anew when the code changes.
    let mut page = [0; PAGE_BYTES];
    page[..HEADER_BYTES].copy_from_slice(&GOLDEN);
    let header = Header { kind: Kind::Hot, index: 1, owner: 0x1234, sequence: 7 };
    assert_eq!(decode(&page, slow_crc32c).map(|(header, _)| header), Ok(header));
}

/// The header of hot page 1, all slots free, of sequence 7 and owner 0x1234.
const GOLDEN: [u8; HEADER_BYTES] = [
    0x48, 0x4C, 0x4D, 0x44, 2, 0, 2, 0, 1, 0, 0, 0, 0x34, 0x12, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0x8D, 0xA3, 0xD7, 0xA5,
];

#[test]
fn an_unwritten_page_is_not_called_damaged() {
    assert_eq!(decode(&[0; PAGE_BYTES], slow_crc32c), Err(PageError::Empty));
}

#[test]
fn every_byte_flipped_once_is_noticed() {
    let mut page = page(&SAMPLE);
    for at in 0..PAGE_BYTES {
        page[at] ^= 1 << (at % 8);
        assert_eq!(decode(&page, slow_crc32c), Err(PageError::Damaged), "byte {at}");
        page[at] ^= 1 << (at % 8);
    }
}

#[test]
fn a_torn_page_is_noticed_at_every_sector() {
    let (old, new) = (page(&SAMPLE), page(&Header { sequence: 11, ..SAMPLE }));
    let mut other = new;
    other[PAGE_BYTES - 1] ^= 1;
    let new = mended(other);
    for sectors in 1..8 {
        let mut torn = old;
        torn[..sectors * 512].copy_from_slice(&new[..sectors * 512]);
        assert_eq!(decode(&torn, slow_crc32c), Err(PageError::Damaged), "{sectors} sectors");
    }
}

#[test]
fn other_versions_are_named_the_first_one_too() {
    let mut later = page(&SAMPLE);
    later[4] = 3;
    assert_eq!(decode(&mended(later), slow_crc32c), Err(PageError::Version { found: 3 }));
    let mut first = [0; PAGE_BYTES];
    first[..12].copy_from_slice(b"HELIOSB1\x01\0\0\0");
    assert_eq!(decode(&first, slow_crc32c), Err(PageError::Damaged));
    let crc = slow_crc32c(&first[..PAGE_BYTES - 4]).to_le_bytes();
    first[PAGE_BYTES - 4..].copy_from_slice(&crc);
    assert_eq!(decode(&first, slow_crc32c), Err(PageError::Version { found: 1 }));
}

#[test]
fn a_kind_or_a_zero_that_cannot_be_is_damage_even_with_the_right_checksum() {
    for (at, value) in [(6, 0), (6, 4), (7, 1), (24, 1), (27, 1)] {
        let mut odd = page(&SAMPLE);
        odd[at] = value;
        assert_eq!(decode(&mended(odd), slow_crc32c), Err(PageError::Damaged), "byte {at}");
    }
}

#[test]
fn a_page_knows_where_it_belongs() {
    let Header { kind, index, owner, .. } = SAMPLE;
    assert_eq!(SAMPLE.belongs(kind, index, owner), Ok(()));
    assert_eq!(SAMPLE.belongs(kind, index, 1), Err(PageError::Owner { found: owner }));
    let misplaced = Err(PageError::Misplaced { kind, index });
    assert_eq!(SAMPLE.belongs(kind, 1, owner), misplaced);
    assert_eq!(SAMPLE.belongs(Kind::Hot, index, owner), misplaced);
}
