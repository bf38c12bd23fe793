// SPDX-License-Identifier: Apache-2.0
//! The line between the nodes, measured as the disk is: a short message there and back, at the pace of the scenarios.
//!
//! The relay keeps its delay to the timer's moment, but four threads must be woken on the way, and on a near line that is
//! a part of every answer. The forecast is told what was found, as whoever plans for a real link measures it first.

use anyhow::{Context, Result};
use helio_bench::replay::wait_until;
use helio_forecast::Link;
use helio_testkit::free_port;
use helio_units::Bytes;
use helio_wan::{Relay, RelayConfig};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// From one message to the next, and how many.
const EVERY: Duration = Duration::from_millis(2);
const COUNT: u32 = 2000;
/// Bytes there and back.
const SHORT: usize = 64;
/// Of the sum of two uniform draws from 0..1, 99 of 100 are below this: 2 - sqrt(0.02).
const OF_TWO: f64 = 1.858_6;

/// The link with the round trip and the jitter that were found: its draws have the median and the 99th percentile of what
/// was measured.
pub(crate) fn measured(link: &Link) -> Result<Link> {
    let model = link.model(Bytes::mib(1));
    let far = TcpListener::bind("127.0.0.1:0")?;
    let relay = Relay::start(RelayConfig {
        listen: free_port(),
        target: far.local_addr()?,
        there: model.forth,
        back: model.back,
        seed: 1,
    })?;
    let near = TcpStream::connect(relay.local_addr())?;
    let (far, _) = far.accept()?;
    let mut times = std::thread::scope(|scope| {
        let echo = scope.spawn(|| echo(far));
        let times = ask(near);
        echo.join().expect("an echo does not panic")?;
        times
    })?;
    times.sort_unstable();
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let jitter = (p99 - median).div_f64(OF_TWO - 1.0).min(median);
    Ok(Link { round_trip: median - jitter, jitter, ..link.clone() })
}

/// Messages that say when they left, each at its moment, whatever became of those before.
fn ask(mut stream: TcpStream) -> Result<Vec<Duration>> {
    stream.set_nodelay(true)?;
    let mut hears = stream.try_clone()?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let asker = scope.spawn(move || {
            for n in 0..COUNT {
                wait_until(begun + EVERY * n);
                let mut message = [0; SHORT];
                message[..8].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_le_bytes());
                stream.write_all(&message)?;
            }
            anyhow::Ok(())
        });
        let mut hear = || {
            let mut message = [0; SHORT];
            hears.read_exact(&mut message).context("the echo ends")?;
            let left = message.first_chunk().map_or(0, |left| u64::from_le_bytes(*left));
            Ok(begun.elapsed() - Duration::from_nanos(left))
        };
        let times = (0..COUNT).map(|_| hear()).collect();
        asker.join().expect("asking does not panic")?;
        hears.shutdown(Shutdown::Both)?;
        times
    })
}

fn echo(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; SHORT];
    loop {
        match stream.read_exact(&mut message) {
            Ok(()) => stream.write_all(&message)?,
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(why) => return Err(why.into()),
        }
    }
}
