// SPDX-License-Identifier: Apache-2.0
//! Load on the device: what was written, zeroed or given back last is found again, whatever its size and place.
//!
//! An ordinary run has every block size once, in modes that the seed chooses; `HELIO_ROUNDS=200` and more has every size
//! in every mode. `HELIO_REQUESTS` makes the mixed load longer.

use crate::common::{MODES, Stage, attachable, is_full, on, via};
use helio_driver::Buffer;
use helio_testkit::{Dice, require, run, times};
use helio_units::{Bytes, Mode};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

const SECTOR: u64 = 512;
/// Requests of each writer of the mixed load.
const REQUESTS: u64 = 150;
const WRITERS: u64 = 4;

/// 512 bytes, 1 KiB, 2 KiB, … 4 MiB.
fn sizes() -> impl Iterator<Item = u64> {
    (9..=22).map(|power| 1 << power)
}

#[test]
fn fio_verifies_every_block_size_at_places_of_any_sector_among_trims() {
    attachable!();
    require!("fio");
    let test = "fio_verifies_every_block_size_at_places_of_any_sector_among_trims";
    let mut dice = Dice::of_test(test);
    let first = dice.below(3) as usize;
    // Every other size is trimmed as well.
    let mut trims = dice.chance(50);
    for (number, mode) in MODES.into_iter().enumerate() {
        let stage = Stage::new(mode, Bytes::mib(64));
        let device = stage.attach();
        for (_, size) in
            (0..).zip(sizes()).filter(|(at, _)| is_full() || (at + first) % 3 == number)
        {
            trims = is_full() || !trims;
            let bytes = (size * 256).clamp(512 << 10, 16 << 20);
            for how in &["--rw=randwrite", "--rw=randtrimwrite"][..1 + usize::from(trims)] {
                let job = [*how, "--iodepth=16", "--blockalign=512"];
                fio(&device, &job, size, bytes, dice.roll());
            }
        }
        fio(&device, &["--rw=randrw", "--iodepth=32"], 4096, 16 << 20, dice.roll());
        fio(&device, &["--rw=write", "--iodepth=4", "--fsync=16"], 4096, 4 << 20, dice.roll());
        stage.detach();
        stage.assert_mirrored();
    }
}

#[test]
fn fio_verifies_sizes_mixed_at_places_of_any_sector() {
    attachable!();
    require!("fio");
    let dice = Dice::of_test("fio_verifies_sizes_mixed_at_places_of_any_sector");
    let stage = Stage::new(Mode::Sync, Bytes::mib(64));
    let device = stage.attach();
    let mixed = ["--rw=randwrite", "--iodepth=16", "--bsrange=512-4m", "--blockalign=512"];
    fio(&device, &mixed, SECTOR, 48 << 20, dice.seed());
    stage.detach();
    stage.assert_mirrored();
}

fn fio(device: &Path, job: &[&str], block: u64, bytes: u64, seed: u64) {
    let said = |key: &str, value: &dyn std::fmt::Display| format!("--{key}={value}");
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--ioengine=libaio", "--direct=1", "--verify=crc32c"]);
    fio.args(["--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", "--randrepeat=1"]);
    fio.arg("--serialize_overlap=1");
    fio.arg(said("filename", &device.display())).arg(said("size", &bytes));
    fio.arg(said("randseed", &(seed >> 1)));
    if !job.iter().any(|word| word.starts_with("--bsrange")) {
        fio.arg(said("bs", &block));
    }
    let told = run(fio.args(job));
    assert!(told.status.success() && !told.stdout.contains("bad magic"), "{told}");
}

#[test]
fn every_byte_is_what_was_written_zeroed_or_given_back_last_on_both_nodes() {
    attachable!();
    require!("blkdiscard");
    let test = "every_byte_is_what_was_written_zeroed_or_given_back_last_on_both_nodes";
    let mut dice = Dice::of_test(test);
    let stage = Stage::new(*dice.pick(&MODES), Bytes::mib(64));
    let device = stage.attach();
    let part = (64 << 20) / WRITERS;
    let wanted: Vec<u8> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| (Writer::new(&device, n * part, part as usize), dice.fork(n)))
            .map(|(writer, dice)| scope.spawn(move || writer.work(dice)))
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect()
    });
    stage.detach();
    stage.assert_mirrored();
    let found = fs::read(stage.pair.member("lyon", "data")).expect("it can be read");
    let differs = wanted.iter().zip(&found).position(|(one, other)| one != other);
    assert_eq!(differs, None, "a byte on lyon is not what it should be");
}

/// Changes a part of a device, and knows every byte of it.
struct Writer<'a> {
    device: &'a Path,
    file: File,
    from: u64,
    wanted: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(device: &'a Path, from: u64, length: usize) -> Self {
        let mut options = File::options();
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
        let file = options.read(true).write(true).open(device).expect("it can be opened");
        Self { device, file, from, wanted: vec![0; length] }
    }

    /// Does its requests, and returns what its part holds then.
    fn work(mut self, mut dice: Dice) -> Vec<u8> {
        for _ in 0..times("HELIO_REQUESTS", REQUESTS) {
            let longest = *dice.pick(&sizes().collect::<Vec<u64>>());
            let length = (dice.below(longest / SECTOR) + 1) * SECTOR;
            let at = dice.below((self.wanted.len() as u64 - length) / SECTOR) * SECTOR;
            self.request(at, length, &mut dice);
        }
        let length = self.wanted.len() as u64;
        self.look(0, length);
        self.wanted
    }

    fn request(&mut self, at: u64, length: u64, dice: &mut Dice) {
        let place = at as usize..(at + length) as usize;
        let offset = self.from + at;
        match dice.below(10) {
            0..4 => {
                let mut bytes = Buffer::zeroed(length as usize);
                dice.fill(&mut bytes);
                self.file.write_all_at(&bytes, offset).expect("room");
                self.wanted[place].copy_from_slice(&bytes);
                return;
            }
            4 => {
                let what = [format!("-o{offset}"), format!("-l{length}")];
                on("blkdiscard", &["-f", &what[0], &what[1]], self.device).expect_success();
            }
            5 | 6 => {
                let how = if dice.chance(50) {
                    FallocateFlags::ZERO_RANGE
                } else {
                    FallocateFlags::PUNCH_HOLE
                };
                let how = how | FallocateFlags::KEEP_SIZE;
                let done = fallocate(&self.file, how, offset, length);
                // The kernel's NBD client has no zeroes before Linux 6.10.
                if via() == "nbd" && done == Err(rustix::io::Errno::OPNOTSUPP) {
                    return;
                }
                done.expect("the device does both");
            }
            7 => return self.file.sync_data().expect("it is durable"),
            _ => return self.look(at, length),
        }
        self.wanted[place].fill(0);
    }

    #[track_caller]
    fn look(&self, at: u64, length: u64) {
        let mut found = Buffer::zeroed(length as usize);
        self.file.read_exact_at(&mut found, self.from + at).expect("it can be read");
        let wanted = &self.wanted[at as usize..][..length as usize];
        let differs = wanted.iter().zip(&found[..]).position(|(one, other)| one != other);
        assert_eq!(differs, None, "of {length} bytes at {} one is not what it should be", at);
    }
}
