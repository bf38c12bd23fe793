// SPDX-License-Identifier: Apache-2.0
//! The engine of one group on one node: one event at a time, then settle.

mod accept;
mod change;
mod command;
mod complete;
mod conversation;
mod keep;
mod last_copy;
mod lease;
mod leave;
mod meet;
mod pause;
mod promote;
mod replace;
mod resolve;
mod restore;
mod reverse;
mod save;
mod seeding;
#[cfg(test)]
mod stories;
mod suspect;
mod switch;
mod verifying;

use crate::calendar::Calendar;
use crate::config::Config;
use crate::copies::Copies;
use crate::dice::Dice;
use crate::effect::Effect;
use crate::event::{Command, Durable, Event, Operation, Request, StoreOutcome};
use crate::follow::before::Keeper;
use crate::follow::follower::{Follower, Wish};
use crate::lead::Primary;
use crate::local::Local;
use crate::local::blocks::Blocks;
use crate::local::members::Members;
use crate::peer::Peer;
use crate::peer::hang_up::HangUp;
use crate::peer::lease::Lease;
use crate::peer::pause::{End, Pause};
use crate::peer::permit::Permit;
use crate::purpose::{Purpose, Reader, SeedIo};
use crate::record::Record;
use crate::record::ages::Ages;
use crate::record::keep::Keeping;
use crate::record::save::Goal;
use crate::resync::Resync;
use crate::role::Standing;
use crate::role::asked::Asked;
use crate::role::copies::before_found;
use crate::show::Show;
use crate::show::view::View;
use crate::turn::Turn;
use alloc::vec::Vec;
use helio_bitmap::Bitmap;
use helio_format::message::Parting;
use helio_plant::{Plant, planted};
use helio_stack::StoreFault;
use helio_units::{IoId, Moment};

/// The engine of one group on one node.
///
/// Receives the time and every event ([`Engine::handle`]), draws random numbers from a given seed, and returns effects. After a
/// batch of events [`Engine::settle`] does what depends on the whole: sending, copying, records, timers. It wants to be settled
/// again no later than [`View::deadline`].
#[derive(Clone, Debug)]
pub struct Engine {
    turn: Turn,
    local: Local,
    /// What may be answered without the peer.
    permit: Permit,
    standing: Standing,
    peer: Peer,
    record: Record,
    resync: Resync,
    /// What a follower keeps of its last consistent image.
    keeper: Keeper,
    /// The copies that operators name.
    copies: Copies,
    asked: Asked,
    show: Show,
    dice: Dice,
}

impl Engine {
    /// An engine that starts from what its metadata file held. `incarnation` and `seed` must be drawn anew at every start.
    #[must_use]
    pub fn new(config: Config, durable: Durable, incarnation: u64, seed: u64, now: Moment) -> Self {
        let Durable { superblock, hot, marks, sequence, members, layers } = durable;
        let blocks = Blocks::new(&superblock, &members);
        let members = Members::look(&superblock, &members);
        let follower = Follower::new(config.volumes.len(), superblock.head);
        let standing = Standing::starting(follower, superblock.role);
        let hot = hot.into_iter().filter(|_| !planted(Plant::ForgetHot));
        let mut resting = Bitmap::new(&config.volumes, config.granularity);
        marks.iter().for_each(|(page, bits)| resting.load(*page, bits));
        let keeping = Keeping::new(
            resting,
            Ages::starting(sequence, superblock.reported, superblock.remembers),
        );
        let mut engine = Self {
            local: Local::starting(&config, &superblock, blocks, members, layers, hot),
            permit: Permit::starting(Lease::starting(&superblock, now)),
            standing,
            peer: Peer::new(now),
            record: Record::starting(superblock, keeping, incarnation),
            resync: Resync::new(config.volumes.len()),
            keeper: Keeper::new(),
            copies: Copies::new(),
            asked: Asked::default(),
            show: Show::new(now),
            turn: Turn::new(config, now),
            dice: Dice::new(seed),
        };
        let state = engine.view().state();
        engine.show.saw_state(state, now);
        let verdict = engine.view().verdict(state);
        engine.show.saw_verdict(verdict, now);
        engine
    }

    /// What may be read of it.
    #[inline]
    #[must_use]
    pub const fn view(&self) -> View<'_> {
        let Self {
            turn,
            local,
            permit,
            standing,
            peer,
            record,
            resync,
            keeper,
            copies,
            asked,
            show,
            ..
        } = self;
        View { turn, local, permit, standing, peer, record, resync, keeper, copies, asked, show }
    }

    /// Sets how many items this node holds as a follower before it stops reading from its peer. The default is 65,536.
    pub fn bound_received(&mut self, items: usize) {
        self.turn.bound_received(items);
    }

    /// Takes one event; appends what must be done to `effects`.
    pub fn handle(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        self.show.record(now, &event);
        self.turn.swap(effects);
        let paused = self.view().was_paused(now);
        self.permit.advance(now, paused, self.peer.session_mut(), &mut self.turn);
        self.take(event);
        self.store_done(None);
        self.begin_record();
        self.turn.swap(effects);
    }

    fn take(&mut self, event: Event) {
        let Self { standing, peer, record, resync, keeper, copies, local, permit, turn, .. } = self;
        match event {
            Event::Request(Request { operation: Operation::Discard { .. }, .. })
                if planted(Plant::PanicAtDiscard) =>
            {
                panic!("planted: a client discards")
            }
            Event::Request(request) => match standing.taker() {
                Some(primary) => primary.request(request, local, permit, turn),
                None => turn.deny_not_primary(request),
            },
            Event::CopyIo(io) => standing.begin_on_copy(io, (keeper, record), local, turn),
            Event::StoreDone { io, outcome } => self.store_done(Some((io, outcome))),
            Event::SuperblockSaved { ok, sequence } => self.superblock_saved(ok, sequence),
            Event::Kept { kept, ok, sequence } => {
                record.keeping_mut().ages_mut().changed(sequence);
                standing.kept((kept, ok), resync.seed_mut(), record, local, permit, turn);
            }
            Event::BeforeFound(found) => before_found(&found, (keeper, copies), record, turn),
            Event::PoolDone(outcome) => local.pool_ended(outcome, turn),
            Event::Recorded { ok, sequence } => {
                standing.members_recorded((ok, sequence), record, local, permit, turn);
            }
            Event::Compared { name, equal } => local.layer_compared(name, equal, turn),
            Event::Connected => {
                self.peer.session_mut().connected(self.turn.now());
                self.greet();
            }
            Event::Message(message) => self.message(message),
            Event::Disconnected { why } => self.disconnected(End::Broken, why),
            Event::DialFailed { began } => {
                let passed = self.permit.pause().dial_failed(began);
                if let Some(primary) = self.standing.primary_mut() {
                    primary.check_ends(passed, &self.local, &mut self.permit, &mut self.turn);
                }
            }
            Event::LinkTook { bytes } => match standing.primary_mut() {
                Some(primary) => primary.link_took(bytes),
                None => peer.reads_mut().link_took(bytes),
            },
            Event::LinkMeasured { round_trip, rate } => {
                let primary = standing.primary_mut().into_iter();
                primary.for_each(|primary| primary.queue_mut().measured(round_trip, rate));
            }
            Event::Command { id, command } => self.command(id, command),
            Event::Reconfigure { .. } if planted(Plant::ApplyIgnored) => {}
            Event::Reconfigure { config } => {
                self.local.bound_copies(config.safe_copy.bound());
                self.turn.configure(config);
                if let Some(primary) = self.standing.primary_mut() {
                    primary.queue_mut().reconfigure(self.turn.config().queue);
                    primary.mode_changed(&self.local, &self.permit, &mut self.turn);
                }
                self.peer.session_mut().ping_by(self.permit.lease().ping_at(self.turn.now()));
            }
            Event::Calendar(shows) => turn.set_calendar(Calendar::told(turn.now(), shows)),
            Event::VerifyRemembered(memory) => self.resync.verify_mut().remember(memory),
            Event::HookAnswered { question, refused } => {
                let connected = peer.session().peer().is_some();
                standing.hook_answered((question, refused), connected, record, resync, local, turn);
            }
            Event::Held { by } => self.asked.hold(by),
            Event::MetadataFault { what, hint } => self.show.metadata_fault(what, hint),
            Event::Used { volumes } => self.local.blocks_mut().used(volumes),
            Event::Layers(setting) => local.set_layers(setting, standing.is_ending(), turn),
            Event::Disks(disks) => peer.use_disks(disks, turn),
            Event::Tick => {}
        }
    }

    /// An operation on the store ended, and maybe others with it.
    pub(crate) fn store_done(&mut self, ended: Option<(IoId, StoreOutcome)>) {
        let mut first = ended.and_then(|(io, outcome)| self.local.ended(io, outcome));
        while let Some((io, outcome)) = first.take().or_else(|| self.local.next_ended()) {
            let ok = !matches!(outcome, StoreOutcome::Failed(_));
            match (self.local.finish_io(io, ok), &mut self.standing) {
                (Purpose::Primary(io), Standing::Leading { primary, .. }) => {
                    primary.ended(
                        io,
                        outcome,
                        self.resync.verify_mut(),
                        &mut self.local,
                        &self.permit,
                        &mut self.turn,
                    );
                }
                (Purpose::Read(reader), Standing::Leading { primary, .. }) => {
                    primary.read_ended(reader, outcome, &mut self.local, &mut self.turn);
                }
                (Purpose::Read(Reader { id, .. }), Standing::Following { .. }) => {
                    self.turn.answer_read(id, outcome);
                }
                (Purpose::CopyIo(id, payload), _) => self.turn.copy_ended((id, payload), outcome),
                (Purpose::Follower(io), Standing::Following { follower, .. }) => {
                    follower.ended(io, outcome, &mut self.local, &mut self.turn);
                }
                // Neither role is left with work of its own under way (`check_invariants`).
                (Purpose::Primary(_), Standing::Following { .. })
                | (Purpose::Follower(_), Standing::Leading { .. }) => self.turn.let_go(&outcome),
                (Purpose::Leave(volume), _) => {
                    let released = self.permit.pause().is_quiet();
                    let (local, turn) = (&mut self.local, &mut self.turn);
                    self.standing.leave_flushed(volume, &outcome, released, local, turn);
                }
                (Purpose::Teller(io), _) => {
                    self.resync.teller_mut().ended(io, outcome, &mut self.turn)
                }
                (Purpose::PeerRead(read), _) => {
                    self.peer.reads_mut().read(read, outcome, &mut self.turn)
                }
                (Purpose::Seed(SeedIo::Look(look)), _) => {
                    let (roll, seed) = (self.dice.roll(self.turn.now()), self.resync.seed_mut());
                    let (local, turn) = (&mut self.local, &mut self.turn);
                    self.standing.seed_looked((look, roll), outcome, seed, local, turn);
                }
                (Purpose::Seed(SeedIo::Flush(volume)), _) => {
                    let Self { standing, record, resync, local, turn, .. } = self;
                    let seed = resync.seed_mut();
                    standing.seed_flushed(volume, &outcome, seed, record, local, turn);
                }
                (Purpose::Accept(io), _) => self.standing.accept_ended(
                    io,
                    &outcome,
                    &mut self.record,
                    &mut self.local,
                    &mut self.turn,
                ),
                (Purpose::Layer { name, flushes }, _) => {
                    self.local.layer_ended((name, flushes), outcome, &mut self.turn);
                }
                (Purpose::Late(held), _) => self.turn.late_ended(held, &outcome),
                (Purpose::Cover(volume), _) => {
                    self.standing.cover_flushed(volume, &outcome, &mut self.local, &mut self.turn)
                }
            }
        }
        self.standing.flushes_failed(&mut self.local, &mut self.turn);
        let Self { standing, peer, record, resync, keeper, copies, local, permit, turn, .. } = self;
        let (kept, records) = ((keeper, copies), (record, resync.verify_mut()));
        let wish = standing.copies_step(peer.session(), kept, records, local, permit, turn);
        self.hang_up(wish);
    }

    /// Does what depends on the whole batch: sends, copies, flushes, acknowledges, keeps time.
    pub fn settle(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.turn.swap(effects);
        let paused = self.view().was_paused(now);
        self.permit.advance(now, paused, self.peer.session_mut(), &mut self.turn);
        self.local.tick_layers(&mut self.turn);
        self.local.look_for_silence(&mut self.turn);
        if let Some(primary) = self.standing.primary_mut() {
            primary.silence_step(&mut self.local, &mut self.turn);
        }
        self.store_done(None);
        self.local.members_mut().tell_foreign(&mut self.turn);
        if self.standing.leads() {
            self.lead();
        } else if !self.standing.has_stopped() {
            // What it had not applied is let go: nothing of that may be offered any more.
            self.follow();
        }
        // Nothing else may happen in a batch before what follows from giving the peer up.
        if let Some(why) = self.peer.session().give_up(self.view().outstanding(), &mut self.turn) {
            self.disconnected(End::Silent, why);
        }
        self.settle_records();
        self.settle_role();
        self.local.permit_layers(self.standing.is_ending(), &mut self.turn);
        // The conversation comes last: a hello and a ping tell of what was settled before them.
        self.greet();
        self.begin_record();
        self.keep_alive();
        self.look();
        #[cfg(debug_assertions)]
        self.view().check_invariants();
        self.turn.swap(effects);
    }

    /// What the line and the copier do. It comes first: what it sends is what a silent peer is given up for, and what it finds
    /// is recorded by the steps behind it.
    fn lead(&mut self) {
        let serves = self.standing.serves();
        let leaves = self.standing.is_leaving_for_good();
        let Self { standing, peer, record, resync, copies, local, permit, turn, .. } = self;
        standing.period_step(peer.session(), copies, (record, resync), local, permit, turn);
        if let Some(primary) = self.standing.primary_mut() {
            if leaves && !primary.is_lacking() {
                primary.wait_for_nobody(&mut self.local, &self.permit, &mut self.turn);
            }
            primary.suspect_step(&mut self.local, &mut self.turn);
            primary.readmit(&mut self.local, &self.permit, &mut self.turn);
            if serves {
                primary.mend(&self.local, &mut self.turn);
                primary.copy_step(&mut self.local, &mut self.turn);
                primary.verify_step(self.resync.verify_mut(), &mut self.local, &mut self.turn);
            }
            primary.lack_step(serves, &mut self.local, &mut self.turn);
            let denies = primary.is_denying(&self.turn);
            // What waits for a place in the metadata fails with everything else that waits for a peer that stays away.
            if denies && self.local.hot().is_stuck() {
                self.fail_parked(StoreFault::Unissued);
            }
        }
        // Behind all that adds items.
        if let Some(primary) = self.standing.primary_mut() {
            if primary.is_to_tell_generation() {
                let (lineage, verify) =
                    (self.record.superblock().lineage, self.resync.verify_mut());
                primary.go_on_in(lineage, verify, &self.local, &self.permit, &mut self.turn);
            }
            primary.pump(&mut self.turn);
            primary.keep_pace(&self.local, &self.permit, &mut self.turn);
            primary.date_dirty(&self.local, &self.turn);
        }
    }

    /// What the record does not say yet. It comes behind the loss of the peer, which changes what is to be recorded, and before
    /// the role changes, which waits for records. Each record is begun where it is asked for: the next may build on it.
    fn settle_records(&mut self) {
        let Self { standing, peer, permit, record, resync, copies, local, turn, .. } = self;
        standing.resync_restored(peer.session(), (copies, resync), record, local, turn);
        standing.lease_step(permit, peer.session_mut(), record, local, turn);
        if !self.standing.leads() {
            let (it_may, up) = (self.view().lease_use(), self.peer.session().peer().is_some());
            self.permit.lease_mut().step(it_may, up, &mut self.turn);
        }
        self.begin_record();
        let Self { standing, permit, record, local, turn, .. } = self;
        standing.record_copies(permit, record, local, turn);
        let serves = self.standing.serves();
        if self.resync.seed().is_comparing() {
            match self.standing.primary().filter(|_| serves) {
                Some(primary) => primary.compare_seed(
                    self.dice.roll(self.turn.now()),
                    self.peer.session(),
                    self.resync.seed_mut(),
                    &mut self.record,
                    &mut self.local,
                    &mut self.turn,
                ),
                None => {
                    self.resync
                        .seed_mut()
                        .interrupt("this node is no longer primary", &mut self.turn);
                }
            }
        }
        self.begin_record();
        if let Some(primary) = self.standing.primary_mut() {
            let Self { copies, record, local, permit, turn, .. } = self;
            primary.record_company(copies.restore_begins(), record, local, permit, turn);
        }
        self.begin_record();
        // A store may be given up while the last requests before a demotion are answered: they wait for the record too.
        let leads = self.standing.serves() || self.standing.is_draining();
        if let Some(primary) = self.standing.primary_mut().filter(|_| leads) {
            primary.record_lack(&mut self.record, &mut self.local, &self.permit, &mut self.turn);
        }
        self.begin_record();
        self.standing.replace_step(
            &mut self.keeper,
            &mut self.record,
            &mut self.local,
            &mut self.turn,
        );
        self.begin_record();
        self.standing.accept_step(
            self.asked.stops(),
            &self.record,
            &mut self.local,
            &mut self.turn,
        );
        self.standing.record_failed_flush(&self.local, &mut self.record);
        let has_peer = self.turn.config().peer_name().is_some();
        self.standing.record_heard(has_peer, &self.local, &mut self.record, self.turn.now());
        self.standing.record_blocks(&self.local, &mut self.record);
        let rests = self.standing.is_settled() && !self.local.metadata_failed();
        // A volume was compared to its end: the record is to say so.
        if rests
            && !self.record.is_saving()
            && self.resync.verify().has_news(self.turn.calendar(), self.record.superblock())
        {
            self.record.want(Goal::Remember);
        }
        self.begin_record();
    }

    /// A change of role goes on as far as it can, and what is kept beside the record follows the new role.
    fn settle_role(&mut self) {
        self.asked.switch_deadline(&mut self.turn);
        if self.standing.is_settled()
            && !(self.asked.stops()
                && self.asked.stop_waits(self.view().last_copy(), &mut self.turn))
            && let Some(id) = self.asked.take_stop()
        {
            self.command(id, Command::Stop);
        }
        if self.view().leads_by_itself() {
            self.begin_promotion(None, false);
        }
        self.change_role();
        self.begin_record();
        // Who has stopped begins nothing any more.
        if !self.standing.has_stopped() {
            let Self { standing, peer, record, keeper, local, turn, .. } = self;
            let wish = standing.arrange_keeping(peer.session(), keeper, record, local, turn);
            self.hang_up(wish);
            self.begin_record();
            let Self { standing, peer, resync, record, local, permit, turn, .. } = self;
            let cannot_keep =
                standing.keep_step(peer.session(), resync.seed(), record, local, permit, turn);
            if cannot_keep {
                self.fail_parked(StoreFault::Unrecorded);
            } else if self.keeper.gave_restore_up() {
                self.fail_parked(StoreFault::Unissued);
            }
            self.begin_record();
        }
    }

    /// What a follower does with what it received. It comes first, as what a primary does.
    fn follow(&mut self) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.keep_flowing(&mut self.local, &mut self.turn);
        }
        let Self { standing, peer, record, keeper, copies, local, turn, .. } = self;
        standing.follow_snapshots(copies, record, local, turn);
        let wish = standing.arrange_keeping(peer.session(), keeper, record, local, turn);
        self.hang_up(wish);
        let Some(follower) = self.standing.follower_mut() else { return };
        if self.record.is_saving() {
            // Nothing to record can come out of a step while a save is under way, but items still flow.
            follower.keep_flowing(&mut self.local, &mut self.turn);
        } else {
            match follower.step(self.keeper.ready(), &mut self.local, &mut self.turn) {
                Some(Wish::Adopt(start)) => self.record.want(Goal::Adopted(start)),
                Some(Wish::RecordConsistent) => {
                    self.keeper.end_early(&mut self.local, &mut self.turn);
                    self.record.want(Goal::Consistent);
                }
                None => {}
            }
            self.begin_record();
        }
        let (blank, teller) = (self.view().is_blank(), self.resync.teller_mut());
        let (reads, local) = (self.peer.reads_mut(), &mut self.local);
        self.standing.serve_held(blank, teller, reads, local, &mut self.turn);
        let Self { standing, peer, record, keeper, local, turn, .. } = self;
        let wish = standing.heed_refusal(peer.session(), keeper, record, local, turn);
        self.hang_up(wish);
        let Some(follower) = self.standing.follower_mut() else { return };
        if self.peer.session().peer().is_some() {
            follower.acknowledge(&mut self.turn);
        }
        if let Some((volume, fault)) = follower.failed()
            && !self.view().is_link_down()
        {
            let volume = self.turn.config().name_of(volume);
            self.hang_up(HangUp::new(
                Parting::VolumeFailed,
                alloc::format!("volume {volume}: {fault}"),
            ));
        }
    }

    /// Notices a change of state, of the verdict, and of what the peer shows of this node.
    fn look(&mut self) {
        let state = self.view().state();
        if let Some(before) = self.show.saw_state(state, self.turn.now()) {
            let (node, reason) = (self.turn.config().node.clone(), self.view().reason());
            self.turn.info(alloc::format!("{node}: {before} -> {state}: {reason}"));
        }
        let verdict = self.view().verdict(state);
        self.show.saw_verdict(verdict, self.turn.now());
        if let Some(report) = self.view().news_for_peer(state) {
            self.peer.session_mut().reports(report, &mut self.turn);
        }
    }
}

impl View<'_> {
    /// Items that this node holds as a follower: received, and not complete in order.
    #[must_use]
    pub fn items_received(&self) -> usize {
        self.standing.follower().map_or(0, Follower::holds)
    }

    /// The next moment at which [`Engine::settle`] has something to do even if nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        let follower = self.standing.follower().map_or(Moment::NEVER, Follower::deadline);
        let copying = |p: &Primary| {
            let cut = p.period_deadline(self.turn);
            p.copy_deadline(self.turn).min(p.lack_deadline(self.turn)).min(cut)
        };
        let verify = self.standing.primary().filter(|_| self.standing.serves());
        let verify = verify.map_or(Moment::NEVER, |p| {
            p.verify_deadline(self.resync.verify(), self.local, self.turn)
        });
        let copier = self.standing.primary().map_or(Moment::NEVER, copying);
        let mends = self.standing.primary().filter(|_| self.standing.serves());
        let copier = mends.map_or(copier, |p| p.mend_deadline(self.local).min(copier));
        let store = self.local.layers_deadline().min(self.local.silence_deadline());
        let own = store.min(self.keep_deadline());
        let work = follower.min(copier).min(own);
        let pause = Pause::deadline(
            self.standing.leads() && self.turn.config().peer_name().is_some(),
            self.turn.now(),
            self.turn.config().peer_timeout,
        );
        let lease = self.permit.lease().deadline(self.lease_use());
        let own = self.role_deadline().min(verify).min(lease);
        let session = self.peer.session().deadline(self.outstanding(), self.turn.config());
        session.min(own).min(work).min(pause)
    }
}
