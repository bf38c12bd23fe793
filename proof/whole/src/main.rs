// SPDX-License-Identifier: Apache-2.0
//! `helio-whole`: walks seeds of the whole program, or tells one.

mod options;
#[cfg(feature = "plant")]
mod planted;
mod walk;

use helio_whole::{Telling, Violation, cage, note_panics, run, shrink, stock_runtimes};
use options::{HELP, Options, Planted, Reach};
use std::process::ExitCode;
use std::time::Instant;
use walk::{Walk, walk};

/// Starts of daemons in one story, more than there are.
const STARTS: usize = 64;
/// A walk fails if more than one story of so many loses both copies of a group.
const LOST_SHARE: u64 = 100;
/// And so many may in a walk however short.
const LOST_LEAST: u64 = 3;

/// What tells a seed again: the build with faults to plant tells other stories, since its pages of marks are smaller.
const AGAIN: &str = if cfg!(feature = "plant") {
    "cargo xtask sim --daemon"
} else {
    "cargo run --release -p helio-whole --"
};

fn main() -> ExitCode {
    match Options::read(std::env::args().skip(1)).and_then(|options| perform(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("helio-whole: {why}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every promise was kept.
fn perform(options: &Options) -> Result<bool, String> {
    if options.help {
        print!("{HELP}");
        return Ok(true);
    }
    if let Some(reach) = options.cage_proof {
        return prove(reach);
    }
    note_panics();
    match &options.planted {
        Planted::Nothing => {}
        #[cfg(feature = "plant")]
        Planted::One(name) => planted::plant_named(name)?,
        #[cfg(feature = "plant")]
        Planted::Each => return Ok(planted::check(&options.telling, options.seeds)),
        #[cfg(not(feature = "plant"))]
        _ => return Err("planting needs a build with `--features plant`".to_owned()),
    }
    if options.cage {
        return caged(options);
    }
    if options.digest {
        let digests = options.tellings().map(|telling| run(&telling, false).digest);
        println!("{:016x}", digests.fold(0, |sum: u64, digest| sum.rotate_left(1) ^ digest));
        return Ok(true);
    }
    if options.one {
        return Ok(tell_or_shrink(options));
    }
    Ok(tell_walk(options))
}

fn tell_or_shrink(options: &Options) -> bool {
    if !options.shrink {
        let kept = tell(&options.telling, options.story);
        if !kept {
            println!("    {AGAIN} {} --story", options.telling);
        }
        return kept;
    }
    let Some((smallest, violation)) = shrink(&options.telling) else {
        println!("no promise is broken: there is nothing to shrink");
        return true;
    };
    tell(&smallest, options.story);
    println!("\nThe smallest story found: {violation}\n    {AGAIN} {smallest} --story");
    false
}

fn tell(telling: &Telling, story: bool) -> bool {
    let (seed, verdict) = (telling.seed, run(telling, story));
    verdict.story.iter().for_each(|line| println!("{line}"));
    let seconds = verdict.lasted.as_secs_f64();
    if let Some(why) = &verdict.lost {
        println!("both copies of a group were damaged: {why}");
    }
    if let Some(script) = &telling.script {
        println!("{} of {} steps were told", verdict.steps, script.steps().len());
    }
    match &verdict.broken {
        None => {
            println!("seed {seed}: every promise was kept, {seconds:.1} s, {:016x}", verdict.digest)
        }
        Some(why) => println!("seed {seed}: {why}"),
    }
    verdict.broken.is_none()
}

/// Tells seeds one after the other, in a cage: whatever reaches for the real machine ends the process.
fn caged(options: &Options) -> Result<bool, String> {
    let tellings: Vec<Telling> = options.tellings().collect();
    let starts = tellings.len();
    stock_runtimes(starts.saturating_mul(STARTS))
        .map_err(|error| format!("no runtime: {error}"))?;
    cage::enter().map_err(|error| format!("no system call can be forbidden: {error}"))?;
    let mut broken = 0;
    for telling in tellings {
        if let Some(why) = run(&telling, false).broken {
            broken += 1;
            eprintln!("seed {}: {why}\n    {AGAIN} {telling} --story", telling.seed);
        }
    }
    println!("{starts} seeds in a cage, {broken} broken");
    Ok(broken == 0)
}

/// Goes into the cage and reaches out of it. Returns only if the cage did not end this process.
fn prove(reach: Reach) -> Result<bool, String> {
    cage::enter().map_err(|error| format!("no system call can be forbidden: {error}"))?;
    match reach {
        Reach::Nothing => {}
        Reach::Clock => drop(std::hint::black_box(Instant::now())),
        Reach::File => drop(std::fs::File::open("/")),
        Reach::Thread => drop(std::thread::Builder::new().spawn(|| ())),
        Reach::Socket => drop(std::net::UdpSocket::bind("127.0.0.1:0")),
    }
    Ok(true)
}

/// Walks many seeds, and tells what they came to. Returns whether every promise was kept, and everything required was met.
fn tell_walk(options: &Options) -> bool {
    let began = Instant::now();
    let found = |seed: u64, why: &Violation| {
        let telling = options.telling.with_seed(seed);
        eprintln!("seed {seed}: {why}\n    {AGAIN} {telling} --shrink");
    };
    let walk = walk(&options.telling, options.seeds, options.most, &found);
    let (real, seeds) = (began.elapsed().as_secs_f64(), walk.seeds as f64);
    println!(
        "{seeds} seeds in {real:.1} s ({:.0} a minute, {:.0} virtual seconds a second), {} broken, {} with both copies damaged",
        seeds / real * 60.0,
        walk.seconds / real,
        walk.broken.len(),
        walk.lost.len()
    );
    if let Some(script) = &options.telling.script {
        println!(
            "at least {} of {} steps were told in each story",
            walk.steps,
            script.steps().len()
        );
    }
    if options.coverage {
        walk.coverage.lines().iter().for_each(|line| println!("{line}"));
    }
    for (seed, why) in &walk.lost {
        println!("seed {seed}: both copies of a group were damaged: {why}");
    }
    let too_many = walk.lost.len() as u64 > LOST_LEAST.max(walk.seeds / LOST_SHARE);
    if too_many {
        eprintln!(
            "more than {LOST_LEAST} stories, and more than one in {LOST_SHARE}, lose both copies: see docs/design/whole.md"
        );
    }
    is_covered(&walk, options.require) && walk.broken.is_empty() && !too_many
}

/// Whether everything that can happen was met so many times.
fn is_covered(walk: &Walk, require: Option<u64>) -> bool {
    let Some(least) = require else { return true };
    let short = walk.coverage.shortfall(least);
    for line in &short {
        eprintln!("met fewer than {least} times: {line}");
    }
    short.is_empty()
}
