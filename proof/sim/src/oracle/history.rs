// SPDX-License-Identifier: Apache-2.0
//! The truth of one generation: what its primary's image held when it began, and every version of every block since,
//! in the order in which the primary issued them to its own store.

use helio_twin::{Place, Side, Stamp};
use helio_units::{Sequence, VolumeIndex};
use std::collections::BTreeSet;

/// A moment of the story: counts everything that happens, so that no two are simultaneous.
pub(crate) type Serial = u64;

/// A write, zero or discard that got a place on the line.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) submitted: Serial,
    /// The head of the line when it was asked for: it has a later position.
    behind: Sequence,
    pub(crate) answered: Option<Serial>,
    pub(crate) volume: VolumeIndex,
    pub(crate) first: u32,
    pub(crate) stamp: Stamp,
    /// Its place among the versions of each of its blocks; 0 is the content before the generation.
    indices: Vec<u32>,
    /// It was answered in effective sync.
    pub(crate) sync: bool,
    /// It, or a FLUSH that covers it, was answered as durable on its primary, and at the peer.
    pub(crate) durable: [bool; 2],
}

impl Write {
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        (self.first..).zip(&self.indices).map(|(block, _)| Place { volume: self.volume, block })
    }
}

#[derive(Clone, Copy, Debug)]
struct Version {
    stamp: Stamp,
    write: u32,
}

/// Images by volume and block.
pub(crate) type Image = Vec<Vec<Stamp>>;

/// See the module's words.
#[derive(Debug)]
pub(crate) struct History {
    /// Who writes it.
    pub(crate) leader: Side,
    pub(crate) base: Image,
    /// The base is the image that the peer will have once it follows.
    pub(crate) unsettled: bool,
    versions: Vec<Vec<Vec<Version>>>,
    pub(crate) writes: Vec<Write>,
    /// Indices of answered writes, in the order of their answers.
    pub(crate) answered: Vec<u32>,
    /// By volume: how many of `answered` were found durable here, and there.
    pub(crate) seen_durable: Vec<[usize; 2]>,
    /// When it began.
    pub(crate) born: Serial,
    /// It began with a promotion that nobody else was asked about: by force, or by the hold lease.
    pub(crate) forced: bool,
    /// Blocks a disk lied about: they may hold anything.
    pub(crate) lied_about: BTreeSet<Place>,
}

impl History {
    pub(crate) fn new(leader: Side, base: Image, born: Serial, forced: bool) -> Self {
        let versions = base.iter().map(|volume| vec![Vec::new(); volume.len()]).collect();
        let seen_durable = vec![[0; 2]; base.len()];
        Self {
            leader,
            base,
            unsettled: false,
            versions,
            writes: Vec::new(),
            answered: Vec::new(),
            seen_durable,
            born,
            forced,
            lied_about: BTreeSet::new(),
        }
    }

    /// Puts a write into the order of its blocks; returns its index.
    ///
    /// It is the last one, but for those asked for when its position had been given already: while the primary's own
    /// disk is lost and the peer is away, a write shows nothing of itself, and a later one may reach a new disk first.
    pub(crate) fn issue(
        &mut self,
        (submitted, behind): (Serial, Sequence),
        volume: VolumeIndex,
        first: u32,
        stamps: &[Stamp],
        sent_as: Option<Sequence>,
    ) -> u32 {
        let write = self.writes.len() as u32;
        let lists = &mut self.versions[usize::from(volume.0)][first as usize..];
        let mut indices = Vec::with_capacity(stamps.len());
        for ((block, list), stamp) in (first..).zip(lists).zip(stamps) {
            let is_later =
                |v: &&Version| sent_as.is_some_and(|at| self.writes[v.write as usize].behind >= at);
            let at = list.len() - list.iter().rev().take_while(is_later).count();
            for later in &list[at..] {
                let later = &mut self.writes[later.write as usize];
                later.indices[(block - later.first) as usize] += 1;
            }
            list.insert(at, Version { stamp: *stamp, write });
            indices.push(at as u32 + 1);
        }
        let stamp = stamps.first().copied().unwrap_or_default();
        self.writes.push(Write {
            submitted,
            behind,
            answered: None,
            volume,
            first,
            stamp,
            indices,
            sync: false,
            durable: [false; 2],
        });
        write
    }

    /// Where a write is, and what it put there.
    pub(crate) fn bytes_of(&self, write: u32) -> (VolumeIndex, u32, Vec<Stamp>) {
        let write = &self.writes[write as usize];
        (write.volume, write.first, vec![write.stamp; write.indices.len()])
    }

    /// Whether these are the bytes of one write of a client, from its first block to its last.
    pub(crate) fn is_whole_write(&self, volume: VolumeIndex, first: u32, stamps: &[Stamp]) -> bool {
        self.writes.iter().any(|write| {
            (write.volume, write.first, write.indices.len()) == (volume, first, stamps.len())
                && stamps.iter().all(|stamp| *stamp == write.stamp)
        })
    }

    /// What was answered counts no more: the operator gave it up.
    pub(crate) fn give_up(&mut self) {
        self.answered.clear();
        self.seen_durable.iter_mut().for_each(|seen| *seen = [0; 2]);
        for write in &mut self.writes {
            write.answered = None;
            write.sync = false;
            write.durable = [false; 2];
        }
    }

    /// The power went at `power`, and its primary goes on in it all the same: what was answered before and was not durable here
    /// counts no more.
    pub(crate) fn lose_undurable(&mut self, power: Serial) {
        let lost = |write: &Write| !write.durable[0] && write.answered.is_some_and(|at| at < power);
        for seen in self.seen_durable.as_flattened_mut() {
            let seen_before = &self.answered[..*seen];
            *seen = seen_before.iter().filter(|at| !lost(&self.writes[**at as usize])).count();
        }
        self.answered.retain(|at| !lost(&self.writes[*at as usize]));
        for write in self.writes.iter_mut().filter(|write| lost(write)) {
            (write.answered, write.sync) = (None, false);
        }
    }

    fn list(&self, place: Place) -> &[Version] {
        &self.versions[usize::from(place.volume.0)][place.block as usize]
    }

    /// The earliest and the latest version this content can be. Zeros have no name, so they may be several.
    pub(crate) fn span(&self, place: Place, content: Stamp) -> Option<(usize, usize)> {
        let list = self.list(place);
        if self.lied_about.contains(&place) {
            return Some((0, list.len()));
        }
        let base = self.base[usize::from(place.volume.0)][place.block as usize] == content;
        let last = list.iter().rposition(|v| v.stamp == content).map(|at| at + 1);
        let Some(last) = last.or(base.then_some(0)) else {
            // As new as its newest sector, and as old as its oldest.
            let (held, written) = content.parts()?;
            let (held, written) = (self.span(place, held)?, self.span(place, written)?);
            return Some((held.0.max(written.0), held.1.min(written.1)));
        };
        if content != Stamp::ZEROS {
            return Some((last, last));
        }
        let first = list.iter().position(|v| v.stamp == content).map_or(last, |at| at + 1);
        Some((if base { 0 } else { first }, last))
    }

    /// When the write of that version was submitted; 0 for what was there before.
    pub(crate) fn submitted(&self, place: Place, version: usize) -> Serial {
        match version.checked_sub(1).and_then(|at| self.list(place).get(at)) {
            Some(version) => self.writes[version.write as usize].submitted,
            None => 0,
        }
    }

    /// A write behind `version` of that block that was answered before `before`.
    pub(crate) fn missing(&self, place: Place, version: usize, before: Serial) -> Option<&Write> {
        let later =
            self.list(place).get(version..).filter(|_| !self.lied_about.contains(&place))?;
        let writes = later.iter().map(|v| &self.writes[v.write as usize]);
        writes.into_iter().find(|w| w.answered.is_some_and(|at| at < before))
    }

    /// A block in which an image lacks that write and everything later.
    pub(crate) fn lacks(&self, write: &Write, image: &Image) -> Option<Place> {
        self.lacks_beside(write, image, None)
    }

    /// The same, beside what an heir of this history wrote since.
    pub(crate) fn lacks_beside(
        &self,
        write: &Write,
        image: &Image,
        heir: Option<&Self>,
    ) -> Option<Place> {
        let mut places = write.places().zip(&write.indices);
        let lacking = places.find(|(place, index)| {
            let content = image[usize::from(place.volume.0)][place.block as usize];
            let wrote = |heir: &Self| heir.span(*place, content).is_some_and(|(_, last)| last > 0);
            self.span(*place, content).is_none_or(|(_, last)| last < **index as usize)
                && !heir.is_some_and(wrote)
        });
        lacking.map(|(place, _)| place)
    }
}
