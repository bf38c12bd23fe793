// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask vm` and `cargo xtask uml`: the end-to-end tests of attached volumes under another kernel than this
//! machine's, for what only that one has; and the units for systemd, in a guest that boots into it.
//!
//! The guest's root is this machine's own, as it is and not to be written, so that every program is there; what the
//! tests write lies on a disk made for the run. Nothing of the machine is changed but `target/guest`.

mod initrd;
mod kernel;
mod udev;
mod uml;
mod vm;

use crate::repo;
use crate::test::limit::{self, Ending};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The line a guest ends with; the tests' exit code behind it.
const ENDED: &str = "the tests ended with";
/// What is on the scratch disk, before file systems are made on volumes of members on it.
const DISK_BYTES: u64 = 6 << 30;

/// What can be asked for, and how large the machine is.
#[derive(Clone, Copy, Debug)]
struct Errand {
    name: &'static str,
    task: Task,
    memory_mib: u32,
    budget: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Task {
    /// The guest runs tests of attached volumes.
    Tests {
        /// Each way to attach in turn.
        via: &'static [&'static str],
        /// Parts of names of tests.
        tests: &'static [&'static str],
    },
    /// The guest boots into systemd with the units that are shipped, again and again: `proof/units`.
    Units,
}

const MINUTE: u64 = 60;

/// What makes a disk: file systems, verified load, ends of the daemon, hardships.
const DISK: [&str; 5] = ["waits::", "filesystems::", "load::", "hardships::", "ends::"];

const VM: [Errand; 2] = [
    Errand {
        name: "ublk",
        task: Task::Tests { via: &["ublk"], tests: &DISK },
        memory_mib: 2048,
        budget: Duration::from_secs(40 * MINUTE),
    },
    Errand {
        name: "pressure",
        task: Task::Tests { via: &["fuse", "ublk"], tests: &["pressure"] },
        memory_mib: 512,
        budget: Duration::from_secs(25 * MINUTE),
    },
];

const UML: [Errand; 3] = [
    Errand {
        name: "nbd",
        task: Task::Tests { via: &["nbd"], tests: &DISK },
        memory_mib: 1024,
        budget: Duration::from_secs(20 * MINUTE),
    },
    Errand {
        name: "pressure",
        task: Task::Tests { via: &["fuse", "nbd"], tests: &["pressure"] },
        memory_mib: 256,
        budget: Duration::from_secs(15 * MINUTE),
    },
    Errand {
        name: "units",
        task: Task::Units,
        memory_mib: 1024,
        budget: Duration::from_secs(15 * MINUTE),
    },
];

/// One run: what is asked for, and where things are.
struct Run<'a> {
    errand: &'a Errand,
    /// A folder for what is made.
    folder: PathBuf,
    /// A script the guest runs.
    script: PathBuf,
    /// An empty disk of [`DISK_BYTES`].
    disk: PathBuf,
}

/// `cargo xtask vm`.
pub(crate) fn vm(arguments: &[String]) -> Result<ExitCode, String> {
    run("vm", &VM, arguments, vm::command)
}

/// `cargo xtask uml`.
pub(crate) fn uml(arguments: &[String]) -> Result<ExitCode, String> {
    run("uml", &UML, arguments, uml::command)
}

fn run(
    chore: &str,
    errands: &[Errand],
    arguments: &[String],
    command: impl Fn(&Run<'_>) -> Result<Command, String>,
) -> Result<ExitCode, String> {
    let names: Vec<&str> = errands.iter().map(|errand| errand.name).collect();
    let usage = || format!("say `cargo xtask {chore} {}` [TEST…]", names.join("` or `"));
    let (name, tests) = arguments.split_first().ok_or_else(usage)?;
    let errand = errands.iter().find(|errand| errand.name == name).ok_or_else(usage)?;
    if matches!(errand.task, Task::Units) && !tests.is_empty() {
        return Err(format!("`{name}` is proven as a whole, without names of tests"));
    }
    let folder = repo::root().join("target/guest");
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let (script, disk) = (folder.join(format!("{chore}.sh")), folder.join(format!("{chore}.img")));
    let run = Run { errand, folder, script, disk };
    // What is missing is told before anything is built.
    let command = command(&run)?;
    build(&["build", "--release", "-p", "helio"])?;
    if let Task::Tests { via, tests: all } = errand.task {
        build(&["test", "--no-run", "-p", "helio-e2e", "--test", "attach"])?;
        let chosen = if tests.is_empty() { all.join(" ") } else { tests.join(" ") };
        let text = script_text(errand.name, via, &chosen, &tests_program()?);
        std::fs::write(&run.script, text)
            .map_err(|why| format!("{}: {why}", run.script.display()))?;
    }
    empty(&run.disk)?;
    if matches!(errand.task, Task::Units) {
        // Not by the guest, which would have to know its first boot from one with a damaged disk.
        let mut make = Command::new("mke2fs");
        make.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").args(["-q", "-t", "ext4", "-F"]);
        told_by(make.arg(&run.disk))?;
    }
    let mut told = None;
    let ending = limit::run(command, errand.budget, |line| {
        if let Some(code) = line.trim().strip_prefix(ENDED) {
            told = code.trim().parse::<u8>().ok();
        }
    });
    // It may be large, and is of no use to anybody.
    let _gone_already = std::fs::remove_file(&run.disk);
    match (ending, told) {
        (_, Some(0)) => Ok(ExitCode::SUCCESS),
        (_, Some(code)) => Ok(ExitCode::from(code)),
        (Ending::OverBudget, None) => {
            Err(format!("the guest took longer than {:?}", errand.budget))
        }
        (ending, None) => Err(format!("the guest did not get to the tests' end: {ending:?}")),
    }
}

fn build(arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(repo::cargo()).current_dir(repo::root()).args(arguments).status();
    let status = status.map_err(|why| format!("cannot start cargo: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", arguments.join(" "))) }
}

/// Where the first process of a guest with systemd is.
fn units() -> PathBuf {
    repo::root().join("proof/units/boot.sh")
}

/// Where cargo put the tests.
fn tests_program() -> Result<PathBuf, String> {
    let told = Command::new(repo::cargo())
        .current_dir(repo::root())
        .args(["test", "--no-run", "-p", "helio-e2e", "--test", "attach", "--message-format=json"])
        .output()
        .map_err(|why| format!("cannot start cargo: {why}"))?;
    let text = String::from_utf8_lossy(&told.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let made = messages.filter(|message: &serde_json::Value| message["target"]["name"] == "attach");
    let mut programs =
        made.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    programs.next_back().ok_or_else(|| "cargo does not say where the tests are".to_owned())
}

/// What the guest runs: the scratch disk is made and mounted, then the tests run, one at a time.
fn script_text(name: &str, via: &[&str], tests: &str, program: &Path) -> String {
    let (root, ways) = (repo::root().display(), via.join(" "));
    format!(
        "export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/mnt/scratch HELIO_GUEST={}\n\
         cd {root} || exit 1\n\
         ip link set lo up\n\
         mkdir -p $TMPDIR && mke2fs -q -t ext4 -F \"$SCRATCH\" && mount \"$SCRATCH\" $TMPDIR || exit 1\n\
         code=0\n\
         for way in {ways}; do\n\
         echo \"=== $way ===\"\n\
         HELIO_VIA=$way {} --test-threads=1 {tests} || code=$?\n\
         done\n\
         echo \"{ENDED} $code\"\n",
        name,
        program.display()
    )
}

/// A sparse file.
fn empty(path: &Path) -> Result<(), String> {
    let file = std::fs::File::create(path).and_then(|file| file.set_len(DISK_BYTES));
    file.map_err(|why| format!("{}: {why}", path.display()))
}

/// Says all at once what is missing of programs, and how to get it.
fn require(needed: &[(&str, &str)]) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    let missing: Vec<_> = needed.iter().filter(|(program, _)| !there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let (programs, packages) = (programs.join(", "), packages.join(" "));
    Err(format!("missing: {programs}; Debian has it: apt-get install {packages}"))
}

/// Runs a program that is to succeed, and returns what it printed.
fn told_by(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let told = command.output().map_err(|why| format!("cannot start {name}: {why}"))?;
    if told.status.success() {
        Ok(String::from_utf8_lossy(&told.stdout).into_owned())
    } else {
        Err(format!("{name} failed: {}", String::from_utf8_lossy(&told.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_told_what_to_run_and_says_how_it_ended() {
        let text = script_text("ublk", &["ublk"], "waits:: load::", Path::new("/target/attach"));
        assert!(text.contains("for way in ublk; do"), "{text}");
        assert!(text.contains("/target/attach --test-threads=1 waits:: load:: ||"), "{text}");
        assert!(text.ends_with(&format!("echo \"{ENDED} $code\"\n")), "{text}");
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        assert_eq!(require(&[("sh", "dash")]), Ok(()));
        let told = require(&[("sh", "dash"), ("no-such-program", "some-package")]);
        assert_eq!(
            told,
            Err("missing: no-such-program; Debian has it: apt-get install some-package".to_owned())
        );
    }
}
