// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask guard`: what writes cost in instructions, allocations and calls, compared with the committed numbers.
//!
//! Times on machines that do other work are noise; these numbers are not. They depend on the compiler, so the file names it. Under
//! another one, the commit that set the numbers is measured with it, and compared with.

mod base;
mod measure;
mod numbers;

use crate::repo;
use measure::{Measured, measure};
use numbers::{Change, Costs, Numbers};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// The committed numbers, below the root.
const NUMBERS: &str = "proof/guard/numbers.txt";

/// What is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Why the numbers changed: they are written instead of compared.
    accept: Option<String>,
    /// Whether the commit that set the numbers is measured even if the compiler is the same.
    base: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let (mut options, mut rest) = (Self::default(), arguments.iter());
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--accept" => {
                    let reason = rest.next().filter(|reason| is_reason(reason));
                    let reason = reason.ok_or("--accept needs the reason, in one line")?;
                    options.accept = Some(reason.clone());
                }
                "--base" => options.base = true,
                other => return Err(format!("guard has no argument `{other}`")),
            }
        }
        Ok(options)
    }

    /// Whether the commit that set the numbers is measured, because they do not mean anything here.
    fn measures_base(&self, numbers: &Numbers, compiler: &str) -> bool {
        self.accept.is_none() && (self.base || numbers.compiler != compiler)
    }
}

fn is_reason(text: &str) -> bool {
    text.contains(' ') && !text.contains('\n') && !text.starts_with('-')
}

/// Compares the costs with the committed ones, or writes them.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let options = Options::parse(arguments)?;
    has_valgrind()?;
    let path = repo::root().join(NUMBERS);
    let text = std::fs::read_to_string(&path).map_err(|why| format!("{NUMBERS}: {why}"))?;
    let mut numbers = Numbers::parse(&text).map_err(|why| format!("{NUMBERS}: {why}"))?;
    let compiler = compiler()?;
    let target = target();
    let measured = measure(repo::root(), &target)?;
    for (name, why) in &measured.skipped {
        // As tests do: `cargo xtask test` reads it.
        println!("{name}: skipped: needs {why}");
    }
    if options.measures_base(&numbers, &compiler) {
        if numbers.compiler != compiler {
            println!("the committed numbers are of {}; this is {compiler}", numbers.compiler);
        }
        numbers.costs = base::costs(&compiler, &target)?;
    }
    let failed = compare(&numbers.costs, &measured);
    if let Some(reason) = options.accept {
        numbers.comments.push(format!("# {reason}"));
        numbers.compiler = compiler;
        numbers.costs.retain(|name, _| measured.skipped.iter().any(|(skipped, _)| skipped == name));
        numbers.costs.extend(measured.costs);
        std::fs::write(&path, numbers.to_string()).map_err(|why| format!("{NUMBERS}: {why}"))?;
        println!("{NUMBERS} is written: commit it with the change");
        return Ok(ExitCode::SUCCESS);
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("\nthe cost of an operation changed by more than 2 %:");
    failed.iter().for_each(|what| eprintln!("  {what}"));
    eprintln!(
        "hint: if it must change, run `cargo xtask guard --accept \"REASON\"` and commit {NUMBERS} with it"
    );
    Ok(ExitCode::FAILURE)
}

/// Whether callgrind is there; else why the guard cannot run.
pub(crate) fn has_valgrind() -> Result<(), &'static str> {
    let mut asked = Command::new("valgrind");
    match asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("valgrind is not installed; `apt-get install valgrind` brings it"),
    }
}

/// The compiler and the kind of processor, as the file names them.
pub(crate) fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-V").current_dir(repo::root()).output();
    let output = output.map_err(|why| format!("cannot start rustc: {why}"))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(format!("{version} {}", std::env::consts::ARCH))
}

fn target() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    repo::root().join(target)
}

/// Prints a table of all figures, and returns what fails.
fn compare(committed: &Costs, measured: &Measured) -> Vec<String> {
    let mut failed = Vec::new();
    println!("{:<24} {:>12} {:>12} {:>8}", "per operation", "committed", "measured", "change");
    for (name, cost) in &measured.costs {
        let Some(known) = committed.get(name) else {
            failed.push(format!("{name}: no number is committed"));
            continue;
        };
        for ((figure, now), (_, before)) in cost.figures().into_iter().zip(known.figures()) {
            let change = Change { before, now };
            let (row, percent) = (format!("{name} {figure}"), change.percent());
            println!("{row:<24} {before:>12.2} {now:>12.2} {percent:>+7.2}%");
            if change.fails() {
                failed.push(format!("{row}: {before:.2} became {now:.2} ({percent:+.2} %)"));
            }
        }
    }
    let is_there = |name: &String| {
        measured.costs.contains_key(name) || measured.skipped.iter().any(|(it, _)| it == name)
    };
    let gone = committed.keys().filter(|name| !is_there(name));
    failed.extend(gone.map(|name| format!("{name}: the guard has no such row")));
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use numbers::Cost;

    fn costs(rows: &[(&str, f64)]) -> Costs {
        let cost = |instructions| Cost { instructions, allocations: 2.0, calls: 3.0 };
        rows.iter().map(|(name, it)| ((*name).to_owned(), cost(*it))).collect()
    }

    fn failed(committed: &[(&str, f64)], now: &[(&str, f64)], skipped: &[&str]) -> Vec<String> {
        let skipped = skipped.iter().map(|name| ((*name).to_owned(), "why".to_owned())).collect();
        compare(&costs(committed), &Measured { costs: costs(now), skipped })
    }

    #[test]
    fn a_figure_that_changed_too_much_fails_with_its_name() {
        let committed = [("async-1", 1000.0), ("sync-1", 2000.0)];
        assert!(failed(&committed, &[("async-1", 1019.0), ("sync-1", 1962.0)], &[]).is_empty());
        let found = failed(&committed, &[("async-1", 1000.0), ("sync-1", 2042.0)], &[]);
        assert_eq!(found, ["sync-1 instructions: 2000.00 became 2042.00 (+2.10 %)"]);
        let found = failed(&committed, &[("async-1", 979.0), ("sync-1", 2000.0)], &[]);
        assert_eq!(found, ["async-1 instructions: 1000.00 became 979.00 (-2.10 %)"]);
    }

    #[test]
    fn a_row_that_comes_or_goes_fails_and_one_that_was_skipped_does_not() {
        let both = [("ring-1", 10.0), ("sync-1", 20.0)];
        assert!(failed(&both, &both[1..], &["ring-1"]).is_empty());
        assert_eq!(failed(&both, &both[1..], &[]), ["ring-1: the guard has no such row"]);
        assert_eq!(failed(&both[1..], &both, &[]), ["ring-1: no number is committed"]);
    }

    #[test]
    fn the_committed_file_can_be_read_and_names_its_compiler() {
        let text = std::fs::read_to_string(repo::root().join(NUMBERS)).expect("it is committed");
        let numbers = Numbers::parse(&text).expect("each line is right");
        assert!(numbers.costs.len() > 5);
        assert!(compiler().expect("rustc is there").starts_with("rustc 1."));
    }

    #[test]
    fn under_another_compiler_the_commit_that_set_the_numbers_is_measured() {
        let numbers = Numbers::parse("rustc 1.95.0 (59807616e 2026-04-14) x86_64\n");
        let numbers = numbers.expect("it is well formed");
        let measures = |options: &Options, compiler| options.measures_base(&numbers, compiler);
        let plain = Options::default();
        assert!(!measures(&plain, "rustc 1.95.0 (59807616e 2026-04-14) x86_64"));
        assert!(measures(&plain, "rustc 1.96.0 (0123456ab 2026-05-28) x86_64"));
        assert!(measures(&plain, "rustc 1.95.0 (59807616e 2026-04-14) aarch64"));
        let base = Options { base: true, ..Options::default() };
        assert!(measures(&base, &numbers.compiler));
        let accepts = Options { accept: Some("A new compiler.".to_owned()), ..base };
        assert!(!measures(&accepts, "rustc 1.96.0 (0123456ab 2026-05-28) x86_64"));
    }

    #[test]
    fn a_new_number_needs_a_reason() {
        let parse = |arguments: &[&str]| {
            Options::parse(&arguments.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
        };
        assert!(parse(&["--accept"]).is_err() && parse(&["--accept", "--base"]).is_err());
        let accepted = parse(&["--accept", "Writes are compared first."]).expect("a reason");
        assert_eq!(accepted.accept.as_deref(), Some("Writes are compared first."));
        assert!(parse(&["--base"]).is_ok_and(|it| it.base) && parse(&["x"]).is_err());
    }
}
