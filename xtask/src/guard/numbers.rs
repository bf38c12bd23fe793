// SPDX-License-Identifier: Apache-2.0
//! What operations cost: the committed file, and how two costs are compared.

use std::collections::BTreeMap;
use std::fmt;

/// The share of a figure by which it may change, in either direction.
const TOLERANCE: f64 = 0.02;
/// Figures with two decimals are rounded by at most this.
const ROUNDING: f64 = 0.005;
/// What a line with the compiler begins with.
const COMPILER: &str = "rustc ";

/// What one operation of a row costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) instructions: f64,
    pub(super) allocations: f64,
    pub(super) calls: f64,
}

impl Cost {
    /// The figures with their names.
    pub(super) const fn figures(&self) -> [(&'static str, f64); 3] {
        let Self { instructions, allocations, calls } = *self;
        [("instructions", instructions), ("allocations", allocations), ("calls", calls)]
    }
}

/// The costs of all rows that were measured, by name.
pub(super) type Costs = BTreeMap<String, Cost>;

/// The committed file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    /// What the file is, and why its numbers changed.
    pub(super) comments: Vec<String>,
    pub(super) compiler: String,
    pub(super) costs: Costs,
}

impl Numbers {
    /// Reads the file.
    ///
    /// # Errors
    /// A line is none of a comment, the compiler and a row, or there is no compiler.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut comments, mut compiler, mut costs) = (Vec::new(), None, Costs::new());
        for line in text.lines().filter(|line| !line.is_empty()) {
            if line.starts_with('#') {
                comments.push(line.to_owned());
            } else if line.starts_with(COMPILER) {
                compiler = Some(line.to_owned());
            } else {
                let (name, cost) = row(line).ok_or(format!("`{line}` is no row"))?;
                costs.insert(name, cost);
            }
        }
        let compiler = compiler.ok_or(format!("no line begins with `{COMPILER}`"))?;
        Ok(Self { comments, compiler, costs })
    }
}

fn row(line: &str) -> Option<(String, Cost)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, instructions, allocations, calls] = words[..] else { return None };
    let instructions = instructions.parse().ok()?;
    let (allocations, calls) = (allocations.parse().ok()?, calls.parse().ok()?);
    Some((name.to_owned(), Cost { instructions, allocations, calls }))
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.comments.iter().try_for_each(|comment| writeln!(f, "{comment}"))?;
        writeln!(f, "{}", self.compiler)?;
        self.costs.iter().try_for_each(|(name, Cost { instructions, allocations, calls })| {
            writeln!(f, "{name} {instructions:.0} {allocations:.2} {calls:.2}")
        })
    }
}

/// One figure of a row, before and now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) before: f64,
    pub(super) now: f64,
}

impl Change {
    /// Whether it changed by more than is tolerated.
    pub(super) fn fails(self) -> bool {
        (self.now - self.before).abs() > self.before * TOLERANCE + ROUNDING
    }

    /// By how many percent it changed.
    pub(super) fn percent(self) -> f64 {
        if self.before == 0.0 && self.now == 0.0 {
            return 0.0;
        }
        (self.now / self.before - 1.0) * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# What it is.\n# A reason.\nrustc 1.95.0 (59807616e 2026-04-14) x86_64\n\
                        local-1 9000 3.00 2.00\nsync-16 31000 12.25 9.50\n";

    #[test]
    fn the_file_is_read_and_written_as_it_is() {
        let numbers = Numbers::parse(FILE).expect("it is well formed");
        assert_eq!(numbers.compiler, "rustc 1.95.0 (59807616e 2026-04-14) x86_64");
        let cost = Cost { instructions: 31_000.0, allocations: 12.25, calls: 9.5 };
        assert_eq!(numbers.costs["sync-16"], cost);
        assert_eq!(numbers.to_string(), FILE);
    }

    #[test]
    fn a_line_that_is_no_row_and_a_file_without_a_compiler_are_refused() {
        for line in ["sync-1 1 2", "sync-1 1 2 3 4", "sync-1 many 2 3"] {
            let refused = Numbers::parse(&format!("{FILE}{line}\n"));
            assert_eq!(refused, Err(format!("`{line}` is no row")));
        }
        assert!(Numbers::parse("sync-1 1 2 3\n").is_err_and(|why| why.contains("rustc")));
    }

    #[test]
    fn a_change_by_more_than_two_percent_fails_in_both_directions() {
        let fails = |before, now| Change { before, now }.fails();
        for (factor, expected) in [(1.021, true), (0.979, true), (1.019, false), (0.981, false)] {
            assert_eq!(fails(10_000.0, 10_000.0 * factor), expected, "{factor}");
        }
        assert!(!fails(0.0, 0.0) && fails(0.0, 0.01) && fails(1.0, 2.0));
        let change = Change { before: 200.0, now: 205.0 };
        assert!((change.percent() - 2.5).abs() < 1e-9);
    }
}
