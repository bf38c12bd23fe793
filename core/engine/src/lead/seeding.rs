// SPDX-License-Identifier: Apache-2.0
//! A seed, on a node that leads.

use crate::effect::ReadAs;
use crate::event::CommandId;
use crate::lead::Primary;
use crate::local::Local;
use crate::peer::hang_up::HangUp;
use crate::peer::link::Session;
use crate::peer::owed::PeerCopy;
use crate::peer::permit::Permit;
use crate::purpose::SeedIo;
use crate::record::Record;
use crate::record::save::Goal;
use crate::resync::Resync;
use crate::resync::digest::{ASKED_BYTES_MAX, digests_of};
use crate::resync::seed::{SAMPLE, Seed, is_blank};
use crate::stream::line::Entry;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::copying::Copying;
use helio_format::message::{Message, Parting};
use helio_plant::{Plant, planted};

/// Questions open at the peer at once.
const ASKED_MOST: usize = (ASKED_BYTES_MAX.0 / SAMPLE.0) as usize / 2;

impl Primary {
    /// A disk is about to be copied for the peer: order is given up, and a record says so.
    pub(crate) fn ship_disk(
        &mut self,
        (command, at): (CommandId, u64),
        record: &mut Record,
        resync: &mut Resync,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> HangUp {
        self.forget_refusal();
        self.drop_queue("a disk is to be shipped", local, permit, turn);
        resync.seed_mut().interrupt("the seed starts again", turn);
        resync.update_mut().forget_wish();
        resync.seed_mut().record();
        record.want(Goal::SeedBegun { command, at: at.max(1) });
        // What the peer said of itself when it connected may be old by now.
        let peer = &turn.config().peer;
        HangUp::new(Parting::RoleChanged, format!("a disk is being shipped to {peer}"))
    }

    /// Everything is copied after all.
    pub(super) fn cancel_seed(
        &mut self,
        session: &Session,
        resync: &mut Resync,
        record: &mut Record,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> String {
        resync.seed_mut().interrupt("the seed is cancelled", turn);
        resync.update_mut().want();
        self.end_pause();
        self.forgive();
        if let Some(blank) = session.peer().filter(|hello| is_blank(hello)) {
            record.keeping_mut().ages_mut().begin_again_when_taken_up(blank.metadata);
        }
        self.copy_everything(resync.update_mut(), record, local, permit, turn);
        String::from("the seed is cancelled: everything is copied when the peer is connected")
    }

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
