// SPDX-License-Identifier: Apache-2.0
//! A primary whose disk failed (`local/failure.rs` decides what that means).
//!
//! While a copy is suspect and the peer does not serve in its place:
//! * The superblock records it before the client that asked for the flush gets its error, if the superblock can be written.
//! * No FLUSH and no FUA of the volume succeeds from this copy. Reads and plain writes go on.
//! * Nothing is copied from it to the peer, and no restart and no promotion serves it again.
//!
//! A suspect primary whose peer comes to hold everything serves from the peer, as one whose disk is lost does (`lack/lose.rs`).

use crate::config::Config;
use crate::lead::Primary;
use crate::local::Local;
use crate::local::failure::{self, Facts, Failed, Meaning, Side};
use crate::refusal::Refusal;
use crate::stream::ack::Leg;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::message::Item;
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;
use helio_units::{Extent, MemberState, VolumeIndex};

impl Primary {
    /// An operation on a disk failed. Returns whether the peer's copy is served in its place from now on.
    pub(crate) fn store_failed(
        &mut self,
        volume: VolumeIndex,
        failed: Failed,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) -> bool {
        let side = match () {
            () if self.is_lost(volume) => Side::Served,
            () if self.may_lose(volume, failed, local, turn) => Side::Servable,
            () => Side::Alone,
        };
        let meaning = failure::meaning(Facts { failed, fault, side });
        match meaning {
            Meaning::Served { suspect } | Meaning::GivenUp { suspect } => {
                if suspect {
                    local.suspect_mut().flush_failed(volume);
                }
                if meaning != (Meaning::Served { suspect }) {
                    self.lose(volume, fault, local, turn);
                }
                return true;
            }
            Meaning::Suspect => {
                self.doubt(volume, local, turn);
                local.suspect_mut().flush_failed(volume);
                self.own.failed(volume, fault);
            }
            Meaning::Shown => self.own.failed_dirty(volume, fault, turn),
            Meaning::Full => self.own.found_no_space(volume, turn),
            Meaning::Told | Meaning::Waits | Meaning::WaitsForSpace | Meaning::Stopped { .. } => {}
        }
        false
    }

    /// Disks that do not complete their operations are given up if the peer can serve in their place.
    pub(crate) fn silence_step(&mut self, local: &mut Local, turn: &mut Turn) {
        let any = local.first_silent().is_some();
        for volume in turn.config().indices().take_while(|_| any) {
            if local.member_state(volume) == MemberState::Silent
                && self.store_failed(volume, Failed::Silence, StoreFault::Silent, local, turn)
            {
                local.give_up_volume(volume, turn);
            }
        }
        self.queue.hold_late(turn.late_bytes());
    }

    /// The copier could not read.
    pub(crate) fn copier_read_failed(
        &mut self,
        at: VolumeIndex,
        fault: StoreFault,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        self.store_failed(at, Failed::CopierRead, fault, local, turn);
    }

    /// The copy of a volume is about to be suspect, and no peer is known to hold everything.
    fn doubt(&mut self, volume: VolumeIndex, local: &Local, turn: &mut Turn) {
        if !local.suspect().is(volume) {
            let (config, name) = (turn.config(), turn.config().name_of(volume));
            let group = &config.group;
            let until = config.peer_name().map_or_else(String::new, |peer| {
                format!(
                    "{peer} has everything and serves the volume, another disk is in place, or "
                )
            });
            turn.warn(format!(
                "a flush of volume {name} of {group} failed on this node: acknowledged writes that were not durable may be \
                 missing from this copy. FLUSH and FUA fail until {until}an operator accepts this copy: `helio member accept \
                 {group}/{name}`"
            ));
        }
        // The copier reads this store.
        self.copier.stop();
    }

    /// The store failed a flush and the peer serves in its place: what is read here may be what the store went back to.
    pub(crate) fn is_dropped(&self, volume: VolumeIndex, local: &Local) -> bool {
        local.suspect().is(volume) && self.is_lost(volume)
    }

    /// Something here is suspect and the peer's copy is not served in its place: nothing may be copied from here.
    pub(crate) fn must_not_stream(&self, local: &Local) -> bool {
        local.suspect().any() && self.lack.is_none() && !planted(Plant::SuspectStreams)
    }

    /// Refuses to begin a copy from a suspect store.
    pub(crate) fn refuse_while_suspect(
        &self,
        local: &Local,
        config: &Config,
    ) -> Result<(), Refusal> {
        if self.must_not_stream(local) { Err(local.suspect().refusal(config)) } else { Ok(()) }
    }

    /// A successful flush here proves nothing of that volume.
    pub(crate) fn proves_nothing(&self, item: &Item, local: &Local) -> bool {
        Failed::of(item) == Failed::Flush
            && local.suspect().is(item.volume)
            && self.lack.is_none()
            && !planted(Plant::FlushForgiven)
    }

    /// An answer about a failed flush waits for the record that says so.
    pub(crate) fn awaits_suspect_record(item: &Item, leg: Leg, local: &Local) -> bool {
        leg == Leg::Failed
            && Failed::of(item) == Failed::Flush
            && local.suspect().is_unrecorded(item.volume)
            && !local.metadata_failed()
            && !planted(Plant::SuspectUnrecorded)
    }

    /// A peer that holds everything takes the place of what is suspect here.
    pub(crate) fn suspect_step(&mut self, local: &mut Local, turn: &mut Turn) {
        for volume in turn.config().indices() {
            if local.suspect().is(volume)
                && self.lack.is_none()
                && self.may_lose(volume, Failed::Flush, local, turn)
            {
                let (_, fault) = self.own.fault().unwrap_or((volume, StoreFault::Io));
                self.lose(volume, fault, local, turn);
            }
        }
        // The same holds for every other one: it is served from the peer, too.
        for volume in turn.config().indices() {
            if local.suspect().is(volume) && self.lack.is_some() && !self.is_lost(volume) {
                self.pull_anew(volume, local, turn);
            }
        }
    }

    /// All of a suspect volume is to be pulled, unless that is under way.
    fn pull_anew(&mut self, volume: VolumeIndex, local: &mut Local, turn: &Turn) {
        if self.own.distrust(volume) {
            let size = turn.config().volumes[usize::from(volume.0)];
            self.marks.set(volume, Extent::new(0, size.0));
            local.hot_mut().bitmap_changed();
        }
    }

    /// The store of a failed volume is used again. The whole volume is out of sync, and is copied from the peer.
    pub(crate) fn use_again(&mut self, volume: VolumeIndex) {
        // A flush that failed on it is the peer's to answer still.
        self.line.leave_flushes_to_peer(volume);
        self.own.forgive_volume(volume);
        if let Some(lack) = &mut self.lack {
            lack.use_again(volume);
        }
        self.own.distrust(volume);
    }
}
