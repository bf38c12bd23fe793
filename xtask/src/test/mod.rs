// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask test`: the parts the project is checked by, one after the other. All of them together have a limit. A part may
//! take what is left of it, but for half of the budgets of those behind it. Tests that were slow are repeated behind all parts.

mod deny;
mod install;
pub(crate) mod limit;
mod options;
pub(crate) mod parts;
mod slow;
mod tally;

use crate::repo;
use limit::Ending;
use options::{Options, Place};
use parts::{ALL, Action, PARTS, Part};
use slow::{Environment, Slow};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tally::{Outcome, Row, Tally};

/// A run that has no limit ends all the same.
const UNLIMITED: Duration = Duration::from_secs(24 * 60 * 60);
/// The slow tests of a run that may pass when they are repeated. More mean that something is wrong with the product, or with the machine.
const MOST_FLAKY: usize = 2;
/// What may be missing where nothing else may: it takes a kernel, a guest, or a right that such a machine does not have.
const MAY_LACK: [&str; 7] = [
    "CAP_SYS_RESOURCE",
    "root and ublk",
    "root and the kernel's NBD client",
    "a guest of its own (cargo xtask vm pressure)",
    "a device that outlives its daemon (HELIO_VIA)",
    "xfs in the kernel",
    "btrfs in the kernel",
];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let options = Options::read(arguments, Place::here(), &repo::tree()?)?;
    if options.list {
        for part in &PARTS {
            println!("{:<8} {:>4} s  {}", part.name, part.budget.as_secs(), part.checks);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if options.place == Place::Ci {
        refuse_changes(&repo::changes()?)?;
    }
    println!("seed {}: {}", options.seed, options.again(arguments));
    let (ours, others): (Vec<&Part>, Vec<&Part>) =
        PARTS.iter().filter(|part| options.wants(part)).partition(|it| options.has_turn(it));
    let mut run = Run::begin(&options);
    for (n, part) in ours.iter().enumerate() {
        run.perform(part, ours[n + 1..].iter().map(|part| part.budget / 2).sum());
    }
    let flaky = run.repeat();
    for part in others {
        let outcome = Outcome::Skipped("it is part of another turn; `--all` runs it".to_owned());
        run.rows.push(Row::without_tests(part, Duration::ZERO, outcome));
    }
    print!("{}", tally::table(&run.rows));
    flaky.iter().for_each(|name| println!("flaky {name}"));
    println!("{}", tally::total(&run.rows));
    let failed = run.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Only what is committed is submitted.
fn refuse_changes(changes: &str) -> Result<(), String> {
    if changes.is_empty() {
        return Ok(());
    }
    Err(format!(
        "with CI=true only what is committed is tested, and this is not:\n{changes}\
         hint: commit or remove it, or run without CI"
    ))
}

/// A run of parts.
struct Run<'a> {
    options: &'a Options,
    begun: Instant,
    /// What was spent that is no part of the limit.
    outside: Duration,
    rows: Vec<Row>,
    /// Tests to repeat, each with the environment that it was slow in.
    slow: Vec<(Slow, Environment)>,
}

impl<'a> Run<'a> {
    fn begin(options: &'a Options) -> Self {
        let (rows, slow) = (Vec::new(), Vec::new());
        Self { options, begun: Instant::now(), outside: Duration::ZERO, rows, slow }
    }

    /// What is left of the limit.
    fn left(&self) -> Duration {
        let all = if self.options.is_limited { ALL } else { UNLIMITED };
        (all + self.outside).saturating_sub(self.begun.elapsed())
    }

    /// Runs a part, and leaves so much to those behind it.
    fn perform(&mut self, part: &Part, behind: Duration) {
        println!("\n== {} (budget {} s): {}", part.name, part.budget.as_secs(), part.checks);
        let missing = |why: &str| match self.options.place {
            Place::Ci => Outcome::Failed(format!("with CI=true nothing may be missing: {why}")),
            Place::Desk => Outcome::Skipped(why.to_owned()),
        };
        let command = match part.action {
            Action::Install => return self.install(part, behind),
            Action::Run(command) => command(self.options).map_err(Outcome::Failed),
            Action::RunIf(condition, command) => match condition() {
                Ok(()) => command(self.options).map_err(Outcome::Failed),
                Err(why) => Err(missing(why)),
            },
            Action::Deny => {
                let asked = Instant::now();
                let command = deny::command(self.options.place).map_err(|why| missing(&why));
                self.outside += asked.elapsed();
                command
            }
        };
        let (begun, limit) = (Instant::now(), self.left().saturating_sub(behind));
        let row = match command {
            Err(outcome) => Row::without_tests(part, Duration::ZERO, outcome),
            Ok(command) => {
                let mut tally = Tally::default();
                let environment = slow::environment(&command);
                let ending = limit::run(command, limit, |line| tally.read(line));
                let outcome = self.judge(ending, limit, &tally, &environment);
                let (name, budget) = (part.name, part.budget);
                Row { name, took: begun.elapsed(), budget, outcome, tally }
            }
        };
        self.rows.push(row);
    }

    fn install(&mut self, part: &Part, behind: Duration) {
        let begun = Instant::now();
        let limit = self.left().saturating_sub(behind);
        let missing =
            if self.options.install { install::run(limit) } else { install::only_report() };
        let outcome = match missing {
            None => Outcome::Passed,
            Some(why) if self.options.place == Place::Ci => Outcome::Failed(why),
            Some(why) => Outcome::Skipped(why),
        };
        self.rows.push(Row::without_tests(part, begun.elapsed(), outcome));
    }

    /// How a part went. Its slow tests are kept to be repeated, if nothing else is wrong.
    fn judge(
        &mut self,
        ending: Ending,
        limit: Duration,
        tally: &Tally,
        environment: &Environment,
    ) -> Outcome {
        let lacks = tally.lacks_more_than(&MAY_LACK);
        let lacks = lacks.filter(|_| self.options.place == Place::Ci);
        match (outcome(ending, limit), tally.failures.only_slow(), lacks) {
            (Outcome::Failed(why), None, _) => Outcome::Failed(why),
            (_, _, Some(what)) => {
                Outcome::Failed(format!("with CI=true nothing may be missing: {what}"))
            }
            (Outcome::Failed(_), Some(slow), None) => {
                self.slow.extend(slow.iter().map(|slow| (slow.clone(), environment.clone())));
                Outcome::Slow
            }
            (other, _, None) => other,
        }
    }

    /// Repeats each slow test once, alone: the names of those that passed.
    fn repeat(&mut self) -> Vec<String> {
        let slow = std::mem::take(&mut self.slow);
        if slow.is_empty() {
            return Vec::new();
        }
        println!("\n== again: tests that were slow, each alone");
        let (begun, mut flaky, mut failed) = (Instant::now(), Vec::new(), Vec::new());
        for (test, environment) in &slow {
            println!("{}", test.name());
            match outcome(test.again(environment, self.left()), self.left()) {
                Outcome::Passed => flaky.push(test.name()),
                other => failed.push(format!("{}: {other:?}", test.name())),
            }
        }
        let outcome = if !failed.is_empty() {
            Outcome::Failed(failed.join("; "))
        } else if flaky.len() > MOST_FLAKY {
            Outcome::Failed(format!("{} tests are flaky, {MOST_FLAKY} may be", flaky.len()))
        } else {
            Outcome::Passed
        };
        let tally = Tally::of(flaky.len() as u64, failed.len() as u64);
        let (name, budget) = ("again", Duration::ZERO);
        self.rows.push(Row { name, took: begun.elapsed(), budget, outcome, tally });
        flaky
    }
}

fn outcome(ending: Ending, limit: Duration) -> Outcome {
    match ending {
        Ending::Success => Outcome::Passed,
        Ending::Failure(how) => Outcome::Failed(how),
        Ending::OverBudget => Outcome::Failed(format!(
            "stopped: it took longer than the {} s there were",
            limit.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_committed_is_refused() {
        assert_eq!(refuse_changes(""), Ok(()));
        let refused = refuse_changes(" M README.md\n").expect_err("a change");
        assert!(refused.contains("README.md") && refused.contains("hint: commit"), "{refused}");
    }
}
