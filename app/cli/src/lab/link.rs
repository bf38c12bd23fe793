// SPDX-License-Identifier: Apache-2.0
//! `helio lab link`: one end of a measurement.

use crate::args::{Common, Link, Meeting, Primary, Standby, Trial};
use crate::failure::failed;
use crate::stopping::{Second, Stopping};
use crate::verbs::print;
use anyhow::Result;
use helio_driver::Linux;
use helio_lab::{
    Ask, Disk, DiskTest, Duty, Job, Keys, Outcome, Place, Stage, Waking, follow, run_primary, show,
    test_disk,
};
use helio_tls::NodeKey;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

/// How long a run is where nothing is said, as simhadr's.
const TIME: Duration = Duration::from_secs(4);

/// Runs one end, or a disk test.
///
/// # Errors
/// Nobody is at the other end, or the run breaks off; what was measured is printed then, too.
pub(crate) fn run(link: Link, patience: Duration) -> Result<ExitCode> {
    match link {
        Link::Primary(it) => primary(it, patience),
        Link::Standby(it) => standby(it, patience),
        Link::Write(it) => disk(helio_lab::Trial::Write, it),
        Link::Read(it) => disk(helio_lab::Trial::Read, it),
    }
}

/// What is said meanwhile goes to standard error, so that standard output is the result.
pub(super) fn tell(event: &helio_lab::Event) {
    // Whoever closed it, as `head` does, hears no more; the measurement goes on.
    let _closed = std::io::stderr().lock().write_all(show::event(event).as_bytes());
}

fn primary(it: Primary, patience: Duration) -> Result<ExitCode> {
    let standbys = it.standbys.map_or_else(|| it.remote.len().max(1), usize::from);
    let mut place = place(it.local, it.local, patience, &it.common)?;
    let callers: Vec<IpAddr> = it.remote.iter().map(SocketAddr::ip).collect();
    place.callers = (!callers.is_empty()).then_some(callers);
    let job = Job {
        mode: it.mode,
        flush: it.flush.0,
        time: it.time.or(it.flushes.is_none().then_some(TIME)),
        flushes: it.flushes,
        target: it.target.map(|rate| rate.0 as f64),
        disk: thought_up(&it.common),
        compress: it.compress,
        window: it.window.map(|window| window.0),
        streams: it.streams,
        standbys,
    };
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: it.common.verbose };
    let mut outcome = run_primary(&place, &job, waking(&it.common), &stage)?;
    report(&outcome, it.common.meeting.json)?;
    outcome.failure.take().map_or(Ok(ExitCode::SUCCESS), |why| Err(why.into()))
}

fn standby(it: Standby, patience: Duration) -> Result<ExitCode> {
    let local = it.local.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let place = Place { bind: it.bind, ..place(local, it.remote, patience, &it.common)? };
    let duty = Duty {
        disk: thought_up(&it.common),
        apply: it.apply.map(|rate| rate.0 as f64),
        buffer: it.room.map(|room| room.0),
    };
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: it.common.verbose };
    let mut printed = Ok(());
    follow(&place, &duty, waking(&it.common), &stage, &mut |outcome| {
        // A meeting that only tells what comes next has nothing to show.
        if outcome.bytes() > 0 && printed.is_ok() {
            printed = report(outcome, it.common.meeting.json);
        }
    })?;
    printed.map(|()| ExitCode::SUCCESS)
}

fn report(outcome: &Outcome, json: bool) -> Result<()> {
    if json {
        let all = show::OutcomeJson::from(outcome);
        return print(&(serde_json::to_string_pretty(&all)? + "\n"));
    }
    print(&show::outcome(outcome))
}

fn disk(trial: helio_lab::Trial, it: Trial) -> Result<ExitCode> {
    let time = it.time.or(it.flushes.is_none().then_some(TIME));
    let (size, cached) = (it.flush.0, it.cached);
    let test = DiskTest { trial, size, cached, time, count: it.flushes };
    let stopping = Stopping::catch(Second::Waits)?;
    let stage = Stage { watch: &tell, stop: stopping.flag(), verbose: false };
    let result = test_disk(&it.file, &test, &stage)?;
    if it.json {
        print(&(serde_json::to_string_pretty(&show::DiskJson::from(&result))? + "\n"))?;
    } else {
        print(&show::disk(trial, &result))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn thought_up(common: &Common) -> Option<Disk> {
    common.disk.map(|rate| Disk { rate: rate.0 as f64, overhead: common.disk_overhead })
}

fn waking(common: &Common) -> Waking {
    common.spin.map_or_else(Waking::measured, Waking::told)
}

fn place(
    local: SocketAddr,
    remote: SocketAddr,
    patience: Duration,
    common: &Common,
) -> Result<Place> {
    let ask = Ask {
        send: common.send_buffer.map(|size| size.0),
        receive: common.receive_buffer.map(|size| size.0),
        nagle: common.nagle,
        blocking: common.blocking,
        congestion: None,
    };
    meeting(Place { ask, ..bare(local, remote, patience) }, &common.meeting)
}

/// Where ends are, and nothing else.
pub(super) fn bare(local: SocketAddr, remote: SocketAddr, patience: Duration) -> Place {
    Place { local, remote, callers: None, bind: false, patience, ask: Ask::default(), keys: None }
}

/// With what is said of how they reach each other.
pub(super) fn meeting(mut place: Place, how: &Meeting) -> Result<Place> {
    place.ask.congestion.clone_from(&how.congestion);
    if let Some(file) = &how.own_key {
        let own = NodeKey::load(&Linux::host(), file)
            .map_err(failed("--own-key", "name a key file; `helio key new` makes one"))?;
        place.keys = Some(Keys { own, trusted: how.peer_key.clone() });
    }
    Ok(place)
}
