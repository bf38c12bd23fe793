// SPDX-License-Identifier: Apache-2.0
//! Files: what a power cut, a full disk and a failed flush leave.

use crate::common::{Desk, MEMBER, create, durable, pass, read, two, write};
use helio_driver::{
    Cause, Errno, FallocateFlags, File, Mode, OFlags, Op, Outcome, Reserved, Run, SeekFrom,
};
use helio_units::{Bytes, Extent};
use helio_world::{FileFault, Odds, SimMachine};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const SECTOR: usize = 512;

/// After a power cut: the file as the next process finds it.
fn after_cut(machine: &SimMachine, path: &str) -> Option<Vec<u8>> {
    machine.cut_power();
    machine.boot();
    machine.process().host().read(Path::new(path)).ok()
}

#[test]
fn a_power_cut_keeps_what_was_flushed_and_tears_what_was_not() {
    let mut torn = 0;
    for seed in 0..40 {
        let (world, paris, _) = two(seed);
        let mut desk = Desk::on(&world, &paris);
        let file = durable(&desk.host(), MEMBER, &[0; 16 * SECTOR]);
        desk.write(&file, 0, &[1; 8 * SECTOR]);
        assert!(matches!(desk.run(Op::SyncData { file: file.clone() }), Outcome::SyncData(Ok(()))));
        desk.write(&file, 4 * SECTOR as u64, &[2; 8 * SECTOR]);
        let left = after_cut(&paris, MEMBER).expect("it is there");
        assert_eq!(left[..4 * SECTOR], [1; 4 * SECTOR], "seed {seed}");
        let sectors: Vec<&[u8]> = left[4 * SECTOR..12 * SECTOR].chunks(SECTOR).collect();
        for (at, sector) in sectors.iter().enumerate() {
            let old = if at < 4 { 1 } else { 0 };
            assert!(
                [[old; SECTOR], [2; SECTOR]].contains(&(*sector).try_into().expect("a sector"))
            );
        }
        torn +=
            u32::from(sectors.iter().any(|it| it[0] == 2) && sectors.iter().any(|it| it[0] != 2));
    }
    assert!(torn > 30, "{torn}");
}

#[test]
fn a_flush_does_not_cover_a_write_that_ends_after_it_began() {
    let lost = (0..40).filter(|seed| {
        let (world, paris, _) = two(*seed);
        let mut desk = Desk::on(&world, &paris);
        let file = durable(&desk.host(), MEMBER, &[0; SECTOR]);
        desk.submit(1, Op::SyncData { file: file.clone() });
        desk.submit(2, write(&file, 0, &[1; SECTOR]));
        assert_eq!(desk.outcome(2).error(), None);
        assert_eq!(desk.outcome(1).error(), None);
        after_cut(&paris, MEMBER) == Some(vec![0; SECTOR])
    });
    assert!((5..35).contains(&lost.count()));
}

#[test]
fn a_durable_write_needs_no_flush() {
    for seed in 0..20 {
        let (world, paris, _) = two(seed);
        let mut desk = Desk::on(&world, &paris);
        let file = durable(&desk.host(), MEMBER, &[0; SECTOR]);
        let Op::Write { file, extent, pieces, .. } = write(&file, 0, &[1; 2 * SECTOR]) else {
            return;
        };
        let outcome = desk.run(Op::Write { file, extent, pieces, sync: true });
        assert_eq!(outcome.error(), None);
        assert_eq!(after_cut(&paris, MEMBER), Some(vec![1; 2 * SECTOR]));
    }
}

#[test]
fn a_name_is_durable_once_its_folder_is_flushed() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let (_world, paris, _) = two(seed);
        let host = paris.process().host();
        let file = durable(&host, "/state", b"old");
        drop(file);
        let new = create(&host, "/state.new");
        new.write_all_at(b"new", 0).expect("there is room");
        new.sync_all().expect("it is flushed");
        host.rename(Path::new("/state.new"), Path::new("/state")).expect("renamed");
        if seed % 2 == 0 {
            host.sync_folder(Path::new("/")).expect("flushed");
        }
        let left = after_cut(&paris, "/state").expect("one of them is there");
        assert!(seed % 2 == 1 || left == b"new", "seed {seed}");
        seen.insert(left);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn what_a_failed_flush_covered_may_be_lost_although_the_next_one_succeeds() {
    let lost = (0..40).filter(|seed| {
        let (_world, paris, _) = two(*seed);
        let host = paris.process().host();
        let file = durable(&host, MEMBER, &[0; SECTOR]);
        file.write_all_at(&[1; SECTOR], 0).expect("there is room");
        paris.fail(Path::new(MEMBER), FileFault::Flush, 1).expect("there is such a file");
        assert!(file.sync_all().is_err());
        file.sync_all().expect("the second one succeeds");
        assert_eq!(file.read_all().expect("it can be read"), [1; SECTOR]);
        after_cut(&paris, MEMBER) == Some(vec![0; SECTOR])
    });
    assert!((5..35).contains(&lost.count()));
}

#[test]
fn a_full_disk_takes_what_fits_and_says_so() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    paris.set_room(16 << 10);
    let file = create(&desk.host(), MEMBER);
    let error = desk.run(write(&file, 0, &[1; 32 << 10])).error().expect("it does not fit");
    assert_eq!(error.errno(), Some(Errno::NOSPC));
    assert_eq!(file.body().write_at(&[1; 32 << 10], 4096), Ok(12 << 10));
    assert_eq!(file.body().write_at(&[1], 16 << 10), Err(Errno::NOSPC));
    let room = desk.host().room(Path::new("/")).expect("it has some");
    assert_eq!((room.free.0, room.size.0), (0, 16 << 10));
    desk.write(&file, 0, &[2; 16 << 10]);
    drop(file);
    desk.host().remove(Path::new(MEMBER)).expect("removed");
    assert_eq!(desk.host().room(Path::new("/")).map(|room| room.free.0), Ok(16 << 10));
}

#[test]
fn a_file_without_a_name_holds_its_room_until_it_is_closed() {
    let (_world, paris, _) = two(1);
    let host = paris.process().host();
    let free = || host.room(Path::new("/")).expect("it has room").free.0;
    let all = free();
    let file = create(&host, "/tmp");
    file.write_all_at(&[7; 8192], 0).expect("there is room");
    host.remove(Path::new("/tmp")).expect("removed");
    assert_eq!(file.read_all().expect("it can be read"), [7; 8192]);
    assert_eq!((free(), host.exists(Path::new("/tmp"))), (all - 8192, false));
    drop(file);
    assert_eq!(free(), all);
}

#[test]
fn holes_are_made_mapped_and_sought() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let file = create(&desk.host(), MEMBER);
    file.body().set_length(64 << 10).expect("it grows");
    desk.write(&file, 8192, &[1; 8192]);
    let extent = Extent::new(0, 64 << 10);
    let map = |desk: &mut Desk| match desk.run(Op::Map { file: file.clone(), extent }) {
        Outcome::Map(Ok(runs)) => runs,
        other => panic!("{other:?}"),
    };
    let run = |length, data| Run { length, data };
    assert_eq!(map(&mut desk), [run(8192, false), run(8192, true), run(48 << 10, false)]);
    let held = |file: &File| file.body().facts().expect("facts").held.0;
    assert_eq!(held(&file), 8192);
    let punched = Extent::new(8192, 4096);
    let outcome = desk.run(Op::Punch { file: file.clone(), extent: punched });
    assert_eq!((outcome.error(), held(&file)), (None, 4096));
    let outcome = desk.run(Op::Zero { file: file.clone(), extent: Extent::new(0, 4096) });
    assert_eq!((outcome.error(), held(&file)), (None, 8192));
    assert_eq!(map(&mut desk), [run(12288, false), run(4096, true), run(48 << 10, false)]);
    assert_eq!(file.body().seek(SeekFrom::Data(0)), Ok(12288));
    assert_eq!(file.body().seek(SeekFrom::Data(16384)), Err(Errno::NXIO));
    assert_eq!(file.body().seek(SeekFrom::Hole(12288)), Ok(16384));
    let flags = FallocateFlags::KEEP_SIZE;
    assert_eq!(file.body().allocate(flags, 64 << 10, 4096), Ok(()));
    let facts = file.body().facts().expect("facts");
    assert_eq!((facts.length.0, facts.held.0), (64 << 10, 12288));
}

#[test]
fn direct_operations_take_whole_sectors_only() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    drop(durable(&desk.host(), MEMBER, &[0; 8192]));
    let flags = OFlags::RDWR | OFlags::DIRECT;
    let file = desk.host().open(Path::new(MEMBER), flags, Mode::empty()).expect("opened");
    assert!(!file.is_cached());
    let cause = |outcome: Outcome| outcome.error().map(|error| error.cause);
    let misaligned = Some(Cause::Errno(Errno::INVAL));
    assert_eq!(cause(desk.run(read(&file, 0, 512))), None);
    assert_eq!(cause(desk.run(read(&file, 100, 512))), misaligned);
    assert_eq!(cause(desk.run(write(&file, 512, &[1; 100]))), misaligned);
    let end = desk.run(read(&file, 8192, 512)).error().map(|error| error.cause);
    assert!(matches!(end, Some(Cause::EndOfFile(_))), "{end:?}");
}

#[test]
fn attributes_and_modes_are_set_and_flushed() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let file = durable(&desk.host(), MEMBER, b"x");
    let value = vec![1, 2, 3];
    let op = Op::SetAttribute { file: file.clone(), name: "user.helio", value };
    assert_eq!(desk.run(op).error(), None);
    assert_eq!(desk.run(Op::SyncAll { file: file.clone() }).error(), None);
    paris.cut_power();
    paris.boot();
    let host = paris.process().host();
    let file = host.open(Path::new(MEMBER), OFlags::RDONLY, Mode::empty()).expect("opened");
    let mut value = [0; 8];
    assert_eq!(file.body().attribute("user.helio", &mut value), Ok(3));
    assert_eq!(file.body().attribute("user.helio", &mut value[..2]), Err(Errno::RANGE));
    file.body().remove_attribute("user.helio").expect("removed");
    assert_eq!(file.body().attribute("user.helio", &mut value), Err(Errno::NODATA));
    let member = host.open(Path::new(MEMBER), OFlags::RDONLY, Mode::empty()).expect("it is there");
    member.body().set_mode(Mode::RUSR).expect("set");
    assert_eq!(host.facts(Path::new(MEMBER), true).map(|it| it.mode), Ok(Mode::RUSR));
}

#[test]
fn a_file_that_hangs_ends_nothing_and_holds_up_no_other() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let stuck = durable(&desk.host(), MEMBER, &[0; 512]);
    let other = durable(&desk.host(), "/other", &[0; 512]);
    paris.hang(Path::new(MEMBER)).expect("there is such a file");
    desk.submit(1, read(&stuck, 0, 512));
    assert_eq!(desk.run(read(&other, 0, 512)).error(), None);
    pass(&world, Duration::from_secs(3600));
    assert!(desk.ended(1).is_none());
    paris.resume();
    assert_eq!(desk.outcome(1).error(), None);
}

#[test]
fn faults_by_the_dice_strike_as_often_as_they_should() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let file = durable(&desk.host(), MEMBER, &[0; 512]);
    let half = helio_netmodel::Ppm(500_000);
    paris.set_odds(Odds { read: half, write: half, short: half, ..Odds::default() });
    let (mut failed, mut short) = (0, 0);
    for _ in 0..200 {
        failed += u32::from(desk.run(read(&file, 0, 512)).error().is_some());
        short += u32::from(matches!(file.body().write_at(&[1; 100], 0), Ok(count) if count < 100));
    }
    assert!((70..130).contains(&failed), "{failed}");
    assert!((25..75).contains(&short), "{short}");
}

#[test]
fn a_slow_machine_takes_as_many_times_as_long_and_a_slow_operation_up_to_half_a_minute() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let file = durable(&desk.host(), MEMBER, &[0; 512]);
    let time = |desk: &mut Desk| {
        let began = world.now();
        (0..50).for_each(|_| assert_eq!(desk.run(read(&file, 0, 512)).error(), None));
        world.now().since(began)
    };
    let usual = time(&mut desk);
    paris.slow_down(100);
    let slowed = time(&mut desk);
    assert!((usual * 30..usual * 300).contains(&slowed), "{usual:?} {slowed:?}");
    paris.slow_down(1);
    paris.set_odds(Odds { slow: helio_netmodel::Ppm::ALL, ..Odds::default() });
    assert!((Duration::from_secs(5)..Duration::from_secs(1500)).contains(&time(&mut desk)));
}

#[test]
fn folders_are_made_listed_and_removed_when_they_are_empty() {
    let (_world, paris, _) = two(1);
    let host = paris.process().host();
    host.make_folders(Path::new("/var/lib/helio"), Mode::RWXU).expect("made");
    drop(create(&host, "/var/lib/helio/state"));
    let names = host.list(Path::new("/var/lib/helio")).expect("listed");
    assert_eq!(names, ["state"]);
    assert_eq!(host.remove_folder(Path::new("/var/lib/helio")), Err(Errno::NOTEMPTY));
    assert_eq!(host.remove(Path::new("/var/lib")), Err(Errno::ISDIR));
    let exclusive = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let again = host.open(Path::new("/var/lib/helio/state"), exclusive, Mode::RWXU);
    assert_eq!(again.err(), Some(Errno::EXIST));
    let missing = host.open(Path::new("/var/no/state"), exclusive, Mode::RWXU);
    assert_eq!(missing.err(), Some(Errno::NOENT));
    let real = host.real_path(Path::new("/var/./lib/../lib/helio")).expect("it is there");
    assert_eq!(real, Path::new("/var/lib/helio"));
}

#[test]
fn a_reservation_finds_room_or_leaves_the_file_as_it_was() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let file = durable(&desk.host(), MEMBER, &[1; 2 * SECTOR]);
    let length = |file: &File| file.body().facts().expect("it is open").length;
    let mut reserve = |length| match desk.run(Op::Reserve { file: file.clone(), length }) {
        Outcome::Reserve(reserved) => reserved.expect("nothing fails"),
        other => panic!("{other:?}"),
    };
    assert_eq!(reserve(Bytes(SECTOR as u64)), Reserved::Done);
    assert_eq!(length(&file), Bytes(2 * SECTOR as u64), "it is never cut");
    assert_eq!(reserve(Bytes::mib(1)), Reserved::Done);
    assert_eq!(length(&file), Bytes::mib(1));
    let Reserved::NoRoom { free } = reserve(Bytes::gib(1)) else { panic!("the disk is smaller") };
    assert!(free > Bytes::mib(32) && free <= Bytes::mib(64), "{free}");
    assert_eq!(length(&file), Bytes::mib(1));
    let cut = desk.run(Op::SetLength { file: file.clone(), length: Bytes(SECTOR as u64) });
    assert!(matches!(cut, Outcome::SetLength(Ok(()))), "{cut:?}");
    assert_eq!(length(&file), Bytes(SECTOR as u64));
}

#[test]
#[should_panic(expected = "a call that may block, on the thread of a shard")]
fn a_shard_that_looks_at_a_file_itself_panics() {
    let (world, paris, _) = two(1);
    let desk = Desk::on(&world, &paris);
    let file = durable(&desk.host(), MEMBER, &[1; SECTOR]);
    desk.process.on_shard(|| file.body().facts()).expect("it does not come to this");
}
