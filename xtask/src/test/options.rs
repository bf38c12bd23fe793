// SPDX-License-Identifier: Apache-2.0
//! What the caller of `cargo xtask test` asked for.

use super::parts;
use std::time::{SystemTime, UNIX_EPOCH};

/// Simulator seeds walked where nobody says how many: what fits the part's budget many times over.
const SIM_SEEDS: u64 = 2_000;
/// Seeds of the whole program that the part `daemon` walks: about a minute on two cores.
pub(super) const DAEMON_SEEDS: u64 = 200;
/// Rounds of the repeated end-to-end tests, as many as issue 2 asks of an ordinary run.
const ROUNDS: u64 = 20;

/// The flags of one call.
#[derive(Debug)]
pub(super) struct Options {
    /// The parts asked for; all of them where empty.
    parts: Vec<String>,
    /// The first simulator seed, and the seed of the end-to-end tests.
    pub(super) seed: u64,
    pub(super) sim_seeds: u64,
    /// The first seed of the whole program.
    pub(super) daemon_seed: u64,
    pub(super) rounds: u64,
    pub(super) install: bool,
    pub(super) list: bool,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            parts: Vec::new(),
            seed: 0,
            sim_seeds: SIM_SEEDS,
            daemon_seed: 0,
            rounds: ROUNDS,
            install: true,
            list: false,
        };
        let mut seed = None;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--seed" => seed = Some(number(argument, rest.next())?),
                "--sim-seeds" => options.sim_seeds = number(argument, rest.next())?,
                "--rounds" => options.rounds = number(argument, rest.next())?,
                "--no-install" => options.install = false,
                "--list" => options.list = true,
                name if parts::PARTS.iter().any(|part| part.name == name) => {
                    options.parts.push(name.to_owned());
                }
                other => {
                    return Err(format!(
                        "no part or flag is called `{other}`; see --list and --help"
                    ));
                }
            }
        }
        options.seed = seed.unwrap_or_else(|| seed_of_the_day(options.sim_seeds));
        options.daemon_seed = seed.unwrap_or_else(|| seed_of_the_day(DAEMON_SEEDS));
        Ok(options)
    }

    pub(super) fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|name| name == part)
    }
}

fn number(flag: &str, value: Option<&String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{flag} needs a number"))?;
    value.parse().map_err(|_| format!("{flag} needs a number, not `{value}`"))
}

/// Every day walks the share of seeds behind the day before's, so that a year of runs is a year of seeds.
fn seed_of_the_day(share: u64) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / 86_400 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn parts_and_flags_are_read_in_any_order() {
        let options =
            read("--seed 7 unit --no-install sim --rounds 200 --sim-seeds 9").expect("well formed");
        assert_eq!((options.seed, options.rounds, options.sim_seeds), (7, 200, 9));
        assert!(!options.install && options.wants("unit") && options.wants("sim"));
        assert!(!options.wants("e2e"));
        assert!(read("").expect("well formed").wants("e2e"));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(read("units").expect_err("no such part").contains("`units`"));
        assert!(read("--seed").expect_err("no value").contains("--seed"));
        assert!(read("--seed x").expect_err("no number").contains("`x`"));
    }

    #[test]
    fn without_a_seed_the_day_gives_one_at_the_start_of_its_share() {
        let options = read("--sim-seeds 50").expect("well formed");
        assert!(options.seed > 0 && options.seed.is_multiple_of(50));
        assert!(options.daemon_seed > 0 && options.daemon_seed.is_multiple_of(DAEMON_SEEDS));
        assert_eq!(read("--seed 7").expect("well formed").daemon_seed, 7);
    }
}
