// SPDX-License-Identifier: Apache-2.0
//! The copy experiment of OpenVMS volume shadowing: how fast one member is copied to another, by what both hold, by how much is
//! transferred at a time, by which disk is slow, through the page cache and past it.
//!
//! ```text
//!   measure ──> copy (`host`) ──> layer that keeps members alike ──> disks (`legs`)
//!      └──────> read and write (`raw`) ─────────────────────────────────^
//! ```
//!
//! The algorithm is that of daemons, in `core/shadow`; here are its host, and the clock. `mirror` measures writes to two members with the
//! same host.

mod host;
mod legs;
mod mirror;
mod raw;

pub use mirror::{MirrorRow, MirrorTest, mirror_experiment};

use crate::error::LabError;
use crate::meet::Stage;
use crate::store::Disk;
use helio_disk::Io;
use helio_shadow::{REGION, Transfer};
use helio_units::Bytes;
use host::{Course, copy};
use legs::{Legs, Way};
use std::path::PathBuf;
use std::time::Duration;

/// A block of OpenVMS.
pub const BLOCK: Bytes = Bytes(512);
/// The seed of what the source holds; the target holds the same, or the noise of the ones behind it.
const SEED: u64 = 1;

/// How copies are measured.
#[derive(Clone, Debug)]
pub struct CopyTest {
    /// Directories on the disks, the source first.
    pub folders: [PathBuf; 2],
    /// Bytes that are copied: whole MiB.
    pub size: Bytes,
    /// Fixed transfer sizes, powers of two from a block to 1 MiB; automatic is measured besides.
    pub transfers: Vec<Bytes>,
    /// Runs of each kind, of which the median counts. Runs that are compared take turns.
    pub rounds: usize,
    /// How slow a disk is made that is to be slow.
    pub slow: Disk,
    /// A run ends after so long: its rate is that of what was copied by then.
    pub longest: Duration,
}

/// What the target holds before the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// What the source holds.
    Identical,
    /// Nothing of it.
    Different,
}

/// Which disk is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// None.
    Neither,
    /// The one that is read.
    Source,
    /// The one that is compared and written.
    Target,
}

/// What was measured of one kind of copy. Rates are medians, in bytes of the volume per second.
#[derive(Clone, Debug)]
pub struct CopyRow {
    /// What the target held.
    pub data: Data,
    /// Which disk was slow.
    pub slow: Slow,
    /// Through the page cache.
    pub cached: bool,
    /// With each fixed transfer size; none where the blocks of a disk are larger.
    pub fixed: Vec<(Bytes, Option<f64>)>,
    /// With the automatic one.
    pub auto: f64,
    /// If the data differs: the rate of reading the source and writing the target, without the layer. `None` if no write completed in
    /// time.
    pub ceiling: Option<f64>,
    /// The most bytes that a run wrote to the target.
    pub written: Bytes,
    /// The driver: `ring` or `poll`.
    pub driver: &'static str,
}

impl CopyRow {
    /// The best rate with a fixed transfer size.
    #[must_use]
    pub fn best(&self) -> Option<f64> {
        self.fixed.iter().filter_map(|(_, rate)| *rate).reduce(f64::max)
    }
}

/// Measures every kind of copy, and hands out each row. The files have no name once they are open, so that nothing stays.
///
/// # Errors
/// No file can be made in a directory, a disk fails or has no direct I/O, or the measurement was stopped.
pub fn copy_experiment(
    test: &CopyTest,
    stage: &Stage<'_>,
    row: &mut dyn FnMut(&CopyRow),
) -> Result<(), LabError> {
    test.slow.check()?;
    for io in [Io::Direct, Io::Buffered] {
        let folders = [test.folders[0].as_path(), test.folders[1].as_path()];
        let mut legs = Legs::open(folders, test.size, io, stage)?;
        raw::fill(&mut legs, raw::SOURCE, test.size, SEED)?;
        for data in [Data::Identical, Data::Different] {
            for slow in [Slow::Neither, Slow::Source, Slow::Target] {
                let kind = Kind { data, slow, cached: io == Io::Buffered };
                row(&kind.measure(test, &mut legs)?);
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Kind {
    data: Data,
    slow: Slow,
    cached: bool,
}

impl Kind {
    fn measure(self, test: &CopyTest, legs: &mut Legs<'_>) -> Result<CopyRow, LabError> {
        let Self { data, slow, cached } = self;
        let fits = |size: &Bytes| *size >= legs.block();
        let courses = test.transfers.iter().map(|size| fits(size).then(|| course(test, *size)));
        let courses: Vec<_> = courses.collect();
        let auto = Course { transfer: Transfer::Auto, ..course(test, REGION) };
        let mut rates = vec![Vec::new(); courses.len() + 2];
        let (mut seed, mut written) = (SEED, Bytes::ZERO);
        if data == Data::Identical {
            raw::fill(legs, raw::TARGET, test.size, SEED)?;
        }
        for _ in 0..test.rounds {
            let all = courses.iter().copied().chain([Some(auto)]);
            for (rates, course) in rates.iter_mut().zip(all) {
                let Some(course) = course else { continue };
                if data == Data::Different {
                    seed += 1;
                    raw::fill(legs, raw::TARGET, test.size, seed)?;
                }
                self.slow_down(legs, test.slow);
                let copied = copy(legs, &course)?;
                full_speed(legs);
                rates.push(copied.copied.0 as f64 / copied.span.as_secs_f64());
                written = written.max(copied.written);
            }
            if data == Data::Different {
                self.slow_down(legs, test.slow);
                let rate = raw::read_and_write(legs, test.size, test.longest)?;
                full_speed(legs);
                rates[courses.len() + 1].push(rate.unwrap_or(0.0));
            }
        }
        let mut medians = rates.into_iter().map(median);
        let fixed = test.transfers.iter().copied().zip(medians.by_ref()).collect();
        let auto = medians.next().flatten().unwrap_or(0.0);
        let ceiling = medians.next().flatten().filter(|rate| *rate > 0.0);
        Ok(CopyRow { data, slow, cached, fixed, auto, ceiling, written, driver: legs.driver() })
    }

    fn slow_down(self, legs: &mut Legs<'_>, slow: Disk) {
        for (leg, which) in [(raw::SOURCE, Slow::Source), (raw::TARGET, Slow::Target)] {
            legs.make(leg, Way::slow((self.slow == which).then_some(slow)));
        }
    }
}

fn full_speed(legs: &mut Legs<'_>) {
    [raw::SOURCE, raw::TARGET].into_iter().for_each(|leg| legs.make(leg, Way::Direct));
}

/// A region is no larger than what is transferred at a time.
fn course(test: &CopyTest, transfer: Bytes) -> Course {
    let region = REGION.min(transfer);
    Course { size: test.size, region, transfer: Transfer::Fixed(transfer), longest: test.longest }
}

fn median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn test(folder: &std::path::Path) -> CopyTest {
        CopyTest {
            folders: [folder.to_path_buf(), folder.to_path_buf()],
            size: Bytes::mib(4),
            transfers: vec![Bytes::kib(4), Bytes::kib(64)],
            rounds: 1,
            slow: Disk { rate: 400e6, overhead: Duration::from_micros(100) },
            longest: Duration::from_secs(600),
        }
    }

    #[test]
    fn identical_data_is_not_written_and_different_data_is_written_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let stop = AtomicBool::new(false);
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let test = test(folder.path());
        let mut rows = Vec::new();
        copy_experiment(&test, &stage, &mut |row| rows.push(row.clone())).expect("measured");
        assert_eq!(rows.len(), 12);
        for row in &rows {
            let written = if row.data == Data::Identical { Bytes::ZERO } else { test.size };
            assert_eq!(row.written, written, "{row:?}");
            assert!(row.auto > 0.0 && row.best().is_some_and(|best| best > 0.0), "{row:?}");
            assert_eq!(row.ceiling.is_some(), row.data == Data::Different, "{row:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
        stop.store(true, Ordering::Relaxed);
        let stopped = copy_experiment(&test, &stage, &mut |_| {}).expect_err("it was stopped");
        assert!(stopped.to_string().contains("hint"), "{stopped}");
    }

    #[test]
    fn a_copy_makes_the_target_hold_what_the_source_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let (test, folders) = (test(folder.path()), [folder.path(); 2]);
        let stop = AtomicBool::new(false);
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let mut legs = Legs::open(folders, test.size, Io::Buffered, &stage).expect("opened");
        raw::fill(&mut legs, raw::SOURCE, test.size, 1).expect("filled");
        raw::fill(&mut legs, raw::TARGET, test.size, 2).expect("filled");
        let course = course(&test, Bytes::kib(4));
        let first = copy(&mut legs, &course).expect("copied");
        assert_eq!((first.copied, first.written), (test.size, test.size));
        let second = copy(&mut legs, &course).expect("copied");
        assert_eq!((second.copied, second.written), (test.size, Bytes::ZERO));
        stop.store(true, Ordering::Relaxed);
        let stopped = copy(&mut legs, &course).expect_err("it was stopped").to_string();
        assert!(stopped.starts_with("stopped before"), "{stopped}");
    }

    #[test]
    fn a_run_that_takes_too_long_ends_where_it_is_and_a_missing_directory_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let test = test(folder.path());
        let stop = AtomicBool::new(false);
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let folders = [folder.path(); 2];
        let mut legs = Legs::open(folders, test.size, Io::Buffered, &stage).expect("opened");
        // A MiB takes an hour, which nothing here waits for.
        let slow = || Way::slow(Some(Disk { rate: 300.0, overhead: Duration::ZERO }));
        let longest = Duration::from_millis(200);
        legs.make(raw::TARGET, slow());
        let course = Course { longest, ..course(&test, REGION) };
        let copied = copy(&mut legs, &course).expect("ended").copied;
        assert!(copied < test.size, "{copied}");
        legs.make(raw::TARGET, slow());
        let rate = raw::read_and_write(&mut legs, test.size, longest).expect("ended");
        assert_eq!(rate, None, "no write completed");
        let none = folder.path().join("none");
        let missing = CopyTest { folders: [none.clone(), none], ..test };
        let why = copy_experiment(&missing, &stage, &mut |_| {}).expect_err("it is not there");
        assert!(why.to_string().contains("none") && why.to_string().contains("hint"), "{why}");
    }
}
