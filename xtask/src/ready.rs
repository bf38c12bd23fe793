// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask ready`: whether what is committed passes where nothing is left from before, and what passed last.

use crate::repo;
use crate::test::limit::{self, Ending};
use crate::test::parts;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// More than `.ci/run` may take with all that is outside its own limit.
const WITHIN: Duration = Duration::from_secs(4 * 60 * 60);
/// What `--quick` should take where everything was built before.
const QUICK: Duration = Duration::from_secs(3 * 60);
/// Tests that compare what is generated, and lists, with what they are made of.
const GENERATED: [&str; 9] = [
    "the_description_in_the_tree_is_the_one_of_the_types",
    "every_reference_leads_to_a_described_type_and_every_type_is_used",
    "every_code_that_is_refused_with_is_described",
    "every_refusal_of_the_engine_has_a_story",
    "the_pages_in_the_tree_are_those_of_the_command_line",
    "the_committed_page_is_what_its_sources_make",
    "every_command_is_in_one_list",
    "every_failure_is_listed_once",
    "every_pair_is_required_but_for_those_that_are_listed",
];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    match arguments {
        [] => whole(),
        [flag] if flag == "--last" => last(),
        [flag] if flag == "--quick" => Ok(quick()),
        _ => Err("ready takes nothing, --last, or --quick".to_owned()),
    }
}

/// Runs `.ci/run` in a fresh clone of HEAD, and remembers the tree if it passed.
fn whole() -> Result<ExitCode, String> {
    let changes = repo::changes()?;
    if !changes.is_empty() {
        println!("not committed, so not tested:\n{changes}");
    }
    let tree = repo::tree()?;
    let clone = Clone::of_head()?;
    let mut run = Command::new("bash");
    run.arg(".ci/run").current_dir(&clone.folder).env("CI", "true");
    // Nothing of this build, or of a test by hand, is meant for that one.
    let meant = |name: &str| name.starts_with("CARGO") || name.starts_with("HELIO_");
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| meant(name) && name != "CARGO_HOME").for_each(|name| {
        run.env_remove(name);
    });
    let begun = Instant::now();
    let ending = limit::run(run, WITHIN, |_| ());
    drop(clone);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    if ending != Ending::Success {
        println!("{tree} is not ready after {minutes:.1} minutes: {ending:?}");
        return Ok(ExitCode::FAILURE);
    }
    let path = remembered()?;
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let kept = file.and_then(|mut file| writeln!(file, "{tree}"));
    kept.map_err(|why| format!("{}: {why}", path.display()))?;
    println!("{tree} is ready, after {minutes:.1} minutes");
    Ok(ExitCode::SUCCESS)
}

/// The file with the trees that passed, one a line.
fn remembered() -> Result<PathBuf, String> {
    let folder = repo::cache()?;
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    Ok(folder.join("ready"))
}

/// A clone in the cache folder. It goes when this is dropped, or before the next one if this process is killed.
struct Clone {
    folder: PathBuf,
    /// Locked for as long as the clone is used.
    _lock: File,
}

impl Clone {
    fn of_head() -> Result<Self, String> {
        let folder = repo::cache()?.join("clone");
        fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", folder.display());
        let lock = File::create(folder.with_extension("lock")).map_err(|why| failed(&why))?;
        lock.try_lock().map_err(|why| failed(&format!("another `ready` runs ({why})")))?;
        fs::remove_dir_all(&folder).map_err(|why| failed(&why))?;
        let mut git = Command::new("git");
        git.args(["clone", "--quiet"]).arg(repo::root()).arg(&folder);
        repo::output(&mut git)?;
        Ok(Self { folder, _lock: lock })
    }
}

impl Drop for Clone {
    fn drop(&mut self) {
        // What stays is removed before the next clone.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Prints the tree that passed last, and the commits since.
fn last() -> Result<ExitCode, String> {
    let text = fs::read_to_string(remembered()?).unwrap_or_default();
    let log = ["log", "--format=%T %h %s"];
    let log = repo::output(Command::new("git").args(log))?;
    let told = since(&text, &log);
    println!("{}", told.as_deref().unwrap_or("no tree has passed the whole of .ci/run here"));
    let changes = repo::changes()?;
    if !changes.is_empty() {
        println!("not committed:\n{changes}");
    }
    let is_head = text.lines().any(|tree| log.starts_with(tree));
    Ok(if is_head && changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which of the trees that passed is the newest in a log of `TREE COMMIT SUBJECT`, and what came since; of none the last one.
fn since(passed: &str, log: &str) -> Option<String> {
    let is_passed =
        |line: &str| line.split(' ').next().is_some_and(|tree| passed.lines().any(|it| it == tree));
    let commits: Vec<&str> = log.lines().take_while(|line| !is_passed(line)).collect();
    let Some(found) = log.lines().nth(commits.len()) else {
        let last = passed.lines().last()?;
        return Some(format!("{last} passed last, and no commit before HEAD has it"));
    };
    let mut told = format!("{found}: passed, {} commits since", commits.len());
    commits.iter().for_each(|commit| told = format!("{told}\n  {commit}"));
    Some(told)
}

/// What fails most often, in minutes: form, lints, documentation, what is generated.
fn quick() -> ExitCode {
    let mut generated =
        parts::cargo("test --quiet --workspace --lib --bins --test document --test dashboard --");
    generated.args(GENERATED);
    let checks = [
        ("tidy", parts::cargo("run --quiet -p xtask -- tidy")),
        ("fmt", parts::cargo("fmt --all --check")),
        ("clippy", parts::clippy()),
        ("doc", parts::doc()),
        ("generated", generated),
    ];
    let begun = Instant::now();
    let mut failed = Vec::new();
    for (name, command) in checks {
        println!("\n== {name}");
        if limit::run(command, WITHIN, |_| ()) != Ending::Success {
            failed.push(name);
        }
    }
    let took = begun.elapsed();
    let slow =
        if took > QUICK { ", more than it should where everything was built before" } else { "" };
    println!("\n{:.0} s{slow}", took.as_secs_f64());
    if failed.is_empty() {
        println!(
            "form, lints, documentation and generated files are ready; `cargo xtask ready` runs the rest"
        );
        return ExitCode::SUCCESS;
    }
    println!("FAILED: {}", failed.join(", "));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tree_that_passed_is_told_with_what_came_since() {
        let log = "ccc 3 third\nbbb 2 second\naaa 1 first\n";
        assert_eq!(since("", log), None);
        let one = since("aaa\nbbb\n", log).expect("two passed");
        assert_eq!(one, "bbb 2 second: passed, 1 commits since\n  ccc 3 third");
        assert_eq!(since("ccc\n", log).expect("it passed"), "ccc 3 third: passed, 0 commits since");
        assert!(since("ddd\n", log).is_some_and(|told| told.contains("ddd passed last")));
    }

    #[test]
    fn each_test_of_what_is_generated_is_there() {
        let files = repo::files().expect("git knows them");
        let rust = files.iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let own = std::path::Path::new("xtask/src/ready.rs");
        let texts: Vec<String> = rust
            .filter(|path| *path != own)
            .filter_map(|path| fs::read_to_string(repo::root().join(path)).ok())
            .collect();
        for name in GENERATED {
            let head = format!("fn {name}(");
            assert!(texts.iter().any(|text| text.contains(&head)), "no test is called {name}");
        }
    }
}
