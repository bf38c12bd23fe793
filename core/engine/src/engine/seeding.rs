// SPDX-License-Identifier: Apache-2.0
//! A first sync by a disk that is shipped: only what changed since travels.
//!
//! ```text
//!   begin: record says seeding ──> marks cleared ──> flush ──> (the operator copies, ships, puts in place) ──> end: samples agree
//!          (what is under way stays marked)              nothing travels, writes are marked             │
//!                                                                                                       v
//!                                              copy what is marked <──meet: seeded── record says it no more
//! ```
//! While the record says seeding, marks and hot extents tell what the disk may lack, and prove nothing against any other
//! copy: so whoever is met waits, until `end` or until everything is marked again. The record comes before the marks are
//! cleared, and goes before anything travels; a crash between leaves marks too many, or none that count: everything is
//! compared then. The flush comes before the operator is told to copy: what was written under marks that are gone would
//! be in the copy, and with a power cut not here. From the moment on in which the peer takes up the stream, its own record is as good as any.

use crate::config::Config;
use crate::engine::Engine;
use crate::event::{CommandId, StoreOutcome};
use crate::peer::hang_up::HangUp;
use crate::purpose::SeedIo;
use crate::record::save::Goal;
use crate::refusal::Refusal;
use crate::resync::seed::is_blank;
use crate::role::busy;
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::message::Parting;
use helio_units::Generation;

impl Engine {
    pub(crate) fn seed_begin(&mut self, id: CommandId, at: u64) -> Result<Option<String>, Refusal> {
        let (group, peer) = (self.turn.config().group.clone(), self.turn.config().peer.clone());
        if self.standing.is_leaving() || self.resync.seed().is_beginning() {
            return Err(busy());
        }
        if self.local.metadata_failed() {
            return Err(self.turn.metadata_refusal());
        }
        // The marks say what is good at the peer alone, and a disk copied from here would be of the rest.
        if self.view().is_lacking() {
            return Err(self.view().lacks("seed begin"));
        }
        let known = self.peer.session().peer().is_some_and(|hello| !is_blank(hello));
        let Some(primary) = self.standing.primary_mut() else {
            return Err(self.view().not_primary("seed begin"));
        };
        if known || primary.streams() {
            return Err(Refusal::new(
                "peer-has-a-copy",
                format!("{peer} is connected and has a copy of {group}: there is nothing to seed"),
                format!(
                    "to seed it again: stop the daemon on {peer}, then `helio seed begin {group}`"
                ),
            ));
        }
        if self.local.suspect().any() {
            return Err(self.view().suspect_refusal());
        }
        if let Some((volume, fault)) = primary.fault() {
            return Err(self.view().volume_refusal(volume, fault));
        }
        primary.forget_refusal();
        primary.drop_queue(
            "a disk is to be shipped",
            &mut self.local,
            &self.permit,
            &mut self.turn,
        );
        self.resync.seed_mut().interrupt("the seed starts again", &mut self.turn);
        self.resync.update_mut().forget_wish();
        self.resync.seed_mut().record();
        // What it said of itself when it connected may be old by now.
        self.hang_up(HangUp::new(
            Parting::RoleChanged,
            format!("a disk is being shipped to {peer}"),
        ));
        self.record.want(Goal::SeedBegun { command: id, at: at.max(1) });
        Ok(None)
    }

    /// An operation of a seed's own ended.
    pub(crate) fn seed_ended(&mut self, io: SeedIo, outcome: StoreOutcome) {
        match io {
            SeedIo::Look(look) => {
                let roll = self.dice.roll();
                self.turn.let_go(&outcome);
                let Some(primary) = self.standing.primary() else { return };
                match self.resync.seed_mut().looked(look, outcome, primary.marks(), roll) {
                    Ok(next) => next.into_iter().for_each(|(place, read_as)| {
                        self.local.read(place, read_as, SeedIo::Look(look), &mut self.turn);
                    }),
                    Err(((volume, extent), fault)) => {
                        let volume = self.turn.config().name_of(volume);
                        let why =
                            format!("this node cannot read {extent} of volume {volume}: {fault}");
                        self.resync.seed_mut().interrupt(&why, &mut self.turn);
                    }
                }
            }
            SeedIo::Flush(volume) => {
                self.standing.cover_flushed(volume, &outcome, &mut self.local, &mut self.turn);
                let Some((command, failed)) = self.resync.seed_mut().flushed(volume, &outcome)
                else {
                    return;
                };
                let goes_on = self.resync.seed().is_under_way(self.record.superblock())
                    && self.standing.leads();
                let result = match failed {
                    Some(_) if self.local.suspect().any() => Err(self.view().suspect_refusal()),
                    Some((volume, fault)) => Err(self.view().volume_refusal(volume, fault)),
                    None if !goes_on => Err(busy()),
                    None => {
                        let Config { group, peer, .. } = self.turn.config();
                        let text = format!(
                            "copy the volumes of {group} now, put the copy in place on {peer}, then `helio seed end {group}`"
                        );
                        self.turn.info(format!(
                            "a disk is being shipped to {peer}: changed regions are recorded"
                        ));
                        Ok(text)
                    }
                };
                self.turn.done(command, result);
            }
        }
    }

    pub(crate) fn seed_end(&mut self, id: CommandId) -> Result<Option<String>, Refusal> {
        let (group, peer) = (self.turn.config().group.clone(), self.turn.config().peer.clone());
        if self.standing.is_leaving()
            || self.resync.seed().is_being_recorded()
            || self.resync.seed().is_comparing()
        {
            return Err(busy());
        }
        self.view().refuse_while_suspect()?;
        let Some(primary) = self.standing.primary() else {
            return Err(self.view().not_primary("seed end"));
        };
        if self.record.superblock().seeding == 0 {
            return Err(Refusal::new(
                "not-seeding",
                format!("no seeding of {group} was begun"),
                format!("`helio seed begin {group}`, and copy the disk after that"),
            ));
        }
        let Some(hello) = self.peer.session().peer() else {
            return Err(Refusal::later(
                "peer-lost",
                format!("{peer} is not connected ({})", self.peer.session().why()),
                format!("put the disk in place on {peer} and start its daemon, then repeat"),
            ));
        };
        if !is_blank(hello) {
            return Err(Refusal::new(
                "peer-has-a-history",
                format!(
                    "{peer} has metadata of {group} from an earlier copy, which does not describe the shipped disk"
                ),
                format!(
                    "stop the daemon on {peer}, move its metadata file of {group} away, start the daemon and repeat; or copy \
                     everything: `helio resync {group} --full`"
                ),
            ));
        }
        self.resync.seed_mut().compare(id, primary.marks());
        Ok(None)
    }

    /// Everything is copied after all.
    pub(crate) fn seed_given_up(&mut self) -> Result<String, Refusal> {
        // What its record is about to clear must not be marked before.
        if self.resync.seed().is_being_recorded() {
            return Err(busy());
        }
        self.resync.seed_mut().interrupt("the seed is cancelled", &mut self.turn);
        self.resync.update_mut().want();
        if let Some(primary) = self.standing.primary_mut() {
            primary.end_pause();
            primary.forgive();
        }
        if let Some(blank) = self.peer.session().peer().filter(|hello| is_blank(hello)) {
            self.record.keeping_mut().ages_mut().begin_again(blank.metadata);
        }
        if let Some(primary) = self.standing.primary_mut() {
            primary.copy_everything(
                self.resync.update_mut(),
                &mut self.record,
                &mut self.local,
                &self.permit,
                &mut self.turn,
            );
        }
        let text = "the seed is cancelled: everything is copied when the peer is connected";
        Ok(String::from(text))
    }

    /// The record says seeding no more: the two meet anew.
    pub(crate) fn seeded(&mut self, id: CommandId, incarnation: u64) {
        let same = self.peer.session().peer().is_some_and(|hello| hello.incarnation == incarnation);
        let Some(primary) = self.standing.primary_mut().filter(|_| same) else {
            let text = "the connection was lost after the samples of the shipped disk were compared; all data will be compared";
            return self.turn.done(id, Ok(String::from(text)));
        };
        primary.end_pause();
        let left = primary.marks().dirty_bytes();
        self.resync.seed_mut().pass(incarnation);
        self.resync.update_mut().want();
        self.turn.done(
            id,
            Ok(format!("the disk is the shipped one: {left} that changed since then are copied")),
        );
        self.meet_as_source();
    }
}

impl View<'_> {
    /// Since when a disk is being shipped, in ms since 1970.
    #[must_use]
    pub fn seeding(&self) -> Option<u64> {
        Some(self.record.superblock().seeding).filter(|at| *at != 0)
    }

    /// A node without a history tells what it holds to whoever leads: no stream changes it yet.
    pub(crate) fn is_blank(&self) -> bool {
        self.record.superblock().lineage.generation == Generation::NONE && !self.is_adopting()
    }
}
