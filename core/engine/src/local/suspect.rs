// SPDX-License-Identifier: Apache-2.0
//! Which of this node's own copies are suspect after a failed flush (rule 14), and what of them must be written again. What one
//! copy is worth, [`Health`] says.
//!
//! A store that fails a flush may have dropped any write that was not durable, and a later flush that succeeds says
//! nothing of those. FUA is often a write plus a flush of everything, so its failure means the same.
//!
//! Only a durable record ends it, and only for failures from before that record was made. A record may say so once all of
//! the copy was written again and flushed: from the peer (`lead/suspect.rs`, [`following`]) or from itself at an operator's word
//! ([`accept`]); or once another disk took its place (`replace.rs`).

use crate::config::Config;
use crate::local::health::{Happens, Health};
use crate::refusal::Refusal;
use crate::turn::Turn;
pub(crate) use accept::Rewriting;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use helio_bitmap::HotExtents;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_stack::StoreOp;
use helio_units::{Extent, Role, VolumeIndex};

mod accept;
mod following;

/// The copies of the group's volumes.
#[derive(Clone, Debug)]
pub(crate) struct Suspect {
    /// By volume.
    copies: Vec<Health>,
    /// What must be written again on a node that follows, in order, without overlaps.
    places: Vec<(VolumeIndex, Extent)>,
}

/// The bit of a volume.
pub(crate) const fn bit(volume: VolumeIndex) -> u64 {
    1 << volume.0
}

impl Suspect {
    /// Of that many volumes.
    pub(crate) fn new(volumes: usize) -> Self {
        Self { copies: vec![Health::Trusted; volumes], places: Vec::new() }
    }

    /// The same happens to every copy, but for what a record says of each: a bit each.
    fn all(&mut self, happens: impl Fn(bool) -> Happens, suspect: u64) {
        for (volume, copy) in (0u16..).zip(&mut self.copies) {
            *copy = copy.then(happens(suspect & bit(VolumeIndex(volume)) != 0));
        }
    }

    /// Takes what the record says, when the node starts or stops being primary.
    pub(crate) fn load(
        &mut self,
        record: &Superblock,
        cover: &HotExtents<StoreOp>,
        config: &Config,
    ) {
        self.all(|suspect| Happens::RecordTaken { suspect }, record.suspect);
        let followed = record.role == Role::Secondary && !record.wrote && !record.alone;
        // Of one that an operator discarded the hot extents are lost with the rest.
        let hot_tells = followed && record.consistent && !record.discarded;
        let all = (0u16..).map(VolumeIndex).zip(&config.volumes);
        let all = all.filter(|(volume, size)| self.is(*volume) && size.0 > 0);
        let places = all.flat_map(|(volume, size)| {
            let whole = || [(volume, Extent::new(0, size.0))].into();
            if hot_tells { following::hot_on(cover, volume) } else { whole() }
        });
        self.places = places.collect();
    }

    /// Whether the copy of that volume is suspect.
    #[inline]
    pub(crate) fn is(&self, volume: VolumeIndex) -> bool {
        self.copies[usize::from(volume.0)].is_suspect()
    }

    /// Whether any copy is.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.copies.iter().any(|copy| copy.is_suspect())
    }

    /// Which are: a bit each.
    pub(crate) fn volumes(&self) -> u64 {
        let all = (0u16..).map(VolumeIndex).zip(&self.copies);
        all.filter(|(_, copy)| copy.is_suspect()).fold(0, |set, (volume, _)| set | bit(volume))
    }

    /// The first one.
    pub(crate) fn first(&self) -> VolumeIndex {
        VolumeIndex(self.volumes().trailing_zeros() as u16)
    }

    /// Whether that copy is suspect, and no durable record says so.
    pub(crate) fn is_unrecorded(&self, volume: VolumeIndex) -> bool {
        self.copies[usize::from(volume.0)].is_unrecorded()
    }

    /// Whether any copy is.
    pub(crate) fn any_unrecorded(&self) -> bool {
        self.copies.iter().any(|copy| copy.is_unrecorded())
    }

    /// A flush of a volume failed.
    pub(crate) fn flush_failed(&mut self, volume: VolumeIndex) {
        let copy = &mut self.copies[usize::from(volume.0)];
        *copy = copy.then(Happens::FlushFails);
    }

    /// All of a volume must be written again.
    pub(crate) fn all_of(&mut self, volume: VolumeIndex, config: &Config) {
        let size = config.volumes[usize::from(volume.0)];
        self.put_places(volume, [(volume, Extent::new(0, size.0))].into());
    }

    /// Those must be written again, too.
    fn put_places(&mut self, at: VolumeIndex, mut places: Vec<(VolumeIndex, Extent)>) {
        places.extend(self.places.extract_if(.., |(volume, _)| *volume == at));
        self.places.extend(places);
        self.places.sort_unstable_by_key(|(volume, extent)| (*volume, extent.offset));
        self.places.dedup_by(|(next, run), (volume, before)| {
            let joined = next == volume && run.offset <= before.end();
            if joined {
                before.length = before.length.max(run.end() - before.offset);
            }
            joined
        });
    }

    /// Whether a block of the extent must be written again, whatever it reads as.
    pub(crate) fn touches(&self, volume: VolumeIndex, extent: Extent) -> bool {
        let behind =
            |(at, run): &(VolumeIndex, Extent)| (*at, run.end()) <= (volume, extent.offset);
        let next = self.places.get(self.places.partition_point(behind));
        !planted(Plant::CompareSuspect)
            && next.is_some_and(|(at, run)| *at == volume && run.offset < extent.end())
    }

    /// A record is made that says what is known now; its goal may end some of it.
    pub(crate) fn shape(&mut self, b: &mut Superblock, leads: bool) {
        self.all(|_| Happens::RecordMade, 0);
        b.suspect |= self.volumes();
        if self.any_unrecorded() || (leads && self.any()) {
            // Everything counts as marked from here on; a record that says seeding proves nothing either.
            b.marks_void |= b.seeding == 0;
        }
    }

    /// That record is durable. Returns whether it tells of a failure that none before it told of.
    pub(crate) fn saved(&mut self, record: &Superblock) -> bool {
        let all = (0u16..).map(VolumeIndex).zip(&self.copies);
        let news = all
            .into_iter()
            .any(|(volume, copy)| record.suspect & bit(volume) != 0 && !copy.is_recorded());
        self.all(|suspect| Happens::RecordDurable { suspect }, record.suspect);
        let copies = &self.copies;
        self.places.retain(|(volume, _)| copies[usize::from(volume.0)].is_suspect());
        news
    }

    /// Why nothing may be copied from here.
    pub(crate) fn refusal(&self, config: &Config) -> Refusal {
        let (group, node) = (&config.group, &config.node);
        let volume = config.name_of(self.first());
        Refusal::new(
            "suspect",
            format!(
                "the copy of volume {volume} of {group} on {node} is suspect: a flush failed, and acknowledged writes may be \
                 missing from it"
            ),
            match config.peer_name() {
                None => format!(
                    "`helio member accept {group}/{volume}` on {node}, then `helio promote {group}` on {node}; the acknowledged \
                     writes that are missing are lost"
                ),
                Some(peer) => format!(
                    "if {peer} has them: `helio demote {group}` on {node}, then `helio promote {group}` on {peer}, which rebuilds the \
                     copy of {node} (with --force if {node} acknowledged writes without {peer}; those are lost). If this is the best \
                     copy: `helio demote {group}` on {node}, `helio member accept {group}/{volume}` on {node}, `helio promote {group}` on \
                     {node}"
                ),
            },
        )
    }

    /// What is suspect, for people.
    pub(crate) fn text(&self, config: &Config) -> Option<(VolumeIndex, String)> {
        self.any().then(|| {
            let (volume, node) = (self.first(), &config.node);
            let text = format!(
                "the copy of volume {} on {node} is suspect since a flush failed: acknowledged writes may be missing from \
                 it; FLUSH and FUA fail until it is rebuilt, replaced or accepted",
                config.name_of(volume)
            );
            (volume, text)
        })
    }

    /// Reports on a node that follows that its copy is suspect, and what ends that.
    pub(crate) fn report(&self, turn: &mut Turn) {
        for volume in turn.config().indices().filter(|volume| self.is(*volume)) {
            let name = turn.config().name_of(volume);
            let then = match turn.config().peer_name() {
                Some(peer) => format!("{peer} rewrites them"),
                None => {
                    format!("`helio member accept {}/{name}` rewrites them", turn.config().group)
                }
            };
            turn.warn(format!(
                "volume {name}: a flush failed on this node earlier. Blocks that can be read now may be missing on the disk; {then}"
            ));
        }
    }
}
