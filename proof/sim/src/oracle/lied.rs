// SPDX-License-Identifier: Apache-2.0
//! Blocks that a disk lied about: a write that it lost or put elsewhere, a read of an older version. Nothing detects that
//! without checksums, so nothing is asked of these blocks but the truth of a verify. Every promise holds for all others.

use super::history::{History, Serial};
use super::{Key, Oracle};
use crate::promise::{Promise, Violation, hold};
use helio_engine::{VerifyPass, VerifyStatus};
use helio_twin::{Cluster, Place, Side};
use helio_units::{Extent, Moment, VolumeIndex};
use std::collections::BTreeMap;

/// See the module's words.
#[derive(Debug, Default)]
pub(super) struct LiedAbout {
    /// Each block; and since when neither copy of it changed, where the two differ.
    places: BTreeMap<Place, Option<Serial>>,
    /// The passes of a verify that each node runs as primary.
    passes: [Passes; 2],
}

/// Passes of one process.
#[derive(Debug, Default)]
struct Passes {
    /// When the run under way began.
    run: Option<Moment>,
    /// It was looked at before.
    looked: bool,
    /// By volume: since when a pass goes from its start to its end, and the last one that ended.
    volumes: Vec<(Option<Serial>, Option<VerifyPass>)>,
}

impl LiedAbout {
    pub(super) fn has(&self, place: &Place) -> bool {
        self.places.contains_key(place)
    }

    /// One of the two copies changed. Returns whether the block is one of these.
    pub(super) fn changed(&mut self, place: &Place, differs: bool, now: Serial) -> bool {
        let since = self.places.get_mut(place);
        since.is_some_and(|since| {
            *since = differs.then_some(now);
            true
        })
    }
}

impl Oracle {
    /// Whether a disk lied about any block.
    pub(crate) fn was_lied_to(&self) -> bool {
        !self.lied_about.places.is_empty()
    }

    /// A disk lied about these blocks.
    pub(super) fn lied(&mut self, places: &[Place]) {
        for place in places {
            let (volume, block) = (usize::from(place.volume.0), place.block as usize);
            let [one, other] = &self.images;
            let differs = one[volume][block] != other[volume][block];
            let since = differs.then_some(self.serial);
            if self.lied_about.places.insert(*place, since).is_none() && differs {
                self.differing[volume][block / self.grain] -= 1;
                self.differing_blocks -= 1;
            }
            self.histories.values_mut().for_each(|history| {
                history.lied_about.insert(*place);
            });
        }
    }

    /// Another truth begins. What a disk lied about stays so.
    pub(super) fn open_history(&mut self, at: Key, mut history: History) {
        history.lied_about = self.lied_about.places.keys().copied().collect();
        self.histories.insert(at, history);
    }

    /// A verify that went over a whole volume found every block that differed all the while.
    pub(super) fn judge_passes(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        if self.lied_about.places.is_empty() {
            return Ok(());
        }
        let LiedAbout { places, passes } = &mut self.lied_about;
        for (side, passes) in Side::BOTH.into_iter().zip(passes) {
            let Some(engine) = cluster.node(side).engine.as_ref().filter(|e| e.view().is_primary())
            else {
                *passes = Passes::default();
                continue;
            };
            let status = engine.view().verify_status();
            for (volume, since, pass) in passes.ended(&status, self.serial) {
                let differed = |(place, differs): &(&Place, &Option<Serial>)| {
                    place.volume == volume && differs.is_some_and(|from| from <= since)
                };
                for (place, _) in places.iter().filter(differed) {
                    let told = pass.repaired
                        || status.beyond > 0
                        || status
                            .listed
                            .iter()
                            .any(|(v, extent)| *v == volume && holds(*extent, place))
                        || engine.view().is_marked(volume, place.offset());
                    hold(told && pass.differed.0 > 0, Promise::FindsRot, || {
                        format!("{side} verified volume {}, {place:?} differs: {pass:?}", volume.0)
                    })?;
                }
            }
        }
        Ok(())
    }
}

impl Passes {
    /// The passes that ended since the last look, each with when it began.
    fn ended(
        &mut self,
        status: &VerifyStatus,
        now: Serial,
    ) -> Vec<(VolumeIndex, Serial, VerifyPass)> {
        self.volumes.resize(status.volumes.len(), (None, None));
        let run = status.run.as_ref().map(|run| run.since);
        // One that was under way at the first look began before.
        let begins = run.is_some() && run != self.run && self.looked;
        self.looked = true;
        self.run = run;
        let mut ended = Vec::new();
        let volumes = self.volumes.iter_mut().zip(&status.volumes);
        for (volume, ((since, last), seen)) in (0u16..).map(VolumeIndex).zip(volumes) {
            if *last != seen.last {
                *last = seen.last;
                ended
                    .extend(since.take().zip(seen.last).map(|(since, pass)| (volume, since, pass)));
            }
            if begins && seen.place == 0 {
                *since = Some(now);
            }
        }
        ended
    }
}

fn holds(extent: Extent, place: &Place) -> bool {
    (extent.offset..extent.end()).contains(&place.offset())
}
