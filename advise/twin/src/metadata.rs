// SPDX-License-Identifier: Apache-2.0
//! A node's metadata file: the ledger's own store, over sectors that tear.

use crate::checksum::crc32c;
use core::time::Duration;
use helio_format::superblock::Superblock;
use helio_ledger::{METADATA_BYTES, MetadataEffect, Opened, SuperblockError, SuperblockStore};
use helio_netmodel::Dice;
use helio_units::Moment;

/// What a disk writes whole or not at all.
const SECTOR: usize = helio_units::SECTOR as usize;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataFault {
    /// The next write of a slot.
    Write,
    /// The next flush.
    Flush,
}

/// The metadata file of one node.
#[derive(Debug)]
pub struct Metadata {
    /// What readers see.
    live: Box<[u8; METADATA_BYTES]>,
    /// What survives the loss of power.
    durable: Box<[u8; METADATA_BYTES]>,
    store: Option<SuperblockStore>,
    writing: Option<(usize, Vec<u8>)>,
    /// The store is poisoned and said so.
    refused: bool,
    fault: Option<MetadataFault>,
    latency: Duration,
    dice: Dice,
}

/// What follows a step of a save.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next step ends then.
    At(Moment),
    /// The save is over.
    Over { ok: bool },
}

impl Metadata {
    /// A file that was never written.
    #[must_use]
    pub fn new(latency: Duration, dice: Dice) -> Self {
        let zeros = || Box::new([0; METADATA_BYTES]);
        let (live, durable) = (zeros(), zeros());
        Self {
            live,
            durable,
            store: None,
            writing: None,
            refused: false,
            fault: None,
            latency,
            dice,
        }
    }

    /// Removes the file: the node joins as new.
    pub fn remove(&mut self) {
        self.live.fill(0);
        self.durable.fill(0);
    }

    /// The bytes of the file, for a snapshot.
    pub(crate) fn contents(&self) -> Vec<u8> {
        self.live.to_vec()
    }

    /// Puts the bytes of another file in its place.
    pub(crate) fn put_back(&mut self, contents: &[u8]) {
        self.live.copy_from_slice(contents);
        self.durable.copy_from_slice(contents);
    }

    /// The next operation of that kind fails.
    pub fn fail_next(&mut self, fault: MetadataFault) {
        self.fault = Some(fault);
    }

    /// Nothing is made to fail any more.
    pub fn mend(&mut self) {
        self.fault = None;
    }

    /// What lies in the file, as a starting daemon reads it: behind a flush, since what a process before wrote may
    /// not be durable yet, and the next save goes over the other slot.
    ///
    /// # Errors
    /// Neither slot can be used.
    pub(crate) fn open(&mut self) -> Result<Opened, SuperblockError> {
        self.durable.clone_from(&self.live);
        let (store, opened) = SuperblockStore::open(&self.live, crc32c)?;
        self.store = Some(store);
        Ok(opened)
    }

    /// Begins to save.
    pub(crate) fn save(&mut self, now: Moment, superblock: &mut Superblock) -> Step {
        let Some(store) = &mut self.store else { panic!("a save before the file was opened") };
        match store.save(superblock) {
            Ok(effect) => self.perform(now, Some(effect)),
            Err(_) => {
                self.refused = true;
                Step::At(now + self.latency)
            }
        }
    }

    fn perform(&mut self, now: Moment, effect: Option<MetadataEffect>) -> Step {
        match effect {
            Some(MetadataEffect::Write { offset, bytes }) => {
                self.writing = Some((offset as usize, bytes));
            }
            Some(MetadataEffect::Flush) => {}
            None => return Step::Over { ok: false },
        }
        Step::At(now + self.latency)
    }

    /// The step under way ends.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        let Some(store) = &mut self.store else { panic!("a step of a save nobody began") };
        if core::mem::take(&mut self.refused) {
            return Step::Over { ok: false };
        }
        if let Some((at, bytes)) = self.writing.take() {
            let ok = self.fault.take_if(|f| *f == MetadataFault::Write).is_none();
            let effect = store.written(ok);
            let whole = ok || self.dice.chance(1, 4);
            self.put(at, &bytes, whole);
            return self.perform(now, effect);
        }
        let ok = self.fault.take_if(|f| *f == MetadataFault::Flush).is_none();
        if ok {
            self.durable.clone_from(&self.live);
        }
        Step::Over { ok: store.flushed(ok) }
    }

    fn put(&mut self, at: usize, bytes: &[u8], whole: bool) {
        for (n, sector) in bytes.chunks(SECTOR).enumerate() {
            if whole || self.dice.chance(1, 2) {
                let from = at + n * SECTOR;
                self.live[from..from + sector.len()].copy_from_slice(sector);
            }
        }
    }

    /// The process is gone; with the power, too, every sector that was not flushed is the new or the old one.
    pub(crate) fn crash(&mut self, power: bool) {
        if let Some((at, bytes)) = self.writing.take() {
            let whole = self.dice.chance(1, 3);
            self.put(at, &bytes, whole);
        }
        self.store = None;
        self.refused = false;
        if power {
            for (live, durable) in self.live.chunks_mut(SECTOR).zip(self.durable.chunks(SECTOR)) {
                if live != durable && self.dice.chance(1, 2) {
                    live.copy_from_slice(durable);
                }
            }
            self.durable.clone_from(&self.live);
        }
    }
}
