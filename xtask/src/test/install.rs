// SPDX-License-Identifier: Apache-2.0
//! The other people's programs that tests talk to: found, or installed, or told missing.

use super::limit::{self, Ending};
use crate::repo;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program the tests use, its Debian package, and what is not tested without it.
struct Needed {
    program: &'static str,
    package: &'static str,
    without: &'static str,
}

const fn needed(program: &'static str, package: &'static str, without: &'static str) -> Needed {
    Needed { program, package, without }
}

/// Programs of the page of the dashboard, which its lock file names; `npm ci` installs them beside its sources.
const NPM: &str = "npm ci";
/// Where those sources are.
const PAGE: &str = "app/web/page";
/// The oldest Node.js that they run on.
const NODE_LEAST: u32 = 20;

/// Debian keeps its programs out of the path, below a folder for each version.
const POSTGRES: &str = "postgresql";

const NEEDED: [Needed; 27] = [
    needed("fio", "fio", "load with verification by fio"),
    needed("nbdinfo", "libnbd-bin", "what the NBD server says of itself"),
    needed("nbdcopy", "libnbd-bin", "whole images copied in and out"),
    needed("qemu-img", "qemu-utils", "images converted and compared by QEMU"),
    needed("qemu-io", "qemu-utils", "single requests by QEMU"),
    needed("nbd-client", "nbd-client", "the handshake of the kernel's client, with TLS 1.2"),
    needed("mke2fs", "e2fsprogs", "an ext4 file system made on the spot"),
    needed("fsck.ext4", "e2fsprogs", "ext4 on attached volumes"),
    needed("mkfs.xfs", "xfsprogs", "xfs on attached volumes"),
    needed("mkfs.btrfs", "btrfs-progs", "btrfs on attached volumes"),
    needed("debugfs", "e2fsprogs", "what a file system holds, without mounting it"),
    needed("losetup", "mount", "loop devices"),
    needed("setpriv", "util-linux", "daemons of other users"),
    needed("addpart", "util-linux", "partitions of loop devices"),
    needed("fsfreeze", "util-linux", "frozen file systems"),
    needed("strace", "strace", "system calls of a daemon"),
    needed("openssl", "openssl", "certificates that another program makes"),
    needed("systemd-analyze", "systemd", "whether the units are valid"),
    needed("rsync", "rsync", "the traffic of rsync beside ours"),
    needed("valgrind", "valgrind", "the guard of instructions"),
    needed("cc", "gcc", "a program whose clock lies"),
    needed("postgres", POSTGRES, "a database on mirrored volumes, killed and taken over"),
    needed("python3", "python3-libnbd", "stamped writes through libnbd"),
    needed("node", "nodejs", "the dashboard in a browser (Node.js 20 or later)"),
    needed("npm", "npm", "whether the page is what its sources make"),
    needed("chromium", "chromium", "the dashboard in a browser"),
    needed("playwright-core", NPM, "the dashboard in a browser"),
];

/// Installs what is missing, where that is possible; says what will be skipped where it is not.
/// Returns what is missing in the end, and why.
pub(super) fn run(budget: Duration) -> Option<String> {
    let missing = missing();
    if missing.is_empty() {
        println!("all there");
        return None;
    }
    let deadline = Instant::now() + budget;
    let mut packages: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
    packages.dedup();
    println!("installing {}", packages.join(", "));
    packages.retain(|package| *package != NPM);
    if let (false, Err(why)) = (packages.is_empty(), can_install()) {
        return Some(report(&missing, why));
    }
    let why = if packages.is_empty() { Ok(()) } else { of_debian(packages, deadline) };
    match why.and_then(|()| of_the_page(deadline)) {
        Ok(()) => {}
        // Without a network the tests that need nothing are still worth running.
        Err(why) => return Some(report(&self::missing(), &why)),
    }
    match self::missing() {
        still if still.is_empty() => None,
        still => Some(report(&still, "the packages did not bring them")),
    }
}

fn of_debian(packages: Vec<&str>, deadline: Instant) -> Result<(), String> {
    for arguments in
        [vec!["update"], [vec!["install", "-y", "--no-install-recommends"], packages].concat()]
    {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(arguments);
        succeeds(apt, "apt-get", deadline)?;
    }
    Ok(())
}

/// Installs what the lock file of the page names.
fn of_the_page(deadline: Instant) -> Result<(), String> {
    let is_missing = NEEDED.iter().any(|needed| needed.package == NPM && !is_there(needed));
    if !is_missing || !quiet(Command::new("npm").arg("--version")) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts"]).current_dir(repo::root().join(PAGE));
    succeeds(npm, NPM, deadline)
}

fn succeeds(command: Command, name: &str, deadline: Instant) -> Result<(), String> {
    match limit::run(command, deadline.saturating_duration_since(Instant::now()), |_| ()) {
        Ending::Success => Ok(()),
        Ending::Failure(how) => Err(format!("{name}: {how}")),
        Ending::OverBudget => Err(format!("{name} took too long")),
    }
}

/// Says what is missing and installs nothing. Returns what `run` returns.
pub(super) fn only_report() -> Option<String> {
    match missing() {
        missing if missing.is_empty() => None,
        missing => Some(report(&missing, "--no-install")),
    }
}

fn report(missing: &[&Needed], why: &str) -> String {
    for needed in missing {
        println!(
            "without {} (package {}), not tested: {}",
            needed.program, needed.package, needed.without
        );
    }
    let names: Vec<&str> = missing.iter().map(|needed| needed.program).collect();
    format!("{why}; missing: {}", names.join(" "))
}

fn missing() -> Vec<&'static Needed> {
    NEEDED.iter().filter(|needed| !is_there(needed)).collect()
}

fn is_there(needed: &Needed) -> bool {
    if needed.package == "python3-libnbd" {
        // Debian's own Python: another one first on the path does not see Debian's modules.
        return quiet(Command::new("/usr/bin/python3").args(["-c", "import nbd"]));
    }
    if needed.package == POSTGRES {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        return versions.into_iter().any(|version| version.path().join("bin/postgres").is_file());
    }
    if needed.package == NPM {
        return repo::root().join(PAGE).join("node_modules").join(needed.program).is_dir();
    }
    if needed.program == "node" {
        let old = format!("process.exit(+(parseInt(process.versions.node) < {NODE_LEAST}))");
        return quiet(Command::new("node").args(["-e", &old]));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(needed.program).is_file())
}

fn can_install() -> Result<(), &'static str> {
    if !quiet(Command::new("apt-get").arg("--version")) {
        return Err("there is no apt-get");
    }
    let user = Command::new("id").arg("-u").output().map(|told| told.stdout).unwrap_or_default();
    if user.trim_ascii() == b"0" { Ok(()) } else { Err("only root can install") }
}

fn quiet(command: &mut Command) -> bool {
    let asked = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_or_not() {
        assert!(is_there(&needed("sh", "dash", "")));
        assert!(!is_there(&needed("no-such-program", "none", "")));
    }

    #[test]
    fn what_is_missing_is_told() {
        let told = report(&[&NEEDED[0], &NEEDED[1]], "--no-install");
        assert_eq!(told, "--no-install; missing: fio nbdinfo");
    }
}
