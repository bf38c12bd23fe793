// SPDX-License-Identifier: Apache-2.0
//! fio on the device: what it wrote it finds again, in every block size.

use crate::common::{Stage, attachable};
use helio_testkit::{Dice, require, run};
use helio_units::{Bytes, Mode};
use std::path::Path;
use std::process::Command;

#[test]
fn fio_verifies_what_it_wrote_in_every_block_size() {
    attachable!();
    require!("fio");
    let dice = Dice::of_test("fio_verifies_what_it_wrote_in_every_block_size");
    for mode in [Mode::Async, Mode::Sync] {
        let stage = Stage::new(mode, Bytes::mib(64));
        let device = stage.attach();
        for size in ["512", "4k", "12k", "64k", "1m", "4m"] {
            let bytes = if size == "512" { "2m" } else { "24m" };
            fio(&device, &["--rw=randwrite", "--iodepth=16"], size, bytes, dice.seed());
        }
        fio(&device, &["--rw=randrw", "--iodepth=32"], "4k", "16m", dice.seed());
        fio(&device, &["--rw=write", "--iodepth=4", "--fsync=16"], "4k", "4m", dice.seed());
        fio(&device, &["--rw=trimwrite", "--iodepth=8"], "64k", "16m", dice.seed());
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
    fio(&device, &mixed, "512", "48m", dice.seed());
    stage.detach();
    stage.assert_mirrored();
}

fn fio(device: &Path, job: &[&str], block: &str, bytes: &str, seed: u64) {
    let said = |key: &str, value: &dyn std::fmt::Display| format!("--{key}={value}");
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--ioengine=libaio", "--direct=1", "--verify=crc32c"]);
    fio.args(["--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", "--randrepeat=1"]);
    fio.arg(said("filename", &device.display())).arg(said("size", &bytes));
    fio.arg(said("randseed", &(seed >> 1)));
    if !job.iter().any(|word| word.starts_with("--bsrange")) {
        fio.arg(said("bs", &block));
    }
    let told = run(fio.args(job));
    assert!(told.status.success() && !told.stdout.contains("bad magic"), "{told}");
}
