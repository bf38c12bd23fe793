// SPDX-License-Identifier: Apache-2.0
//! What the peer holds: as far as the primary said so, and as its image shows when it takes over.

use super::stamp::{self, Place, SECTOR};
use super::story::{Promise, Violation};
use super::{AtPeer, Model};

impl Model {
    /// The primary reports that its peer has completed everything that was acknowledged.
    pub fn peer_is_level(&mut self) {
        if !std::mem::take(&mut self.owes) {
            return;
        }
        for record in &mut self.records {
            if record.acknowledged().is_some() && record.void.is_none() {
                record.at_peer = record.at_peer.max(AtPeer::Written);
            }
        }
    }

    /// The other node is the peer now: the two exchanged their roles, or the copy of the peer is another one. What was known to be
    /// there says nothing of it.
    pub fn peer_changed(&mut self) {
        self.effective = None;
        self.owes = true;
        self.records.iter_mut().for_each(|record| record.at_peer = AtPeer::Nowhere);
    }

    /// How many bytes of a volume are older in an image than an acknowledged write.
    ///
    /// # Errors
    /// It holds what no client wrote there.
    pub fn missing_bytes(&self, volume: u16, image: &[u8]) -> Result<u64, Violation> {
        let mut missing = 0;
        for (sector, bytes) in (0_u64..).zip(image.chunks(SECTOR)) {
            let place = Place { volume, sector };
            let content = content(place, bytes)?;
            let is_old = |at: usize| self.acknowledged_behind(place, at);
            if self.holding(place, content).all(is_old) {
                missing += SECTOR as u64;
            }
        }
        Ok(missing)
    }

    /// Whether a write that was acknowledged is behind that version.
    fn acknowledged_behind(&self, place: Place, at: usize) -> bool {
        let versions = self.versions(place);
        let shown = versions[at].write;
        versions.iter().any(|version| {
            version.write > 0 && self.is_behind(version.write, shown) && {
                let record = self.record(version.write);
                record.void.is_none() && record.acknowledged().is_some()
            }
        })
    }

    /// The image of a volume on the node that took over, before any client used it. Unlike a read, it teaches nothing.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub fn judge_heir(&self, volume: u16, image: &[u8]) -> Result<(), Violation> {
        for (sector, bytes) in (0_u64..).zip(image.chunks(SECTOR)) {
            let place = Place { volume, sector };
            self.may_show(place, content(place, bytes)?)?;
        }
        Ok(())
    }
}

fn content(place: Place, bytes: &[u8]) -> Result<stamp::Content, Violation> {
    stamp::read(bytes, place)
        .map_err(|flaw| Violation::new(Promise::KnownBytes, format!("{place} holds {flaw}")))
}
