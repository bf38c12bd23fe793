// SPDX-License-Identifier: Apache-2.0
//! Counting what the tests say of themselves, and the table at the end.

use super::parts::Part;
use super::slow::Failures;
use std::fmt::Write;
use std::time::Duration;

/// What testkit prints where a test lacks a program and does nothing; libtest counts it as passed.
const SKIP: &str = "skipped: needs ";

/// Tests counted in one part's output.
#[derive(Debug, Default)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// What each test that skipped itself lacks.
    lacking: Vec<String>,
    pub(super) failures: Failures,
}

impl Tally {
    /// Of tests that were counted otherwise.
    pub(super) fn of(passed: u64, failed: u64) -> Self {
        Self { passed, failed, ..Self::default() }
    }

    /// What tests lack that is not in this list.
    pub(super) fn lacks_more_than(&self, known: &[&str]) -> Option<&str> {
        let unknown = |what: &&String| !known.contains(&what.as_str());
        self.lacking.iter().find(unknown).map(String::as_str)
    }

    /// Takes in one line of output.
    pub(super) fn read(&mut self, line: &str) {
        self.failures.read(line);
        if let Some((_, what)) = line.split_once(SKIP) {
            self.lacking.push(what.trim().to_owned());
        }
        let Some(result) = line.trim().strip_prefix("test result: ") else { return };
        for piece in result.split([';', '.']) {
            if let Some((number, word)) = piece.trim().split_once(' ')
                && let Ok(number) = number.parse::<u64>()
            {
                match word {
                    "passed" => self.passed += number,
                    "failed" => {
                        self.failed += number;
                        self.failures.add(number);
                    }
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        }
    }

    fn counted_any(&self) -> bool {
        self.passed + self.failed + self.ignored > 0
    }
}

/// How a part went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// Only by tests that were slow, and are repeated.
    Slow,
    Failed(String),
    Skipped(String),
}

/// One line of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) took: Duration,
    pub(super) budget: Duration,
    pub(super) outcome: Outcome,
    pub(super) tally: Tally,
}

impl Row {
    /// Of a part that counted no tests.
    pub(super) fn without_tests(part: &Part, took: Duration, outcome: Outcome) -> Self {
        let (name, budget, tally) = (part.name, part.budget, Tally::default());
        Self { name, took, budget, outcome, tally }
    }

    /// Passed, failed, skipped: the part's tests where it has any, else the part itself as one.
    fn counts(&self) -> [u64; 3] {
        let tally = &self.tally;
        let skipped = tally.lacking.len() as u64;
        let mut counts =
            [tally.passed.saturating_sub(skipped), tally.failed, tally.ignored + skipped];
        match self.outcome {
            // They are counted where they are repeated.
            Outcome::Slow => counts[1] = 0,
            Outcome::Passed if !tally.counted_any() => counts[0] += 1,
            // It failed otherwise than by a test: it did not compile, or took too long.
            Outcome::Failed(_) if tally.failed == 0 => counts[1] += 1,
            Outcome::Skipped(_) => counts[2] += 1,
            Outcome::Passed | Outcome::Failed(_) => {}
        }
        counts
    }

    fn result(&self) -> String {
        let [passed, failed, skipped] = self.counts();
        let counted = self.tally.counted_any();
        let tests = if counted {
            format!(": {passed} passed, {failed} failed, {skipped} skipped")
        } else {
            String::new()
        };
        match &self.outcome {
            Outcome::Passed => format!("passed{tests}"),
            Outcome::Slow => format!("passed, but for {} slow tests{tests}", self.tally.failed),
            Outcome::Failed(why) => format!("FAILED ({why}){tests}"),
            Outcome::Skipped(why) => format!("skipped ({why})"),
        }
    }
}

/// The table: part, seconds, budget, result; under it, what tests skipped themselves for.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from("\npart      seconds  budget  result\n");
    for row in rows {
        let (took, budget) = (row.took.as_secs_f64(), row.budget.as_secs());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<8} {took:>8.1} {budget:>7}  {}", row.name, row.result());
    }
    let mut lacking: Vec<&String> = rows.iter().flat_map(|row| &row.tally.lacking).collect();
    lacking.sort();
    lacking.dedup();
    for what in lacking {
        let _ = writeln!(text, "skipped for want of {what}");
    }
    text
}

/// The last line.
pub(super) fn total(rows: &[Row]) -> String {
    let mut sum = [0; 3];
    for row in rows {
        for (whole, part) in sum.iter_mut().zip(row.counts()) {
            *whole += part;
        }
    }
    format!("{} passed, {} failed, {} skipped", sum[0], sum[1], sum[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: Outcome, lines: &[&str]) -> Row {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        Row {
            name: "unit",
            took: Duration::from_secs(2),
            budget: Duration::from_secs(9),
            outcome,
            tally,
        }
    }

    const RESULT: &str = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.10s";

    #[test]
    fn the_tests_of_all_results_are_added_up() {
        let passed = row(Outcome::Passed, &[RESULT, "test a ... ok", RESULT]);
        assert_eq!(total(&[passed]), "10 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_part_without_tests_counts_as_one() {
        let rows = [
            row(Outcome::Passed, &[]),
            row(Outcome::Failed("exit status: 1".to_owned()), &[]),
            row(Outcome::Skipped("no deny".to_owned()), &[]),
        ];
        assert_eq!(total(&rows), "1 passed, 1 failed, 1 skipped");
        assert!(table(&rows).contains("skipped (no deny)"));
    }

    #[test]
    fn a_failure_is_counted_even_where_no_test_failed() {
        let stopped = row(Outcome::Failed("stopped".to_owned()), &[RESULT]);
        assert_eq!(total(&[stopped]), "5 passed, 1 failed, 1 skipped");
        let line = "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(
            total(&[row(Outcome::Failed(String::new()), &[line])]),
            "4 passed, 2 failed, 0 skipped"
        );
    }

    #[test]
    fn a_test_that_skipped_itself_has_not_passed() {
        let skipped = row(Outcome::Passed, &["test x ... skipped: needs fio", RESULT]);
        assert_eq!(total(std::slice::from_ref(&skipped)), "4 passed, 0 failed, 2 skipped");
        assert!(table(&[skipped]).contains("skipped for want of fio"));
    }
}
