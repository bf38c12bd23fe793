// SPDX-License-Identifier: Apache-2.0
//! Performs the ledger's effects on the metadata file of a group.

use crate::shard::token::{Kind, token};
use helio_api::MetadataStatus;
use helio_driver::{Driver, File, Op, Outcome, Piece};
use helio_format::superblock::Superblock;
use helio_ledger::{MetadataEffect, SuperblockStore};
use helio_units::Extent;

/// One group's metadata file.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) file: File,
    pub(crate) store: SuperblockStore,
    /// What was done to it since the daemon started.
    pub(crate) counts: MetadataStatus,
}

impl Metadata {
    /// Begins a save. Returns false where the store was poisoned by an earlier failure.
    pub(crate) fn save(
        &mut self,
        group: usize,
        mut superblock: Superblock,
        driver: &mut dyn Driver,
    ) -> bool {
        match self.store.save(&mut superblock) {
            Ok(effect) => {
                self.perform(group, effect, driver);
                true
            }
            Err(_) => false,
        }
    }

    fn perform(&mut self, group: usize, effect: MetadataEffect, driver: &mut dyn Driver) {
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

    /// One effect is done. Returns how the save ended, once it has.
    pub(crate) fn done(
        &mut self,
        group: usize,
        outcome: &Outcome,
        driver: &mut dyn Driver,
    ) -> Option<bool> {
        if let Some(error) = outcome.error() {
            tracing::error!(%error, "the metadata file cannot be written");
        }
        let ok = outcome.error().is_none();
        match outcome {
            Outcome::SyncData(_) => Some(self.store.flushed(ok)),
            _ => match self.store.written(ok) {
                Some(next) => {
                    self.perform(group, next, driver);
                    None
                }
                None => Some(false),
            },
        }
    }
}
