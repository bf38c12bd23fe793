// SPDX-License-Identifier: Apache-2.0
//! The other people's programs that the end-to-end tests talk to: found, or installed, or told missing.

use super::limit::{self, Ending};
use super::tally::{Outcome, Tally};
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

const NEEDED: [Needed; 11] = [
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
    needed("python3", "python3-libnbd", "stamped writes through libnbd"),
];

/// Installs what is missing, where that is possible; says what will be skipped where it is not.
pub(super) fn run(budget: Duration) -> (Outcome, Tally) {
    let missing = missing();
    if missing.is_empty() {
        println!("all there");
        return (Outcome::Passed, Tally::default());
    }
    if let Err(why) = can_install() {
        return report(&missing, why);
    }
    let mut packages: Vec<&str> = missing.iter().map(|needed| needed.package).collect();
    packages.dedup();
    println!("installing {}", packages.join(" "));
    let deadline = Instant::now() + budget;
    for arguments in
        [vec!["update"], [vec!["install", "-y", "--no-install-recommends"], packages].concat()]
    {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(arguments);
        let left = deadline.saturating_duration_since(Instant::now());
        match limit::run(apt, left, |_| ()) {
            Ending::Success => {}
            // Without a network the tests that need nothing are still worth running.
            Ending::Failure(how) => return report(&self::missing(), &format!("apt-get: {how}")),
            Ending::OverBudget => return report(&self::missing(), "apt-get took too long"),
        }
    }
    match self::missing() {
        still if still.is_empty() => (Outcome::Passed, Tally::default()),
        still => report(&still, "the packages did not bring them"),
    }
}

/// Says what is missing and installs nothing.
pub(super) fn only_report() -> (Outcome, Tally) {
    match missing() {
        missing if missing.is_empty() => (Outcome::Passed, Tally::default()),
        missing => report(&missing, "--no-install"),
    }
}

fn report(missing: &[&Needed], why: &str) -> (Outcome, Tally) {
    for needed in missing {
        println!(
            "without {} (package {}), not tested: {}",
            needed.program, needed.package, needed.without
        );
    }
    let names: Vec<&str> = missing.iter().map(|needed| needed.program).collect();
    (Outcome::Skipped(format!("{why}; missing: {}", names.join(" "))), Tally::default())
}

fn missing() -> Vec<&'static Needed> {
    NEEDED.iter().filter(|needed| !is_there(needed)).collect()
}

fn is_there(needed: &Needed) -> bool {
    if needed.package == "python3-libnbd" {
        // Debian's own Python: another one first on the path does not see Debian's modules.
        return quiet(Command::new("/usr/bin/python3").args(["-c", "import nbd"]));
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
    fn what_is_missing_is_told_and_is_no_failure() {
        let (outcome, _) = report(&[&NEEDED[0], &NEEDED[1]], "--no-install");
        assert_eq!(outcome, Outcome::Skipped("--no-install; missing: fio nbdinfo".to_owned()));
    }
}
