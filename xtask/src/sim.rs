// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask sim`: hands everything to the simulator, or with `--daemon` to that of the whole program, and keeps count of what they
//! walked.

use crate::repo;
use std::fmt;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::Instant;

/// A simulator.
#[derive(Debug)]
struct Simulator {
    package: &'static str,
    /// Where its walks are counted, below the root.
    walked: &'static str,
    /// How many seeds it walks if the arguments do not say it.
    seeds: u64,
    /// The folders on which a walk depends.
    depends: &'static [&'static str],
}

/// The simulator of the engine.
const CORE: Simulator = Simulator {
    package: "helio-sim",
    walked: "proof/sim/walked.txt",
    seeds: 1000,
    depends: &["core", "words", "advise", "proof/sim/src"],
};

/// That of the whole program.
const WHOLE: Simulator = Simulator {
    package: "helio-whole",
    walked: "proof/whole/walked.txt",
    seeds: 200,
    depends: &["app", "edge", "core", "words", "advise", "proof/whole/src"],
};

/// Runs a simulator; its exit code is ours.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let arguments = arguments.strip_prefix(&["--".to_owned()]).unwrap_or(arguments);
    let is_whole = arguments.iter().any(|argument| argument == "--daemon");
    let simulator = if is_whole { &WHOLE } else { &CORE };
    let arguments: Vec<&String> =
        arguments.iter().filter(|argument| *argument != "--daemon").collect();
    let (record, arguments): (Vec<&String>, Vec<&String>) =
        arguments.into_iter().partition(|argument| *argument == "--record");
    let range = if record.is_empty() { None } else { Some(range(simulator, &arguments)?) };
    let cargo = |verb: &str| {
        let mut cargo = Command::new(repo::cargo());
        let package = ["-p", simulator.package, "--features", "plant"];
        cargo.args([verb, "--quiet", "--release"]).args(package);
        cargo
    };
    if range.is_some() {
        // What is counted is the walk, not the compiler.
        cargo("build").status().map_err(|why| format!("cannot start cargo: {why}"))?;
    }
    let began = Instant::now();
    let status = cargo("run")
        .arg("--")
        .args(&arguments)
        .status()
        .map_err(|why| format!("cannot start cargo: {why}"))?;
    if !status.success() {
        return Ok(ExitCode::FAILURE);
    }
    if let Some((from, seeds)) = range {
        let (date, commit) = (told_by("date", &["-u", "+%F"])?, commit(simulator)?);
        let seconds = began.elapsed().as_secs();
        keep(simulator, &Walk { date, commit, from, seeds, seconds })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One walk, a line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Walk {
    date: String,
    /// With a `+` behind it where the tree was not as committed.
    commit: String,
    from: u64,
    seeds: u64,
    seconds: u64,
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { date, commit, from, seeds, seconds } = self;
        write!(f, "{date} {commit} {from} {seeds} {seconds}")
    }
}

impl Walk {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [date, commit, from, seeds, seconds] = words[..] else { return None };
        let (date, commit) = (date.to_owned(), commit.to_owned());
        let (from, seeds) = (from.parse().ok()?, seeds.parse().ok()?);
        Some(Self { date, commit, from, seeds, seconds: seconds.parse().ok()? })
    }
}

/// The first seed and how many, of a walk that may be counted.
fn range(simulator: &Simulator, arguments: &[&String]) -> Result<(u64, u64), String> {
    let (mut from, mut seeds) = (0, simulator.seeds);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || {
            let value = rest.next().and_then(|value| value.parse().ok());
            value.ok_or(format!("{argument} needs a number"))
        };
        match argument.as_str() {
            "--from" => from = number()?,
            "--seeds" => seeds = number()?,
            "--require" => drop(number()?),
            "--coverage" | "--json" => {}
            "--layers" => {
                let text = "--layers: walks of the store layers alone are not recorded; leave out --record";
                return Err(text.to_owned());
            }
            other => return Err(format!("{other}: only walks of whole stories are recorded")),
        }
    }
    Ok((from, seeds))
}

fn commit(simulator: &Simulator) -> Result<String, String> {
    let commit = told_by("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changed = told_by("git", &[&["status", "--porcelain", "--"], simulator.depends].concat())?;
    Ok(if changed.is_empty() { commit } else { commit + "+" })
}

fn told_by(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).current_dir(repo::root()).args(arguments).output();
    let output = output.map_err(|why| format!("cannot start {program}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn keep(simulator: &Simulator, walk: &Walk) -> Result<(), String> {
    let path = repo::root().join(simulator.walked);
    let failed = |why: std::io::Error| format!("{}: {why}", simulator.walked);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).map_err(failed)?;
    writeln!(file, "{walk}").map_err(failed)?;
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    println!("{}", total(simulator, &text)?);
    Ok(())
}

/// What all walks of the file come to.
fn total(simulator: &Simulator, text: &str) -> Result<String, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut walks, mut seeds, mut seconds) = (0, 0, 0);
    for line in lines {
        let walk = Walk::parse(line).ok_or(format!("{}: `{line}` is no walk", simulator.walked))?;
        (walks, seeds, seconds) = (walks + 1, seeds + walk.seeds, seconds + walk.seconds);
    }
    Ok(format!(
        "{seeds} seeds walked so far, in {walks} walks of {:.1} hours",
        seconds as f64 / 3600.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_files_can_be_read_and_added_up() {
        for simulator in [&CORE, &WHOLE] {
            let path = repo::root().join(simulator.walked);
            let text = std::fs::read_to_string(path).expect("it is kept");
            assert!(total(simulator, &text).expect("each line is a walk").contains("seeds walked"));
        }
        let walk = Walk::parse("2026-11-21 0123456789ab+ 500 10000 15").expect("a walk");
        assert_eq!((walk.from, walk.seeds), (500, 10_000));
        assert_eq!(Walk::parse(&walk.to_string()), Some(walk));
    }

    #[test]
    fn a_walk_of_abridged_stories_or_of_layers_is_not_recorded() {
        for (more, why) in [
            ("--without", "--without: only walks of whole stories"),
            ("--layers", "leave out --record"),
        ] {
            let arguments = ["--seeds", "5", more].map(str::to_owned);
            let refused = range(&CORE, &arguments.iter().collect::<Vec<_>>());
            assert!(refused.is_err_and(|text| text.contains(why)), "{more}");
        }
    }
}
