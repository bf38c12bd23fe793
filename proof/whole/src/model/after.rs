// SPDX-License-Identifier: Apache-2.0
//! What answers promise for later: durability, and the peer's share.

use super::order::Cut;
use super::sector::{Upheaval, Volume};
use super::{AtPeer, Fate, Heir, Model, Serial};
use helio_units::Mode;

impl Model {
    /// The mode in which answers are given from now on; `None` while the primary acknowledges without its peer. Set a
    /// mode only once it is in force, and `None` as soon as it may lapse: in between answers promise nothing. When sync
    /// comes into force, everything acknowledged before is at the peer.
    pub fn set_effective(&mut self, mode: Option<Mode>) {
        if mode == Some(Mode::Sync) && self.effective != mode {
            self.peer_is_level();
        }
        if self.effective != mode {
            (self.effective, self.effective_since) = (mode, self.tick());
        }
    }

    /// The mode that was in force throughout, from a request's beginning to its answer now: an answer may have been
    /// under way when another mode came into force.
    fn mode_since(&self, begun: Serial) -> Option<Mode> {
        self.effective.filter(|_| self.effective_since < begun)
    }

    pub(super) fn written(&mut self, write: u64, fua: bool) {
        let at_peer = match (self.mode_since(self.begun(write)), fua) {
            (Some(Mode::Sync), true) => AtPeer::Durable,
            (Some(Mode::NearSync), _) => AtPeer::InMemory,
            // When sync came into force, an answer under way was one before.
            _ if self.effective == Some(Mode::Sync) => AtPeer::Written,
            _ => AtPeer::Nowhere,
        };
        let upheaval = self.volumes[usize::from(self.record(write).request.volume)].upheaval;
        let record = self.record_mut(write);
        let late = record.void.is_some();
        let failover = record.void.map(Upheaval::FailedOver);
        let late_for_heir = late && upheaval == failover;
        record.durable = fua;
        if !late {
            record.at_peer = at_peer;
            self.owes |= at_peer < AtPeer::Written;
        } else if fua && !late_for_heir {
            // What is durable outlives whatever happened while its answer was under way.
            record.void = None;
        }
        if !fua && !late {
            let volume = self.record(write).request.volume;
            self.volumes[usize::from(volume)].volatile.push(write);
        }
    }

    /// A FLUSH that began then is acknowledged.
    pub(super) fn flushed(&mut self, volume: u16, begun: Serial) {
        let sync = self.mode_since(begun) == Some(Mode::Sync);
        let index = usize::from(volume);
        if begun <= self.volumes[index].upheaval_at() {
            // It flushed what is not the copy that serves now, or not what is left of it.
            return;
        }
        let (volatile, records) = (&mut self.volumes[index].volatile, &mut self.records);
        volatile.retain(|write| {
            let record = &mut records[*write as usize - 1];
            let covered = record.acknowledged().is_some_and(|at| at < begun);
            record.durable |= covered;
            !covered
        });
        if sync {
            let covered = records.iter_mut().filter(|record| {
                record.request.volume == volume
                    && record.void.is_none()
                    && record.acknowledged().is_some_and(|at| at < begun)
            });
            covered.for_each(|record| record.at_peer = AtPeer::Durable);
        }
        if self.volumes[index].suspect {
            return;
        }
        let ended = |write: u64| {
            write == 0 || records[write as usize - 1].ended().is_some_and(|at| at < begun)
        };
        let Volume { sectors, unkept, .. } = &mut self.volumes[index];
        unkept.retain(|(sector, at)| {
            let version = &mut sectors[*sector][*at];
            version.kept = version.shown.is_some_and(|at| at < begun) && ended(version.write);
            !version.kept
        });
    }

    /// Rule 7: the store of that volume may have dropped what was not durable. A story that makes a flush fail calls this
    /// at that moment, since a read may show what is left before any client receives the error. The answer EIO to a FLUSH
    /// or a write with FUA counts as such a failure, too.
    pub fn flush_failed(&mut self, volume: u16) {
        let at = self.tick();
        for record in &mut self.records {
            let waits = matches!(record.fate, Fate::Open | Fate::Unanswered);
            if waits && record.request.volume == volume {
                // Its acknowledgement may be under way, and what it wrote may be gone.
                record.void = Some(at);
            }
        }
        let volume = &mut self.volumes[usize::from(volume)];
        volume.suspect = true;
        volume.unkept.clear();
        for write in std::mem::take(&mut volume.volatile) {
            self.records[write as usize - 1].void = Some(at);
        }
        for version in volume.sectors.iter_mut().flatten() {
            version.gone = None;
            if !version.kept {
                version.shown = None;
            }
        }
    }

    /// The node that serves lost power, and goes on with its own copy. A process that was only killed keeps what it
    /// acknowledged: then call [`Model::settled`] for its connections, once its operations have ended.
    pub fn power_cut(&mut self) {
        let at = self.tick();
        self.upheaval(Upheaval::PowerCut(at), |record| record.durable);
    }

    /// The peer took over without what the primary had in its queue. A switch that the primary agreed to keeps everything,
    /// and is not told to the model.
    pub fn failed_over(&mut self, heir: Heir) {
        let at = self.tick();
        let least = match heir {
            Heir::Lived => AtPeer::InMemory,
            Heir::Restarted => AtPeer::Written,
            Heir::LostPower => AtPeer::Durable,
        };
        self.upheaval(Upheaval::FailedOver(at), |record| record.at_peer >= least);
        for record in &mut self.records {
            // The peer has it in its own way; what a later power cut takes from it is open again.
            record.durable = record.at_peer == AtPeer::Durable;
            record.at_peer = AtPeer::Nowhere;
        }
        for (write, record) in (1..).zip(&self.records) {
            let counts = record.acknowledged().is_some() && record.void.is_none();
            if counts && !record.durable && record.request.action.change().is_some() {
                self.volumes[usize::from(record.request.volume)].volatile.push(write);
            }
        }
        self.effective = None;
        if heir < Heir::LostPower {
            self.cut = Some(Cut::new(at));
        }
    }
}
