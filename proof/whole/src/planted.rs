// SPDX-License-Identifier: Apache-2.0
//! Planted faults: a proof that stories of the whole program find what is wrong in the daemon.

use crate::walk::walk;
use helio_plant::{Plant, plant};
use helio_whole::{Telling, run};
use std::time::Instant;

/// Plants the fault of that name. Those of the engine can be planted, too.
pub(crate) fn plant_named(name: &str) -> Result<(), String> {
    let mut faults = Plant::DAEMON.iter().chain(Plant::ALL).chain(Plant::LAYERS);
    let found = faults.find(|(known, _)| *known == name);
    let (_, fault) = found.ok_or_else(|| {
        let names: Vec<&str> = Plant::DAEMON.iter().map(|(name, _)| *name).collect();
        format!("--plant {name}: there is no such fault; there are {}", names.join(", "))
    })?;
    plant(Some(*fault));
    Ok(())
}

/// Plants each fault of the daemon in turn, and walks seeds with all cores until one finds it. Returns whether each was found within
/// that many seeds.
pub(crate) fn check(telling: &Telling, seeds: u64) -> bool {
    let missed = Plant::DAEMON.iter().filter(|fault| !is_found(**fault, telling, seeds)).count();
    missed == 0
}

fn is_found((name, fault): (&str, Plant), telling: &Telling, seeds: u64) -> bool {
    let began = Instant::now();
    plant(Some(fault));
    let walked = walk(telling, seeds, 1, &|_, _| {});
    plant(None);
    let took = began.elapsed().as_secs_f64();
    // What breaks without the fault says nothing of it.
    let is_sound = |seed: u64| run(&telling.with_seed(seed), false).broken.is_none();
    let found = walked.broken.first().filter(|(seed, _)| is_sound(*seed));
    match found {
        Some((seed, why)) => {
            let told = seed - telling.seed + 1;
            println!("{name}: found after {told} seeds, by seed {seed}, in {took:.1} s: {why}");
        }
        None => match walked.broken.first() {
            Some((seed, why)) => {
                println!("{name}: NOT SHOWN, seed {seed} is broken without it, too: {why}");
            }
            None => println!("{name}: NOT FOUND in {} seeds, {took:.1} s", walked.seeds),
        },
    }
    found.is_some()
}
