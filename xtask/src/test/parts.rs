// SPDX-License-Identifier: Apache-2.0
//! The parts: what each checks, how long it takes, what it runs. Cheap ones stand first, so that a
//! mistake of form is told in seconds.
//!
//! Everything that is built without optimisation is built with one choice of packages, the whole workspace: cargo builds a
//! crate again if another choice gives it other features.

use super::options::Options;
use crate::repo;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What all parts may take together, from a cold cache on two cores. `.ci/run` has 30 minutes; the rest
/// is for compiling this program and for what the machine does besides.
pub(super) const ALL: Duration = Duration::from_secs(28 * 60);

/// The package with the end-to-end tests.
const END_TO_END: &str = "helio-e2e";
/// The simulators. Their tests need an optimised build.
const SIMULATORS: [&str; 2] = ["helio-sim", "helio-whole"];
/// The end-to-end tests with `helio` as it ships: those that measure, and as many others as balance the turns.
const SHIPPED: [&str; 11] = [
    "attach",
    "clients",
    "conformance",
    "control",
    "flushes",
    "isolation",
    "lab",
    "measure",
    "power",
    "resync",
    "wan",
];
/// The end-to-end test that is part of both turns with such tests: README and the other pages.
const EVERY_TURN: &str = "tour";
/// The integration test with which cargo builds `helio`.
const BUILDS_HELIO: &str = "program";

/// What long parts take turns by: each day has the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The simulators.
    Simulated,
    /// End-to-end tests with a `helio` that has assertions.
    Asserted,
    /// End-to-end tests with `helio` as it ships.
    Shipped,
}

impl Turn {
    const EVERY: [Self; 3] = [Self::Simulated, Self::Asserted, Self::Shipped];
    /// Those in which daemons run as processes.
    const END_TO_END: [Self; 2] = [Self::Asserted, Self::Shipped];

    /// The turn of a day, or of a seed.
    pub(super) const fn of(number: u64) -> Self {
        Self::EVERY[(number % Self::EVERY.len() as u64) as usize]
    }

    /// Those of these end-to-end tests that are part of the turn.
    fn choose(self, tests: &[String]) -> Vec<String> {
        let is_ours = |test: &str| match self {
            Self::Simulated => false,
            Self::Asserted => test == EVERY_TURN || !SHIPPED.contains(&test),
            Self::Shipped => test == EVERY_TURN || SHIPPED.contains(&test),
        };
        tests.iter().filter(|test| is_ours(test)).cloned().collect()
    }
}

/// One part of the tests.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// How long it takes from a cold cache on two idle cores.
    pub(super) budget: Duration,
    /// In a few words, for `--list` and the headings.
    pub(super) checks: &'static str,
    /// The turns that it is part of.
    pub(super) turns: &'static [Turn],
    pub(super) action: Action,
}

/// What a part does.
#[derive(Clone, Copy)]
pub(super) enum Action {
    /// Puts the programs in place that the end-to-end tests talk to.
    Install,
    /// Runs a command.
    Run(fn(&Options) -> Result<Command, String>),
    /// Runs a command if a condition holds, else is skipped with the condition's reason.
    RunIf(fn() -> Result<(), &'static str>, fn(&Options) -> Result<Command, String>),
}

const fn part(name: &'static str, seconds: u64, checks: &'static str, action: Action) -> Part {
    Part { name, budget: Duration::from_secs(seconds), checks, turns: &Turn::EVERY, action }
}

const fn in_turns(turns: &'static [Turn], part: Part) -> Part {
    Part { turns, ..part }
}

/// Every part, in the order they run.
pub(super) const PARTS: [Part; 10] = [
    part(
        "tidy",
        10,
        "the rules of the house",
        Action::Run(|_| Ok(cargo("run --quiet -p xtask -- tidy"))),
    ),
    part(
        "fmt",
        10,
        "rustfmt has nothing to change",
        Action::Run(|_| Ok(cargo("fmt --all --check"))),
    ),
    part(
        "deny",
        10,
        "licences, banned crates and sources of what we depend on",
        Action::RunIf(has_deny, |_| Ok(cargo("deny check bans licenses sources"))),
    ),
    part(
        "clippy",
        90,
        "lints, as errors",
        Action::Run(|_| Ok(cargo("clippy --workspace --all-targets -- -D warnings"))),
    ),
    part("unit", 250, "the tests of every crate", Action::Run(unit)),
    in_turns(
        &[Turn::Simulated],
        part(
            "sim",
            400,
            "the simulators over today's share of seeds, and whether they find planted faults",
            Action::Run(sim),
        ),
    ),
    in_turns(
        &[Turn::Shipped],
        part(
            "build",
            175,
            "helio, as it ships",
            Action::Run(|_| Ok(cargo("build --release -p helio"))),
        ),
    ),
    in_turns(
        &Turn::END_TO_END,
        part("install", 30, "the programs the end-to-end tests talk to", Action::Install),
    ),
    in_turns(
        &Turn::END_TO_END,
        part(
            "e2e",
            540,
            "real daemons, real clients, README's tour: half of them in each of two turns",
            Action::Run(end_to_end),
        ),
    ),
    in_turns(
        &[Turn::Asserted],
        part("doc", 50, "the documentation builds without a warning", Action::Run(doc)),
    ),
];

fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(repo::cargo());
    command.current_dir(repo::root()).args(arguments.split(' '));
    command
}

/// The names of the integration tests of packages, in order.
fn tests_of(is_meant: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let tests = repo::integration_tests()?.into_iter();
    let mut names: Vec<String> =
        tests.filter(|(package, _)| is_meant(package)).map(|(_, test)| test).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn with_tests(mut command: Command, tests: &[String]) -> Command {
    command.args(tests.iter().flat_map(|test| ["--test", test]));
    command
}

fn unit(options: &Options) -> Result<Command, String> {
    let tests = tests_of(|package| package != END_TO_END && !SIMULATORS.contains(&package))?;
    let command = cargo("test --workspace --no-fail-fast --lib --bins");
    Ok(with_seed(with_tests(command, &tests), options))
}

/// All in one build, with faults that rest until a test plants them.
fn sim(options: &Options) -> Result<Command, String> {
    let tests = tests_of(|package| SIMULATORS.contains(&package))?;
    let command = cargo(
        "test --release -p helio-sim -p helio-whole --features helio-sim/plant,helio-whole/plant --no-fail-fast",
    );
    Ok(with_seed(with_tests(command, &tests), options))
}

fn with_seed(mut command: Command, options: &Options) -> Command {
    if let Some(seed) = options.given_seed {
        command.env("HELIO_SEED", seed.to_string());
    }
    command
}

fn end_to_end(options: &Options) -> Result<Command, String> {
    let every = tests_of(|package| package == END_TO_END)?;
    let tests = options.turn.map_or_else(|| every.clone(), |turn| turn.choose(&every));
    let seed = options.seed();
    println!("seed {seed}, {} rounds: {}", options.rounds, tests.join(", "));
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| "target".into(), std::path::PathBuf::from);
    let profile = if options.runs("build") { "release" } else { "debug" };
    let command = cargo(&format!("test --workspace --no-fail-fast --test {BUILDS_HELIO}"));
    let mut command = with_tests(command, &tests);
    command
        .env("HELIO_BIN", repo::root().join(target).join(profile).join("helio"))
        .env("HELIO_SEED", seed.to_string())
        .env("HELIO_ROUNDS", options.rounds.to_string());
    Ok(command)
}

fn doc(_: &Options) -> Result<Command, String> {
    let mut command = cargo("doc --workspace --no-deps --document-private-items");
    command.env("RUSTDOCFLAGS", "-D warnings");
    Ok(command)
}

fn has_deny() -> Result<(), &'static str> {
    let asked = cargo("deny --version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        _ => Err("cargo-deny is not installed; `cargo install cargo-deny` brings it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budgets_of_each_turn_leave_time_to_a_slow_machine() {
        for turn in Turn::EVERY {
            let parts = PARTS.iter().filter(|part| part.turns.contains(&turn));
            let sum: Duration = parts.map(|part| part.budget).sum();
            assert!(sum * 3 <= ALL * 2, "{turn:?} takes {sum:?}, of {ALL:?}");
        }
    }

    #[test]
    fn every_end_to_end_test_has_a_turn() {
        let every = tests_of(|package| package == END_TO_END).expect("cargo knows them");
        let [first, second] = Turn::END_TO_END.map(|turn| turn.choose(&every));
        assert!(every.iter().all(|test| first.contains(test) || second.contains(test)));
        let both: Vec<&String> = first.iter().filter(|test| second.contains(test)).collect();
        assert_eq!(both, [EVERY_TURN]);
        assert!(SHIPPED.iter().all(|test| second.iter().any(|it| it == test)));
        assert!(Turn::Simulated.choose(&every).is_empty());
    }

    #[test]
    fn no_test_of_another_package_has_the_name_of_one_that_runs_elsewhere() {
        let is_elsewhere = |package: &str| package == END_TO_END || SIMULATORS.contains(&package);
        let elsewhere = tests_of(is_elsewhere).expect("cargo knows them");
        let others = tests_of(|package| !is_elsewhere(package)).expect("cargo knows them");
        assert!(others.contains(&BUILDS_HELIO.to_owned()));
        let both: Vec<&String> = elsewhere.iter().filter(|test| others.contains(test)).collect();
        assert_eq!(both, Vec::<&String>::new());
    }

    #[test]
    fn every_name_is_a_word_of_its_own() {
        for (at, part) in PARTS.iter().enumerate() {
            assert!(part.name.chars().all(|c| c.is_ascii_alphanumeric()), "{}", part.name);
            assert!(PARTS[..at].iter().all(|other| other.name != part.name), "{}", part.name);
        }
    }
}
