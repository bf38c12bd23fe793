// SPDX-License-Identifier: Apache-2.0
//! Chapters 1 and 2: one file, two daemons, a long line between them, and the first equal copies.

use super::node::{Node, PATIENCE};
use super::plan::{CONFIG, FILES, GROUP, JOURNAL, LINE_RATE, LYON, PARIS, Plan, ROUND_TRIP};
use super::screen::Screen;
use super::stage::Stage;
use super::story::Story;
use anyhow::{Context, Result, bail};
use helio_api::{GroupStatus, Io};
use helio_units::{Bytes, State};
use helio_wan::{Profile, Relay, RelayConfig};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

/// What the members, the image and its copy can come to, and some.
const NEEDED: Bytes = Bytes::mib(640);
/// Below the ports from which Linux takes those of outgoing connections, so that none of these can take one
/// between its choice here and its use.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Writes the configuration, and makes everything it names.
pub(super) fn prepare<'a>(stage: &'a Stage, screen: &'a Screen) -> Result<Story<'a>> {
    screen.chapter(1, "Two nodes, one file")?;
    let folder = stage.folder();
    has_room(folder)?;
    let io = io_of(folder)?;
    let [lyon, paris] = free_ports()?;
    let profile = || Profile::wan(ROUND_TRIP, LINE_RATE);
    let line = Relay::start(RelayConfig {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        target: paris,
        there: profile(),
        back: profile(),
        seed: 1,
    })
    .context("cannot start the emulated link")?;
    let plan = Plan { folder, lyon, paris, line: line.local_addr(), io };
    std::fs::write(folder.join(CONFIG), plan.config())?;
    for volume in [FILES, JOURNAL] {
        for node in [PARIS, LYON] {
            let path = volume.member(folder, node);
            let made = File::create_new(&path).and_then(|file| file.set_len(volume.size.0));
            made.with_context(|| format!("cannot make {}", path.display()))?;
        }
    }
    screen.say(&format!(
        "One file describes both nodes and the group {GROUP} of two volumes, which share one order \
         of writes. Each node keeps each volume in an ordinary file; a disk would do as well. The \
         file system here {}.",
        match io {
            Io::Direct => "supports direct I/O, so the page cache is bypassed",
            Io::Buffered =>
                "does not support direct I/O, so the configuration has io = \"buffered\"",
        }
    ))?;
    screen.command(&["cat", CONFIG])?;
    screen.output(&plan.config())?;
    let (paris, lyon) = (Node::new(PARIS, stage, screen)?, Node::new(LYON, stage, screen)?);
    Ok(Story { screen, stage, paris, lyon, line })
}

/// Starts both daemons and makes paris the primary.
pub(super) fn play(story: &mut Story<'_>) -> Result<()> {
    let Story { screen, paris, lyon, .. } = story;
    screen.chapter(2, "Two daemons, a long link, and the first sync")?;
    screen.say(&format!(
        "Between the nodes is an emulated link of {} ms round trip at {} Mbit/s: a relay that this \
         program runs, and that `helio lab relay` runs for you.",
        ROUND_TRIP.as_millis(),
        LINE_RATE.0 * 8 / 1_000_000
    ))?;
    paris.start()?;
    lyon.start()?;
    paris.wait("the connection", GroupStatus::is_connected)?;
    screen.say(
        "The nodes are connected, and the volumes are empty. Paris becomes primary: applications write there. The two \
         copies were never compared, so all regions are dirty: they are compared, and copied if they differ.",
    )?;
    paris.order(&["promote", GROUP])?;
    let mut last = String::new();
    paris.watch(PATIENCE, "equal copies", |group| {
        let now = match &group.sync {
            Some(sync) => format!("{}: {} still dirty", group.state, sync.dirty_bytes),
            None => group.state.to_string(),
        };
        if now != last {
            screen.line(&now)?;
            last = now;
        }
        Ok(group.state == State::Replicating)
    })?;
    paris.show(&["status", GROUP])?;
    Ok(())
}

/// Two loopback addresses nobody listens on.
fn free_ports() -> Result<[SocketAddr; 2]> {
    let count = u32::from(PORTS.end - PORTS.start);
    // Two of these that run side by side begin far apart.
    let start = std::process::id().wrapping_mul(61) % count;
    let ports = PORTS.cycle().skip(start as usize).take(count as usize);
    let mut free = ports
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .filter(|address| TcpListener::bind(address).is_ok());
    match (free.next(), free.next()) {
        (Some(one), Some(other)) => Ok([one, other]),
        _ => bail!("no two ports are free on loopback between {} and {}", PORTS.start, PORTS.end),
    }
}

fn has_room(folder: &Path) -> Result<()> {
    let about = rustix::fs::statvfs(folder)?;
    let free = Bytes(about.f_bavail.saturating_mul(about.f_frsize));
    if free < NEEDED {
        bail!(
            "{} has {free} free, and this takes up to {NEEDED}; TMPDIR names another place",
            folder.display()
        );
    }
    Ok(())
}

/// Whether the file system takes direct I/O, by asking for it.
fn io_of(folder: &Path) -> Result<Io> {
    let probe = folder.join("direct");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match rustix::fs::open(&probe, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(Io::Direct),
        Err(rustix::io::Errno::INVAL) => Ok(Io::Buffered),
        Err(why) => Err(why).with_context(|| format!("cannot make {}", probe.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_free_ports_are_two() {
        let [one, other] = free_ports().expect("a machine has free ports");
        assert_ne!(one, other);
        assert!(TcpListener::bind(one).is_ok() && TcpListener::bind(other).is_ok());
    }
}
