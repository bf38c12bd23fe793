// SPDX-License-Identifier: Apache-2.0
//! `helio lab search`: the socket buffer, by doubling.

use super::link::{bare, meeting, tell};
use crate::args::Search;
use crate::failure::{failed, unreadable};
use crate::newfile;
use crate::stopping::{Second, Stopping};
use crate::verbs::print;
use anyhow::{Result, bail};
use helio_lab::{Advice, Event, SYSCTL_HEAD, Stage, Waking, search, show};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The limits of what a socket may ask for, receive and send.
const LIMITS: [&str; 2] = ["/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"];

/// Searches, and writes what it was asked to.
///
/// # Errors
/// Nobody is at the other end, a run breaks off, or a file cannot be written.
pub(crate) fn run(it: Search, patience: Duration) -> Result<ExitCode> {
    let json = it.meeting.json;
    if it.from > it.most {
        bail!(
            "--from {} is larger than --most {}\n  hint: give a smaller --from or a larger --most",
            it.from,
            it.most
        );
    }
    if let Some(file) = &it.write_config {
        newfile::check(file, "--write-config")?;
    }
    let sysctl = it.write_sysctl.as_deref().map(Sysctl::check).transpose()?;
    let mut place = meeting(bare(it.local, it.local, patience), &it.meeting)?;
    place.callers = it.remote.map(|remote| vec![remote.ip()]);
    let stopping = Stopping::catch(Second::Waits)?;
    // Every run meets the standby anew; of all that, only what keeps it away is worth a line.
    let watch = |event: &Event| {
        if matches!(event, Event::Refused(_)) {
            tell(event);
        }
    };
    let stage = Stage { watch: &watch, stop: stopping.flag(), verbose: false };
    let how = helio_lab::Search {
        from: it.from.0,
        most: it.most.0,
        time: it.time,
        flush: it.flush.0,
        streams: it.streams,
        exact: it.exact,
        hiccup: it.workload.map(|rate| rate.0 as f64).zip(it.hiccup),
    };
    tell(&Event::Listening(it.local));
    let mut printed = if json { Ok(()) } else { print(&show::heading(it.exact)) };
    let advice = search(&place, &how, Waking::measured(), &stage, &mut |step| {
        if !json && printed.is_ok() {
            printed = print(&show::step(step, it.exact));
        }
    })?;
    printed?;
    if json {
        print(&(serde_json::to_string_pretty(&advice)? + "\n"))?;
    } else {
        print(&show::advice(&advice))?;
    }
    if let Some((file, group)) = it.write_config.as_ref().zip(it.group.as_ref()) {
        newfile::write(file, &advice.config(group))?;
        eprintln!("{}: for the configuration file of both nodes", file.display());
    }
    if let Some(sysctl) = sysctl {
        sysctl.write(&advice)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A file for sysctl.d, in the place of an earlier one of ours alone, with the limits as they are.
struct Sysctl<'a> {
    file: &'a Path,
    limits: [u64; 2],
}

impl<'a> Sysctl<'a> {
    /// Looks before the search whether it can be written after it.
    fn check(file: &'a Path) -> Result<Self> {
        let limit = |path| {
            let text = fs::read_to_string(path).map_err(unreadable(Path::new(path)))?;
            text.trim()
                .parse()
                .map_err(failed(format!("{path} is no number"), "leave out --write-sysctl"))
        };
        let [receive, send] = LIMITS.map(limit);
        newfile::check_ours(file, "--write-sysctl", Some(SYSCTL_HEAD))?;
        Ok(Self { file, limits: [receive?, send?] })
    }

    fn write(&self, advice: &Advice) -> Result<()> {
        let file = self.file;
        newfile::replace(file, "--write-sysctl", SYSCTL_HEAD, &advice.sysctl(self.limits))?;
        eprintln!(
            "{file}: read by the system when it starts; now: sysctl -p {file}",
            file = file.display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice() -> Advice {
        Advice {
            exact: false,
            steps: Vec::new(),
            kernel: None,
            bandwidth: 4.8e6,
            rtt_us: 32_000,
            plateau: Some(256 << 10),
            computed: 307_200,
            hiccup: None,
            recommended: 512 << 10,
            beyond: None,
            capped: None,
            scaling: true,
        }
    }

    #[test]
    fn a_file_of_ours_is_replaced_and_anybody_elses_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("90-heliograph.conf");
        for _ in 0..2 {
            let sysctl = Sysctl::check(&file).expect("absent, or ours");
            sysctl.write(&advice()).expect("written, and written again");
        }
        let text = fs::read_to_string(&file).expect("it is there");
        assert!(text.starts_with(SYSCTL_HEAD) && text.contains("net.core.rmem_max = "), "{text}");
        let before = Sysctl::check(&file).expect("it is ours still");
        fs::write(&file, "vm.swappiness = 1\n").expect("written");
        for why in [Sysctl::check(&file).err(), before.write(&advice()).err()] {
            let why = why.expect("not ours").to_string();
            assert!(why.contains("is not replaced"), "{why}");
        }
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "vm.swappiness = 1\n");
        let config = folder.path().join("link.toml");
        newfile::write(&config, "a").expect("new");
        assert!(newfile::write(&config, "b").is_err(), "it is not replaced");
        let why =
            newfile::check(&folder.path().join("no/link.toml"), "--out").expect_err("nowhere");
        assert!(
            why.to_string().contains("no does not exist") && why.to_string().contains("--out"),
            "{why}"
        );
    }
}
