// SPDX-License-Identifier: Apache-2.0
//! Planted faults are found. Needs `--features plant`; stands in a binary of its own, since a planted fault is in
//! every engine of its process.
#![cfg(feature = "plant")]

use helio_plant::{Plant, plant};
use helio_sim::{Telling, shrink, walk, walk_layers, walk_sets};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SEEDS: u64 = 4000;

/// One fault is planted at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of the turn: the part `sim` of the tests has every second day.
fn turn() -> usize {
    (helio_testkit::first_seed(1) / 2) as usize
}

/// A third of them, another one each turn: `cargo xtask sim --check-planted --seeds 4000` looks for all.
#[test]
fn planted_faults_are_found() {
    let _alone = alone();
    std::panic::set_hook(Box::new(|_| {}));
    for (name, fault) in Plant::ALL.iter().skip(turn() % 3).step_by(3) {
        plant(Some(*fault));
        let found = walk(&Telling::of(0), SEEDS, 1, &|_, _| {}).broken;
        plant(None);
        assert!(!found.is_empty(), "{name}");
    }
}

/// Another fault each turn: to shrink all takes minutes.
#[test]
fn the_story_of_a_planted_fault_shrinks() {
    let _alone = alone();
    std::panic::set_hook(Box::new(|_| {}));
    let (name, fault) = Plant::ALL[turn() % Plant::ALL.len()];
    plant(Some(fault));
    let found = walk(&Telling::of(0), SEEDS, 1, &|_, _| {}).broken;
    let (seed, violation) = found.first().expect(name);
    let (smallest, same) = shrink(&Telling::of(*seed)).expect("it broke a promise");
    plant(None);
    assert_eq!(violation.promise, same.promise, "{name}");
    assert_ne!(smallest, Telling::of(*seed), "{name}");
}

#[test]
fn every_fault_planted_in_a_layer_is_found() {
    let _alone = alone();
    for (name, fault) in Plant::LAYERS {
        plant(Some(*fault));
        let copies = walk_layers(0, SEEDS, 1, &|_, _| {}).is_err();
        let found = copies || walk_sets(0, SEEDS, 1, &|_, _| {}).is_err();
        plant(None);
        assert!(found, "{name}");
    }
}
