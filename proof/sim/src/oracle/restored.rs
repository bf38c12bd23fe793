// SPDX-License-Identifier: Apache-2.0
//! A node whose files were replaced while it was down: what was durable there is so no more, and its image is no state
//! of any generation until it has adopted a stream.

use super::secondary::gave_up;
use super::{Oracle, Serial};
use crate::promise::{Promise, Violation, hold};
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Happening, Side};
use helio_units::{Generation, Role};

impl Oracle {
    /// Whether a node's files are older ones, and the two have not come to terms since.
    pub(crate) fn is_restored(&self, side: Side) -> bool {
        self.copies[side.index()].restored
    }

    /// A node's metadata is lost, and its image is what it was; or it is found again, or an operator discarded the copy.
    /// Or its before-image file is lost, and what it kept. Or its own disk is there again.
    pub(super) fn files_moved(&mut self, cluster: &Cluster, happening: &Happening) {
        match happening {
            Happening::MetadataLost { side } => {
                self.copies[side.index()].lost_at = Some(self.serial);
            }
            Happening::BeforeLost { side } => {
                self.expected[side.index()] = None;
                self.named[side.index()].forget();
                self.before_lost[side.index()] = true;
            }
            Happening::MetadataFound { side } => {
                self.copies[side.index()].lost_at = None;
                // It was found beside a disk that was put there meanwhile, and tells of the one before.
                if !cluster.node(*side).has_its_disk() {
                    self.swapped(*side);
                }
            }
            Happening::Discarded { side } => {
                self.copies[side.index()].lost_at = None;
            }
            Happening::PutBack { side } => self.copies[side.index()].foreign = false,
            _ => {}
        }
    }

    /// A record is durable: where the metadata of one of the two is lost, only an operator's word decides whose copy
    /// counts. `commanded`: a promotion is, with force or without, and when.
    pub(super) fn judge_lost(
        &mut self,
        cluster: &Cluster,
        side: Side,
        record: &Superblock,
        commanded: Option<(bool, Serial)>,
    ) -> Result<(), Violation> {
        if record.lineage.generation == Generation::NONE {
            // An operator gave up what it holds.
            self.copies[side.index()].lost_at.take_if(|_| gave_up(record));
            return Ok(());
        }
        let leads = record.role == Role::Primary;
        let forced = leads && commanded.is_some_and(|(force, _)| force);
        let own = self.copies[side.index()].lost_at;
        hold(own.is_none() || forced, Promise::LostMetadata, || {
            let what = if leads { "leads" } else { "follows" };
            format!(
                "{side} {what}, its metadata was lost and no operator said what its copy counts for"
            )
        })?;
        if own.is_some() {
            self.copies[side.index()].lost_at = None;
        }
        let Some(lost_at) = self.copies[side.other().index()].lost_at else { return Ok(()) };
        let engine = cluster.node(side).engine.as_ref();
        // Of a process that has ended since, nobody can tell.
        let leased = engine.is_none_or(|engine| engine.view().leads_by_lease());
        let asked = commanded.map_or(self.copies[side.index()].connected_at, |(_, asked)| asked);
        // One that comes back records this and that before it knows what it is: who stopped uncleanly goes on in another generation,
        // or not at all.
        let own = &self.copies[side.index()];
        let back = own.unclean && own.generation == self.history_of(record.lineage.generation);
        // One that begins to lead records that it has not stopped cleanly.
        let begins = leads && !record.clean && !own.serving && !back;
        hold(!begins || forced || leased || asked < lost_at, Promise::LostMetadata, || {
            format!("{side} becomes primary by the word of a node that lost its metadata")
        })
    }

    pub(super) fn restored(&mut self, side: Side) {
        self.expected[side.index()] = None;
        self.named[side.index()].forget();
        self.copies[side.index()].restored = true;
        self.copy_loses(side);
        for history in self.histories.values_mut() {
            let whose = usize::from(history.leader != side);
            history.writes.iter_mut().for_each(|write| write.durable[whose] = false);
        }
    }
}
