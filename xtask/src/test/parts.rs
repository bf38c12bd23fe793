// SPDX-License-Identifier: Apache-2.0
//! The parts: what each checks, how long it may take, what it runs. Cheap ones stand first, so that a
//! mistake of form is told in seconds.

use super::options::{DAEMON_SEEDS, Options};
use crate::repo;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What all parts may take together, from a cold cache on two cores. `.ci/run` has 30 minutes; the rest
/// is for compiling this program and for what the machine does besides.
#[cfg(test)]
const ALL: Duration = Duration::from_secs(27 * 60);

/// One part of the tests.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// With what the parts before left of theirs, a hard limit: at it the part is stopped and has failed.
    pub(super) budget: Duration,
    /// In a few words, for `--list` and the headings.
    pub(super) checks: &'static str,
    pub(super) action: Action,
}

/// What a part does.
#[derive(Clone, Copy)]
pub(super) enum Action {
    /// Puts the programs in place that the end-to-end tests talk to.
    Install,
    /// Runs a command.
    Run(fn(&Options) -> Command),
    /// Runs a command where a condition holds, else is skipped with the condition's reason.
    RunIf(fn() -> Result<(), &'static str>, fn(&Options) -> Command),
}

const fn part(name: &'static str, seconds: u64, checks: &'static str, action: Action) -> Part {
    Part { name, budget: Duration::from_secs(seconds), checks, action }
}

/// Every part, in the order they run. A budget is about twice what the part needs from a cold cache on two idle
/// cores.
pub(super) const PARTS: [Part; 12] = [
    part(
        "tidy",
        10,
        "the rules of the house",
        Action::Run(|_| cargo("run --quiet -p xtask -- tidy")),
    ),
    part("fmt", 10, "rustfmt has nothing to change", Action::Run(|_| cargo("fmt --all --check"))),
    part(
        "deny",
        10,
        "licences, banned crates and sources of what we depend on",
        Action::RunIf(has_deny, |_| cargo("deny check bans licenses sources")),
    ),
    part(
        "clippy",
        90,
        "lints, as errors",
        Action::Run(|_| cargo("clippy --workspace --all-targets -- -D warnings")),
    ),
    part(
        "unit",
        350,
        "the tests of every crate",
        Action::Run(|_| cargo("test --workspace --exclude helio-e2e --no-fail-fast")),
    ),
    part("sim", 85, "the simulator over today's share of seeds", Action::Run(sim)),
    part(
        "planted",
        110,
        "the simulator finds every fault planted in the engine",
        Action::Run(|_| {
            cargo("run --release -p helio-sim --features plant -- --check-planted --seeds 4000")
        }),
    ),
    part("build", 175, "helio, as it ships", Action::Run(|_| cargo("build --release -p helio"))),
    part("daemon", 150, "the whole program over today's share of seeds", Action::Run(daemon)),
    part("install", 30, "the programs the end-to-end tests talk to", Action::Install),
    part("e2e", 550, "real daemons, real clients, README's tour", Action::Run(end_to_end)),
    part("doc", 50, "the documentation builds without a warning", Action::Run(doc)),
];

fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(repo::cargo());
    command.current_dir(repo::root()).args(arguments.split(' '));
    command
}

fn sim(options: &Options) -> Command {
    let (seeds, from) = (options.sim_seeds, options.seed);
    println!(
        "seeds {from} to {}; `--seed N` walks others",
        from.saturating_add(seeds.saturating_sub(1))
    );
    cargo(&format!("run --release -p helio-sim --features plant -- --seeds {seeds} --from {from}"))
}

fn daemon(options: &Options) -> Command {
    let from = options.daemon_seed;
    println!("seeds {from} to {}; `--seed N` walks others", from.saturating_add(DAEMON_SEEDS - 1));
    cargo(&format!("run --release -p helio-whole -- --seeds {DAEMON_SEEDS} --from {from}"))
}

fn end_to_end(options: &Options) -> Command {
    println!("seed {}, {} rounds", options.seed, options.rounds);
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| "target".into(), std::path::PathBuf::from);
    let mut command = cargo("test -p helio-e2e --no-fail-fast");
    command
        .env("HELIO_BIN", repo::root().join(target).join("release/helio"))
        .env("HELIO_SEED", options.seed.to_string())
        .env("HELIO_ROUNDS", options.rounds.to_string());
    command
}

fn doc(_: &Options) -> Command {
    let mut command = cargo("doc --workspace --no-deps --document-private-items");
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
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
    fn the_budgets_together_leave_ci_its_time() {
        let sum: Duration = PARTS.iter().map(|part| part.budget).sum();
        assert!(sum <= ALL, "the parts may take {sum:?} together, of {ALL:?}");
    }

    #[test]
    fn every_name_is_a_word_of_its_own() {
        for (at, part) in PARTS.iter().enumerate() {
            assert!(part.name.chars().all(|c| c.is_ascii_alphanumeric()), "{}", part.name);
            assert!(PARTS[..at].iter().all(|other| other.name != part.name), "{}", part.name);
        }
    }
}
