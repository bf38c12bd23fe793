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
use crate::event::{CommandId, StoreOutcome};
use crate::local::Local;
use crate::peer::link::Session;
use crate::purpose::{Look, SeedIo};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::resync::Resync;
use crate::resync::seed::{Seed, is_blank};
use crate::role::{Standing, busy};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_stack::StoreOp;
use helio_units::VolumeIndex;

impl Standing {
    /// The record says seeding: from here on only what the disk may lack is marked. What was written before is flushed.
    pub(crate) fn seed_begun(
        &mut self,
        command: CommandId,
        seed: &mut Seed,
        record: &mut Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        seed.recorded(command, turn.config().volumes.len() as u16, self.leads());
        if let Some(primary) = self.primary_mut() {
            // Where a write failed the content of the store is unknown: those regions stay marked.
            if primary.fault().is_none() && !primary.is_lacking() {
                primary.mark_for_seed();
            }
            local.hot_mut().bitmap_changed();
            self.relieve(true, record, local, turn);
        }
        for volume in turn.config().indices() {
            local.store(volume, StoreOp::Flush, SeedIo::Flush(volume), turn);
        }
    }

    /// A look at a sample of a disk that was shipped ended.
    pub(crate) fn seed_looked(
        &self,
        (look, roll): (Look, u64),
        outcome: StoreOutcome,
        seed: &mut Seed,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        turn.let_go(&outcome);
        let Some(primary) = self.primary() else { return };
        match seed.looked(look, outcome, primary.marks(), roll) {
            Ok(next) => next.into_iter().for_each(|(place, read_as)| {
                local.read(place, read_as, SeedIo::Look(look), turn);
            }),
            Err(((volume, extent), fault)) => {
                let volume = turn.config().name_of(volume);
                let why = format!("this node cannot read {extent} of volume {volume}: {fault}");
                seed.interrupt(&why, turn);
            }
        }
    }

    /// A flush before the operator copies a disk ended.
    pub(crate) fn seed_flushed(
        &mut self,
        volume: VolumeIndex,
        outcome: &StoreOutcome,
        seed: &mut Seed,
        record: &Record,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        self.cover_flushed(volume, outcome, local, turn);
        let Some((command, failed)) = seed.flushed(volume, outcome) else { return };
        let goes_on = seed.is_under_way(record.superblock()) && self.leads();
        let config = turn.config();
        let result = match failed {
            Some(_) if local.suspect().any() => Err(local.suspect().refusal(config)),
            Some((volume, fault)) => Err(self.volume_refusal(volume, fault, config)),
            None if !goes_on => Err(busy()),
            None => {
                let Config { group, peer, .. } = config;
                let text = format!(
                    "copy the volumes of {group} now, put the copy in place on {peer}, then `helio seed end {group}`"
                );
                let news =
                    format!("a disk is being shipped to {peer}: changed regions are recorded");
                turn.info(news);
                Ok(text)
            }
        };
        turn.done(command, result);
    }

    /// The operator says that the disk is in place: samples of it are compared.
    pub(crate) fn seed_end(
        &mut self,
        command: CommandId,
        session: &Session,
        record: &Record,
        resync: &mut Resync,
        local: &Local,
        turn: &Turn,
    ) -> Result<Option<String>, Refusal> {
        let seed = resync.seed_mut();
        if self.is_leaving() || seed.is_being_recorded() || seed.is_comparing() {
            return Err(busy());
        }
        let config = turn.config();
        let (group, peer) = (&config.group, &config.peer);
        let primary = self.commanded("seed end", config)?;
        primary.refuse_while_suspect(local, config)?;
        if record.superblock().seeding == 0 {
            return Err(Refusal::new(
                "not-seeding",
                format!("no seeding of {group} was begun"),
                format!("`helio seed begin {group}`, and copy the disk after that"),
            ));
        }
        let Some(hello) = session.peer() else {
            return Err(Refusal::later(
                "peer-lost",
                format!("{peer} is not connected ({})", session.why()),
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
        seed.compare(command, primary.marks());
        Ok(None)
    }

    /// The record says that the seed has ended. Returns whether the relation of the two copies is to be decided again.
    #[must_use]
    pub(crate) fn seeded(
        &mut self,
        (command, incarnation): (CommandId, u64),
        session: &Session,
        resync: &mut Resync,
        turn: &mut Turn,
    ) -> bool {
        let same = session.peer().is_some_and(|hello| hello.incarnation == incarnation);
        let Some(primary) = self.primary_mut().filter(|_| same) else {
            let text = "the connection was lost after the samples of the shipped disk were compared; all data will be compared";
            turn.done(command, Ok(String::from(text)));
            return false;
        };
        primary.end_pause();
        let left = primary.marks().dirty_bytes();
        resync.seed_mut().pass(incarnation);
        resync.update_mut().want();
        let text =
            format!("the disk is the shipped one: {left} that changed since then are copied");
        turn.done(command, Ok(text));
        true
    }
}
