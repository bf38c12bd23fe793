// SPDX-License-Identifier: Apache-2.0
//! What the caller of `cargo xtask test` asked for.

use super::parts::{self, Part, Turn};
use std::time::{SystemTime, UNIX_EPOCH};

/// Rounds of the repeated end-to-end tests, as many as issue 2 asks of an ordinary run.
const ROUNDS: u64 = 20;

/// The flags of one call.
#[derive(Debug)]
pub(super) struct Options {
    /// The parts asked for; all of them where empty.
    parts: Vec<String>,
    /// The seed that was given.
    pub(super) given_seed: Option<u64>,
    /// The turn of today, or of that seed; none if everything is asked for, or parts are named.
    pub(super) turn: Option<Turn>,
    pub(super) rounds: u64,
    pub(super) install: bool,
    pub(super) list: bool,
}

impl Options {
    pub(super) fn read(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            parts: Vec::new(),
            given_seed: None,
            turn: None,
            rounds: ROUNDS,
            install: true,
            list: false,
        };
        let mut all = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--seed" => options.given_seed = Some(number(argument, rest.next())?),
                "--all" => all = true,
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
        let usual = !all && options.parts.is_empty();
        options.turn = usual.then(|| Turn::of(options.seed()));
        Ok(options)
    }

    /// The seed of the end-to-end tests.
    pub(super) fn seed(&self) -> u64 {
        self.given_seed.unwrap_or_else(today)
    }

    /// Whether a part is asked for.
    pub(super) fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|name| name == part)
    }

    /// Whether a part has its turn.
    pub(super) fn has_turn(&self, part: &Part) -> bool {
        self.turn.is_none_or(|turn| part.turns.contains(&turn))
    }

    /// Whether the part of that name runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        let mut parts = parts::PARTS.iter().filter(|part| part.name == name);
        self.wants(name) && parts.any(|part| self.has_turn(part))
    }
}

fn number(flag: &str, value: Option<&String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{flag} needs a number"))?;
    value.parse().map_err(|_| format!("{flag} needs a number, not `{value}`"))
}

/// The number of the day.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn parts_and_flags_are_read_in_any_order() {
        let options = read("--seed 7 unit --no-install sim --rounds 200").expect("well formed");
        assert_eq!((options.given_seed, options.rounds), (Some(7), 200));
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
    fn long_parts_take_turns_unless_they_are_named_or_all_are_asked_for() {
        let has_turn = |line: &str| {
            let options = read(line).expect("well formed");
            let parts = parts::PARTS.iter().filter(|part| options.has_turn(part));
            parts.map(|part| part.name).collect::<Vec<_>>()
        };
        let [simulated, asserted, shipped] = ["--seed 3", "--seed 4", "--seed 5"].map(&has_turn);
        for (turn, long) in [(&simulated, "sim"), (&asserted, "doc"), (&shipped, "build")] {
            assert!(turn.contains(&"unit") && turn.contains(&long), "{long}: {turn:?}");
            assert_eq!(turn.contains(&"e2e"), long != "sim");
        }
        assert!(!simulated.contains(&"build") && !shipped.contains(&"sim"));
        assert_eq!(has_turn("--all").len(), parts::PARTS.len());
        assert!(has_turn("--seed 5 sim").contains(&"sim"));
        let ships = |line: &str| read(line).expect("well formed").runs("build");
        assert!(ships("--seed 5") && ships("--all") && ships("build e2e"));
        assert!(!ships("--seed 4") && !ships("e2e"));
    }
}
