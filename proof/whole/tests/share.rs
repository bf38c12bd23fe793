// SPDX-License-Identifier: Apache-2.0
//! The whole program over other seeds every day: `cargo xtask sim --daemon --seeds N --from SEED` walks more.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seeds of an ordinary run.
const SEEDS: u64 = 200;

#[test]
#[cfg_attr(
    not(feature = "plant"),
    ignore = "the part `sim` of the tests walks, with an optimised build"
)]
fn every_promise_is_kept_over_todays_share_of_seeds() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let given = std::env::var("HELIO_SEED").ok();
    let given = given.map(|seed| seed.parse::<u64>().expect("HELIO_SEED is a number"));
    let first = given.unwrap_or(since.as_secs() / 86_400 * SEEDS);
    // The program prints what a walk comes to, and the line that tells a story again.
    let mut walk = Command::new(env!("CARGO_BIN_EXE_helio-whole"));
    walk.args(["--seeds", &SEEDS.to_string(), "--from", &first.to_string()]);
    let walked = walk.status().expect("it was built with this test");
    assert!(walked.success(), "seeds from {first}: {walked}");
}
