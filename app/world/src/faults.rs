// SPDX-License-Identifier: Apache-2.0
//! What goes wrong with a machine: by the dice, or because a story says so.

use crate::disk::Inode;
use helio_driver::Errno;
use helio_netmodel::{Dice, Ppm};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often things go wrong by themselves. The default is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Odds {
    /// A read of a file fails (EIO).
    pub read: Ppm,
    /// A write to a file fails (EIO); a part of it may have been written.
    pub write: Ppm,
    /// A flush fails (EIO), and some of what it covers is lost although later flushes succeed.
    pub flush: Ppm,
    /// Opening a file finds no free descriptor (ENFILE).
    pub open: Ppm,
    /// Accepting a connection finds no free descriptor (ENFILE). The connection stays in the backlog.
    pub accept: Ppm,
    /// A call on a file does only a part of what was asked for.
    pub short: Ppm,
    /// An operation on a file takes up to half a minute longer.
    pub slow: Ppm,
    /// An arriving segment finds its connection reset.
    pub reset: Ppm,
}

/// Calls on a file that can be told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileFault {
    /// Reads.
    Read,
    /// Writes, and whatever else changes the content.
    Write,
    /// Flushes.
    Flush,
}

/// The faults of a machine.
#[derive(Debug)]
pub(crate) struct Faults {
    dice: Dice,
    /// How many flushes of a file failed.
    pub(crate) failed_flushes: BTreeMap<Inode, u64>,
    pub(crate) odds: Odds,
    /// Calls that fail for sure, and how many more of them.
    sure: BTreeMap<(Inode, FileFault), u64>,
    /// Files whose operations do not end.
    pub(crate) hung: BTreeSet<Inode>,
    /// Every operation on a file takes so many times as long.
    pub(crate) slowness: u32,
    /// How many files and sockets a process may have open.
    pub(crate) descriptors: usize,
}

impl Faults {
    pub(crate) fn new(dice: Dice) -> Self {
        Self {
            dice,
            failed_flushes: BTreeMap::new(),
            odds: Odds::default(),
            sure: BTreeMap::new(),
            hung: BTreeSet::new(),
            slowness: 1,
            descriptors: 1024,
        }
    }

    fn strikes(&mut self, odds: Ppm) -> bool {
        odds > Ppm::NONE && self.dice.chance(odds.0.into(), Ppm::ALL.0.into())
    }

    /// Makes so many calls on a file fail.
    pub(crate) fn fail(&mut self, inode: Inode, fault: FileFault, times: u64) {
        self.sure.insert((inode, fault), times);
    }

    /// Whether the next call fails for sure.
    pub(crate) fn is_sure(&self, inode: Inode, fault: FileFault) -> bool {
        self.sure.get(&(inode, fault)).is_some_and(|left| *left > 0)
    }

    /// No call fails for sure any more.
    pub(crate) fn clear(&mut self) {
        self.sure.clear();
    }

    /// Whether this call fails.
    pub(crate) fn fails(&mut self, inode: Inode, fault: FileFault) -> Result<(), Errno> {
        if let Some(left) = self.sure.get_mut(&(inode, fault)).filter(|left| **left > 0) {
            *left -= 1;
            return Err(self.failed(inode, fault));
        }
        let odds = match fault {
            FileFault::Read => self.odds.read,
            FileFault::Write => self.odds.write,
            FileFault::Flush => self.odds.flush,
        };
        if !self.strikes(odds) {
            return Ok(());
        }
        Err(self.failed(inode, fault))
    }

    fn failed(&mut self, inode: Inode, fault: FileFault) -> Errno {
        if fault == FileFault::Flush {
            *self.failed_flushes.entry(inode).or_default() += 1;
        }
        Errno::IO
    }

    /// Whether another file can be opened by a process that has so many.
    pub(crate) fn may_open(&mut self, held: usize) -> Result<(), Errno> {
        self.may_have(held, self.odds.open)
    }

    /// Whether a process that has so many descriptors can accept a connection.
    pub(crate) fn may_accept(&mut self, held: usize) -> Result<(), Errno> {
        self.may_have(held, self.odds.accept)
    }

    fn may_have(&mut self, held: usize, odds: Ppm) -> Result<(), Errno> {
        if held >= self.descriptors {
            return Err(Errno::MFILE);
        }
        if self.strikes(odds) { Err(Errno::NFILE) } else { Ok(()) }
    }

    /// How much of a call is done, in units of `unit` bytes.
    pub(crate) fn short(&mut self, length: usize, unit: usize) -> usize {
        let units = length / unit;
        if units > 1 && self.strikes(self.odds.short) {
            return (1 + self.dice.below(units as u64 - 1) as usize) * unit;
        }
        length
    }

    /// Whether an arriving segment finds its connection reset.
    pub(crate) fn resets(&mut self) -> bool {
        self.strikes(self.odds.reset)
    }

    /// How long an operation takes that takes about so long.
    pub(crate) fn latency(&mut self, usual: Duration) -> Duration {
        let nanos = usual.as_nanos() as u64;
        let mut drawn = nanos / 2 + self.dice.below(nanos);
        if self.dice.chance(1, 64) {
            drawn *= 1 + self.dice.below(20);
        }
        if self.strikes(self.odds.slow) {
            let most = 1_000_000 << self.dice.below(16);
            drawn += self.dice.below(most);
        }
        Duration::from_nanos(drawn) * self.slowness
    }
}
