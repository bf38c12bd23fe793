// SPDX-License-Identifier: Apache-2.0
//! Files as members, in use.

use crate::common::{Desk, file_of, filled, folder, open, options};
use helio_disk::{Io, OpenOptions, Permanence, Space, StoreError, StoreKind};
use helio_driver::{Buffer, Linux};
use helio_units::{Bytes, Extent};
use std::os::unix::fs::{FileExt, MetadataExt};

const SIZE: Bytes = Bytes::mib(4);

#[test]
fn what_is_written_is_read_directly_and_through_the_cache() {
    for io in [Io::Direct, Io::Buffered] {
        let (folder, mut desk) = (folder(), Desk::open());
        let path = file_of(folder.path(), "data.img", SIZE);
        let member = open(&path, &OpenOptions { io, ..options(SIZE) }).expect("it opens");
        assert_eq!((member.kind(), member.size()), (StoreKind::File, SIZE));
        let block = member.alignment().0;
        assert!(block.is_power_of_two() && (512..=4096).contains(&block));
        let extent = Extent::new(8192, 4096);
        let payload = filled(8192, 9);
        desk.done(member.write(extent, payload, 4096..8192, true).expect("it fits"));
        desk.done(member.flush());
        assert_eq!(desk.read(&member, extent), vec![9; 4096]);
        assert_eq!(desk.read(&member, Extent::new(0, 4096)), vec![0; 4096]);
    }
}

#[test]
fn requests_that_do_not_fit_never_become_operations() {
    let folder = folder();
    let path = file_of(folder.path(), "data.img", SIZE);
    let member = open(&path, &options(SIZE)).expect("it opens");
    let behind = Extent::new(SIZE.0 - 4096, 8192);
    let error = member.write(behind, filled(8192, 1), 0..8192, false).expect_err("behind the end");
    assert_eq!(error, StoreError::OutOfBounds { extent: behind, size: SIZE });
    assert_eq!(error.permanence(), Permanence::Request);
    let overflowing = Extent::new(u64::MAX - 4095, 8192);
    assert!(member.discard(overflowing).is_err());
    let crooked = Extent::new(100, 4096);
    assert!(matches!(
        member.read(crooked, Buffer::zeroed(4096)),
        Err(StoreError::Unaligned { .. })
    ));
    let extent = Extent::new(0, 4096);
    assert!(member.read(extent, Buffer::zeroed(100)).is_err());
    assert!(member.write(extent, filled(4096, 1), 0..512, false).is_err());
    assert!(member.write(extent, filled(8192, 1), 1..4097, false).is_err(), "crooked memory");
}

#[test]
fn opening_allocates_without_changing_what_is_there() {
    let folder = folder();
    let path = file_of(folder.path(), "data.img", SIZE);
    let file = std::fs::File::options().write(true).open(&path).expect("open");
    file.write_all_at(b"precious", 5000).expect("written");
    let sparse = open(&path, &options(SIZE)).expect("it opens");
    assert_eq!(sparse.space(), Space::Sparse);
    drop(sparse);
    let before = std::fs::metadata(&path).expect("facts").blocks();
    let member = open(&path, &OpenOptions { sparse: false, ..options(SIZE) }).expect("it opens");
    let after = std::fs::metadata(&path).expect("facts");
    // tmpfs and the like have no unwritten state; everywhere the space is there now.
    assert_ne!(member.space(), Space::Sparse);
    assert!(before * 512 < SIZE.0 && after.blocks() * 512 >= SIZE.0);
    assert_eq!(after.len(), SIZE.0);
    let bytes = Desk::open().read(&member, Extent::new(4096, 4096));
    assert_eq!(&bytes[904..912], b"precious");
}

#[test]
fn a_fully_written_file_is_known_as_such() {
    let folder = folder();
    let path = folder.path().join("data.img");
    std::fs::write(&path, vec![1; SIZE.0 as usize]).expect("written");
    std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("stable");
    let member = open(&path, &OpenOptions { sparse: false, ..options(SIZE) }).expect("it opens");
    assert_eq!(member.space(), Space::Written);
}

#[test]
fn a_file_may_be_made_by_opening_it() {
    let folder = folder();
    let path = folder.path().join("new.img");
    let create = OpenOptions { create: true, sparse: false, ..options(SIZE) };
    let member = open(&path, &create).expect("it is made");
    let facts = std::fs::metadata(&path).expect("facts");
    assert_eq!((facts.len(), facts.mode() & 0o777), (SIZE.0, 0o600));
    drop(member);
    open(&path, &create).expect("and used the next time");
}

#[test]
fn discards_read_as_zero_and_give_space_back_only_where_the_file_is_sparse() {
    for sparse in [true, false] {
        let (folder, mut desk) = (folder(), Desk::open());
        let path = file_of(folder.path(), "data.img", SIZE);
        let member = open(&path, &OpenOptions { sparse, ..options(SIZE) }).expect("it opens");
        assert!(member.trims());
        desk.fill(&member, Extent::new(0, SIZE.0), 7);
        desk.done(member.flush());
        let blocks = || std::fs::metadata(&path).expect("facts").blocks();
        let full = blocks();
        // At no block's edge, as a client that ignores the advice would have it.
        let (discarded, zeroed) = (Extent::new(4097, 1 << 20), Extent::new(2_000_001, 99_999));
        desk.done(member.discard(discarded).expect("it fits"));
        desk.done(member.zero(zeroed, false).expect("it fits"));
        desk.done(member.flush());
        let all = desk.read(&member, Extent::new(0, SIZE.0));
        for (offset, &byte) in (0u64..).zip(&all) {
            let here = Extent::new(offset, 1);
            let expected = if here.overlaps(discarded) || here.overlaps(zeroed) { 0 } else { 7 };
            assert_eq!(byte, expected, "at {offset}, sparse: {sparse}");
        }
        assert_eq!(blocks() < full, sparse);
    }
}

#[test]
fn an_error_of_the_kernel_arrives_sorted() {
    let (folder, mut desk) = (folder(), Desk::open());
    let path = file_of(folder.path(), "data.img", SIZE);
    let member = open(&path, &options(SIZE)).expect("it opens");
    // Somebody makes the file smaller under the daemon: locks only bind those who ask.
    let other = std::fs::File::options().write(true).open(&path).expect("open");
    other.set_len(4096).expect("smaller");
    let op = member.read(Extent::new(4096, 4096), Buffer::zeroed(4096)).expect("it fits");
    let error = StoreError::from(desk.run(op).error().expect("nothing there"));
    assert_eq!(error, StoreError::ShortRead(Bytes::ZERO));
    assert_eq!(error.permanence(), Permanence::Permanent);
}

#[test]
fn the_latency_of_a_store_is_measured_and_an_error_if_it_cannot_be_read_or_is_shorter() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("store");
    for size in [Bytes(512), Bytes::mib(1)] {
        std::fs::write(&path, vec![1; size.0 as usize]).expect("there is room");
        let latency = helio_disk::read_latency(&Linux::host(), &path, size, Io::Buffered);
        assert!(latency.is_ok_and(|latency| latency > std::time::Duration::ZERO));
    }
    assert!(helio_disk::read_latency(&Linux::host(), &path, Bytes::mib(2), Io::Buffered).is_err());
    let missing = folder.path().join("missing");
    assert!(
        helio_disk::read_latency(&Linux::host(), &missing, Bytes::mib(1), Io::Buffered).is_err()
    );
}
