// SPDX-License-Identifier: Apache-2.0
//! Builds `helio-guard`, and runs its rows under callgrind.

use super::numbers::{Cost, Costs};
use crate::repo;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Rows that run at once.
const AT_ONCE: usize = 2;
/// The functions at which callgrind begins and ends to count.
const BOUNDARY: &str = "helio_guard::boundary::*";
/// What callgrind calls instructions and system calls.
const INSTRUCTIONS: &str = "Ir";
const SYSTEM_CALLS: &str = "sysCount";

/// What the rows came to.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) costs: Costs,
    /// Rows that cannot be measured on this machine, each with the reason.
    pub(super) skipped: Vec<(String, String)>,
}

/// Builds the guard of a checkout, in the same way each time, and measures its rows.
///
/// # Errors
/// It cannot be built, or a row fails.
pub(super) fn measure(checkout: &Path, target: &Path) -> Result<Measured, String> {
    let mut cargo = Command::new(repo::cargo());
    cargo.current_dir(checkout).args(["build", "--quiet", "--release", "-p", "helio-guard"]);
    // Settings of this machine give other code.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PROFILE_RELEASE_") || text.ends_with("RUSTFLAGS") {
            cargo.env_remove(&name);
        }
    }
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
    let built = cargo.env("CARGO_TARGET_DIR", target).status();
    if !built.map_err(|why| format!("cannot start cargo: {why}"))?.success() {
        return Err("helio-guard cannot be built".to_owned());
    }
    let program = target.join("release/helio-guard");
    let names = output(&mut Command::new(&program))?;
    let names: Vec<&str> = names.lines().collect();
    let scratch = target.join("guard");
    std::fs::create_dir_all(&scratch).map_err(|why| format!("{}: {why}", scratch.display()))?;
    let rows = rows(&program, &names, &scratch)?;
    let mut measured = Measured::default();
    for (name, row) in rows {
        match row {
            Row::Cost(cost) => _ = measured.costs.insert(name, cost),
            Row::Skipped(why) => measured.skipped.push((name, why)),
        }
    }
    Ok(measured)
}

/// What a row came to.
#[derive(Clone, Debug, PartialEq)]
enum Row {
    Cost(Cost),
    Skipped(String),
}

/// Runs all rows, a few at once.
fn rows(program: &Path, names: &[&str], scratch: &Path) -> Result<Vec<(String, Row)>, String> {
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
            let row = run(program, name, &scratch.join(name))?;
            rows.lock().map_err(|_| "a row failed")?.push(((*name).to_owned(), row));
        }
        Ok::<(), String>(())
    };
    let ended: Vec<Result<(), String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.map(|ended| ended.unwrap_or(Err("a row failed".to_owned()))).collect()
    });
    ended.into_iter().collect::<Result<(), String>>()?;
    rows.into_inner().map_err(|_| "a row failed".to_owned())
}

/// Runs one row under callgrind.
fn run(program: &Path, name: &str, profile: &PathBuf) -> Result<Row, String> {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--collect-systime=usec"]);
    command.arg(format!("--toggle-collect={BOUNDARY}"));
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    let printed = output(command.arg(program).arg(name))?;
    let counted = std::fs::read_to_string(profile);
    let counted = counted.map_err(|why| format!("{}: {why}", profile.display()))?;
    row(&printed, &counted).map_err(|why| format!("{name}: {why}"))
}

/// A row from what the guard printed and what callgrind counted, as exact as the file has it.
fn row(printed: &str, profile: &str) -> Result<Row, String> {
    if let Some(why) = printed.strip_prefix("skipped ") {
        return Ok(Row::Skipped(why.trim().to_owned()));
    }
    let find = |name: &str| {
        let words = printed.lines().filter_map(|line| line.split_once(' '));
        words.filter(|(word, _)| *word == name).find_map(|(_, number)| number.parse::<f64>().ok())
    };
    let operations = find("operations").ok_or("the guard printed no number of operations")?;
    let allocations = find("allocations").ok_or("the guard printed no number of allocations")?;
    let calls = match find("calls") {
        Some(calls) => calls,
        None => event(profile, SYSTEM_CALLS)?,
    };
    let instructions = event(profile, INSTRUCTIONS)?;
    if instructions == 0.0 {
        return Err(format!("callgrind found no function `{BOUNDARY}`"));
    }
    let hundredths = |sum: f64| (sum / operations * 100.0).round() / 100.0;
    Ok(Row::Cost(Cost {
        instructions: (instructions / operations).round(),
        allocations: hundredths(allocations),
        calls: hundredths(calls),
    }))
}

/// How often an event happened, by a profile of callgrind.
fn event(profile: &str, name: &str) -> Result<f64, String> {
    let line = |head: &str| profile.lines().find_map(|line| line.strip_prefix(head));
    let names = line("events:").ok_or("callgrind wrote no line `events:`")?;
    let totals = line("totals:").ok_or("callgrind wrote no line `totals:`")?;
    let at = names.split_whitespace().position(|word| word == name);
    let at = at.ok_or(format!("callgrind did not count {name}"))?;
    // Zeros at the end are left out.
    let total = totals.split_whitespace().nth(at).unwrap_or("0");
    total.parse().map_err(|_| format!("`{total}` is no number of {name}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|why| format!("cannot start {name}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "version: 1\nevents: Ir sysCount sysTime sysCpuTime\nfn=(1) turn\n\
                           totals: 4000 20 9\n";

    #[test]
    fn figures_are_per_operation_and_calls_are_those_of_the_system_where_none_are_printed() {
        let cost = |calls| Row::Cost(Cost { instructions: 400.0, allocations: 1.5, calls });
        assert_eq!(row("operations 10\nallocations 15\ncalls 70\n", PROFILE), Ok(cost(7.0)));
        assert_eq!(row("operations 10\nallocations 15\n", PROFILE), Ok(cost(2.0)));
        assert_eq!(event(PROFILE, "sysCpuTime"), Ok(0.0));
    }

    #[test]
    fn a_row_that_was_skipped_keeps_its_reason_and_one_that_counted_nothing_is_refused() {
        let skipped = Row::Skipped("no io_uring here".to_owned());
        assert_eq!(row("skipped no io_uring here\n", ""), Ok(skipped));
        let empty = PROFILE.replace("totals: 4000 20 9", "totals: 0");
        let refused = row("operations 10\nallocations 0\n", &empty);
        assert!(refused.is_err_and(|why| why.contains("found no function")));
        assert!(row("operations 10\n", PROFILE).is_err());
        assert!(row("operations 10\nallocations 0\n", "events: Ir\ntotals: 5\n").is_err());
    }
}
