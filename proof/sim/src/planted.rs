// SPDX-License-Identifier: Apache-2.0
//! Planted faults: a proof that the oracle can say no.

use helio_plant::{Plant, plant};
use helio_sim::{Telling, Violation, walk, walk_layers, walk_sets};
use std::sync::Mutex;
use std::time::Instant;

/// Plants the fault of that name.
pub(crate) fn plant_named(name: &str) -> Result<(), String> {
    let mut faults = Plant::ALL.iter().chain(Plant::LAYERS);
    let (_, fault) = faults.clone().find(|(known, _)| *known == name).ok_or_else(|| {
        let names: Vec<&str> = faults.by_ref().map(|(name, _)| *name).collect();
        format!("--plant {name}: there is no such fault; there are {}", names.join(", "))
    })?;
    plant(Some(*fault));
    Ok(())
}

/// Plants each fault in turn, in every engine and layer of the process, and walks seeds with all cores until one finds it.
/// Returns whether each was found within that many seeds.
pub(crate) fn check(from: u64, seeds: u64) -> bool {
    let by_nodes = |seeds| {
        let walked = walk(&Telling::of(from), seeds, 1, &|_, _| {});
        let (seed, Violation { promise, .. }) = walked.broken.first()?;
        Some((*seed, promise.to_string()))
    };
    let by_layers = |seeds| {
        let first = Mutex::new(None);
        let found = |seed: u64, why: &str| {
            let mut first = first.lock().unwrap_or_else(|poison| poison.into_inner());
            first.get_or_insert_with(|| (seed, why.to_owned()));
        };
        // The stories of copies are short, so they come first.
        if walk_layers(from, seeds, 1, &found).is_ok() {
            _ = walk_sets(from, seeds, 1, &found);
        }
        first.into_inner().unwrap_or_else(|poison| poison.into_inner())
    };
    let nodes = Plant::ALL.iter().filter(|it| !is_found(**it, seeds, by_nodes)).count();
    let layers = Plant::LAYERS.iter().filter(|it| !is_found(**it, seeds, by_layers)).count();
    nodes + layers == 0
}

/// Whether a fault is found by these stories: a seed, and what it broke.
fn is_found(
    (name, fault): (&str, Plant),
    seeds: u64,
    tell: impl Fn(u64) -> Option<(u64, String)>,
) -> bool {
    let began = Instant::now();
    plant(Some(fault));
    let found = tell(seeds);
    plant(None);
    let took = began.elapsed().as_secs_f64();
    match &found {
        Some((seed, why)) => println!("{name}: found by seed {seed} in {took:.1} s: {why}"),
        None => println!("{name}: NOT FOUND in {seeds} seeds, {took:.1} s"),
    }
    found.is_some()
}
