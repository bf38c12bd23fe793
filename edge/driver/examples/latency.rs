// SPDX-License-Identifier: Apache-2.0
//! Prints what a 4 KiB direct write costs through the driver: latency one at a time, rate at depth 16.
//! `cargo run --release -p helio-driver --example latency -- FILE [WORKERS] [SPIN_MICROS]`, where FILE is
//! overwritten; place it with `taskset`.

use helio_driver::{Buffer, Driver, DriverOptions, File, Op, Piece, PollDriver, Shared, Token};
use helio_units::Extent;
use rustix::fs::{Mode, OFlags, open};
use std::error::Error;
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64 << 10;

struct Bench {
    driver: PollDriver,
    file: File,
    payload: Shared,
    state: u64,
}

impl Bench {
    /// Any block, all as likely.
    fn next_extent(&mut self) -> Extent {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Extent::new(self.state % BLOCKS * BLOCK, BLOCK)
    }

    fn submit(&mut self, token: u64) {
        let extent = self.next_extent();
        let pieces = vec![Piece::Shared(self.payload.clone(), 0..BLOCK as usize)];
        let op = Op::Write { file: self.file.clone(), extent, pieces, sync: false };
        self.driver.submit(Token(token), op);
    }

    /// Keeps `depth` writes in flight for `span`; every latency in ascending order.
    fn run(&mut self, depth: u64, span: Duration) -> Result<Vec<Duration>, Box<dyn Error>> {
        let (mut latencies, mut out, began) = (Vec::new(), Vec::new(), Instant::now());
        let mut begun = vec![began; depth as usize];
        for token in 0..depth {
            begun[token as usize] = Instant::now();
            self.submit(token);
        }
        let mut in_flight = depth;
        while in_flight > 0 {
            self.driver.wait(None, &mut out)?;
            for completion in out.drain(..) {
                if let Some(error) = completion.outcome.error() {
                    return Err(error.into());
                }
                let now = Instant::now();
                let slot = completion.token.0;
                latencies.push(now - begun[slot as usize]);
                in_flight -= 1;
                if began.elapsed() < span {
                    begun[slot as usize] = now;
                    self.submit(slot);
                    in_flight += 1;
                }
            }
        }
        latencies.sort_unstable();
        Ok(latencies)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("FILE is missing")?;
    let workers = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let spin = Duration::from_micros(arguments.next().map_or(Ok(0), |text| text.parse())?);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = File::new(open(path, flags, Mode::RUSR | Mode::WUSR)?)?;
    let mut payload = Buffer::zeroed(1 << 20);
    payload.fill(0xa5);
    let payload = payload.into_shared();
    let driver = PollDriver::new(DriverOptions { workers, spin })?;
    let mut bench = Bench { driver, file, payload, state: 0x9e37_79b9_7f4a_7c15 };
    // Written extents, so that nothing is measured but overwriting.
    let mut out = Vec::new();
    for extent in (0..(BLOCKS * BLOCK) >> 20).map(|index| Extent::new(index << 20, 1 << 20)) {
        let pieces = vec![Piece::Shared(bench.payload.clone(), 0..1 << 20)];
        let op = Op::Write { file: bench.file.clone(), extent, pieces, sync: false };
        bench.driver.submit(Token(0), op);
        while out.is_empty() {
            bench.driver.wait(None, &mut out)?;
        }
        if let Some(error) = out.drain(..).find_map(|completion| completion.outcome.error()) {
            return Err(error.into());
        }
    }
    for depth in [1, 16] {
        let span = Duration::from_secs(3);
        let latencies = bench.run(depth, span)?;
        let at = |share: usize| latencies[(latencies.len() - 1) * share / 100];
        let rate = latencies.len() as u64 / span.as_secs();
        println!("depth {depth:2}: {rate:6} writes/s, p50 {:?}, p99 {:?}", at(50), at(99));
    }
    Ok(())
}
