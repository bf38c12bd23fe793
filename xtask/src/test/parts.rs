// SPDX-License-Identifier: Apache-2.0
//! The parts: what each checks, how long it takes, what it runs. Cheap ones stand first, so that a
//! mistake of form is told in seconds.
//!
//! Everything that is built without optimisation is built with one choice of packages, the whole workspace: cargo builds a
//! crate again if another choice gives it other features.

use super::options::Options;
use crate::guard;
use crate::repo;
use std::process::Command;
use std::time::Duration;

/// What all parts may take together, from a cold cache on two cores. What compiles this program, and `cargo-deny`, comes on top.
pub(super) const ALL: Duration = Duration::from_secs(60 * 60);

/// The package with the end-to-end tests.
const END_TO_END: &str = "helio-e2e";
/// The simulators. Their tests need an optimised build.
const SIMULATORS: [&str; 2] = ["helio-sim", "helio-whole"];
/// The end-to-end tests with `helio` as it ships: those that measure, README and the other pages, and as many others as balance the parts.
const SHIPPED: [&str; 12] = [
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
    "tour",
    "wan",
];
/// The integration test with which cargo builds `helio`.
const BUILDS_HELIO: &str = "program";

/// What long parts take turns by where a person waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The simulators, and the guard of instructions.
    Simulated,
    /// End-to-end tests with a `helio` that has assertions.
    Asserted,
    /// End-to-end tests with `helio` as it ships.
    Shipped,
}

impl Turn {
    const EVERY: [Self; 3] = [Self::Simulated, Self::Asserted, Self::Shipped];

    /// The turn of a seed.
    pub(super) const fn of(number: u64) -> Self {
        Self::EVERY[(number % Self::EVERY.len() as u64) as usize]
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
    /// The part that cannot run without it, and brings it along where it is named.
    pub(super) serves: Option<&'static str>,
    pub(super) action: Action,
}

/// What a part does.
#[derive(Clone, Copy)]
pub(super) enum Action {
    /// Puts the programs in place that tests talk to.
    Install,
    /// Runs a command.
    Run(fn(&Options) -> Result<Command, String>),
    /// Runs a command if a condition holds.
    RunIf(fn() -> Result<(), &'static str>, fn(&Options) -> Result<Command, String>),
    /// Checks what we depend on with `cargo-deny`.
    Deny,
}

const fn part(name: &'static str, seconds: u64, checks: &'static str, action: Action) -> Part {
    let budget = Duration::from_secs(seconds);
    Part { name, budget, checks, turns: &Turn::EVERY, serves: None, action }
}

const fn in_turn(turns: &'static [Turn], part: Part) -> Part {
    Part { turns, ..part }
}

/// Every part, in the order they run.
pub(super) const PARTS: [Part; 12] = [
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
    part("clippy", 115, "lints, as errors", Action::Run(|_| Ok(clippy()))),
    part("doc", 50, "the documentation builds without a warning", Action::Run(|_| Ok(doc()))),
    part("deny", 10, "licences, banned crates and sources of what we depend on", Action::Deny),
    part("install", 30, "the programs that tests talk to", Action::Install),
    part("unit", 365, "the tests of every crate", Action::Run(unit)),
    in_turn(
        &[Turn::Simulated],
        part(
            "sim",
            530,
            "the simulators over a share of seeds, and whether they find planted faults",
            Action::Run(sim),
        ),
    ),
    in_turn(
        &[Turn::Simulated],
        part(
            "guard",
            140,
            "what a write costs in instructions, allocations and calls",
            Action::RunIf(guard::has_valgrind, |_| Ok(cargo("run --quiet -p xtask -- guard"))),
        ),
    ),
    in_turn(
        &[Turn::Asserted],
        part(
            "e2e",
            870,
            "real daemons with assertions, real clients: half of the end-to-end tests",
            Action::Run(|options| end_to_end(options, Build::Asserted)),
        ),
    ),
    in_turn(
        &[Turn::Shipped],
        Part {
            serves: Some("shipped"),
            ..part(
                "build",
                255,
                "helio, as it ships",
                Action::Run(|_| Ok(cargo("build --release -p helio"))),
            )
        },
    ),
    in_turn(
        &[Turn::Shipped],
        part(
            "shipped",
            445,
            "helio as it ships: the other end-to-end tests, README's tour",
            Action::Run(|options| end_to_end(options, Build::Shipped)),
        ),
    ),
];

/// Which `helio` end-to-end tests start, and so which of them run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Build {
    /// Not optimised, with assertions.
    Asserted,
    /// As it ships.
    Shipped,
}

impl Build {
    /// The folder of its profile, below cargo's target.
    const fn folder(self) -> &'static str {
        match self {
            Self::Asserted => "debug",
            Self::Shipped => "release",
        }
    }

    /// Those of these tests that use it.
    fn choose(self, tests: &[String]) -> Vec<String> {
        let is_ours = |test: &&String| SHIPPED.contains(&test.as_str()) == (self == Self::Shipped);
        tests.iter().filter(is_ours).cloned().collect()
    }
}

pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(repo::cargo());
    command.current_dir(repo::root()).args(arguments.split(' '));
    // What it prints is read line by line.
    command.env("CARGO_TERM_COLOR", "never");
    command
}

/// No lint of this compiler, or an earlier one, finds anything here. A later one has others: what they find is shown, and is no error.
const LINTED_BY: u32 = 95;

/// Whether what this compiler warns of is an error: of one whose version is unknown it is.
fn are_errors(compiler: &str) -> bool {
    minor(compiler).is_none_or(|minor| minor <= LINTED_BY)
}

fn lints_are_errors() -> bool {
    let compiler = guard::compiler().unwrap_or_default();
    let errors = are_errors(&compiler);
    if !errors {
        println!("{compiler} is later than 1.{LINTED_BY}: its lints are shown, and are no errors");
    }
    errors
}

/// The second number of what `rustc -V` prints.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

pub(crate) fn clippy() -> Command {
    let denies = if lints_are_errors() { " -- -D warnings" } else { "" };
    cargo(&format!("clippy --workspace --all-targets{denies}"))
}

pub(crate) fn doc() -> Command {
    let mut command = cargo("doc --workspace --no-deps --document-private-items");
    if lints_are_errors() {
        command.env("RUSTDOCFLAGS", "-D warnings");
    }
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
    command.env("HELIO_SEED", options.seed.to_string());
    command
}

fn end_to_end(options: &Options, build: Build) -> Result<Command, String> {
    let tests = build.choose(&tests_of(|package| package == END_TO_END)?);
    println!("{} rounds: {}", options.rounds, tests.join(", "));
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| "target".into(), std::path::PathBuf::from);
    let command = cargo(&format!("test --workspace --no-fail-fast --test {BUILDS_HELIO}"));
    let mut command = with_seed(with_tests(command, &tests), options);
    command
        .env("HELIO_BIN", repo::root().join(target).join(build.folder()).join("helio"))
        .env("HELIO_ROUNDS", options.rounds.to_string());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budgets_leave_time_to_a_slow_machine() {
        let sum: Duration = PARTS.iter().map(|part| part.budget).sum();
        assert!(sum * 6 <= ALL * 5, "all parts take {sum:?}, of {ALL:?}");
    }

    #[test]
    fn lints_are_errors_only_of_compilers_that_were_there() {
        assert_eq!(minor("rustc 1.95.0 (59807616e 2026-04-14) x86_64"), Some(95));
        assert_eq!(minor("rustc 1.99.1-nightly"), Some(99));
        assert_eq!(minor("cargo 1.95.0"), None);
        assert!(are_errors("rustc 1.95.0 (59807616e 2026-04-14) x86_64") && are_errors("?"));
        assert!(!are_errors("rustc 1.99.1 (58cf8f9c3 2026-10-13) x86_64"));
        let manifest = repo::metadata().expect("cargo knows it");
        let oldest = manifest["packages"][0]["rust_version"].as_str().expect("it is declared");
        let oldest = minor(&format!("rustc {oldest}")).expect("a version");
        assert!(oldest <= LINTED_BY, "what the oldest one warns of is an error");
    }

    #[test]
    fn every_end_to_end_test_is_in_one_part() {
        let every = tests_of(|package| package == END_TO_END).expect("cargo knows them");
        let [first, second] = [Build::Asserted, Build::Shipped].map(|build| build.choose(&every));
        assert_eq!(first.len() + second.len(), every.len());
        assert!(!first.is_empty() && second == SHIPPED);
    }

    #[test]
    fn a_part_that_serves_another_stands_before_it_and_has_its_turns() {
        for (at, part) in PARTS.iter().enumerate() {
            let Some(served) = part.serves else { continue };
            let other = PARTS[at..].iter().find(|other| other.name == served).expect("behind it");
            assert_eq!(part.turns, other.turns);
        }
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
