// SPDX-License-Identifier: Apache-2.0
//! When each write and FLUSH was sent and acknowledged, and what an image must hold for that. A power cut may tear a
//! write, so each sector tells which write it comes from.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub(crate) const SECTOR: usize = 512;

/// A write of some sectors.
#[derive(Clone, Copy, Debug)]
struct Op {
    first: u64,
    sectors: u64,
    fua: bool,
    sent: Instant,
    acknowledged: Option<Instant>,
}

#[derive(Debug, Default)]
struct Pages {
    /// The writes, in the order of their numbers, from 1.
    writes: Vec<Op>,
    flushes: Vec<(Instant, Option<Instant>)>,
}

/// Everything that clients asked for.
#[derive(Debug)]
pub(crate) struct Journal {
    run: u64,
    pages: Mutex<Pages>,
}

impl Journal {
    pub(crate) fn new(run: u64) -> Self {
        Self { run, pages: Mutex::default() }
    }

    /// A write is about to be sent: its number and its data.
    pub(crate) fn write(&self, first: u64, sectors: u64, fua: bool) -> (u64, Vec<u8>) {
        let mut pages = self.pages();
        let sent = Instant::now();
        pages.writes.push(Op { first, sectors, fua, sent, acknowledged: None });
        let number = pages.writes.len() as u64;
        (number, (first..first + sectors).flat_map(|at| stamp(self.run, number, at)).collect())
    }

    pub(crate) fn written(&self, number: u64) {
        self.pages().writes[number as usize - 1].acknowledged = Some(Instant::now());
    }

    /// A FLUSH is about to be sent: its number.
    pub(crate) fn flush(&self) -> usize {
        let mut pages = self.pages();
        pages.flushes.push((Instant::now(), None));
        pages.flushes.len() - 1
    }

    pub(crate) fn flushed(&self, number: usize) {
        self.pages().flushes[number].1 = Some(Instant::now());
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The write that each sector of a member comes from; 0 for zeroes.
    fn read(&self, member: &Path) -> Result<Vec<u64>, String> {
        let bytes = std::fs::read(member).map_err(|why| format!("{}: {why}", member.display()))?;
        let sectors = (0..).zip(bytes.chunks(SECTOR)).map(|(at, sector)| {
            let number = u64::from_le_bytes(std::array::from_fn(|n| sector[8 + n]));
            let zero = number == 0 && sector.iter().all(|byte| *byte == 0);
            let whole = zero || sector == stamp(self.run, number, at);
            whole.then_some(number).ok_or_else(|| format!("sector {at} comes from no write"))
        });
        sectors.collect()
    }

    /// Holds a member against what was asked for. It holds no gap: if something is there that was sent after a FLUSH was
    /// acknowledged, everything is that was acknowledged before that FLUSH was sent. If `until` is given, this also
    /// holds for every FLUSH, and every write with FUA, that was acknowledged until then.
    pub(crate) fn judge(&self, member: &Path, until: Option<Instant>) -> Result<(), String> {
        let image = self.read(member)?;
        let pages = self.pages();
        let mut seen = BTreeSet::new();
        for (at, number) in (0..).zip(&image) {
            match number.checked_sub(1).map(|index| pages.writes.get(index as usize)) {
                None => {}
                Some(Some(op)) if (op.first..op.first + op.sectors).contains(&at) => {
                    seen.insert(*number);
                }
                Some(_) => return Err(format!("sector {at} shows write {number}")),
            }
        }
        let write = |number: u64| pages.writes[number as usize - 1];
        let latest = seen.iter().map(|number| write(*number).sent).max();
        let counts = |acknowledged: Instant| {
            latest.is_some_and(|latest| acknowledged < latest)
                || until.is_some_and(|until| acknowledged <= until)
        };
        let flushes = pages.flushes.iter();
        let horizon = flushes.filter(|(_, end)| end.is_some_and(counts)).map(|(sent, _)| *sent);
        let horizon = horizon.max();
        for (number, op) in (1..).zip(&pages.writes) {
            let Some(acknowledged) = op.acknowledged else { continue };
            let flushed = horizon.is_some_and(|horizon| acknowledged < horizon);
            let forced = op.fua && until.is_some_and(|until| acknowledged <= until);
            if !flushed && !forced {
                continue;
            }
            let stands = |shown: u64| {
                shown == number
                    || (shown > 0 && write(shown).acknowledged.is_none_or(|at| at > op.sent))
            };
            let shown = |at: u64| image[at as usize];
            let lost = (op.first..op.first + op.sectors).find(|at| !stands(shown(*at)));
            if let Some(at) = lost {
                return Err(format!(
                    "write {number} is lost, {}: sector {at} shows write {}",
                    if forced { "which had FUA" } else { "which a FLUSH covered" },
                    shown(at)
                ));
            }
        }
        Ok(())
    }
}

/// The bytes of a sector of a write.
fn stamp(run: u64, number: u64, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for (at, words) in bytes.chunks_exact_mut(32).enumerate() {
        for (word, value) in words.chunks_exact_mut(8).zip([run, number, sector, at as u64]) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
    bytes
}
