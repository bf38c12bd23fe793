// SPDX-License-Identifier: Apache-2.0
//! Performs the ledger's effects on the metadata files of a group.
//!
//! If one of two files completes no operation for the member timeout while nothing is under way on the other one, it is given
//! up as if it had failed. The last file that counts is not given up: it is silent, and may respond again.

use crate::shard::looks::{Timetable, Watched};
use crate::shard::token::{Kind, token};
use helio_api::MetadataStatus;
use helio_driver::{Driver, File, Op, Outcome, Piece};
use helio_engine::Fault;
use helio_ledger::{Change, FileEffect, Kept, Ledger, MetadataEffect, Mirror, Task};
use helio_units::{Extent, Moment};
use std::time::Duration;

/// Bit of a token's detail: the operation is part of a record.
const RECORD: u32 = 2;

/// What is under way on each file.
#[derive(Debug)]
struct UnderWay {
    files: [Watched; 2],
    timetable: Timetable,
}

impl UnderWay {
    fn submitted(&mut self, file: usize, now: Moment) {
        self.files[file].submitted();
        self.timetable.submitted(now);
    }

    /// Returns the file that completes nothing, if the other one has nothing to complete.
    fn look(&mut self, now: Moment) -> Option<usize> {
        if !self.timetable.is_due(now, self.files.iter().any(Watched::works)) {
            return None;
        }
        // Time in which the other one works does not count to give a file up: both may wait for one controller.
        let works = [self.files[1].works(), self.files[0].works()];
        for (file, other_works) in self.files.iter_mut().zip(works) {
            file.look(!other_works);
        }
        (0..2).find(|file| self.files[*file].is_silent_alone() && !self.files[1 - file].works())
    }
}

/// One group's metadata files.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// One or two, and where each lies, for people.
    files: Vec<(File, String)>,
    mirror: Mirror,
    /// What was done to them since the daemon started.
    counts: MetadataStatus,
    /// Why a second file is not used since the start.
    unused: Option<Fault>,
    /// The first error of each.
    errors: [Option<String>; 2],
    /// Whether what failed is news.
    news: bool,
    under_way: UnderWay,
}

impl Metadata {
    /// On these files, each of which may hang for the timeout; `unused` says why there is one in place of two.
    pub(crate) fn new(
        files: Vec<(File, String)>,
        (mirror, timeout): (Mirror, Duration),
        unused: Option<Fault>,
    ) -> Self {
        let under_way = UnderWay { files: Default::default(), timetable: Timetable::new(timeout) };
        let (counts, news) = (MetadataStatus::default(), unused.is_some());
        Self { files, mirror, counts, unused, errors: [None, None], news, under_way }
    }

    /// From now on each may hang for that long.
    pub(crate) fn set_timeout(&mut self, now: Moment, timeout: Duration) {
        self.under_way.timetable.set_timeout(now, timeout);
    }

    /// Begins to keep a change. Its end is told by [`Metadata::done`], or here where it cannot be kept any more.
    #[must_use]
    pub(crate) fn keep(
        &mut self,
        at: (usize, Moment),
        change: Change,
        driver: &mut dyn Driver,
    ) -> Option<Kept> {
        let refused = self.mirror.keep(change);
        self.perform(at, driver);
        refused
    }

    pub(crate) const fn ledger(&self) -> &Ledger {
        self.mirror.ledger()
    }

    pub(crate) const fn counts(&self) -> MetadataStatus {
        self.counts
    }

    /// Whether the files are at rest.
    pub(crate) fn is_idle(&self) -> bool {
        self.mirror.is_idle()
    }

    /// Whether operations are under way, also on a file that failed. One that completes nothing does not count.
    pub(crate) fn works(&self) -> bool {
        self.under_way.files.iter().any(|file| file.works() && !file.is_silent())
    }

    /// What failed, and what to do about it, if that was not asked for since it changed.
    pub(crate) fn news(&mut self, owner: (&str, &str)) -> Option<Fault> {
        std::mem::take(&mut self.news).then(|| self.fault(owner)).flatten()
    }

    fn fault(&self, (group, node): (&str, &str)) -> Option<Fault> {
        let failed: Vec<(usize, &String)> =
            (0..2).filter_map(|file| Some((file, self.errors[file].as_ref()?))).collect();
        let named = |(file, error): &(usize, &String)| format!("{}: {error}", self.files[*file].1);
        let what = failed.iter().map(named).collect::<Vec<_>>().join("; ");
        match (failed.as_slice(), &self.unused) {
            ([], unused) => unused.clone(),
            ([(file, _)], None) if !self.ledger().is_poisoned() => Some(Fault {
                what: format!(
                    "one of two metadata files failed: {what}; only {} is used",
                    self.files[1 - file].1
                ),
                hint: format!(
                    "repair the disk of {} on {node}, then restart the daemon of {node}, which copies the file again",
                    self.files[*file].1
                ),
            }),
            ([(file, _)], None) => Some(Fault {
                what: format!("metadata file {what}"),
                hint: format!(
                    "repair the file system of {} on {node}; or stop its daemon and `helio metadata move {group} --to DIR` on \
                     {node}. Then restart the daemon",
                    self.files[*file].1
                ),
            }),
            (_, unused) => Some(Fault {
                what: match unused {
                    Some(_) => format!(
                        "metadata file {what}; the other file has not been used since the start"
                    ),
                    None => format!("both metadata files failed: {what}"),
                },
                hint: format!(
                    "repair the file systems of both metadata files on {node}, then restart the daemon of {node}"
                ),
            }),
        }
    }

    /// When to look at the files although nothing ended.
    pub(crate) fn deadline(&self) -> Moment {
        self.under_way.timetable.next()
    }

    /// The files that count and have completed nothing for the timeout.
    pub(crate) fn silent(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().zip(&self.under_way.files).zip(&self.errors);
        let silent = files.filter(|((_, watched), error)| watched.is_silent() && error.is_none());
        silent.map(|(((_, shown), _), _)| shown.as_str())
    }

    /// Gives up a file that completes nothing. Returns what is kept now.
    pub(crate) fn look(&mut self, at: (usize, Moment), driver: &mut dyn Driver) -> Vec<Kept> {
        let silent = self.under_way.look(at.1).filter(|_| self.mirror.counts_both());
        let Some(file) = silent else { return Vec::new() };
        let error =
            format!("no operation has completed within {:?}", self.under_way.timetable.timeout());
        self.ended(at, (Task::Batch(file), Some(error)), driver)
    }

    /// Performs what the ledger asks for next, if it asks for anything.
    pub(crate) fn perform(&mut self, at: (usize, Moment), driver: &mut dyn Driver) {
        let mut effects = Vec::new();
        self.mirror.next(&mut effects);
        self.submit(at, effects, driver);
    }

    fn submit(
        &mut self,
        (group, now): (usize, Moment),
        effects: Vec<FileEffect>,
        driver: &mut dyn Driver,
    ) {
        for FileEffect { task, effect } in effects {
            self.under_way.submitted(task.file(), now);
            let file = self.files[task.file()].0.clone();
            let op = match effect {
                MetadataEffect::Write { offset, bytes } => {
                    self.counts.writes += 1;
                    Op::Write {
                        file,
                        extent: Extent::new(offset, bytes.len() as u64),
                        pieces: vec![Piece::Bytes(bytes)],
                        sync: false,
                    }
                }
                MetadataEffect::Flush => {
                    self.counts.flushes += 1;
                    Op::SyncData { file }
                }
            };
            driver.submit(token(Kind::Metadata, group, detail(task)), op);
        }
    }

    /// One effect is done. Returns what is kept now, or cannot be.
    pub(crate) fn done(
        &mut self,
        at: (usize, Moment),
        detail: u32,
        outcome: &Outcome,
        driver: &mut dyn Driver,
    ) -> Vec<Kept> {
        let task = task(detail);
        self.under_way.files[task.file()].ended();
        self.ended(at, (task, outcome.error().map(|error| error.to_string())), driver)
    }

    fn ended(
        &mut self,
        at: (usize, Moment),
        (task, error): (Task, Option<String>),
        driver: &mut dyn Driver,
    ) -> Vec<Kept> {
        let mut effects = Vec::new();
        let kept = self.mirror.done(task, error.is_none(), &mut effects);
        if let Some(error) = error {
            let file = &self.files[task.file()].1;
            tracing::error!(error, file, "the metadata file cannot be written");
            self.news |= self.errors[task.file()].is_none();
            self.errors[task.file()].get_or_insert(error);
        }
        self.submit(at, effects, driver);
        self.perform(at, driver);
        kept
    }
}

/// What a token's detail says of an operation.
fn detail(task: Task) -> u32 {
    match task {
        Task::Batch(file) => file as u32,
        Task::Record(file) => RECORD | file as u32,
    }
}

fn task(detail: u32) -> Task {
    let file = (detail & 1) as usize;
    if detail & RECORD == 0 { Task::Batch(file) } else { Task::Record(file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::looks::Held;
    use helio_driver::{Cause, Errno, OpError, Operation};
    use helio_format::superblock::Superblock;
    use helio_ledger::Layout;

    const SECOND: u64 = 1_000_000_000;
    const OWNER: (&str, &str) = ("db", "paris");

    fn at(seconds: u64) -> Moment {
        Moment(seconds * SECOND)
    }

    /// Two files that are new, with a timeout of 8 s, and a change that is being kept.
    fn begun(driver: &mut Held) -> Metadata {
        let record = Superblock::new("db", "paris", vec![1 << 20]);
        let ledger = Ledger::fresh(Layout::of(&record), OWNER, helio_link::checksum);
        let mirror = Mirror::two(ledger, 2);
        let file = |name: &str| {
            let file = tempfile::tempfile().expect("there is room");
            (File::new(file).expect("it can be used"), name.to_owned())
        };
        let files = vec![file("/a/db.meta"), file("/b/db.meta")];
        let mut metadata = Metadata::new(files, (mirror, Duration::from_secs(8)), None);
        let change = Change::Superblock(Box::new(record));
        assert_eq!(metadata.keep((0, at(0)), change, driver), None);
        metadata
    }

    fn failed() -> Outcome {
        let cause = Cause::Errno(Errno::IO);
        Outcome::SyncData(Err(OpError { operation: Operation::SyncData, extent: None, cause }))
    }

    /// All operations end but those of this file, until there are none.
    fn end_all_but(
        file: usize,
        metadata: &mut Metadata,
        (now, driver): (Moment, &mut Held),
    ) -> Vec<Kept> {
        let mut kept = Vec::new();
        while let Some(place) = driver.0.iter().position(|detail| task(*detail).file() != file) {
            let detail = driver.0.remove(place);
            kept.extend(metadata.done((0, now), detail, &Outcome::SyncData(Ok(())), driver));
        }
        kept
    }

    #[test]
    fn a_file_that_completes_nothing_is_given_up_and_the_other_one_keeps_the_change() {
        let mut driver = Held::default();
        let mut metadata = begun(&mut driver);
        assert_eq!(end_all_but(1, &mut metadata, (at(0), &mut driver)), []);
        for second in 1..=8 {
            assert_eq!(metadata.deadline(), at(second));
            assert_eq!(metadata.look((0, at(second)), &mut driver), []);
            assert_eq!(metadata.news(OWNER), None, "after {second} s");
        }
        assert_eq!(metadata.look((0, at(9)), &mut driver), [], "its record is not durable yet");
        let fault = metadata.news(OWNER).expect("it is given up");
        assert!(
            fault.what.contains("/b/db.meta: no operation has completed within 8s"),
            "{fault:?}"
        );
        assert!(fault.what.contains("only /a/db.meta is used"), "{fault:?}");
        let kept = end_all_but(1, &mut metadata, (at(9), &mut driver));
        assert_eq!(kept, [Kept::Superblock { ok: true }]);
        // What the file completes later changes nothing.
        assert_eq!(end_all_but(0, &mut metadata, (at(20), &mut driver)), []);
        assert_eq!(metadata.look((0, at(20)), &mut driver), []);
        assert_eq!((metadata.news(OWNER), metadata.deadline()), (None, Moment::NEVER));
    }

    #[test]
    fn no_file_is_given_up_for_a_pause_of_this_process_or_while_both_complete_nothing() {
        let mut driver = Held::default();
        let mut metadata = begun(&mut driver);
        for second in 1..=20 {
            assert_eq!(metadata.look((0, at(second)), &mut driver), []);
        }
        assert_eq!(metadata.news(OWNER), None, "both complete nothing");
        assert!(metadata.silent().eq(["/a/db.meta", "/b/db.meta"]));
        let mut driver = Held::default();
        let mut metadata = begun(&mut driver);
        assert_eq!(end_all_but(1, &mut metadata, (at(0), &mut driver)), []);
        for second in [1, 100, 200] {
            assert_eq!(metadata.look((0, at(second)), &mut driver), []);
        }
        assert_eq!(metadata.news(OWNER), None, "this process stood still");
    }

    #[test]
    fn the_last_file_that_counts_is_silent_until_it_completes_something() {
        let mut driver = Held::default();
        let mut metadata = begun(&mut driver);
        let detail =
            driver.0.remove(driver.0.iter().position(|d| task(*d).file() == 1).expect("is there"));
        assert_eq!(metadata.done((0, at(0)), detail, &failed(), &mut driver), []);
        for second in 1..=8 {
            assert_eq!(metadata.deadline(), at(second));
            assert_eq!(metadata.look((0, at(second)), &mut driver), []);
            assert_eq!(metadata.silent().count(), 0, "after {second} s");
        }
        assert_eq!(metadata.look((0, at(9)), &mut driver), []);
        assert!(metadata.silent().eq(["/a/db.meta"]), "only that one counts");
        let kept = end_all_but(1, &mut metadata, (at(9), &mut driver));
        assert_eq!(kept, [Kept::Superblock { ok: true }]);
        assert_eq!(metadata.silent().count(), 0);
    }

    #[test]
    fn metadata_works_until_what_is_under_way_on_a_failed_file_ends_or_it_is_silent() {
        let mut driver = Held::default();
        let mut metadata = begun(&mut driver);
        for file in [0, 1] {
            let place = driver.0.iter().position(|detail| task(*detail) == Task::Batch(file));
            let detail = driver.0.remove(place.expect("is there"));
            metadata.done((0, at(0)), detail, &failed(), &mut driver);
        }
        assert!(metadata.is_idle() && metadata.works(), "{:?}", driver.0);
        for second in 1..=9 {
            assert!(metadata.works(), "after {second} s");
            metadata.look((0, at(second)), &mut driver);
        }
        assert!(!metadata.works(), "it is silent");
        end_all_but(2, &mut metadata, (at(9), &mut driver));
        assert!(!metadata.works() && driver.0.is_empty());
    }
}
