// SPDX-License-Identifier: Apache-2.0
//! Planted faults: a proof that the oracle can say no.

use helio_plant::{Plant, plant};
use helio_sim::{Telling, Violation, walk};
use std::time::Instant;

/// Plants the fault of that name.
pub(crate) fn plant_named(name: &str) -> Result<(), String> {
    let known = Plant::ALL.iter().find(|(known, _)| *known == name);
    let (_, fault) = known.ok_or_else(|| {
        let names: Vec<&str> = Plant::ALL.iter().map(|(name, _)| *name).collect();
        format!("--plant {name}: there is no such fault; there are {}", names.join(", "))
    })?;
    plant(Some(*fault));
    Ok(())
}

/// Plants each fault in turn, in every engine of the process, and walks seeds with all cores until one finds it.
/// Returns whether each was found within that many seeds.
pub(crate) fn check(from: u64, seeds: u64) -> bool {
    let mut all = true;
    for (name, fault) in Plant::ALL {
        let began = Instant::now();
        plant(Some(*fault));
        let walked = walk(&Telling::of(from), seeds, 1, &|_, _| {});
        plant(None);
        let took = began.elapsed().as_secs_f64();
        match walked.broken.first() {
            Some((seed, Violation { promise, .. })) => {
                println!("{name}: found by seed {seed} in {took:.1} s: {promise}");
            }
            None => {
                println!("{name}: NOT FOUND in {seeds} seeds, {took:.1} s");
                all = false;
            }
        }
    }
    all
}
