// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask fuzz`: the coverage-guided fuzzer over the doors of `proof/fuzz`, and its corpora.
//!
//! What it finds on its way stays under `target/`; what breaks a promise goes to `proof/fuzz/regress/`, where the
//! ordinary tests try it for ever; `--minimise` puts what is worth keeping into `proof/fuzz/corpus/`.

mod cover;

use crate::repo;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What each target gets where nobody says how long, in seconds.
const SECONDS: u64 = 600;
/// Longest input, in bytes.
const LENGTH_MOST: u64 = 16 << 10;
/// Most inputs of one target that are kept, and their bytes together.
const KEPT_FILES: usize = 40;
/// Of a target that runs the whole daemon, which takes a thousand times as long.
const KEPT_STORIES: usize = 11;
const KEPT_BYTES: u64 = 120 << 10;

const NIGHTLY: &str = "the nightly toolchain is not installed; `rustup toolchain install nightly --profile minimal` brings it";
const CARGO_FUZZ: &str =
    "cargo-fuzz is not installed; `cargo install cargo-fuzz --locked` brings it";

/// What one call asks for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u64,
    minimise: bool,
    /// In the order of their names.
    targets: Vec<String>,
}

/// Runs the targets one after the other, also behind one with a finding.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    let options = read(arguments, &every_target()?)?;
    tools()?;
    seeds()?;
    let mut found = Vec::new();
    for target in &options.targets {
        let folders = Folders::of(target)?;
        if options.minimise {
            minimise(target, &folders)?;
        } else if !fuzz(target, &folders, options.seconds)? {
            found.push(target.as_str());
        }
    }
    if found.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("fuzz: {} broke a promise; `cargo test -p helio-fuzz` shows how", found.join(" and "));
    Ok(ExitCode::FAILURE)
}

fn read(arguments: &[String], every: &[String]) -> Result<Options, String> {
    let mut options = Options { seconds: SECONDS, minimise: false, targets: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--seconds" => {
                let number = rest.next().and_then(|text| text.parse().ok());
                options.seconds = number.filter(|n| *n > 0).ok_or("--seconds takes a number")?;
            }
            "--minimise" => options.minimise = true,
            name if every.iter().any(|target| target == name) => {
                options.targets.push(name.to_owned());
            }
            other => {
                let known = every.join(", ");
                return Err(format!("`{other}` is no target and no flag; targets: {known}"));
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = every.to_vec();
    }
    Ok(options)
}

fn home() -> PathBuf {
    repo::root().join("proof/fuzz")
}

/// The targets there are, by their files.
fn every_target() -> Result<Vec<String>, String> {
    let mut names: Vec<String> = listing(&home().join("fuzz/targets"))?
        .iter()
        .filter_map(|path| path.file_stem().and_then(OsStr::to_str).map(str::to_owned))
        .collect();
    names.sort();
    Ok(names)
}

fn listing(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |why: std::io::Error| format!("{}: {why}", folder.display());
    fs::read_dir(folder)
        .map_err(told)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(told))
        .collect()
}

/// What only nightly can do is done by nightly alone; the rest of the house knows nothing of it.
fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(repo::root());
    command
}

fn tools() -> Result<(), String> {
    for (arguments, lacking) in
        [(&["--version"][..], NIGHTLY), (&["fuzz", "--version"][..], CARGO_FUZZ)]
    {
        let asked = nightly().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !asked.is_ok_and(|status| status.success()) {
            return Err(lacking.to_owned());
        }
    }
    Ok(())
}

/// Writes down the inputs the targets themselves make.
fn seeds() -> Result<(), String> {
    let written = Command::new(repo::cargo())
        .current_dir(repo::root())
        .args(["run", "--quiet", "-p", "helio-fuzz", "--example", "seeds", "--"])
        .arg(build().join("seeds"))
        .status();
    let done = written.map_err(|why| format!("cannot start cargo: {why}"))?.success();
    if done { Ok(()) } else { Err("the seeds could not be made".to_owned()) }
}

/// Where everything is that is not kept.
fn build() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    repo::root().join(target).join("fuzz")
}

/// Where a target's inputs are.
struct Folders {
    /// What the fuzzer gathers on this machine.
    gathered: PathBuf,
    /// What is kept in the repository.
    kept: PathBuf,
    /// What the target itself makes.
    seeds: PathBuf,
    /// What broke a promise.
    regress: PathBuf,
}

impl Folders {
    fn of(target: &str) -> Result<Self, String> {
        let folders = Self {
            gathered: build().join("corpus").join(target),
            kept: home().join("corpus").join(target),
            seeds: build().join("seeds").join(target),
            regress: home().join("regress").join(target),
        };
        for folder in [&folders.gathered, &folders.kept, &folders.regress] {
            fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        }
        Ok(folders)
    }
}

/// The fuzzer of a target over folders of inputs, into the first of which it writes.
fn fuzzer(target: &str, folders: &[&Path]) -> Command {
    let mut command = nightly();
    command
        .args(["fuzz", "run", "--fuzz-dir", "proof/fuzz/fuzz", "--target-dir"])
        .arg(build().join("build"))
        .arg(target)
        .args(folders)
        .args(["--", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .arg(format!("-max_len={LENGTH_MOST}"));
    command
}

/// Whether every promise was kept for that long.
fn fuzz(target: &str, folders: &Folders, seconds: u64) -> Result<bool, String> {
    println!("fuzz: {target} for {seconds} s");
    let status = fuzzer(target, &[&folders.gathered, &folders.kept, &folders.seeds])
        .arg(format!("-max_total_time={seconds}"))
        // With the slash: what follows it is the finding's own name.
        .arg(format!("-artifact_prefix={}/", folders.regress.display()))
        .status()
        .map_err(|why| format!("cannot start rustup: {why}"))?;
    Ok(status.success())
}

/// Keeps the inputs that reach most, as many as there is room for.
fn minimise(target: &str, folders: &Folders) -> Result<(), String> {
    let least = build().join("least").join(target);
    let told = |why: std::io::Error| format!("{}: {why}", least.display());
    if least.exists() {
        fs::remove_dir_all(&least).map_err(told)?;
    }
    fs::create_dir_all(least.join("merged")).map_err(told)?;
    let (merged, control) = (least.join("merged"), least.join("control"));
    let status = fuzzer(target, &[&merged, &folders.kept, &folders.seeds, &folders.gathered])
        // Code reached counts, and not how often: that would take ten times the inputs.
        .args(["-set_cover_merge=1", "-use_counters=0"])
        .arg(format!("-merge_control_file={}", control.display()))
        .status()
        .map_err(|why| format!("cannot start rustup: {why}"))?;
    let control = fs::read_to_string(control).unwrap_or_default();
    let most = if target.starts_with("whole-") { KEPT_STORIES } else { KEPT_FILES };
    let chosen = cover::choose(&control, most, KEPT_BYTES).filter(|_| status.success());
    let chosen = chosen.ok_or_else(|| format!("the corpus of {target} could not be minimised"))?;
    // Read before anything is removed, since some of them are there already.
    let kept: Vec<(&PathBuf, Vec<u8>)> = chosen
        .iter()
        .map(|path| fs::read(path).map(|bytes| (path, bytes)).map_err(told))
        .collect::<Result<_, _>>()?;
    for old in listing(&folders.kept)? {
        fs::remove_file(&old).map_err(|why| format!("{}: {why}", old.display()))?;
    }
    for (path, bytes) in kept {
        let place = folders.kept.join(path.file_name().unwrap_or_default());
        fs::write(&place, bytes).map_err(|why| format!("{}: {why}", place.display()))?;
    }
    println!("fuzz: {target} keeps {} inputs", chosen.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn all_targets_are_meant_where_none_is_named() {
        let every = words("link nbd");
        let read = |text| read(&words(text), &every);
        let all = Options { seconds: SECONDS, minimise: false, targets: every.clone() };
        assert_eq!(read(""), Ok(all));
        let some = Options { seconds: 5, minimise: true, targets: words("nbd") };
        assert_eq!(read("--seconds 5 nbd --minimise"), Ok(some));
        assert!(read("--seconds soon").is_err() && read("--seconds 0").is_err());
        assert!(read("ndb").is_err_and(|why| why.ends_with("targets: link, nbd")));
    }
}
