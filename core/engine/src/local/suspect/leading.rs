// SPDX-License-Identifier: Apache-2.0
//! A primary whose disk failed (`failure.rs` decides what that means).
//!
//! While a copy is suspect and the peer does not serve in its place:
//! * The superblock records it before the client that asked for the flush gets its error, if the superblock can be written.
//! * No FLUSH and no FUA of the volume succeeds from this copy. Reads and plain writes go on.
//! * Nothing is copied from it to the peer, and no restart and no promotion serves it again.
//!
//! A suspect primary whose peer comes to hold everything serves from the peer, as one whose disk is lost does (`lose.rs`).

use crate::local::failure::{self, Facts, Failed, Meaning, Side};
use crate::peer::primary::Primary;
use crate::refusal::StoreFault;
use crate::shared::Shared;
use crate::stream::ack::Local;
use alloc::format;
use helio_format::message::Item;
use helio_plant::{Plant, planted};
use helio_units::{Extent, VolumeIndex};

impl Primary {
    /// An operation on a disk failed. Returns whether the peer's copy is served in its place from now on.
    pub(crate) fn store_failed(
        &mut self,
        volume: VolumeIndex,
        failed: Failed,
        fault: StoreFault,
        s: &mut Shared,
    ) -> bool {
        let side = match () {
            () if self.is_lost(volume) => Side::Served,
            () if !self.unissued && self.may_lose(volume, failed, s) => Side::Servable,
            () => Side::Alone,
        };
        let meaning = failure::meaning(Facts { failed, fault, side, issued: !self.unissued });
        match meaning {
            Meaning::Served { suspect } | Meaning::GivenUp { suspect } => {
                if suspect {
                    s.suspect.flush_failed(volume);
                }
                if meaning != (Meaning::Served { suspect }) {
                    self.lose(volume, fault, s);
                }
                return true;
            }
            Meaning::Suspect => {
                self.doubt(volume, s);
                s.suspect.flush_failed(volume);
                self.faulted = Some((volume, fault));
            }
            Meaning::Shown => self.fault(volume, fault, s),
            Meaning::Told | Meaning::WaitsForSpace | Meaning::Stopped { .. } => {}
        }
        false
    }

    /// The copier could not read.
    pub(crate) fn copier_read_failed(
        &mut self,
        at: VolumeIndex,
        fault: StoreFault,
        s: &mut Shared,
    ) {
        self.store_failed(at, Failed::CopierRead, fault, s);
    }

    /// The copy of a volume is about to be suspect, and no peer is known to hold everything.
    fn doubt(&mut self, volume: VolumeIndex, s: &mut Shared) {
        if !s.suspect.is(volume) {
            let (group, peer) = (&s.config.group, &s.config.peer);
            s.warn(format!(
                "a flush of volume {0} of {group} failed on this node: acknowledged writes that were not durable may be \
                 missing from this copy. FLUSH and FUA fail until {peer} has everything and serves the volume, another \
                 disk is in place, or an operator accepts this copy: `helio member accept {group}/{0}`",
                s.config.name_of(volume)
            ));
        }
        // The copier reads this store.
        self.copier.stop();
    }

    /// The store failed a flush and the peer serves in its place: what is read here may be what the store went back to.
    pub(crate) fn is_dropped(&self, volume: VolumeIndex, s: &Shared) -> bool {
        s.suspect.is(volume) && self.is_lost(volume)
    }

    /// Something here is suspect and the peer's copy is not served in its place: nothing may be copied from here.
    pub(crate) fn must_not_stream(&self, s: &Shared) -> bool {
        s.suspect.any() && self.lack.is_none() && !planted(Plant::SuspectStreams)
    }

    /// A successful flush here proves nothing of that volume.
    pub(crate) fn proves_nothing(&self, item: &Item, s: &Shared) -> bool {
        Failed::of(item) == Failed::Flush
            && s.suspect.is(item.volume)
            && self.lack.is_none()
            && !planted(Plant::FlushForgiven)
    }

    /// An answer about a failed flush waits for the record that says so.
    pub(crate) fn awaits_suspect_record(item: &Item, local: Local, s: &Shared) -> bool {
        local == Local::Failed
            && Failed::of(item) == Failed::Flush
            && s.suspect.unrecorded() & super::bit(item.volume) != 0
            && !s.metadata_failed
            && !planted(Plant::SuspectUnrecorded)
    }

    /// A peer that holds everything takes the place of what is suspect here.
    pub(crate) fn suspect_step(&mut self, s: &mut Shared) {
        for volume in (0..s.config.volumes.len() as u16).map(VolumeIndex) {
            if s.suspect.is(volume)
                && self.lack.is_none()
                && self.may_lose(volume, Failed::Flush, s)
            {
                let (_, fault) = self.faulted.unwrap_or((volume, StoreFault::Io));
                self.lose(volume, fault, s);
            }
        }
        // The same holds for every other one: it is served from the peer, too.
        for volume in (0..s.config.volumes.len() as u16).map(VolumeIndex) {
            if s.suspect.is(volume) && self.lack.is_some() && !self.is_lost(volume) {
                self.pull_anew(volume, s);
            }
        }
    }

    /// All of a suspect volume is to be pulled, unless that is under way.
    fn pull_anew(&mut self, volume: VolumeIndex, s: &mut Shared) {
        if self.distrusted.insert(volume) {
            let size = s.config.volumes[usize::from(volume.0)];
            self.marks.set(volume, Extent::new(0, size.0));
            s.cover.bitmap_changed();
        }
    }

    /// The store of a failed volume is used again. The whole volume is out of sync, and is copied from the peer.
    pub(crate) fn use_again(&mut self, volume: VolumeIndex) {
        // A flush that failed on it is the peer's to answer still.
        let failed = self.line.iter_mut().filter(|entry| {
            entry.item.volume == volume
                && entry.local == Local::Failed
                && !entry.item.kind.changes_data()
        });
        failed.for_each(|entry| entry.local = Local::Done);
        self.faulted = self.faulted.filter(|(failed, _)| *failed != volume);
        if let Some(lack) = &mut self.lack {
            lack.use_again(volume);
        }
        self.distrusted.insert(volume);
    }
}
