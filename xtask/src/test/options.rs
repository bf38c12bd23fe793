// SPDX-License-Identifier: Apache-2.0
//! What the caller of `cargo xtask test` asked for, and where it runs.

use super::parts::{self, Part, Turn};

/// Rounds of the repeated end-to-end tests, as many as issue 2 asks of an ordinary run.
const ROUNDS: u64 = 20;

/// Who waits for the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A person: the parts that take turns take them, and what a test needs may be missing.
    Desk,
    /// Continuous integration (`CI=true`): every part runs, on what is committed, and nothing may be missing.
    Ci,
}

impl Place {
    /// What the environment says.
    pub(super) fn here() -> Self {
        if std::env::var("CI").as_deref() == Ok("true") { Self::Ci } else { Self::Desk }
    }
}

/// The flags of one call.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) place: Place,
    /// The parts asked for; all of them where empty.
    parts: Vec<String>,
    /// The seed of everything that is left to chance.
    pub(super) seed: u64,
    /// The turn of that seed; none if everything is asked for, or parts are named.
    turn: Option<Turn>,
    pub(super) rounds: u64,
    pub(super) install: bool,
    pub(super) list: bool,
    /// Whether the run ends when its time is over.
    pub(super) is_limited: bool,
}

impl Options {
    /// Reads the arguments of a call in a tree of this hash.
    pub(super) fn read(arguments: &[String], place: Place, tree: &str) -> Result<Self, String> {
        let mut options = Self {
            place,
            parts: Vec::new(),
            seed: seed_of(tree)?,
            turn: None,
            rounds: ROUNDS,
            install: true,
            list: false,
            is_limited: true,
        };
        let mut all = place == Place::Ci;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--seed" => options.seed = number(argument, rest.next())?,
                "--all" => all = true,
                "--rounds" => options.rounds = number(argument, rest.next())?,
                "--no-install" => options.install = false,
                "--no-limit" => options.is_limited = false,
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
        options.turn = usual.then(|| Turn::of(options.seed));
        Ok(options)
    }

    /// The line that repeats the run.
    pub(super) fn again(&self, arguments: &[String]) -> String {
        let mut line = String::from("cargo xtask test");
        if self.place == Place::Ci {
            line.insert_str(0, "CI=true ");
        }
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--seed" {
                rest.next();
            } else {
                line = line + " " + argument;
            }
        }
        format!("{line} --seed {}", self.seed)
    }

    /// Whether a part is asked for.
    pub(super) fn wants(&self, part: &Part) -> bool {
        let is_named = |name: &str| self.parts.iter().any(|named| named == name);
        self.parts.is_empty() || is_named(part.name) || part.serves.is_some_and(is_named)
    }

    /// Whether a part has its turn.
    pub(super) fn has_turn(&self, part: &Part) -> bool {
        self.turn.is_none_or(|turn| part.turns.contains(&turn))
    }
}

/// The seed of a run, from the hash of the tree that it tests: its first eight bytes.
fn seed_of(tree: &str) -> Result<u64, String> {
    let digits = tree.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    digits.ok_or_else(|| format!("`{tree}` is no hash of a tree"))
}

fn number(flag: &str, value: Option<&String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{flag} needs a number"))?;
    value.parse().map_err(|_| format!("{flag} needs a number, not `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "00000000000000050123456789abcdef01234567";

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn read(line: &str) -> Result<Options, String> {
        Options::read(&words(line), Place::Desk, TREE)
    }

    fn ours(options: &Options) -> Vec<&'static str> {
        let wanted = |part: &&Part| options.wants(part) && options.has_turn(part);
        parts::PARTS.iter().filter(wanted).map(|part| part.name).collect()
    }

    #[test]
    fn parts_and_flags_are_read_in_any_order() {
        let options = read("--seed 7 unit --no-install sim --rounds 200").expect("well formed");
        assert_eq!((options.seed, options.rounds), (7, 200));
        assert!(!options.install && options.is_limited);
        assert_eq!(ours(&options), ["unit", "sim"]);
        assert!(!read("--no-limit").expect("well formed").is_limited);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(read("units").expect_err("no such part").contains("`units`"));
        assert!(read("--seed").expect_err("no value").contains("--seed"));
        assert!(read("--seed x").expect_err("no number").contains("`x`"));
        let no_hash = Options::read(&[], Place::Desk, "HEAD").expect_err("no hash");
        assert!(no_hash.contains("`HEAD`"));
    }

    #[test]
    fn the_seed_is_that_of_the_tree_and_one_line_repeats_the_run() {
        assert_eq!(read("").expect("well formed").seed, 5);
        assert_eq!(seed_of("ffffffffffffffff01"), Ok(u64::MAX));
        let again = |line: &str, place| {
            let options = Options::read(&words(line), place, TREE).expect("well formed");
            options.again(&words(line))
        };
        assert_eq!(again("unit", Place::Desk), "cargo xtask test unit --seed 5");
        assert_eq!(
            again("--seed 8 --rounds 3", Place::Ci),
            "CI=true cargo xtask test --rounds 3 --seed 8"
        );
    }

    #[test]
    fn long_parts_take_turns_unless_they_are_named_or_all_are_asked_for() {
        let has_turn = |line: &str| ours(&read(line).expect("well formed"));
        let [simulated, asserted, shipped] = ["--seed 3", "--seed 4", "--seed 5"].map(&has_turn);
        for turn in [&simulated, &asserted, &shipped] {
            assert!(["tidy", "clippy", "doc", "unit"].iter().all(|part| turn.contains(part)));
        }
        assert!(simulated.contains(&"sim") && !simulated.contains(&"e2e"));
        assert!(asserted.contains(&"e2e") && !asserted.contains(&"build"));
        assert!(shipped.contains(&"shipped") && shipped.contains(&"build"));
        assert_eq!(has_turn("--all").len(), parts::PARTS.len());
        assert_eq!(has_turn("--seed 5 sim"), ["sim"]);
        assert_eq!(has_turn("shipped"), ["build", "shipped"], "it needs what is built");
    }

    #[test]
    fn continuous_integration_runs_every_part_whatever_the_seed() {
        for seed in ["3", "4", "5"] {
            let line = words(&format!("--seed {seed}"));
            let options = Options::read(&line, Place::Ci, TREE).expect("well formed");
            assert_eq!(ours(&options).len(), parts::PARTS.len());
        }
    }
}
