// SPDX-License-Identifier: Apache-2.0
//! Disks: one that is thought up, and the test of a real one.

use crate::error::LabError;
use crate::meet::Stage;
use crate::series::micros;
use crate::watch::Event;
use crate::wire::MOST_FLUSH;
use helio_workload::Distribution;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{read, write};
use std::path::Path;
use std::time::{Duration, Instant};

/// What buffers of direct I/O are aligned to: at least a block of any disk.
const ALIGNMENT: usize = 4096;
/// The slowest disk that can be thought up, in bytes a second: the largest flush takes it two years.
const SLOWEST: f64 = 1.0;
/// The most a write to it may take besides.
const MOST_OVERHEAD: Duration = Duration::from_secs(10);

/// A disk that is thought up: what a write of n bytes takes is overhead + n / rate (the model of HADR's calculator).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disk {
    /// Bytes a second.
    pub rate: f64,
    /// What every operation takes besides.
    pub overhead: Duration,
}

impl Disk {
    /// Refuses a disk on which no write is ever over.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let Self { rate, overhead } = *self;
        if !(SLOWEST..).contains(&rate) {
            let why = format!(
                "the rate of a disk is {rate} bytes a second; it must be at least {SLOWEST}"
            );
            return Err(LabError::Asked(why));
        }
        if overhead > MOST_OVERHEAD {
            let why = format!(
                "a disk's overhead of {overhead:?} for each write is beyond {MOST_OVERHEAD:?}"
            );
            return Err(LabError::Asked(why));
        }
        Ok(())
    }

    /// How long a write takes.
    #[must_use]
    pub fn time(&self, bytes: u64) -> Duration {
        self.overhead.saturating_add(self.transfer(bytes))
    }

    /// How long the bytes alone take.
    pub(crate) fn transfer(&self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.rate).unwrap_or(Duration::MAX)
    }
}

/// Which test of a real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The file is made or emptied, and each write is on the disk before the next.
    Write,
    /// The file is read to its end.
    Read,
}

/// How a disk is tested.
#[derive(Clone, Copy, Debug)]
pub struct DiskTest {
    /// Read or write.
    pub trial: Trial,
    /// Bytes of each operation, at most 64 MiB.
    pub size: u64,
    /// Through the page cache, not direct.
    pub cached: bool,
    /// After so long it ends.
    pub time: Option<Duration>,
    /// After so many operations it ends.
    pub count: Option<u64>,
}

/// What a test of a disk told.
#[derive(Clone, Debug)]
pub struct DiskResult {
    /// How long it took.
    pub span: Duration,
    /// Bytes of every operation.
    pub sizes: Distribution,
    /// Microseconds of every operation.
    pub times: Distribution,
}

/// Tests the disk a file lies on. A file that was written stays.
///
/// # Errors
/// The operations are larger than the largest flush, the file cannot be opened this way, or the disk fails.
pub fn test_disk(path: &Path, test: &DiskTest, stage: &Stage<'_>) -> Result<DiskResult, LabError> {
    // Before the file is emptied.
    if !(1..=MOST_FLUSH).contains(&test.size) {
        let size = test.size;
        return Err(LabError::Asked(format!(
            "operations of {size} bytes are not between 1 and {MOST_FLUSH}"
        )));
    }
    let doing = |what: &str| format!("{what} {}", path.display());
    let access = match test.trial {
        Trial::Write => OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::DSYNC,
        Trial::Read => OFlags::RDONLY,
    };
    let how = if test.cached { OFlags::empty() } else { OFlags::DIRECT };
    let file = open(path, access | how | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
        .map_err(std::io::Error::from)
        .map_err(LabError::system(
            doing("open"),
            "use a path on this disk; if it does not support direct I/O, use --cached",
        ))?;
    let failed = |what| {
        let hint = "use multiples of the block size of the disk, or --cached";
        move |why| LabError::system(doing(what), hint)(std::io::Error::from(why))
    };
    let length = test.size as usize;
    let mut room = vec![0x5a_u8; length + ALIGNMENT];
    let skip = room.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut room[skip..skip + length];
    let mut result = DiskResult {
        span: Duration::ZERO,
        sizes: Distribution::default(),
        times: Distribution::default(),
    };
    let begun = Instant::now();
    while !stage.stopped()
        && test.time.is_none_or(|limit| begun.elapsed() < limit)
        && test.count.is_none_or(|limit| result.sizes.count() < limit)
    {
        let at = Instant::now();
        let (what, bytes) = match test.trial {
            Trial::Write => ("write", write(&file, &*buffer).map_err(failed("write"))?),
            Trial::Read => ("read", read(&file, &mut *buffer).map_err(failed("read"))?),
        };
        if bytes == 0 {
            break;
        }
        let took = at.elapsed();
        result.sizes.add(bytes as u64);
        result.times.add(micros(took));
        if stage.verbose {
            (stage.watch)(&Event::Did { what, bytes: bytes as u64, took });
        }
    }
    result.span = begun.elapsed();
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_disk_takes_its_overhead_and_what_the_bytes_need() {
        let disk = Disk { rate: 50e6, overhead: Duration::from_micros(500) };
        assert_eq!(disk.time(131_072), Duration::from_nanos(500_000 + 2_621_440));
    }

    #[test]
    fn a_disk_on_which_no_write_ends_is_refused() {
        let check = |rate, seconds| Disk { rate, overhead: Duration::from_secs(seconds) }.check();
        assert!(check(1.0, 10).is_ok());
        for (rate, seconds) in [(0.0, 0), (-1.0, 0), (f64::NAN, 0), (1e-300, 0), (50e6, 11)] {
            let why = check(rate, seconds).expect_err("no write ends");
            assert!(matches!(why, LabError::Asked(_)), "{why}");
        }
    }

    #[test]
    fn what_was_written_is_read_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, stop) = (folder.path().join("trial"), AtomicBool::new(false));
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let test =
            DiskTest { trial: Trial::Write, size: 8192, cached: true, time: None, count: Some(5) };
        let written = test_disk(&path, &test, &stage).expect("written");
        assert_eq!((written.sizes.count(), written.sizes.sum()), (5, 40_960));
        let test = DiskTest { trial: Trial::Read, size: 16_384, count: None, ..test };
        let read = test_disk(&path, &test, &stage).expect("read").sizes;
        let told = (read.count(), read.sum(), read.min(), read.max());
        assert_eq!(told, (3, 40_960, 8192, 16_384));
        for size in [0, MOST_FLUSH + 1, u64::MAX] {
            let test = DiskTest { trial: Trial::Write, size, count: Some(1), ..test };
            let why = test_disk(&path, &test, &stage).expect_err("no size");
            assert!(matches!(why, LabError::Asked(_)), "{why}");
        }
        let length = std::fs::metadata(&path).expect("it is there").len();
        assert_eq!(length, 40_960, "what is refused empties nothing");
        let none = test_disk(&folder.path().join("none"), &test, &stage).expect_err("not there");
        assert!(none.to_string().contains("none") && none.to_string().contains("hint"), "{none}");
    }
}
