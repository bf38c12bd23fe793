// SPDX-License-Identifier: Apache-2.0
//! A node's metadata file: the ledger's own state machine, over sectors that tear.

use crate::checksum::crc32c;
use core::time::Duration;
use helio_format::superblock::Superblock;
use helio_ledger::{Change, Found, Kept, Layout, Ledger, LedgerError, MetadataEffect, Opened};
use helio_netmodel::Dice;
use helio_units::Moment;
use std::collections::BTreeMap;

/// What a disk writes whole or not at all.
const SECTOR: usize = helio_units::SECTOR as usize;

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataFault {
    /// The next write of a page.
    Write,
    /// The next flush.
    Flush,
}

/// The metadata file of one node.
#[derive(Debug)]
pub struct Metadata {
    /// What readers see.
    live: Vec<u8>,
    /// What survives the loss of power, of the sectors that changed since the last flush.
    durable: BTreeMap<usize, Vec<u8>>,
    ledger: Option<Ledger>,
    /// What is under way, and ends with the next step.
    effects: Vec<MetadataEffect>,
    /// What was asked of a poisoned ledger, to be told with the next step.
    refused: Vec<Kept>,
    /// A step is to come.
    stepping: bool,
    fault: Option<MetadataFault>,
    latency: Duration,
    dice: Dice,
}

impl Metadata {
    /// A file that was never written.
    #[must_use]
    pub fn new(latency: Duration, dice: Dice) -> Self {
        Self {
            live: Vec::new(),
            durable: BTreeMap::new(),
            ledger: None,
            effects: Vec::new(),
            refused: Vec::new(),
            stepping: false,
            fault: None,
            latency,
            dice,
        }
    }

    /// Removes the file: the node joins as new.
    pub fn remove(&mut self) {
        self.live.clear();
        self.durable.clear();
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
    /// not be durable yet, and the next write of a page goes over one of its copies. A file never written begins with
    /// `new`.
    ///
    /// # Errors
    /// It cannot be served from.
    pub(crate) fn open(&mut self, new: Superblock) -> Result<Found, LedgerError> {
        self.durable.clear();
        let owner = (new.group.as_str(), new.node.as_str());
        let (ledger, found) = match Ledger::open(&self.live[..], owner, crc32c)? {
            Opened::Found(found) => *found,
            Opened::Fresh => {
                let layout = Layout::of(&new);
                self.live = vec![0; layout.bytes() as usize];
                (Ledger::fresh(layout, owner, crc32c), Found::nothing(new))
            }
        };
        self.ledger = Some(ledger);
        Ok(found)
    }

    /// Begins to keep a change. Returns when the next step ends, where one begins now.
    pub(crate) fn keep(&mut self, now: Moment, change: Change) -> Option<Moment> {
        let Some(ledger) = &mut self.ledger else { panic!("a change before the file was opened") };
        self.refused.extend(ledger.keep(change));
        self.begin(now)
    }

    /// Does what the ledger asks for next. Returns when that ends, where something begins now.
    pub(crate) fn begin(&mut self, now: Moment) -> Option<Moment> {
        if self.stepping {
            return None;
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.next(&mut self.effects);
        }
        self.stepping = !self.effects.is_empty() || !self.refused.is_empty();
        self.stepping.then(|| now + self.latency)
    }

    /// The step under way ends. Returns what is kept now or cannot be; [`Metadata::begin`] begins the next step.
    pub(crate) fn step(&mut self) -> Vec<Kept> {
        self.stepping = false;
        let mut kept = core::mem::take(&mut self.refused);
        for effect in core::mem::take(&mut self.effects) {
            let Some(ledger) = &mut self.ledger else { panic!("a step nobody began") };
            match effect {
                MetadataEffect::Write { offset, bytes } => {
                    let ok = self.fault.take_if(|f| *f == MetadataFault::Write).is_none();
                    kept.extend(ledger.written(ok));
                    let whole = ok || self.dice.chance(1, 4);
                    self.put(offset as usize, &bytes, whole);
                }
                MetadataEffect::Flush => {
                    let ok = self.fault.take_if(|f| *f == MetadataFault::Flush).is_none();
                    if ok {
                        self.durable.clear();
                    }
                    kept.extend(ledger.flushed(ok));
                }
            }
        }
        kept
    }

    fn put(&mut self, at: usize, bytes: &[u8], whole: bool) {
        for (n, sector) in bytes.chunks(SECTOR).enumerate() {
            if whole || self.dice.chance(1, 2) {
                let from = at + n * SECTOR;
                let live = &mut self.live[from..from + sector.len()];
                self.durable.entry(from).or_insert_with(|| live.to_vec());
                live.copy_from_slice(sector);
            }
        }
    }

    /// The process is gone; with the power, too, every sector that was not flushed is the new or the old one.
    pub(crate) fn crash(&mut self, power: bool) {
        for effect in core::mem::take(&mut self.effects) {
            if let MetadataEffect::Write { offset, bytes } = effect {
                let whole = self.dice.chance(1, 3);
                self.put(offset as usize, &bytes, whole);
            }
        }
        self.ledger = None;
        self.refused.clear();
        self.stepping = false;
        if power {
            for (at, durable) in core::mem::take(&mut self.durable) {
                if self.dice.chance(1, 2) {
                    self.live[at..at + durable.len()].copy_from_slice(&durable);
                }
            }
        }
    }
}
