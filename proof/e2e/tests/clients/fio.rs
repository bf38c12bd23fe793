// SPDX-License-Identifier: Apache-2.0
//! fio's NBD engine, which checks every block it wrote.

use crate::common::{assert_mirrored, command, one_volume};
use helio_testkit::{Dice, require, run};
use helio_units::{Bytes, Mode};

/// Blocks, depth, pattern, bytes.
const JOBS: [(&str, u32, &str, &str); 5] = [
    ("512", 32, "randwrite", "1m"),
    ("4k", 1, "write", "2m"),
    ("4k", 64, "randrw", "16m"),
    ("64k", 8, "randwrite", "32m"),
    ("1m", 4, "write", "64m"),
];

#[test]
fn fio_verifies_what_it_wrote_in_every_size_and_depth() {
    require!("fio");
    let dice = Dice::of_test("fio_verifies");
    for mode in [Mode::Async, Mode::Sync] {
        let pair = one_volume(mode, Bytes::mib(64));
        for (block, depth, pattern, size) in JOBS {
            verify(&pair.export("paris", "data"), block, depth, pattern, size, dice.seed());
        }
        assert_mirrored(&pair, &["data"]);
    }
}

#[test]
fn fio_verifies_among_trims() {
    require!("fio");
    let dice = Dice::of_test("fio_verifies_among_trims");
    let pair = one_volume(Mode::Async, Bytes::mib(32));
    for (block, depth) in [("4k", 16), ("64k", 4)] {
        verify(&pair.export("paris", "data"), block, depth, "trimwrite", "16m", dice.seed());
    }
    assert_mirrored(&pair, &["data"]);
}

fn verify(uri: &str, block: &str, depth: u32, pattern: &str, size: &str, seed: u64) {
    let said = |key: &str, value: &dyn std::fmt::Display| format!("--{key}={value}");
    let mut fio = command("fio", &["--name=job", "--ioengine=nbd", "--verify=crc32c"]);
    fio.args(["--do_verify=1", "--verify_fatal=1", "--verify_state_save=0", "--randrepeat=1"]);
    fio.arg(said("uri", &uri)).arg(said("bs", &block)).arg(said("iodepth", &depth));
    fio.arg(said("rw", &pattern)).arg(said("size", &size)).arg(said("randseed", &(seed >> 1)));
    let told = run(&mut fio);
    assert!(told.status.success() && !told.stdout.contains("bad magic"), "{told}");
}
