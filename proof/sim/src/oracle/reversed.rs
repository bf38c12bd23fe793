// SPDX-License-Identifier: Apache-2.0
//! The operator takes the secondary's copy over the primary's own: from the record on, the truth is the peer's image as
//! it is once that one follows, and what was answered before and is not in it was given up. What was asked and not answered meanwhile
//! belongs to the new truth, if only as what may be in it.
//!
//! While the primary lacks regions its record says that its image is not consistent: then every answer is held to what
//! sync promises of the peer, whatever mode is asked for, and what is durable is durable there.

use super::history::History;
use super::{Asked, Key, Oracle, key};
use helio_format::superblock::Superblock;
use helio_twin::Side;

impl Oracle {
    /// A primary's record calls its image inconsistent, in a generation that nobody knows: that is a reversal.
    pub(super) fn is_reversal(&self, record: &Superblock) -> bool {
        let at = key(record.lineage.generation);
        !record.consistent
            && !self.histories.contains_key(&at)
            && !self.same_history.contains_key(&at)
    }

    /// A primary that lacks regions of its own store, by its record.
    pub(super) fn lacks_regions(&self, side: Side) -> bool {
        let copy = &self.copies[side.index()];
        copy.serving && !copy.consistent
    }

    /// The peer takes the stream up: what it had received of the one before is in its image, and nothing is served before.
    pub(super) fn settle_reversal(&mut self, side: Side, record: &Superblock) {
        let at = key(record.lineage.generation);
        if let Some(history) = self.histories.get_mut(&at).filter(|history| history.unsettled) {
            history.unsettled = false;
            history.base = self.images[side.index()].clone();
        }
    }

    pub(super) fn reversed(&mut self, side: Side, record: &Superblock) {
        let old = self.copies[side.index()].generation;
        let new: Key = key(record.lineage.generation);
        let base = self.images[side.other().index()].clone();
        let mut history = History::new(side, base, self.serial, false);
        history.unsettled = true;
        let mut open: Vec<_> = self
            .asked
            .values_mut()
            .filter_map(|asked| match asked.issued {
                Some((at, index)) if at == old && asked.side == side => Some((index, asked)),
                _ => None,
            })
            .collect();
        // So does what was denied meanwhile: the peer may have it yet.
        let meanwhile = |asked: &Asked| asked.side == side && asked.behind >= record.head;
        let denied = core::mem::take(&mut self.denied);
        let mut denied: Vec<_> = denied.into_iter().filter(meanwhile).collect();
        open.extend(denied.iter_mut().filter_map(|asked| match asked.issued {
            Some((at, index)) if at == old => Some((index, asked)),
            _ => None,
        }));
        open.sort_by_key(|(index, _)| *index);
        if let Some(given_up) = self.histories.get_mut(&old) {
            for (index, asked) in open {
                let (volume, first, stamps) = given_up.bytes_of(index);
                let since = (asked.submitted, asked.behind);
                let index = history.issue(since, volume, first, &stamps, None);
                asked.issued = Some((new, index));
            }
            given_up.give_up();
        }
        self.open_history(new, history);
        self.reversals += 1;
        for copy in self.copies.iter_mut().filter(|copy| copy.generation == old) {
            copy.checked = 0;
        }
        let copy = &mut self.copies[side.index()];
        copy.generation = new;
        copy.promoted_at = self.serial;
    }
}
