// SPDX-License-Identifier: Apache-2.0
//! `helio-sim`: walks seeds, or tells one.

use core::fmt;
use helio_sim::{Story, Violation, Walk, run, walk};
use helio_units::Moment;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

#[cfg(feature = "plant")]
mod planted;

const HELP: &str = "\
The simulator: two nodes, one client, one operator and bad luck, in virtual time.

  cargo xtask sim --seeds N [--from SEED]    walks N seeds (1000) from SEED (0) on, with all cores
  cargo xtask sim --seed SEED                tells the story of one seed

Built with `--features plant`:
  --plant NAME       plants a fault in the engine first: drop-after, skip-gate, answer-early,
                     clear-mark-early or resume-past-gap
  --check-planted    plants one after the other, and fails unless each is found within N seeds
";

/// Broken promises shown before the walk gives up.
const SHOWN: usize = 10;

#[derive(Default)]
struct Options {
    seeds: u64,
    from: u64,
    tell: bool,
    help: bool,
    check_planted: bool,
    plant: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seeds: 1000, ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let number = |value: String| {
            value.parse().map_err(|_| format!("{argument} {value}: that is not a number"))
        };
        match argument.as_str() {
            "--seeds" => options.seeds = number(value()?)?,
            "--from" => options.from = number(value()?)?,
            "--seed" => (options.from, options.tell) = (number(value()?)?, true),
            "--plant" => options.plant = Some(value()?),
            "--check-planted" => options.check_planted = true,
            "--help" | "-h" => options.help = true,
            other => return Err(format!("{other} is unknown\n\n{HELP}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match options().and_then(|options| perform(&options)) {
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
    #[cfg(feature = "plant")]
    if options.check_planted {
        std::panic::set_hook(Box::new(|_| {}));
        return Ok(planted::check(options.from, options.seeds));
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
        return Ok(tell(options.from));
    }
    // An engine's assertion is told as a broken promise of its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let began = Instant::now();
    let shown = |seed: u64, violation: &Violation| {
        println!("seed {seed}: {violation}\n    cargo xtask sim --seed {seed}");
    };
    let found = walk(options.from, options.seeds, SHOWN, &shown);
    summary(&found, began.elapsed().as_secs_f64());
    Ok(found.broken.is_empty())
}

fn tell(seed: u64) -> bool {
    // Whoever reads may stop reading: then nobody is left to tell.
    let mut out = std::io::BufWriter::new(std::io::stdout());
    let mut listener = |at: Moment, words: &dyn fmt::Display| {
        let _closed = writeln!(out, "{:12.6} {words}", at.0 as f64 / 1e9);
    };
    let verdict = run(seed, Some(Story(&mut listener)));
    let held = verdict.broken.is_none();
    let _closed = match verdict.broken {
        Some((violation, at)) => writeln!(out, "{:12.6} {violation}", at.0 as f64 / 1e9),
        None => writeln!(out, "no promise was broken: {:?}", verdict.counts),
    };
    held
}

fn summary(walk: &Walk, seconds: f64) {
    let c = &walk.counts;
    println!(
        "{} seeds in {seconds:.1} s ({:.0} seeds/s), {} broken\n\
         {} client writes, {} answers, {} crashes, {} power cuts, {} link cuts, {} promotions, {} resyncs, \
         {} rejoined as new, {} verifies, {} rotten blocks, {} events",
        walk.seeds,
        walk.seeds as f64 / seconds.max(1e-9),
        walk.broken.len(),
        c.writes,
        c.answered,
        c.crashes,
        c.power_cuts,
        c.link_cuts,
        c.promotions,
        c.resyncs,
        c.wipes,
        c.verifies,
        c.rotten,
        c.steps
    );
}
