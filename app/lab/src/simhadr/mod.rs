// SPDX-License-Identifier: Apache-2.0
//! The measuring core behind the command line and the output of IBM's HADR simulator, for scripts and people who know
//! those. The bytes on the wire are the lab's own: both ends are `helio`.
//!
//! Two words differ, because the sample's would not be true here: hosts are resolved `via getaddrinfo()`, and the
//! moment of a handshake is in UTC.

mod options;
mod print;
mod resolve;

use crate::error::LabError;
use crate::meet::{Place, Stage};
use crate::pause::Waking;
use crate::primary::{Job, run_primary};
use crate::socket::Ask;
use crate::standby::{Duty, run_standby};
use crate::store::{Disk, DiskTest, Trial, test_disk};
use crate::watch::Event;
use crate::wire::Mode;
use options::{Options, PAGE, Role};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long the other end may take to come: simhadr's users start both by hand.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// How often `-testSleep` sleeps.
const SLEEPS: u32 = 10;

/// What simhadr prints without an argument.
pub const HELP: &str = "\
Required: -role primary|standby -lhost HOST -lport PORT -rhost HOST -rport PORT
  (not for -write, -read and -testSleep; PORT is a number; either role may be started first)
Run, on the primary:
  -t SECONDS                            length of the run (default 4)
  -n FLUSHES                            ends it after so many flushes
  -syncmode SYNC|NEARSYNC|ASYNC|SUPERASYNC   (default NEARSYNC)
  -rcu                                  remote catchup, as SUPERASYNC
  -flushSize PAGES                      4 KB pages of a flush (default 16)
  -target MBYTES                        most MBytes/sec (10^6 bytes)
On the standby:
  -hadrBufSize PAGES                    receive buffer (default 4 flushes)
  -bind                                 bind the local end, too
On either:
  -sockSndBuf BYTES -sockRcvBuf BYTES   socket buffers (default: the system's)
  -nagle -block -verbose
  -disk MBYTES SECONDS                  a disk's rate and overhead of each write (default: takes no time)
  -spin SECONDS                         compensates what waking from sleep costs (default: measured)
Disk and timing, without a network:
  -write FILE | -read FILE              with -flushSize, -t, -n; -cache: through the file system's cache;
                                        -write empties the file first, or makes it
  -testSleep SECONDS
Options may be written in any case. Ctrl-C on the primary ends a run; both sides print what they counted.
";

/// Runs a command line of simhadr's. `say` prints what the sample does; `warn` tells what it does not.
///
/// # Errors
/// The command line is wrong, nobody is at the other end, or the run breaks off; what was counted is printed then, too.
pub fn run(
    words: &[String],
    say: &(dyn Fn(&str) + Sync),
    warn: &dyn Fn(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    if words.is_empty() {
        say(&format!("helio simhadr {}, {} bit\n\n{HELP}", env!("CARGO_PKG_VERSION"), usize::BITS));
        return Ok(());
    }
    let options = Options::parse(words).map_err(LabError::Asked)?;
    options.ignored().iter().for_each(|option| warn(option));
    say(&format!("+ simhadr {}\n\n", words.join(" ")));
    let watch = |event: &Event| say(&print::event(event));
    let stage = Stage { watch: &watch, stop, verbose: options.verbose };
    let waking = waking(&options, say)?;
    if let Some(wanted) = options.test_sleep {
        return sleeps(wanted, waking, &stage, say);
    }
    let trial = options.write.as_ref().map(|file| (Trial::Write, file));
    if let Some((trial, file)) = trial.or(options.read.as_ref().map(|file| (Trial::Read, file))) {
        let (size, cached) = (options.flush().saturating_mul(PAGE), options.cache);
        let time = options.limit().map(span).transpose()?;
        let test = DiskTest { trial, size, cached, time, count: options.flushes };
        let result = test_disk(Path::new(file), &test, &stage)?;
        say(&print::disk(trial, size, &result));
        return Ok(());
    }
    ends(&options, waking, &stage, say)
}

/// A span of so many seconds.
fn span(seconds: f64) -> Result<Duration, LabError> {
    let wrong = |_| LabError::Asked(format!("{seconds} seconds are no span of time"));
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

/// What waking costs: told, or measured and said.
fn waking(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Waking, LabError> {
    if let Some(seconds) = options.spin {
        return Ok(Waking::told(span(seconds)?));
    }
    let waking = Waking::measured();
    let (overhead, spin) = (waking.overhead.unwrap_or_default(), waking.spin);
    say(&format!(
        "Measured sleep overhead: {:.6} second, using spin time {:.6} second.\n",
        overhead.as_secs_f64(),
        spin.as_secs_f64()
    ));
    Ok(waking)
}

fn sleeps(
    wanted: f64,
    waking: Waking,
    stage: &Stage<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), LabError> {
    let wanted = span(wanted)?;
    for _ in 0..SLEEPS {
        let begun = Instant::now();
        if !waking.until(begun + wanted, || stage.stopped()) {
            break;
        }
        let (asked, took) = (wanted.as_secs_f64(), begun.elapsed().as_secs_f64());
        say(&format!("Requested {asked:.6} second, slept {took:.6} second\n"));
    }
    Ok(())
}

/// One end of a run.
fn ends(
    options: &Options,
    waking: Waking,
    stage: &Stage<'_>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), LabError> {
    let role = options.role.unwrap_or(Role::Primary);
    let mode = options.mode.unwrap_or_default();
    if role == Role::Primary {
        say(&format!("SyncMode = {}\nflushSize = {} pages\n", print::word(mode), options.flush()));
        if let Some(seconds) = options.limit() {
            say(&format!("Simulation run time = {seconds} seconds\n"));
        }
        if let Some(flushes) = options.flushes {
            say(&format!("Simulation run length = {flushes} flushes\n"));
        }
    }
    say("\n");
    let place = place(options, role, say)?;
    let disk = match options.disk {
        Some((rate, overhead)) => Some(Disk { rate: rate * 1e6, overhead: span(overhead)? }),
        None => None,
    };
    let mut outcome = match role {
        Role::Primary => run_primary(&place, &job(options, mode, disk)?, waking, stage)?,
        Role::Standby => {
            let buffer = options.buffer_pages.map(|pages| pages.saturating_mul(PAGE));
            run_standby(&place, &Duty { disk, apply: None, buffer }, waking, stage)?
        }
    };
    say(&print::outcome(&outcome));
    outcome.failure.take().map_or(Ok(()), Err)
}

fn job(options: &Options, mode: Mode, disk: Option<Disk>) -> Result<Job, LabError> {
    Ok(Job {
        mode,
        flush: options.flush().saturating_mul(PAGE),
        time: options.limit().map(span).transpose()?,
        flushes: options.flushes,
        target: options.target.map(|rate| rate * 1e6),
        disk,
        compress: None,
        window: None,
        streams: 1,
        standbys: 1,
    })
}

/// Resolves both hosts, and says so.
fn place(options: &Options, role: Role, say: &(dyn Fn(&str) + Sync)) -> Result<Place, LabError> {
    let find = |which: &str, name: &Option<String>| {
        let name = name.as_deref().unwrap_or_default();
        let host = resolve::resolve(name)?;
        say(&format!("{}\n", print::host(which, name, &host)));
        Ok::<Vec<IpAddr>, LabError>(host.addresses)
    };
    let (local, remote) = (find("local", &options.lhost)?, find("remote", &options.rhost)?);
    // One family for both ends: the first that both have.
    let pair = local.iter().find_map(|own| {
        remote.iter().find(|other| own.is_ipv4() == other.is_ipv4()).map(|other| (*own, *other))
    });
    let (own, other) = pair.ok_or_else(|| {
        LabError::Asked("one host has only IPv4 addresses, the other only IPv6 ones; hint: IP addresses of one kind as -lhost and -rhost".to_owned())
    })?;
    Ok(Place {
        local: SocketAddr::new(own, options.lport.unwrap_or(0)),
        remote: SocketAddr::new(other, options.rport.unwrap_or(0)),
        callers: None,
        bind: options.bind && role == Role::Standby,
        patience: PATIENCE,
        ask: Ask {
            send: options.send_buffer,
            receive: options.receive_buffer,
            nagle: options.nagle,
            blocking: options.block,
            congestion: None,
        },
        keys: None,
    })
}
