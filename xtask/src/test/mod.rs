// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask test`: the parts the project is checked by, one after the other. All of them together have a limit. A part may
//! take what is left of it, but for half of the budgets of those behind it.

mod install;
pub(crate) mod limit;
mod options;
mod parts;
mod tally;

use limit::Ending;
use options::Options;
use parts::{ALL, Action, PARTS, Part};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tally::{Outcome, Row, Tally};

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let options = Options::read(arguments)?;
    if options.list {
        for part in &PARTS {
            println!("{:<8} {:>4} s  {}", part.name, part.budget.as_secs(), part.checks);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let (today, other): (Vec<&Part>, Vec<&Part>) =
        PARTS.iter().filter(|part| options.wants(part.name)).partition(|it| options.has_turn(it));
    // All turns together, or parts that are named.
    let all = if options.turn.is_none() { ALL * 2 } else { ALL };
    let mut rows = Vec::new();
    for (n, part) in today.iter().enumerate() {
        println!("\n== {} (budget {} s): {}", part.name, part.budget.as_secs(), part.checks);
        let behind: Duration = today[n + 1..].iter().map(|part| part.budget / 2).sum();
        let limit = all.saturating_sub(begun.elapsed()).saturating_sub(behind);
        let part_begun = Instant::now();
        let (outcome, tally) = perform(part, limit, &options);
        let took = part_begun.elapsed();
        rows.push(Row { name: part.name, took, budget: part.budget, outcome, tally });
    }
    for part in other {
        let outcome = Outcome::Skipped("it is part of another turn; `--all` runs it".to_owned());
        let (name, budget) = (part.name, part.budget);
        rows.push(Row { name, took: Duration::ZERO, budget, outcome, tally: Tally::default() });
    }
    print!("{}", tally::table(&rows));
    println!("{}", tally::total(&rows));
    let failed = rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs one part for at most `limit`: how it went, and what its tests said of themselves.
fn perform(part: &Part, limit: Duration, options: &Options) -> (Outcome, Tally) {
    match part.action {
        Action::Install if options.install => install::run(limit),
        Action::Install => install::only_report(),
        Action::Run(command) => {
            let mut tally = Tally::default();
            match command(options) {
                Ok(command) => {
                    let ending = limit::run(command, limit, |line| tally.read(line));
                    (judge(ending, limit), tally)
                }
                Err(why) => (Outcome::Failed(why), tally),
            }
        }
        Action::RunIf(condition, command) => match condition() {
            Ok(()) => perform(&Part { action: Action::Run(command), ..*part }, limit, options),
            Err(why) => (Outcome::Skipped(why.to_owned()), Tally::default()),
        },
    }
}

fn judge(ending: Ending, limit: Duration) -> Outcome {
    match ending {
        Ending::Success => Outcome::Passed,
        Ending::Failure(how) => Outcome::Failed(how),
        Ending::OverBudget => Outcome::Failed(format!(
            "stopped: it took longer than the {} s there were",
            limit.as_secs()
        )),
    }
}
