// SPDX-License-Identifier: Apache-2.0
//! The last act: everything replicates, and the secondary's disk lies. Blocks turn into something else, or into what
//! they were once, as they do where a flush was never done; nobody is told. A verify must find every one of them and
//! nothing else, and a repair must make the images equal.

use super::Stage;
use crate::driver::Act;
use crate::faults::Fault;
use crate::promise::{Promise, Violation, hold};
use crate::scenario::span;
use core::time::Duration;
use helio_engine::{Command, VerifyStatus, VerifyWish};
use helio_twin::{BLOCK, Breakage, Place, Side, Stamp};
use helio_units::{Bytes, Extent, Mode, VolumeIndex};
use std::collections::BTreeSet;

/// A verify of so small images is over within this.
const VERIFIED_WITHIN: Duration = Duration::from_secs(120);
/// What no request ever wrote.
const ROT: u64 = 1 << 61;

impl Stage<'_> {
    pub(super) fn rot_and_repair(&mut self) -> Result<(), Violation> {
        if !self.driver.dice.chance(1, 3) {
            return Ok(());
        }
        let Some(side) = self.settle_for_verify()? else { return Ok(()) };
        self.rot(side.other());
        self.break_meanwhile();
        let status = self.verify(side, false)?;
        let found = blocks(&status);
        hold(found == self.oracle.rotten && status.beyond == 0, Promise::FindsRot, || {
            format!("rotten are {:?}, found were {found:?}", self.oracle.rotten)
        })?;
        self.counts.rotten += found.len() as u64;
        self.verify(side, true)?;
        self.advance_until(|stage| stage.same_images() && stage.is_settled())?;
        self.oracle.rotten.clear();
        let clean = blocks(&self.verify(side, false)?);
        hold(clean.is_empty(), Promise::FindsRot, || format!("still different: {clean:?}"))
    }

    /// Settles the pair so that a verify compares all of it. Returns the node that serves, if one does.
    fn settle_for_verify(&mut self) -> Result<Option<Side>, Violation> {
        let serving = Side::BOTH.into_iter().find(|side| self.cluster.node(*side).serves());
        // In mode periodic nothing is compared.
        let in_order = |side: &Side| {
            let engine = self.cluster.node(*side).engine.as_ref();
            engine.is_some_and(|engine| engine.view().words().mode != Mode::Periodic)
        };
        let serving = serving.filter(in_order);
        if let Some(side) = serving {
            // What an earlier verify left to do would begin somewhere in the middle.
            self.driver.clear();
            self.command(side, Command::StopVerify);
            // A store that failed once is trusted again when the operator says so.
            self.command(side, Command::Resync);
            self.advance_until(|stage| stage.is_settled())?;
        }
        Ok(serving)
    }

    /// A disk lied: what it lost, if anything, a verify finds, and a repair ends it.
    pub(super) fn find_lies(&mut self) -> Result<(), Violation> {
        let Some(side) = self.settle_for_verify()? else { return Ok(()) };
        let differs = self.differing();
        self.break_meanwhile();
        let status = self.verify(side, false)?;
        let found = blocks(&status);
        let all = status.beyond > 0 || found == differs;
        hold(all && found.is_subset(&differs), Promise::FindsRot, || {
            format!("a disk lied; {differs:?} differ, found were {found:?}")
        })?;
        self.counts.rotten += differs.len() as u64;
        self.verify(side, true)?;
        self.advance_until(|stage| stage.same_images() && stage.is_settled())
    }

    /// The connection breaks while a verify that is about to begin waits for the peer: what was asked and not answered is asked again.
    fn break_meanwhile(&mut self) {
        for most in [Duration::from_millis(20), Duration::from_secs(1)] {
            for _ in 0..self.driver.dice.below(3) {
                let least = Duration::from_micros(100);
                let when = self.cluster.now() + span(&mut self.driver.dice, least, most);
                self.driver.at(when, Act::Break(Fault::Cut(Breakage::Reset)));
            }
        }
    }

    /// Where the images differ.
    fn differing(&self) -> BTreeSet<Place> {
        let [paris, lyon] = Side::BOTH.map(|side| self.cluster.node(side));
        let volumes = (0..paris.config.volumes.len() as u16).map(VolumeIndex);
        let differing = |volume| {
            let pairs = paris.disk.live(volume).iter().zip(lyon.disk.live(volume));
            (0u32..)
                .zip(pairs)
                .filter(|(_, (one, other))| one != other)
                .map(move |(block, _)| Place { volume, block })
        };
        volumes.flat_map(differing).collect()
    }

    fn rot(&mut self, side: Side) {
        for n in 0..self.driver.dice.below(12) {
            let volumes = self.cluster.node(side).config.volumes.len() as u64;
            let volume = VolumeIndex(self.driver.dice.below(volumes) as u16);
            let image = self.cluster.node(side).disk.live(volume);
            let block = self.driver.dice.below(image.len() as u64) as u32;
            let held = image[block as usize];
            let zeros = self.driver.dice.chance(1, 2) && held != Stamp::ZEROS;
            let stamp = if zeros { Stamp::ZEROS } else { Stamp(ROT | n) };
            let place = Place { volume, block };
            if self.oracle.rotten.contains(&place) {
                continue;
            }
            self.tell(&format_args!("{side:>5} ROTS at block {block} of volume {}", volume.0));
            self.cluster.rot(side, place, stamp);
            self.oracle.rotten.insert(place);
        }
    }

    fn command(&mut self, side: Side, command: Command) {
        self.driver.command(&mut self.cluster, &mut self.oracle, side, command);
    }

    /// Verifies everything, to its end.
    fn verify(&mut self, side: Side, repair: bool) -> Result<VerifyStatus, Violation> {
        let wish = VerifyWish { repair, restart: true, ..VerifyWish::default() };
        self.command(side, Command::Verify(wish));
        self.counts.verifies += 1;
        self.advance_until(|stage| {
            stage.verified(side).is_some_and(|status| status.run.is_none())
        })?;
        Ok(self.verified(side).unwrap_or_default())
    }

    fn verified(&self, side: Side) -> Option<VerifyStatus> {
        self.cluster.node(side).engine.as_ref().map(|engine| engine.view().verify_status())
    }

    fn advance_until(&mut self, over: impl Fn(&Self) -> bool) -> Result<(), Violation> {
        let until = self.cluster.now() + VERIFIED_WITHIN;
        let ended = self.advance(until, |stage| Ok(over(stage)))?;
        hold(ended, Promise::FindsRot, || {
            format!("a verify or its repair does not end: {}", self.describe())
        })
    }

    fn same_images(&self) -> bool {
        let [paris, lyon] = Side::BOTH.map(|side| self.cluster.node(side));
        let volumes = (0..paris.config.volumes.len() as u16).map(VolumeIndex);
        volumes.into_iter().all(|v| paris.disk.live(v) == lyon.disk.live(v))
    }
}

fn blocks(status: &VerifyStatus) -> BTreeSet<Place> {
    let places = |(volume, extent): &(VolumeIndex, Extent)| {
        let count = Bytes(extent.length).0 / BLOCK.0;
        let first = (extent.offset / BLOCK.0) as u32;
        let volume = *volume;
        (0..count as u32).map(move |n| Place { volume, block: first + n })
    };
    status.listed.iter().flat_map(places).collect()
}
