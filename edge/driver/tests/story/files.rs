// SPDX-License-Identifier: Apache-2.0
//! Files through the driver, for real.

use super::desk;
use crate::common::{Desk, scratch, scratch_direct};
use helio_driver::{
    Buffer, Cause, DriverOptions, Errno, File, Op, OpError, Outcome, Piece, Reserved, Token,
};
use helio_units::{Bytes, Extent};
use std::os::unix::fs::FileExt;

fn write(file: &File, at: u64, pieces: Vec<Piece>) -> Op {
    let length = pieces.iter().map(Piece::len).sum::<usize>() as u64;
    Op::Write { file: file.clone(), extent: Extent::new(at, length), pieces, sync: false }
}

fn read(file: &File, extent: Extent) -> Op {
    let buffer = Buffer::zeroed(extent.length as usize);
    Op::Read { file: file.clone(), extent, buffer }
}

fn bytes_at(desk: &mut Desk, file: &File, extent: Extent) -> Vec<u8> {
    match desk.run(read(file, extent)) {
        Outcome::Read { buffer, result: Ok(()) } => buffer[..extent.length as usize].to_vec(),
        other => panic!("{other:?}"),
    }
}

fn failed(outcome: Outcome) -> OpError {
    outcome.error().unwrap_or_else(|| panic!("expected an error: {outcome:?}"))
}

#[test]
fn pieces_land_one_behind_the_other_and_come_back() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(8192));
    let mut payload = Buffer::zeroed(4096);
    payload.fill(b'p');
    let payload = payload.into_shared();
    let pieces = vec![
        Piece::Bytes(b"head".to_vec()),
        Piece::Shared(payload.clone(), 10..20),
        Piece::Bytes(b"tail".to_vec()),
    ];
    let extent = Extent::new(100, 18);
    desk.submit(1, Op::Write { file: file.clone(), extent, pieces, sync: true });
    match desk.outcome(1) {
        Outcome::Write { pieces, result: Ok(()) } => assert_eq!(pieces.len(), 3),
        other => panic!("{other:?}"),
    }
    assert!(matches!(desk.run(Op::SyncData { file: file.clone() }), Outcome::SyncData(Ok(()))));
    assert_eq!(bytes_at(&mut desk, &file, extent), b"headpppppppppptail");
}

#[test]
fn a_thousand_concurrent_writes_all_land_where_they_belong() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(1000 * 4096));
    for index in 0..1000u64 {
        let mut block = Buffer::zeroed(4096);
        block[..8].copy_from_slice(&index.to_le_bytes());
        desk.submit(
            index,
            write(&file, index * 4096, vec![Piece::Shared(block.into_shared(), 0..4096)]),
        );
    }
    for index in 0..1000 {
        assert_eq!(desk.outcome(index).error(), None);
    }
    for index in 0..1000u64 {
        let bytes = bytes_at(&mut desk, &file, Extent::new(index * 4096, 8));
        assert_eq!(bytes, index.to_le_bytes());
    }
}

#[test]
fn discards_and_zeroes_read_as_zero_at_any_alignment_and_keep_the_size() {
    // The second file system knows no ZERO_RANGE: there zeroes are written.
    for folder in [std::env::temp_dir(), "/dev/shm".into()] {
        let raw = tempfile::tempfile_in(folder).expect("a scratch file");
        raw.write_all_at(&[7; 1 << 20], 0).expect("room");
        let file = File::new(raw.try_clone().expect("a second handle")).expect("a handle");
        let mut desk = desk(DriverOptions::default());
        let (punched, zeroed) = (Extent::new(5001, 100_000), Extent::new(300_007, 700_000));
        let punch = desk.run(Op::Punch { file: file.clone(), extent: punched });
        assert!(matches!(punch, Outcome::Punch(Ok(()))), "{punch:?}");
        let zero = desk.run(Op::Zero { file: file.clone(), extent: zeroed });
        assert!(matches!(zero, Outcome::Zero(Ok(()))), "{zero:?}");
        let all = bytes_at(&mut desk, &file, Extent::new(0, 1 << 20));
        for (offset, &byte) in (0u64..).zip(&all) {
            let here = Extent::new(offset, 1);
            let expected = if here.overlaps(punched) || here.overlaps(zeroed) { 0 } else { 7 };
            assert_eq!(byte, expected, "at {offset}");
        }
        assert_eq!(raw.metadata().expect("its size").len(), 1 << 20);
    }
}

#[test]
fn an_attribute_is_set_and_made_stable_or_the_kernel_says_why_not() {
    let raw = tempfile::NamedTempFile::new().expect("a scratch file");
    let file = File::new(raw.reopen().expect("a second handle")).expect("a handle");
    let mut desk = desk(DriverOptions::default());
    let set = |name| Op::SetAttribute { file: file.clone(), name, value: vec![7; 16] };
    let (mut value, name) = ([0; 16], "user.helio-test");
    let outcome = desk.run(set(name));
    // Not every file system keeps attributes.
    if outcome.error().and_then(|error| error.errno()) != Some(Errno::OPNOTSUPP) {
        assert!(matches!(outcome, Outcome::SetAttribute(Ok(()))), "{outcome:?}");
        assert_eq!(rustix::fs::getxattr(raw.path(), name, &mut value), Ok(16));
        assert_eq!(value, [7; 16]);
    }
    let outcome = desk.run(Op::SyncAll { file: file.clone() });
    assert!(matches!(outcome, Outcome::SyncData(Ok(()))), "{outcome:?}");
    let refused = failed(desk.run(set("no-such-namespace")));
    assert_eq!(refused.operation.to_string(), "write of an extended attribute");
}

#[test]
fn a_reservation_makes_a_file_longer_and_never_shorter_and_a_new_length_does_either() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(8192));
    for (wanted, length) in [(4096, 8192), (1 << 20, 1 << 20)] {
        let outcome = desk.run(Op::Reserve { file: file.clone(), length: Bytes(wanted) });
        assert!(matches!(outcome, Outcome::Reserve(Ok(Reserved::Done))), "{outcome:?}");
        let facts = file.body().facts().expect("it is open");
        assert_eq!(facts.length, Bytes(length));
        // What was there before may be a hole.
        assert!(wanted < length || facts.held >= facts.length, "{facts:?}");
    }
    let outcome = desk.run(Op::SetLength { file: file.clone(), length: Bytes(4096) });
    assert!(matches!(outcome, Outcome::SetLength(Ok(()))), "{outcome:?}");
    assert_eq!(file.body().facts().expect("it is open").length, Bytes(4096));
}

#[test]
fn a_full_device_is_enospc_and_stays_enospc() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let file = File::new(full).expect("a handle");
    let outcome =
        desk(DriverOptions::default()).run(write(&file, 0, vec![Piece::Bytes(vec![1; 4096])]));
    assert_eq!(failed(outcome).errno(), Some(Errno::NOSPC));
}

#[test]
fn reading_past_the_end_says_how_far_it_got() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(5000));
    let error = failed(desk.run(read(&file, Extent::new(4096, 4096))));
    assert_eq!(error.cause, Cause::EndOfFile(Bytes(904)));
    assert_eq!(error.to_string(), "read at 4096+4096: end of file after 904 B");
}

#[test]
fn what_does_not_fit_is_refused_before_it_touches_the_file() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(4096));
    let extent = Extent::new(0, 4096);
    let short = Op::Read { file: file.clone(), extent, buffer: Buffer::zeroed(100) };
    assert_eq!(failed(desk.run(short)).cause, Cause::Misfit);
    let pieces = vec![Piece::Bytes(vec![1; 100])];
    let partial = Op::Write { file: file.clone(), extent, pieces, sync: false };
    assert_eq!(failed(desk.run(partial)).cause, Cause::Misfit);
    let outside = vec![Piece::Shared(Buffer::zeroed(4096).into_shared(), 4096..8192)];
    let outside = Op::Write { file: file.clone(), extent, pieces: outside, sync: false };
    assert_eq!(failed(desk.run(outside)).cause, Cause::Misfit);
    assert_eq!(bytes_at(&mut desk, &file, extent), vec![0; 4096]);
}

#[test]
fn a_read_only_descriptor_gives_the_kernels_own_number() {
    let raw = tempfile::NamedTempFile::new().expect("a scratch file");
    raw.as_file().set_len(4096).expect("room");
    let file = File::new(std::fs::File::open(raw.path()).expect("open")).expect("a handle");
    let outcome =
        desk(DriverOptions::default()).run(write(&file, 0, vec![Piece::Bytes(vec![1; 16])]));
    assert_eq!(failed(outcome).errno(), Some(Errno::BADF));
}

#[test]
fn dropping_the_driver_ends_its_threads_whatever_is_queued() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(1 << 20));
    for index in 0..200 {
        desk.submit(index, write(&file, 0, vec![Piece::Bytes(vec![1; 4096])]));
    }
    let mut out = Vec::new();
    desk.driver.wait(None, &mut out).expect("waiting works");
    assert!(out.iter().all(|completion| completion.token < Token(200)));
    drop(desk);
}

#[test]
fn a_thousand_direct_writes_in_pieces_all_land_where_they_belong() {
    let Some(file) = scratch_direct(1000 * 4096) else { return };
    let mut desk = desk(DriverOptions::default());
    for index in 0..1000_u64 {
        let mut page = Buffer::zeroed(4096);
        page.fill((index % 251) as u8);
        let page = page.into_shared();
        let pieces = match index % 3 {
            0 => vec![Piece::Shared(page, 0..4096)],
            _ => vec![Piece::Shared(page.clone(), 0..512), Piece::Shared(page, 512..4096)],
        };
        desk.submit(index, write(&file, index * 4096, pieces));
    }
    for index in 0..1000 {
        let outcome = desk.outcome(index);
        assert!(outcome.error().is_none(), "{outcome:?}");
    }
    assert!(desk.run(Op::SyncData { file: file.clone() }).error().is_none());
    for index in (0..1000_u64).step_by(37) {
        let page = bytes_at(&mut desk, &file, Extent::new(index * 4096, 4096));
        assert!(page.iter().all(|byte| *byte == (index % 251) as u8), "page {index}");
    }
    let past = failed(desk.run(read(&file, Extent::new(999 * 4096, 8192))));
    assert_eq!(past.cause, Cause::EndOfFile(Bytes(4096)));
}

#[test]
fn a_map_tells_data_from_holes_and_covers_the_extent() {
    let (mut desk, file) = (desk(DriverOptions::default()), scratch(4 << 20));
    let bytes = Piece::Shared(Buffer::zeroed(64 << 10).into_shared(), 0..64 << 10);
    assert!(desk.run(write(&file, 1 << 20, vec![bytes])).error().is_none());
    let extent = Extent::new(512 << 10, 1 << 20);
    let Outcome::Map(Ok(runs)) = desk.run(Op::Map { file, extent }) else { panic!("no map") };
    assert_eq!(runs.iter().map(|run| run.length).sum::<u64>(), extent.length);
    let data: u64 = runs.iter().filter(|run| run.data).map(|run| run.length).sum();
    // A file system without holes may say that all of it is data.
    assert!(data == 64 << 10 || data == extent.length, "{runs:?}");
}
