// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask test`: the parts the project is checked by, one after the other, each within its budget and what
//! those before it left of theirs: a machine that compiles slowly often tests quickly.

mod install;
pub(crate) mod limit;
mod options;
mod parts;
mod tally;

use limit::Ending;
use options::Options;
use parts::{Action, PARTS, Part};
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
    let mut rows = Vec::new();
    let mut left_over = Duration::ZERO;
    for part in PARTS.iter().filter(|part| options.wants(part.name)) {
        println!("\n== {} (budget {} s): {}", part.name, part.budget.as_secs(), part.checks);
        let begun = Instant::now();
        let limit = part.budget + left_over;
        let (outcome, tally) = perform(part, limit, &options);
        let took = begun.elapsed();
        left_over = limit.saturating_sub(took);
        rows.push(Row { name: part.name, took, budget: part.budget, outcome, tally });
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
            let ending = limit::run(command(options), limit, |line| tally.read(line));
            (judge(ending, limit), tally)
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
