// SPDX-License-Identifier: Apache-2.0
//! Each planted fault is found. Needs `--features plant`; stands in a binary of its own, since a planted fault is in
//! every engine of its process.
#![cfg(feature = "plant")]

use helio_plant::{Plant, plant};
use helio_sim::{Telling, shrink, walk};

const SEEDS: u64 = 2000;

#[test]
fn every_planted_fault_is_found_and_its_story_shrinks() {
    std::panic::set_hook(Box::new(|_| {}));
    for (name, fault) in Plant::ALL {
        plant(Some(*fault));
        let found = walk(&Telling::of(0), SEEDS, 1, &|_, _| {}).broken;
        let (seed, violation) = found.first().expect(name);
        let (smallest, same) = shrink(&Telling::of(*seed)).expect("it broke a promise");
        plant(None);
        assert_eq!(violation.promise, same.promise, "{name}");
        assert_ne!(smallest, Telling::of(*seed), "{name}");
    }
}
