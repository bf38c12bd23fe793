// SPDX-License-Identifier: Apache-2.0
//! Each planted fault is found. Needs `--features plant`; stands in a binary of its own, since a planted fault is in
//! every engine of its process.
#![cfg(feature = "plant")]

use helio_plant::{Plant, plant};
use helio_sim::{Telling, shrink, walk, walk_layers, walk_sets};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

const SEEDS: u64 = 4000;

/// One fault is planted at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_planted_fault_is_found() {
    let _alone = alone();
    std::panic::set_hook(Box::new(|_| {}));
    for (name, fault) in Plant::ALL {
        plant(Some(*fault));
        let found = walk(&Telling::of(0), SEEDS, 1, &|_, _| {}).broken;
        plant(None);
        assert!(!found.is_empty(), "{name}");
    }
}

/// Another fault every day: to shrink all takes minutes.
#[test]
fn the_story_of_a_planted_fault_shrinks() {
    let _alone = alone();
    std::panic::set_hook(Box::new(|_| {}));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let days = since.as_secs() / 86_400;
    // The part `sim` of the tests has every second day.
    let (name, fault) = Plant::ALL[(days / 2 % Plant::ALL.len() as u64) as usize];
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
