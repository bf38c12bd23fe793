// SPDX-License-Identifier: Apache-2.0
//! Store layers alone, over seeds that the tree decides: `cargo xtask sim --layers --seeds N --from SEED` walks more.

use helio_sim::{walk_layers, walk_sets};
use helio_testkit::first_seed;

/// Seeds of an ordinary run: two seconds.
const SEEDS: u64 = 8000;

/// Of sets of members: six seconds.
const SETS: u64 = 3000;

fn broken(seed: u64, why: &str) {
    eprintln!("seed {seed}: {why}\n    cargo xtask sim --layers --seeds 1 --from {seed}");
}

#[test]
fn layers_refine_one_reference_store() {
    let walked = walk_layers(first_seed(), SEEDS, 10, &broken);
    let walked = walked.unwrap_or_else(|broken| panic!("{broken} seeds break a promise"));
    // A restore happens once in 80 stories or so: by chance there may be fewer than of the others.
    for (what, count) in [
        ("operations", walked.operations / 100),
        ("cuts", walked.cuts),
        ("restores", walked.restores * 2),
        ("rollbacks", walked.rollbacks),
        ("refused changes", walked.refused),
        ("reads of copies", walked.copy_reads),
        ("operations on branches", walked.branch_ios),
        ("abandoned copies", walked.abandoned),
        ("expendable copies that were over", walked.over),
        ("crashes", walked.crashes),
    ] {
        assert!(count > SEEDS / 100, "only {count} {what} in {SEEDS} seeds");
    }
}

#[test]
fn members_of_a_set_stay_alike() {
    let walked = walk_sets(first_seed(), SETS, 10, &broken);
    let walked = walked.unwrap_or_else(|broken| panic!("{broken} seeds break a promise"));
    for (what, count) in walked.counts() {
        assert!(count > SETS / 100, "only {count} {what} in {SETS} seeds");
    }
}
