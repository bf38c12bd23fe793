// SPDX-License-Identifier: Apache-2.0
//! The times of a disk, as a forecast wants them: short operations one at a time, flushes, and how much of it the disk
//! does at once.
//!
//! Operations go through the driver that daemons use, past the page cache where that can be. The file has no name once it is open, so
//! that nothing of it stays, however the process ends.

use crate::error::LabError;
use crate::meet::Stage;
use core::fmt;
use core::num::NonZeroU32;
use helio_driver::{
    AnyDriver, Buffer, Completion, Driver, DriverChoice, File, Op, Outcome, Piece, Token,
};
use helio_netmodel::Dice;
use helio_units::{Bytes, Extent, Rate};
use rustix::fs::{Mode, OFlags, open, unlink};
use rustix::io::Errno;
use std::path::Path;
use std::time::{Duration, Instant};

/// A short operation.
const SHORT: u64 = 4096;
/// A long one.
const LONG: u64 = 1 << 20;
/// The least that is worth a measurement: a few long writes at once, and short ones that are no neighbours.
pub const LEAST_SPAN: Bytes = Bytes::mib(16);
/// How many short operations of a kind go one at a time, at most, and for how long.
const ONE_BY_ONE: u64 = 2000;
const LONGEST: Duration = Duration::from_secs(5);
/// Between two of them: most requests come to a machine at rest, and waking it is a part of their time.
const REST: Duration = Duration::from_millis(1);
/// As many writes as a daemon's shard has under way where its queue has room again.
const AT_ONCE: usize = 64;
const MANY: u64 = 20_000;
/// Long writes under way.
const LONG_AT_ONCE: usize = 8;
/// A flush behind so many writes.
const FLUSH_EVERY: u64 = 20;
/// Chooses where operations go: random places, as a database's are.
const SEED: u64 = 1;

/// Half of the operations took at most the median, 99 of 100 the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The middle one.
    pub median: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Reads of 4 KiB, one at a time, at rest in between.
    pub read: Times,
    /// Writes of 4 KiB, one at a time.
    pub write: Times,
    /// Flushes, each behind 20 such writes.
    pub flush: Times,
    /// How many such writes it does in the time of one, when it has many.
    pub lanes: NonZeroU32,
    /// Bytes a second of long writes.
    pub rate: Rate,
    /// Which driver: `ring` or `poll`.
    pub driver: &'static str,
    /// Past the page cache; where the file system knows no direct I/O, through it, as members are.
    pub direct: bool,
}

impl Gauge {
    /// What one of so many members has of it that lie on this disk and are written at once.
    #[must_use]
    pub fn shared_by(self, members: u32) -> Self {
        let members = members.max(1);
        let lanes = NonZeroU32::new(self.lanes.get() / members).unwrap_or(NonZeroU32::MIN);
        Self { lanes, rate: Rate(self.rate.0 / u64::from(members)), ..self }
    }
}

/// As `--disk` of a forecast takes it.
impl fmt::Display for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Times { median, p99 }) in
            [("read", self.read), ("write", self.write), ("flush", self.flush)]
        {
            let micros = |time: Duration| time.as_secs_f64() * 1e6;
            write!(f, "{name}={:.1}us..{:.1}us,", micros(median), micros(p99))?;
        }
        write!(f, "lanes={},rate={:.1}MiB/s", self.lanes, self.rate.0 as f64 / f64::from(1 << 20))
    }
}

/// Measures the disk a folder lies on with operations all over `span` bytes of it, rounded down to whole MiB and [`LEAST_SPAN`] at least:
/// what is written in the time that counts, since most disks are quicker over little. Takes up to half a minute beside
/// writing the span twice.
///
/// # Errors
/// No file can be made there, the disk fails, or the measurement was stopped.
pub fn gauge(folder: &Path, span: Bytes, stage: &Stage<'_>) -> Result<Gauge, LabError> {
    let path = folder.join(format!(".helio-lab-disk-{}", std::process::id()));
    let doing = |what: &str| format!("{what} {}", path.display());
    let hint = "use a writable directory on this disk, with space for the measurement (--size)";
    let make = |how: OFlags| {
        let access = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        open(&path, access | how, Mode::RUSR | Mode::WUSR)
    };
    // As members are opened: some file systems know no direct I/O, and some find out once the file is made.
    let (fd, direct) = match make(OFlags::DIRECT) {
        Err(Errno::INVAL) => {
            let _gone = unlink(&path);
            (make(OFlags::empty()), false)
        }
        other => (other, true),
    };
    let system = |what, why: std::io::Error| LabError::system(doing(what), hint)(why);
    let fd = fd.map_err(|why| system("make", why.into()))?;
    unlink(&path).map_err(|why| system("remove", why.into()))?;
    let file = File::new(fd).map_err(|why| system("open", why))?;
    let (driver, _) = AnyDriver::open(DriverChoice::Auto, Duration::ZERO)
        .map_err(|why| system("open a driver for", why))?;
    let name = driver.name();
    let span = Bytes(span.max(LEAST_SPAN).0 / LONG * LONG);
    let dice = Dice::new(SEED);
    let mut bench = Bench { driver, file, span, out: Vec::new(), dice, stage };
    let measured = bench.all(name, direct).map_err(|why| system("measure", why))?;
    measured.ok_or(LabError::Stopped)
}

struct Bench<'a> {
    driver: AnyDriver,
    file: File,
    span: Bytes,
    out: Vec<Completion>,
    dice: Dice,
    stage: &'a Stage<'a>,
}

impl Bench<'_> {
    /// None where it was stopped.
    fn all(&mut self, driver: &'static str, direct: bool) -> std::io::Result<Option<Gauge>> {
        // The first round gives the file its blocks, however long that takes; what it left is flushed before anything is
        // timed, and so is what the second one leaves.
        let pieces = self.span.0 / LONG;
        self.many(LONG, pieces, LONG_AT_ONCE, Duration::MAX, |_, n| n % pieces * LONG)?;
        self.one(|file, _| Op::SyncData { file })?;
        let long = self.many(LONG, 2 * pieces, LONG_AT_ONCE, LONGEST, |_, n| n % pieces * LONG)?;
        self.one(|file, _| Op::SyncData { file })?;
        let (mut reads, mut writes, mut flushes) = (Vec::new(), Vec::new(), Vec::new());
        let begun = Instant::now();
        for n in 0..ONE_BY_ONE {
            if self.stage.stopped() {
                return Ok(None);
            }
            if begun.elapsed() > 2 * LONGEST {
                break;
            }
            self.rest()?;
            writes.push(self.one(|file, at| write(file, at, SHORT))?);
            self.rest()?;
            reads.push(self.one(|file, at| Op::Read {
                file,
                extent: Extent::new(at, SHORT),
                buffer: Buffer::zeroed(SHORT as usize),
            })?);
            if n % FLUSH_EVERY == FLUSH_EVERY - 1 {
                self.rest()?;
                flushes.push(self.one(|file, _| Op::SyncData { file })?);
            }
        }
        let mean = writes.iter().sum::<Duration>().as_secs_f64() / writes.len() as f64;
        let short = self.many(SHORT, MANY, AT_ONCE, LONGEST, |it, _| it.place())?;
        let (Some(short), Some(long)) = (short, long) else { return Ok(None) };
        let lanes = (short / SHORT as f64 * mean).round().clamp(1.0, 4096.0) as u32;
        Ok(Some(Gauge {
            read: times(&mut reads),
            write: times(&mut writes),
            flush: times(&mut flushes),
            lanes: NonZeroU32::new(lanes).unwrap_or(NonZeroU32::MIN),
            rate: Rate(long as u64),
            driver,
            direct,
        }))
    }

    /// Where the next short operation goes.
    fn place(&mut self) -> u64 {
        self.dice.below(self.span.0 / SHORT) * SHORT
    }

    /// Sleeps in the driver, as a shard does that has nothing to do.
    fn rest(&mut self) -> std::io::Result<()> {
        let until = Instant::now() + REST;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|l| !l.is_zero())
        {
            self.driver.wait(Some(left), &mut self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// One operation, and how long it took.
    fn one(&mut self, op: impl FnOnce(File, u64) -> Op) -> std::io::Result<Duration> {
        let at = self.place();
        let op = op(self.file.clone(), at);
        let begun = Instant::now();
        self.driver.submit(Token(0), op);
        while self.reap()? == 0 {}
        Ok(begun.elapsed())
    }

    /// So many writes, as many at once, each at its place; bytes a second. None where it was stopped.
    fn many(
        &mut self,
        length: u64,
        count: u64,
        at_once: usize,
        longest: Duration,
        place: impl Fn(&mut Self, u64) -> u64,
    ) -> std::io::Result<Option<f64>> {
        let (begun, mut begins, mut ended) = (Instant::now(), 0, 0);
        while ended < begins || (begins < count && begun.elapsed() < longest) {
            if self.stage.stopped() {
                return Ok(None);
            }
            while begins < count && begins - ended < at_once as u64 {
                let at = place(self, begins);
                self.driver.submit(Token(begins), write(self.file.clone(), at, length));
                begins += 1;
            }
            ended += self.reap()?;
        }
        Ok(Some((ended * length) as f64 / begun.elapsed().as_secs_f64()))
    }

    /// Waits, and counts what has ended.
    fn reap(&mut self) -> std::io::Result<u64> {
        self.driver.wait(None, &mut self.out)?;
        let failed = self.out.iter().find_map(|completion| match &completion.outcome {
            Outcome::Wait => None,
            outcome => outcome.error(),
        });
        let ended = self.out.drain(..).count() as u64;
        failed.map_or(Ok(ended), |why| Err(std::io::Error::other(why)))
    }
}

fn write(file: File, at: u64, length: u64) -> Op {
    let mut buffer = Buffer::zeroed(length as usize);
    // Not zeroes, which some disks never write.
    buffer.fill(at as u8 | 1);
    let pieces = vec![Piece::Shared(buffer.into_shared(), 0..length as usize)];
    Op::Write { file, extent: Extent::new(at, length), pieces, sync: false }
}

fn times(of: &mut [Duration]) -> Times {
    of.sort_unstable();
    let at = |share: usize| of[(of.len() - 1) * share / 100];
    Times { median: at(50), p99: at(99) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_disk_is_measured_and_nothing_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let stop = AtomicBool::new(false);
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let span = LEAST_SPAN + Bytes(1_000_000);
        let found = gauge(folder.path(), span, &stage).expect("measured");
        for times in [found.read, found.write, found.flush] {
            assert!(!times.median.is_zero() && times.p99 >= times.median, "{found:?}");
        }
        assert!(found.rate.0 > 0, "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(gauge(folder.path(), LEAST_SPAN, &stage), Err(LabError::Stopped)));
        let none = gauge(&folder.path().join("none"), LEAST_SPAN, &stage).expect_err("no folder");
        assert!(none.to_string().contains("none") && none.to_string().contains("hint"), "{none}");
    }
}
