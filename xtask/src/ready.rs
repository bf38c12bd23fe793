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
/// What the names of variables begin with that are not passed on to that run.
const OURS: [&str; 7] = [
    "CARGO_BUILD_",
    "CARGO_INCREMENTAL",
    "CARGO_MANIFEST",
    "CARGO_PKG_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_DIR",
    "HELIO_",
];
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
    let clone = Clone::of_head()?;
    let tree = repo::tree_of(&clone.folder)?;
    let mut run = Command::new("bash");
    run.arg(".ci/run").current_dir(&clone.folder).env("CI", "true");
    // What this build, or a test by hand, is set to is not meant for that one.
    let ours = |name: &String| OURS.iter().any(|ours| name.starts_with(ours));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(ours).for_each(|name| {
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

/// Prints the commit that passed last, and the commits since.
fn last() -> Result<ExitCode, String> {
    let text = fs::read_to_string(remembered()?).unwrap_or_default();
    let git = |arguments: &[&str]| repo::output(Command::new("git").args(arguments));
    let Some(commit) = newest(&text, &git(&["log", "--format=%T %h"])?).map(str::to_owned) else {
        println!("no commit of this branch has passed the whole of .ci/run on this machine");
        return Ok(ExitCode::FAILURE);
    };
    let since = git(&["log", "--format=%h %s", &format!("{commit}..HEAD")])?;
    let changes = repo::changes()?;
    println!("passed: {}", git(&["log", "-1", "--format=%h %s", &commit])?.trim());
    print!("commits since: {}\n{since}", since.lines().count());
    if !changes.is_empty() {
        println!("not committed:\n{changes}");
    }
    let is_ready = since.is_empty() && changes.is_empty();
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The newest commit in a log of `TREE COMMIT` whose tree is one of those that passed.
fn newest<'a>(passed: &str, log: &'a str) -> Option<&'a str> {
    let mut commits = log.lines().filter_map(|line| line.split_once(' '));
    commits.find(|(tree, _)| passed.lines().any(|it| it == *tree)).map(|(_, commit)| commit)
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
    fn the_newest_commit_whose_tree_passed_is_found() {
        let log = "ccc 3\nbbb 2\naaa 1\n";
        assert_eq!(newest("aaa\nbbb\n", log), Some("2"));
        assert_eq!((newest("ccc\naaa\n", log), newest("", log)), (Some("3"), None));
        assert_eq!(newest("cc\n\nddd\n", log), None);
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
