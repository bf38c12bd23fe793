// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::slow_crc32c;

const PLACE: Place = Place { version: VERSION, kind: Kind::Marks, index: 0x0302, map: 0x0D0C };
const SAMPLE: Header = Header { place: PLACE, owner: 0x0807_0605, sequence: 0x0A_0000_0009 };

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
    for kind in Kind::ALL {
        let map = if kind.is_mapped() { 7 } else { 0 };
        let header = Header { place: Place { kind, map, ..PLACE }, ..SAMPLE };
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
        b'H', b'L', b'M', b'D', 3, 0, 3, 0, 2, 3, 0, 0, 5, 6, 7, 8, 9, 0, 0, 0, 10, 0, 0, 0, 12,
        13, 0, 0,
    ];
    assert_eq!(&page[..CRC_AT], header);
    assert_eq!(page, mended(page));
    assert_eq!(owner("db", "paris", slow_crc32c), slow_crc32c(b"db\0paris"));
}

#[test]
fn pages_of_this_version_and_the_one_before_are_read_in_all_versions_to_come() {
    // Written once by the builds of their time; not to be made anew when the code changes.
    for (golden, place) in [
        (GOLDEN_2, Place { version: 2, kind: Kind::Hot, index: 1, map: 0 }),
        (GOLDEN_3, Place { version: 3, kind: Kind::Hot, index: 1, map: 5 }),
    ] {
        let mut page = [0; PAGE_BYTES];
        page[..HEADER_BYTES].copy_from_slice(&golden);
        let header = Header { place, owner: 0x1234, sequence: 7 };
        assert_eq!(decode(&page, slow_crc32c).map(|(header, _)| header), Ok(header));
    }
}

/// The header of hot page 1, all slots free, of sequence 7 and owner 0x1234, in version 2.
const GOLDEN_2: [u8; HEADER_BYTES] = [
    0x48, 0x4C, 0x4D, 0x44, 2, 0, 2, 0, 1, 0, 0, 0, 0x34, 0x12, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0x8D, 0xA3, 0xD7, 0xA5,
];

/// The same page of map 5, in version 3.
const GOLDEN_3: [u8; HEADER_BYTES] = [
    0x48, 0x4C, 0x4D, 0x44, 3, 0, 2, 0, 1, 0, 0, 0, 0x34, 0x12, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0,
    0, 0, 0xAB, 0xFD, 0x52, 0x33,
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
    later[4] = 4;
    assert_eq!(decode(&mended(later), slow_crc32c), Err(PageError::Version { found: 4 }));
    let mut first = [0; PAGE_BYTES];
    first[..12].copy_from_slice(b"HELIOSB1\x01\0\0\0");
    assert_eq!(decode(&first, slow_crc32c), Err(PageError::Damaged));
    let crc = slow_crc32c(&first[..PAGE_BYTES - 4]).to_le_bytes();
    first[PAGE_BYTES - 4..].copy_from_slice(&crc);
    assert_eq!(decode(&first, slow_crc32c), Err(PageError::Version { found: 1 }));
}

#[test]
fn a_kind_or_a_map_that_cannot_be_is_damage_even_with_the_right_checksum() {
    let before = page(&Header { place: Place { version: 2, map: 0, ..PLACE }, ..SAMPLE });
    let fixed = page(&Header { place: Place::fixed(Kind::Members, 0), ..SAMPLE });
    let mapped = page(&SAMPLE);
    for (whole, at, value) in [
        (before, 6, 0),
        (before, 6, 4),
        (before, 6, 5),
        (before, 7, 1),
        (before, 24, 1),
        (before, 27, 1),
        (fixed, 6, 3),
        (fixed, 6, 7),
        (fixed, 7, 1),
        (fixed, 24, 1),
        (mapped, 6, 1),
        (mapped, 7, 1),
    ] {
        let mut odd = whole;
        odd[at] = value;
        assert_eq!(decode(&mended(odd), slow_crc32c), Err(PageError::Damaged), "byte {at}");
    }
}

#[test]
fn a_page_knows_where_it_belongs() {
    let Header { place, owner, .. } = SAMPLE;
    let Place { kind, index, map, .. } = place;
    assert_eq!(SAMPLE.belongs(place, owner), Ok(()));
    assert_eq!(SAMPLE.belongs(place, 1), Err(PageError::Owner { found: owner }));
    let misplaced = Err(PageError::Misplaced { kind, index });
    for other in [
        Place { index: 1, ..place },
        Place { kind: Kind::Hot, ..place },
        Place { map: map - 1, ..place },
    ] {
        assert_eq!(SAMPLE.belongs(other, owner), misplaced);
    }
    let later = Place { kind: Kind::Hot, index: 1, map: map + 1, ..place };
    assert_eq!(SAMPLE.belongs(later, owner), Err(PageError::EarlierMap));
    let before = Place { version: VERSION_BEFORE, map: 0, ..place };
    assert_eq!(SAMPLE.belongs(before, owner), Err(PageError::Version { found: VERSION }));
}
