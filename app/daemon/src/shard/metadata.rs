// SPDX-License-Identifier: Apache-2.0
//! Performs the ledger's effects on the metadata file of a group.

use crate::shard::token::{Kind, token};
use helio_api::MetadataStatus;
use helio_driver::{Driver, File, Op, Outcome, Piece};
use helio_ledger::{Change, Kept, Ledger, MetadataEffect};
use helio_units::Extent;

/// One group's metadata file.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) file: File,
    pub(crate) ledger: Ledger,
    /// What was done to it since the daemon started.
    pub(crate) counts: MetadataStatus,
    /// Where it lies, for people.
    pub(crate) path: String,
    /// The first error of it.
    pub(crate) failed: Option<String>,
}

impl Metadata {
    /// Begins to keep a change. Its end is told by [`Metadata::done`], or here where it cannot be kept any more.
    #[must_use]
    pub(crate) fn keep(
        &mut self,
        group: usize,
        change: Change,
        driver: &mut dyn Driver,
    ) -> Option<Kept> {
        let refused = self.ledger.keep(change);
        self.perform(group, driver);
        refused
    }

    /// Performs what the ledger asks for next, if it asks for anything.
    pub(crate) fn perform(&mut self, group: usize, driver: &mut dyn Driver) {
        let mut effects = Vec::new();
        self.ledger.next(&mut effects);
        for effect in effects {
            let file = self.file.clone();
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
            driver.submit(token(Kind::Metadata, group, 0), op);
        }
    }

    /// One effect is done. Returns what is kept now, or cannot be.
    pub(crate) fn done(
        &mut self,
        group: usize,
        outcome: &Outcome,
        driver: &mut dyn Driver,
    ) -> Vec<Kept> {
        if let Some(error) = outcome.error() {
            let file = &self.path;
            tracing::error!(%error, file, "the metadata file cannot be written");
            self.failed.get_or_insert_with(|| format!("metadata file {file}: {error}"));
        }
        let ok = outcome.error().is_none();
        let kept = match outcome {
            Outcome::SyncData(_) => self.ledger.flushed(ok),
            _ => self.ledger.written(ok),
        };
        self.perform(group, driver);
        kept
    }
}
