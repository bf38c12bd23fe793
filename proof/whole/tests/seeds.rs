// SPDX-License-Identifier: Apache-2.0
//! Stories of the whole program, each told twice.

use helio_whole::{Telling, note_panics, run};

/// Which ones.
const SEEDS: std::ops::Range<u64> = 0..4;

#[test]
fn a_seed_tells_the_same_story_twice_and_keeps_every_promise() {
    note_panics();
    let failures: Vec<String> = SEEDS.filter_map(failure).collect();
    // An assertion that fails is printed again.
    drop(std::panic::take_hook());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What is wrong with a seed, and the line that replays it.
fn failure(seed: u64) -> Option<String> {
    let telling = Telling::of(seed);
    let (one, other) = (run(&telling, false), run(&telling, false));
    let why = if one.digest == other.digest {
        one.broken?.to_string()
    } else {
        format!("{:016x} the first time, {:016x} the second time", one.digest, other.digest)
    };
    Some(format!("seed {seed}: {why}\n    cargo xtask sim --daemon --seed {seed} --story"))
}
