// SPDX-License-Identifier: Apache-2.0
//! `helio-sim`: walks seeds, or tells one.

mod options;
#[cfg(feature = "plant")]
mod planted;

use core::fmt;
use helio_sim::{
    Story, Telling, Violation, Walk, digest, run, shrink, walk, walk_layers, walk_sets,
};
use helio_units::Moment;
use options::{HELP, Options};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// Broken promises shown before the walk gives up.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    match Options::read(std::env::args().skip(1)).and_then(|options| perform(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("helio-sim: {why}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every promise held.
fn perform(options: &Options) -> Result<bool, String> {
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    // An engine's assertion is told as a broken promise of its seed.
    std::panic::set_hook(Box::new(|_| {}));
    #[cfg(feature = "plant")]
    if options.check_planted {
        return Ok(planted::check(options.telling.seed, options.seeds));
    }
    #[cfg(feature = "plant")]
    if let Some(name) = &options.plant {
        planted::plant_named(name)?;
    }
    #[cfg(not(feature = "plant"))]
    if options.check_planted || options.plant.is_some() {
        return Err("planting needs a build with `--features plant`".to_owned());
    }
    if options.tell {
        return Ok(tell_or_shrink(options));
    }
    if options.digest {
        println!("{:016x}", digest(&options.telling, options.seeds));
        return Ok(true);
    }
    if options.layers {
        return Ok(walk_the_layers(options.telling.seed, options.seeds));
    }
    let began = Instant::now();
    let shown = |seed: u64, violation: &Violation| {
        let story = Telling { seed, ..options.telling.clone() };
        eprintln!("seed {seed}: {violation}\n    cargo xtask sim {story}{options} --shrink");
    };
    let found = walk(&options.telling, options.seeds, SHOWN, &shown);
    let seconds = began.elapsed().as_secs_f64();
    if options.json {
        println!("{}", json(&found, seconds));
    } else {
        summary(&found, seconds, options.coverage);
    }
    Ok(is_covered(&found, options.require) && found.broken.is_empty())
}

/// Walks seeds of the store layers alone. Returns whether every promise held.
fn walk_the_layers(first: u64, seeds: u64) -> bool {
    let found = |seed: u64, why: &str| {
        eprintln!("seed {seed}: {why}\n    cargo xtask sim --layers --seeds 1 --from {seed}");
    };
    let began = Instant::now();
    let copies = walk_layers(first, seeds, SHOWN as u64, &found);
    let copies = copies.map(|walked| format!("{walked:?}"));
    let held = tell_walk("copies", copies, began);
    let began = Instant::now();
    let sets = walk_sets(first, seeds, SHOWN as u64, &found).map(|walked| walked.to_string());
    tell_walk("sets", sets, began) && held
}

fn tell_walk(what: &str, walked: Result<String, u64>, began: Instant) -> bool {
    let seconds = began.elapsed().as_secs_f64();
    match walked {
        Ok(walked) => println!("layers, {what}: {walked} in {seconds:.1} s, 0 broken"),
        Err(broken) => {
            println!("layers, {what}: {broken} broken");
            return false;
        }
    }
    true
}

fn tell_or_shrink(options: &Options) -> bool {
    let telling = &options.telling;
    if !options.shrink {
        return tell(telling);
    }
    let Some((smallest, violation)) = shrink(telling) else {
        println!("no promise is broken: there is nothing to shrink");
        return true;
    };
    tell(&smallest);
    println!("\nThe smallest story found: {violation}\n    cargo xtask sim {smallest}{options}");
    false
}

fn tell(telling: &Telling) -> bool {
    // Whoever reads may stop reading: then nobody is left to tell.
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let mut listener = |at: Moment, words: &dyn fmt::Display| {
        let _closed = writeln!(out, "{:12.6} {words}", at.0 as f64 / 1e9);
    };
    let told = catch_unwind(AssertUnwindSafe(|| run(telling, Some(Story(&mut listener)))));
    let Ok(verdict) = told else {
        let _closed = writeln!(out, "broken: an assertion of the engine; `--shrink` tells which");
        return false;
    };
    let held = verdict.broken.is_none();
    let _closed = match verdict.broken {
        Some((violation, at)) => writeln!(out, "{:12.6} {violation}", at.0 as f64 / 1e9),
        None => writeln!(out, "no promise was broken: {:?}", verdict.counts),
    };
    held
}

/// Whether everything that can happen was met so many times.
fn is_covered(found: &Walk, require: Option<u64>) -> bool {
    let short = require.map(|least| found.coverage.shortfall(least)).unwrap_or_default();
    for line in &short {
        eprintln!("not met often enough, or in no list: {line}");
    }
    for (name, seed) in &found.unlisted {
        eprintln!("{name}, which is in no list, is first met in seed {seed}");
    }
    short.is_empty()
}

fn summary(walk: &Walk, seconds: f64, coverage: bool) {
    let c = &walk.counts;
    println!(
        "{} seeds in {seconds:.1} s ({:.0} seeds/s), {} broken\n\
         {} client writes ({} per seed, 2000 and more in {} seeds), {} answers, {} crashes, {} power cuts, {} link \
         cuts, {} promotions, {} resyncs, {} rejoined as new, {} gave up their side, {} restored, {} took the other copy, {} point-in-time copies, {} verifies, {} rotten \
         blocks, {} events",
        walk.seeds,
        walk.seeds as f64 / seconds.max(1e-9),
        walk.broken.len(),
        c.writes,
        c.writes / walk.seeds.max(1),
        c.long,
        c.answered,
        c.crashes,
        c.power_cuts,
        c.link_cuts,
        c.promotions,
        c.resyncs,
        c.wipes,
        c.yields,
        c.restores,
        c.reversals,
        c.copies,
        c.verifies,
        c.rotten,
        c.steps
    );
    let of = |label| walk.coverage.count(label);
    println!(
        "members of volumes: {} removed, {} silent, {} copied, {} of these by bitmap, {} volumes merged, {} reads repaired",
        of("member-removed") + of("member-silent"),
        of("member-silent"),
        of("member-copied") + of("member-copied-by-bitmap"),
        of("member-copied-by-bitmap"),
        of("members-merged"),
        of("member-read-repaired")
    );
    if coverage {
        walk.coverage.lines().iter().for_each(|line| println!("{line}"));
    }
    let lines = walk.coverage.lines();
    if let Some(rarest) = lines.iter().filter(|line| line.listed).min_by_key(|line| line.count) {
        println!(
            "rarest of {} met: {} {}, {} times",
            lines.len(),
            rarest.kind,
            rarest.name,
            rarest.count
        );
    }
}

fn json(walk: &Walk, seconds: f64) -> String {
    let c = &walk.counts;
    format!(
        "{{\"seeds\":{},\"seconds\":{seconds:.1},\"broken\":{},\"writes\":{},\"long\":{},\"answered\":{},\"crashes\":{},\
         \"power_cuts\":{},\"link_cuts\":{},\"promotions\":{},\"resyncs\":{},\"wipes\":{},\"events\":{},\"coverage\":{}}}",
        walk.seeds,
        walk.broken.len(),
        c.writes,
        c.long,
        c.answered,
        c.crashes,
        c.power_cuts,
        c.link_cuts,
        c.promotions,
        c.resyncs,
        c.wipes,
        c.steps,
        walk.coverage.json()
    )
}
