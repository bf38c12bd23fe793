// SPDX-License-Identifier: Apache-2.0
//! Rules that bound the structure of the pure core by numbers. Each number may only fall.
//!
//! [`RATCHETS`] is the one table. A number above its limit is a finding; a test fails for a limit that is higher than
//! the number: lower both in one commit.

use super::source::Source;
use super::{Finding, cycles, methods, state};
use std::path::{Path, PathBuf};

/// One rule with its limits.
struct Ratchet {
    rule: &'static str,
    /// The highest number that needs no limit in the list.
    free: usize,
    /// The limit of each subject: the number that stands.
    limits: &'static [(&'static str, usize)],
    hint: &'static str,
    measure: fn(&[Source]) -> Vec<Count>,
}

/// The rules and the numbers that stand.
const RATCHETS: [Ratchet; 7] = [
    Ratchet {
        rule: "engine-methods",
        free: 0,
        limits: &[
            ("methods of Engine outside engine.rs", 28),
            ("methods of Engine in engine.rs", 12),
        ],
        hint: "make it a method of the room whose state it changes",
        measure: methods::of_engine,
    },
    Ratchet {
        rule: "engine-borrow",
        free: 0,
        limits: &[],
        hint: "pass the one thing that is needed, or return an effect",
        measure: methods::that_borrow_engine,
    },
    Ratchet {
        rule: "crate-fields",
        free: 0,
        limits: &[],
        hint: "make the field private and give its struct a method that says what is done",
        measure: state::open_fields,
    },
    Ratchet {
        rule: "flags",
        free: 0,
        limits: &[("flags in mutable state", 16)],
        hint: "name the states in one enum, with their data in the variants",
        measure: state::flags,
    },
    Ratchet {
        rule: "large-state",
        free: state::LARGE,
        limits: &[],
        hint: "split the struct by what changes together",
        measure: state::large,
    },
    Ratchet {
        rule: "file-cycles",
        free: 4,
        limits: &[],
        hint: "pass a value, return one, or move what both use into a file of its own",
        measure: cycles::largest,
    },
    Ratchet {
        rule: "file-cycles",
        free: 0,
        limits: &[],
        hint: "pass a value, return one, or move what both use into a file of its own",
        measure: cycles::beyond_four,
    },
];

/// The number of a subject, as the sum over its places.
pub(super) struct Count {
    pub(super) subject: String,
    pub(super) places: Vec<Place>,
}

/// A file or a struct, with its part of the number.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) line: usize,
    pub(super) number: usize,
    /// The name of the struct, or the files that the file uses.
    pub(super) what: String,
}

impl Place {
    pub(super) fn new(path: &Path, line: usize, number: usize, what: &str) -> Self {
        Self { path: path.to_owned(), line, number, what: what.to_owned() }
    }
}

impl Count {
    pub(super) fn new(subject: &str, places: impl IntoIterator<Item = Place>) -> Self {
        let places = places.into_iter().filter(|place| place.number > 0).collect();
        Self { subject: subject.to_owned(), places }
    }

    pub(super) fn number(&self) -> usize {
        self.places.iter().map(|place| place.number).sum()
    }
}

impl Ratchet {
    /// The counts that are above their limits.
    fn exceeded(&self, core: &[Source]) -> Vec<Finding> {
        let counts = (self.measure)(core).into_iter();
        counts.filter_map(|count| self.judge(&count)).collect()
    }

    fn judge(&self, count: &Count) -> Option<Finding> {
        let named = self.limits.iter().find(|(subject, _)| *subject == count.subject);
        let (number, limit) = (count.number(), named.map_or(self.free, |(_, limit)| *limit));
        let first = count.places.first().filter(|_| number > limit)?;
        let mut hint = format!("{}: {number}, of at most {limit}: {}", count.subject, self.hint);
        for Place { path, line, number, what } in &count.places {
            let place = format!("\n    {}:{line}: {number} {what}", path.display());
            hint.push_str(place.trim_end());
        }
        Some(Finding::new(&first.path, first.line, self.rule, hint))
    }

    /// The limits that are higher than the number, each with what to do.
    #[cfg(test)]
    fn slack(&self, core: &[Source]) -> Vec<String> {
        let counts = (self.measure)(core);
        let lower = self.limits.iter().filter_map(|(subject, limit)| {
            let same = counts.iter().filter(|count| count.subject == *subject);
            match same.map(Count::number).max().unwrap_or(0) {
                number if number <= self.free => {
                    Some(format!("{}: remove the limit of {subject}: {number}", self.rule))
                }
                number if number < *limit => {
                    Some(format!("{}: lower the limit of {subject} to {number}", self.rule))
                }
                _ => None,
            }
        });
        lower.collect()
    }
}

/// Numbers of the core's sources that are above their limits.
pub(super) fn check(core: &[Source]) -> Vec<Finding> {
    RATCHETS.iter().flat_map(|ratchet| ratchet.exceeded(core)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;
    use crate::tidy::core;

    fn lines(sources: &[Source]) -> Vec<Count> {
        let places = sources.iter().map(|it| Place::new(&it.path, 1, it.code.len(), ""));
        vec![Count::new("lines", places)]
    }

    fn ratchet(free: usize, limits: &'static [(&'static str, usize)]) -> Ratchet {
        Ratchet { rule: "some", free, limits, hint: "write less", measure: lines }
    }

    fn two_files() -> [Source; 2] {
        [("a.rs", "1\n2\n3"), ("b.rs", "1\n2")].map(|(at, text)| Source::read(Path::new(at), text))
    }

    #[test]
    fn a_number_above_its_limit_is_found_with_its_places() {
        let found = ratchet(0, &[("lines", 4)]).exceeded(&two_files());
        let printed =
            "a.rs:1: some: lines: 5, of at most 4: write less\n    a.rs:1: 3\n    b.rs:1: 2";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [printed]);
        assert_eq!(ratchet(4, &[]).exceeded(&two_files()).len(), 1);
        assert!(ratchet(0, &[("lines", 5)]).exceeded(&two_files()).is_empty());
        assert!(ratchet(5, &[]).exceeded(&two_files()).is_empty());
    }

    #[test]
    fn a_limit_above_the_number_must_be_lowered() {
        let lower = "some: lower the limit of lines to 5";
        assert_eq!(ratchet(0, &[("lines", 6)]).slack(&two_files()), [lower]);
        assert!(ratchet(0, &[("lines", 5)]).slack(&two_files()).is_empty());
        let remove = "some: remove the limit of lines: 5";
        assert_eq!(ratchet(5, &[("lines", 6)]).slack(&two_files()), [remove]);
        let gone = "some: remove the limit of words: 0";
        assert_eq!(ratchet(0, &[("words", 6)]).slack(&two_files()), [gone]);
    }

    #[test]
    fn every_limit_is_the_number_that_stands() {
        let core = core(&repo::files().expect("the repository has files")).expect("they are text");
        let slack: Vec<_> = RATCHETS.iter().flat_map(|ratchet| ratchet.slack(&core)).collect();
        assert!(slack.is_empty(), "\n{}\n", slack.join("\n"));
    }
}
