// SPDX-License-Identifier: Apache-2.0
//! What a group's engine has to do with its metadata files.

use super::{Group, metadata_fault};
use crate::shard::plan::VolumePlan;
use helio_driver::{Driver, Outcome};
use helio_engine::{Event, LayerRecord};
use helio_format::members::{DiskMark, MEMBERS_MAX, MemberEntry, VolumeEntries, VolumeMembers};
use helio_ledger::{Change, Kept, MapOwner};
use helio_units::Moment;

/// What is recorded of the members of a volume.
fn entries(
    (states, plan): (&VolumeMembers, &VolumePlan),
    recorded: &VolumeEntries,
) -> VolumeEntries {
    let mut all = [None; MEMBERS_MAX];
    for (n, (entry, state)) in all.iter_mut().zip(states).enumerate() {
        let mark = plan.members[n].as_ref().map(|member| member.mark);
        let mark = mark.or(recorded[n].map(|member| member.disk));
        let disk = mark.unwrap_or(DiskMark::UNKNOWN);
        *entry = state.map(|health| MemberEntry { health, disk });
    }
    all
}

impl Group {
    /// Has written anew what a crash or damage left of the metadata file, and its members measured.
    pub(crate) fn begin(&mut self, now: Moment, driver: &mut dyn Driver) {
        self.metadata.perform((self.index, now), driver);
        self.begin_layers(now);
    }

    /// A write or flush of the metadata file ended.
    pub(crate) fn metadata_done(
        &mut self,
        detail: u32,
        outcome: &Outcome,
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        let kept = self.metadata.done((self.index, now), detail, outcome, driver);
        self.metadata_kept(kept, now, driver);
    }

    /// Gives a metadata file up that completes nothing while the other one does.
    pub(crate) fn look_at_metadata(&mut self, now: Moment, driver: &mut dyn Driver) {
        let kept = self.metadata.look((self.index, now), driver);
        self.metadata_kept(kept, now, driver);
    }

    /// What failed is told before what could not be kept for that reason.
    fn metadata_kept(&mut self, kept: Vec<Kept>, now: Moment, driver: &mut dyn Driver) {
        let news = self.metadata.news((&self.config.group, &self.config.node));
        if let Some(fault) = news {
            self.tell(now, metadata_fault(fault));
        }
        kept.into_iter().for_each(|kept| self.kept(kept, now, driver));
    }

    /// Asks the ledger for a change; one that it refuses is told at once.
    pub(crate) fn keep(&mut self, change: Change, now: Moment, driver: &mut dyn Driver) {
        if let Some(kept) = self.metadata.keep((self.index, now), change, driver) {
            self.kept(kept, now, driver);
        }
    }

    /// Makes durable what a layer records.
    pub(super) fn record_layer(
        &mut self,
        record: LayerRecord,
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        let change = match record {
            LayerRecord::Members(states) => {
                let volumes = states.iter().zip(&self.volumes);
                let recorded = self.metadata.ledger().members();
                let pairs = volumes.zip(recorded);
                let members = pairs.map(|(pair, recorded)| entries(pair, recorded)).collect();
                self.recorded.asked(states);
                Change::Members(members)
            }
            LayerRecord::Page { leg, page, bits } => {
                let owner = MapOwner::Member { volume: leg.volume, member: leg.member.0 };
                Change::Marks { owner, page, bits }
            }
            LayerRecord::Copies(_) => unreachable!("the engine has that in its superblock"),
        };
        self.keep(change, now, driver);
    }

    /// The ledger tells what became of a change.
    fn kept(&mut self, kept: Kept, now: Moment, driver: &mut dyn Driver) {
        if kept == (Kept::Members { ok: true }) {
            let changed = self.members_recorded();
            self.raise_epochs(&changed, now, driver);
            self.close_unused();
            // The layer forgets the cost of a member that it does not have yet.
            self.set_costs(now);
            self.tell_disks(now);
        }
        let sequence = self.metadata.ledger().sequence();
        let event = match kept {
            Kept::Superblock { ok } => Event::SuperblockSaved { ok, sequence },
            Kept::Hot { ticket, ok } => {
                Event::Kept { kept: helio_engine::Kept::Hot { ticket }, ok, sequence }
            }
            Kept::Members { ok } | Kept::Marks { owner: MapOwner::Member { .. }, ok, .. } => {
                Event::Recorded { ok, sequence }
            }
            Kept::Marks { page, ok, .. } => {
                Event::Kept { kept: helio_engine::Kept::Marks { page }, ok, sequence }
            }
            // Nothing waits for a map: a page of it is written behind it.
            Kept::Map { .. } => return,
            Kept::Epochs { ok } => return self.epochs_kept(ok, now, driver),
        };
        self.tell(now, event);
    }
}
