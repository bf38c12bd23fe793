// SPDX-License-Identifier: Apache-2.0
//! `helio-whole`: walks seeds of the whole program, or tells one.

mod options;

use helio_whole::{cage, note_panics, run, stock_runtimes};
use options::{HELP, Options, Reach};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::Instant;

/// Starts of daemons in one story, more than there are.
const STARTS: usize = 64;
/// A walk fails if more than one story of so many has an open end.
const OPEN_SHARE: u64 = 25;

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
    if options.cage {
        return caged(options);
    }
    if let Some(seed) = options.seed {
        return Ok(tell(seed, options.story));
    }
    if options.digest {
        let seeds = options.from..options.from + options.seeds;
        println!(
            "{:016x}",
            seeds.fold(0, |sum: u64, seed| sum.rotate_left(1) ^ run(seed, false).digest)
        );
        return Ok(true);
    }
    Ok(walk(options))
}

fn tell(seed: u64, story: bool) -> bool {
    let verdict = run(seed, story);
    verdict.story.iter().for_each(|line| println!("{line}"));
    let seconds = verdict.lasted.as_secs_f64();
    if let Some(why) = &verdict.open {
        println!("open: {why}");
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
    let seeds = match options.seed {
        Some(seed) => seed..seed + 1,
        None => options.from..options.from + options.seeds,
    };
    let starts = usize::try_from(seeds.end - seeds.start).unwrap_or(usize::MAX);
    stock_runtimes(starts.saturating_mul(STARTS))
        .map_err(|error| format!("no runtime: {error}"))?;
    cage::enter().map_err(|error| format!("no system call can be forbidden: {error}"))?;
    let (count, mut broken) = (seeds.end - seeds.start, 0);
    for seed in seeds {
        if let Some(why) = run(seed, false).broken {
            broken += 1;
            eprintln!("seed {seed}: {why}\n    cargo xtask sim --daemon --seed {seed} --story");
        }
    }
    println!("{count} seeds in a cage, {broken} broken");
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

/// Walks many seeds with all cores.
fn walk(options: &Options) -> bool {
    let (began, next) = (Instant::now(), AtomicU64::new(options.from));
    let (broken, seconds) = (Mutex::new(Vec::new()), Mutex::new(0.0));
    let (open, walked) = (AtomicU64::new(0), AtomicU64::new(0));
    let end = options.from + options.seeds;
    let work = || loop {
        let seed = next.fetch_add(1, Relaxed);
        let found = broken.lock().map_or(0, |broken| broken.len());
        if seed >= end || found >= options.most {
            return;
        }
        let verdict = run(seed, false);
        walked.fetch_add(1, Relaxed);
        if let Ok(mut seconds) = seconds.lock() {
            *seconds += verdict.lasted.as_secs_f64();
        }
        open.fetch_add(verdict.open.is_some().into(), Relaxed);
        if let Some(why) = verdict.broken {
            eprintln!("seed {seed}: {why}\n    cargo xtask sim --daemon --seed {seed} --story");
            if let Ok(mut broken) = broken.lock() {
                broken.push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (real, broken) = (began.elapsed().as_secs_f64(), broken.into_inner().unwrap_or_default());
    let (walked, open) = (walked.into_inner(), open.into_inner());
    let simulated = seconds.into_inner().unwrap_or_default();
    println!(
        "{walked} seeds in {real:.1} s ({:.0} a minute, {:.0} virtual seconds a second), {} broken, {} with an open end",
        walked as f64 / real * 60.0,
        simulated / real,
        broken.len(),
        open
    );
    let too_many = walked >= 100 && open * OPEN_SHARE > walked;
    if too_many {
        eprintln!("more than one story in {OPEN_SHARE} has an open end: see docs/design/whole.md");
    }
    broken.is_empty() && !too_many
}
