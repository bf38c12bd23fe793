// SPDX-License-Identifier: Apache-2.0
//! Performs the ledger's effects on the metadata files of a group.

use crate::shard::token::{Kind, token};
use helio_api::MetadataStatus;
use helio_driver::{Driver, File, Op, Outcome, Piece};
use helio_ledger::{Change, FileEffect, Kept, Ledger, MetadataEffect, Mirror, Task};
use helio_units::Extent;

/// Bit of a token's detail: the operation is part of a record.
const RECORD: u32 = 2;

/// One group's metadata files.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// One or two, and where each lies, for people.
    files: Vec<(File, String)>,
    mirror: Mirror,
    /// What was done to them since the daemon started.
    counts: MetadataStatus,
    /// Why a second file is not used since the start.
    unused: Option<String>,
    /// The first error of each.
    errors: [Option<String>; 2],
}

impl Metadata {
    /// On these files; `unused` says why there is one in place of two.
    pub(crate) fn new(files: Vec<(File, String)>, mirror: Mirror, unused: Option<String>) -> Self {
        let counts = MetadataStatus::default();
        Self { files, mirror, counts, unused, errors: [None, None] }
    }

    /// Begins to keep a change. Its end is told by [`Metadata::done`], or here where it cannot be kept any more.
    #[must_use]
    pub(crate) fn keep(
        &mut self,
        group: usize,
        change: Change,
        driver: &mut dyn Driver,
    ) -> Option<Kept> {
        let refused = self.mirror.keep(change);
        self.perform(group, driver);
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

    /// What failed.
    pub(crate) fn fault(&self) -> Option<String> {
        let errors = self.unused.iter().chain(self.errors.iter().flatten());
        let all: Vec<&str> = errors.map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Performs what the ledger asks for next, if it asks for anything.
    pub(crate) fn perform(&mut self, group: usize, driver: &mut dyn Driver) {
        let mut effects = Vec::new();
        self.mirror.next(&mut effects);
        self.submit(group, effects, driver);
    }

    fn submit(&mut self, group: usize, effects: Vec<FileEffect>, driver: &mut dyn Driver) {
        for FileEffect { task, effect } in effects {
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
        (group, detail): (usize, u32),
        outcome: &Outcome,
        driver: &mut dyn Driver,
    ) -> Vec<Kept> {
        let task = task(detail);
        let mut effects = Vec::new();
        let kept = self.mirror.done(task, outcome.error().is_none(), &mut effects);
        if let Some(error) = outcome.error() {
            let file = &self.files[task.file()].1;
            tracing::error!(%error, file, "the metadata file cannot be written");
            let mut text = format!("metadata file {file}: {error}");
            if !self.ledger().is_poisoned()
                && let Some((_, other)) = self.files.get(1 - task.file())
            {
                text += &format!("; only {other} is used");
            }
            self.errors[task.file()].get_or_insert(text);
        }
        self.submit(group, effects, driver);
        self.perform(group, driver);
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
