// SPDX-License-Identifier: Apache-2.0
//! Files of version 1, as that version wrote them.

use super::*;

/// A page of version 1 with these bytes at these places.
fn old(magic: [u8; 4], fields: &[(usize, &[u8])]) -> Page {
    let mut page: Page = [0; PAGE_BYTES];
    page[..4].copy_from_slice(&magic);
    page[4] = 1;
    page[8..12].copy_from_slice(&OWNER.to_le_bytes());
    fields.iter().for_each(|(at, bytes)| page[*at..at + bytes.len()].copy_from_slice(bytes));
    let crc = slow_crc32c(&page[..PAGE_BYTES - 4]).to_le_bytes();
    page[PAGE_BYTES - 4..].copy_from_slice(&crc);
    page
}

fn old_header(sequence: u8, keeping: u8, durable: u8) -> Page {
    let state = if keeping == 0 { 1 } else { 2 };
    let fields: [(usize, &[u8]); 4] =
        [(6, &[state]), (16, &[sequence]), (24, &[keeping]), (464, &[durable])];
    old(*b"HLBI", &fields)
}

/// A file with these two headers.
fn of(headers: [Page; 2]) -> Desk {
    let mut desk = Desk::default();
    desk.put(0, &headers[0]);
    desk.put(PAGE_BYTES as u64, &headers[1]);
    desk
}

#[test]
fn a_file_of_version_1_that_has_a_copy_is_refused() {
    for headers in [
        [old_header(3, 3, 0), old_header(2, 0, 0)],
        [old_header(3, 3, 0), old_header(4, 3, 9)],
        [[7; PAGE_BYTES], old_header(4, 3, 9)],
    ] {
        assert_eq!(of(headers).try_open().map(|_| ()), Err(BeforeError::First));
    }
}

#[test]
fn a_file_of_version_1_without_a_copy_is_begun_anew_and_its_headers_go() {
    let mut desk = of([old_header(5, 0, 0), old_header(4, 3, 9)]);
    let (mut store, found) = desk.open();
    assert_eq!((found.copies, found.torn), (vec![], vec![0, PAGE_BYTES as u64]));
    desk.0.fill(0);
    desk.header(&list(&mut store, &[1], 0));
    store.flushed();
    assert_eq!(numbers(&desk.sound().1), [1]);
}

#[test]
fn what_lies_where_the_second_header_will_be_goes_with_a_file_of_version_1() {
    let mut desk = of([old_header(5, 0, 0), old_header(4, 0, 0)]);
    let second = u64::from(AREA_PAGES) * PAGE_BYTES as u64;
    desk.put(second, &old(*b"HLBI", &[(4, &[2])]));
    let (_, found) = desk.open();
    assert_eq!(found.torn, [0, PAGE_BYTES as u64, second]);
}
