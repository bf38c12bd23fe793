// SPDX-License-Identifier: Apache-2.0
//! A seed, on a node that leads.

use crate::effect::ReadAs;
use crate::lead::Primary;
use crate::local::Local;
use crate::peer::link::Session;
use crate::peer::owed::PeerCopy;
use crate::purpose::SeedIo;
use crate::record::Record;
use crate::record::save::Goal;
use crate::resync::digest::{ASKED_BYTES_MAX, digests_of};
use crate::resync::seed::{SAMPLE, Seed};
use crate::stream::line::Entry;
use crate::turn::Turn;
use helio_format::copying::Copying;
use helio_format::message::Message;
use helio_plant::{Plant, planted};

/// Questions open at the peer at once.
const ASKED_MOST: usize = (ASKED_BYTES_MAX.0 / SAMPLE.0) as usize / 2;

impl Primary {
    /// The peer's image is the disk that was shipped: the marks tell what it lacks.
    pub(crate) fn use_shipped(&mut self) {
        self.target.found(PeerCopy::Shipped { by_bitmaps: false });
        if planted(Plant::SeedForgets) {
            self.marks.clear();
        }
    }

    /// Only what is under way may be missing from a copy that begins now.
    pub(crate) fn mark_for_seed(&mut self) {
        self.marks.clear();
        let pending = self.line.iter().filter(|entry| !entry.has_ended_here()).map(Entry::item);
        for item in pending.filter(|item| item.kind.changes_data()) {
            self.marks.set(item.volume, item.extent);
        }
    }

    /// Looks at places here, and asks the peer about them.
    pub(crate) fn compare_seed(
        &self,
        roll: u64,
        session: &Session,
        seed: &mut Seed,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        while let Some((place, look)) = seed.next_look(&self.marks, roll) {
            local.read(place, ReadAs::BytesOrZero, SeedIo::Look(look), turn);
        }
        while let Some((volume, extent)) = seed.next_question(ASKED_MOST) {
            debug_assert_eq!(digests_of(extent, true), 1, "a sample has one digest");
            let question = Copying::DigestsWanted { volume, extent, coarse: true };
            turn.send(Message::Copying(question));
        }
        let failed = local.metadata_failed();
        let next_tick = || local.hot_mut().next_tick();
        let Some(command) = seed.finish(&self.marks, next_tick, failed) else { return };
        let peer = session.peer().map(|hello| (hello.incarnation, hello.metadata));
        let Some((incarnation, theirs)) = peer else { return };
        // From here on its count begins anew.
        record.keeping_mut().ages_mut().begin_again(theirs);
        record.want(Goal::Seeded { command, incarnation });
    }
}
