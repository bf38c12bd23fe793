// SPDX-License-Identifier: Apache-2.0
//! The engine of one group on one node: one event at a time, then settle.

use crate::config::Config;
use crate::effect::{Answer, Effect};
use crate::event::{CommandId, Durable, Event, Operation, Request, StoreOutcome};
use crate::follow::follower::{Follower, Wish};
use crate::local::members::Members;
use crate::local::replace::Replacing;
use crate::peer::handshake::Leader;
use crate::peer::lease::Lease;
use crate::peer::link::Session;
use crate::peer::primary::Primary;
use crate::peer::read_server::PeerReads;
use crate::record::ages::Ages;
use crate::record::keep::Keeping;
use crate::record::save::Goal;
use crate::refusal::{Denial, Refusal};
use crate::resync::digest::Teller;
use crate::resync::seed::Seed;
use crate::resync::update::Update;
use crate::resync::verified::Calendar;
use crate::role::asked::Asked;
use crate::role::pause::{End, Pause};
use crate::role::{Following, Standing};
use crate::shared::{Purpose, Shared};
use crate::show::recorder::Recorder;
use crate::stream::blocks::Blocks;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use helio_bitmap::Bitmap;
use helio_format::message::Parting;
use helio_format::superblock::Superblock;
use helio_plant::{Plant, planted};
use helio_recovery::LastDecision;
use helio_units::{IoId, Moment, State, Verdict};

/// The engine of one group on one node.
///
/// Receives the time and every event ([`Engine::handle`]), draws random numbers from a given seed, and returns effects. After a
/// batch of events [`Engine::settle`] does what depends on the whole: sending, copying, records, timers. It wants to be settled
/// again no later than [`Engine::deadline`].
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) shared: Shared,
    pub(crate) incarnation: u64,
    /// What is durable.
    pub(crate) superblock: Superblock,
    pub(crate) saving: Option<(Goal, Superblock)>,
    pub(crate) to_save: VecDeque<Goal>,
    pub(crate) standing: Standing,
    pub(crate) session: Session,
    /// The process that this node follows, or followed last.
    pub(crate) leader: Option<Leader>,
    /// Tells the source what this node holds.
    pub(crate) teller: Teller,
    /// Reads for a primary that lacks regions.
    pub(crate) peer_reads: PeerReads,
    /// Whether an update is wanted, and what it waits for.
    pub(crate) update: Update,
    pub(crate) keeping: Keeping,
    /// What the volumes lie on.
    pub(crate) members: Members,
    /// A secondary's disk that is being replaced.
    pub(crate) replacing: Option<Replacing>,
    /// What the last meeting came to.
    pub(crate) last_decision: Option<LastDecision>,
    /// What time it is for people.
    pub(crate) calendar: Calendar,
    pub(crate) asked: Asked,
    pub(crate) seen: Seen,
    pub(crate) recorder: Recorder,
    pub(crate) seed: Seed,
    dice: u64,
}

/// The state as last looked at, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) since: Moment,
    pub(crate) verdict: Verdict,
    /// Since when the verdict is what it is: a state that changes under it does not begin it again.
    pub(crate) verdict_since: Moment,
}

impl Engine {
    /// An engine that starts from what its metadata file held. `incarnation` and `seed` must be drawn anew at every start.
    #[must_use]
    pub fn new(config: Config, durable: Durable, incarnation: u64, seed: u64, now: Moment) -> Self {
        let Durable { superblock, hot, marks, sequence, members } = durable;
        let blocks = Blocks::new(&superblock, &members);
        let members = Members::look(&superblock, &members);
        let follower = Follower::new(config.volumes.len(), superblock.head);
        let standing = Standing::starting(follower, superblock.role);
        let mut shared = Shared::new(config, blocks);
        shared.now = now;
        shared.lease = Lease::starting(&superblock, now);
        let hot = hot.into_iter().filter(|_| !planted(Plant::ForgetHot));
        hot.for_each(|number| shared.cover.load(number));
        let mut resting = Bitmap::new(&shared.config.volumes, shared.config.granularity);
        marks.iter().for_each(|(page, bits)| resting.load(*page, bits));
        let keeping = Keeping::new(resting, Ages::starting(sequence, superblock.remembers));
        shared.suspect.load(&superblock, &shared.cover, &shared.config);
        let mut engine = Self {
            shared,
            incarnation,
            superblock,
            saving: None,
            to_save: VecDeque::new(),
            standing,
            session: Session::new(now),
            leader: None,
            teller: Teller::default(),
            peer_reads: PeerReads::default(),
            update: Update::default(),
            keeping,
            members,
            replacing: None,
            last_decision: None,
            calendar: Calendar::default(),
            asked: Asked::default(),
            seen: Seen {
                state: State::Logging,
                since: now,
                verdict: Verdict::Unknown,
                verdict_since: now,
            },
            recorder: Recorder::default(),
            seed: Seed::default(),
            dice: seed,
        };
        engine.seen.state = engine.state();
        engine.seen.verdict = engine.verdict(engine.seen.state);
        engine
    }

    /// Sets how many items this node holds as a follower before it stops reading from its peer. The default is 65,536.
    pub fn bound_received(&mut self, items: usize) {
        self.shared.receive_items = items;
    }

    /// Items that this node holds as a follower: received, and not complete in order.
    #[must_use]
    pub fn items_received(&self) -> usize {
        self.standing.follower().map_or(0, Follower::holds)
    }

    /// The next number of the dice it was given (splitmix64, public domain).
    pub(crate) fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Takes one event; appends what must be done to `effects`.
    pub fn handle(&mut self, now: Moment, event: Event, effects: &mut Vec<Effect>) {
        self.recorder.record(now, &event);
        core::mem::swap(&mut self.shared.out, effects);
        self.advance(now);
        self.take(event);
        core::mem::swap(&mut self.shared.out, effects);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Request(request) => self.request(request),
            Event::StoreDone { io, outcome } => self.store_done(io, outcome),
            Event::SuperblockSaved { ok, sequence } => self.superblock_saved(ok, sequence),
            Event::Kept { kept, ok, sequence } => self.kept(kept, ok, sequence),
            Event::BeforeFound(kept) => self.shared.keeper.found(&kept),
            Event::BeforeDone(outcome) => self.before_done(outcome),
            Event::Connected => self.connected(),
            Event::Message(message) => self.message(message),
            Event::Disconnected { why } => self.disconnected(End::Broken, why),
            Event::DialFailed { began } => self.check_ends(self.shared.pause.dial_failed(began)),
            Event::LinkTook { bytes } => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.link_took(bytes);
                } else {
                    self.peer_reads.link_took(bytes);
                }
            }
            Event::LinkMeasured { round_trip, rate } => {
                if let Some(primary) = self.standing.primary_mut() {
                    primary.queue.measured(round_trip, rate);
                }
            }
            Event::Command { id, command } => self.command(id, command),
            Event::Reconfigure { .. } if planted(Plant::ApplyIgnored) => {}
            Event::Reconfigure { config } => {
                self.shared.config = config;
                if let Some(primary) = self.standing.primary_mut() {
                    primary.queue.reconfigure(self.shared.config.queue);
                    primary.mode_changed(&mut self.shared);
                }
                self.session.ping_by(self.shared.lease.ping_at(self.shared.now));
            }
            Event::Calendar(shows) => self.calendar = Calendar::told(self.shared.now, shows),
            Event::VerifyRemembered(memory) => self.shared.verify.remember(memory),
            Event::HookAnswered { refused } => self.hook_answered(refused),
            Event::Held { by } => self.asked.hold(by),
            Event::Used { volumes } => self.shared.blocks.used(volumes),
            Event::Tick => {}
        }
    }

    fn request(&mut self, request: Request) {
        if planted(Plant::PanicAtDiscard) && matches!(request.operation, Operation::Discard { .. })
        {
            panic!("planted: a client discards");
        }
        if let Some(primary) = self.standing.taker() {
            primary.request(request, &mut self.shared);
            return;
        }
        if let Operation::Write { payload, .. } = request.operation {
            self.shared.release(payload.id);
        }
        self.shared.reply(request.id, Answer::Denied(Denial::NotPrimary));
    }

    pub(crate) fn store_done(&mut self, io: IoId, outcome: StoreOutcome) {
        self.shared.ended(io, outcome);
        while let Some((io, outcome)) = self.shared.next_ended() {
            self.store_ended(io, outcome);
        }
    }

    fn store_ended(&mut self, io: IoId, outcome: StoreOutcome) {
        let s = &mut self.shared;
        let ok = !matches!(outcome, StoreOutcome::Failed(_));
        match (s.finish_io(io, ok), &mut self.standing) {
            (Purpose::Primary(io), Standing::Leading { primary, .. }) => {
                primary.ended(io, outcome, s);
            }
            (Purpose::Read(reader), Standing::Leading { primary, .. }) => {
                primary.read_ended(reader, outcome, s);
            }
            (Purpose::Read(reader), Standing::Following { .. }) => {
                s.answer_read(reader.id, outcome)
            }
            (Purpose::Follower(io), Standing::Following { follower, .. }) => {
                follower.ended(io, outcome, s);
            }
            // Neither role is left with work of its own under way (`check_invariants`).
            (Purpose::Primary(_), Standing::Following { .. })
            | (Purpose::Follower(_), Standing::Leading { .. }) => s.let_go(&outcome),
            (Purpose::Leave(volume), _) => self.leave_flushed(volume, &outcome),
            (Purpose::Teller(io), _) => self.teller.ended(io, outcome, s),
            (Purpose::PeerRead(read), _) => self.peer_reads.read(read, outcome, s),
            (Purpose::Seed(io), _) => self.seed_ended(io, outcome),
            (Purpose::Accept(io), _) => self.accept_ended(io, &outcome),
            (Purpose::Cover(volume), _) => self.cover_flushed(volume, &outcome),
        }
    }

    /// Does what depends on the whole batch: sends, copies, flushes, acknowledges, keeps time.
    pub fn settle(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        core::mem::swap(&mut self.shared.out, effects);
        self.advance(now);
        self.tell_foreign();
        let serves = self.standing.serves();
        let leaves = self.standing.is_leaving_for_good();
        if let Some(primary) = self.standing.primary_mut() {
            if leaves && primary.lack.is_none() {
                primary.wait_for_nobody(&mut self.shared);
            }
            primary.suspect_step(&mut self.shared);
            primary.readmit(&mut self.shared);
            if serves {
                primary.mend(&self.shared);
                primary.copy_step(&mut self.shared);
                primary.verify_step(&mut self.shared);
            }
            primary.lack_step(serves, &mut self.shared);
            self.deny_parked();
        }
        if let Some(primary) = self.standing.primary_mut() {
            primary.pump(&mut self.shared);
            primary.keep_pace(&mut self.shared);
            primary.date_dirty(&self.shared);
        } else {
            self.follow();
        }
        self.watch_peer();
        self.lease_step();
        self.seed_step();
        self.record_company();
        self.record_lack();
        self.replace_step();
        self.accept_step();
        self.record_failed_flush();
        self.record_heard();
        self.record_blocks();
        self.record_verified();
        self.change_role();
        // Who has stopped begins nothing any more.
        if !self.standing.is(Following::Stopped) {
            self.arrange_keeping();
            self.keep_step();
        }
        self.greet();
        self.keep_alive();
        self.look();
        #[cfg(debug_assertions)]
        self.check_invariants();
        core::mem::swap(&mut self.shared.out, effects);
    }

    fn follow(&mut self) {
        self.keep_flowing();
        self.arrange_keeping();
        if self.is_saving() {
            // Nothing to record can come out of a step while a save is under way, but items still flow.
            self.keep_flowing();
        } else {
            let follower = self.standing.follower_mut();
            match follower.and_then(|follower| follower.step(&mut self.shared)) {
                Some(Wish::Adopt(start)) => self.save(Goal::Adopted(start)),
                Some(Wish::RecordConsistent) => {
                    self.shared.keeper.end_early(&mut self.shared.out);
                    self.save(Goal::Consistent);
                }
                None => {}
            }
        }
        self.tell_held();
        self.keep_preserving();
        let Some(follower) = self.standing.follower_mut() else { return };
        if self.session.peer().is_some() {
            follower.acknowledge(&mut self.shared);
        }
        if let Some((volume, fault)) = follower.failed()
            && !self.is_link_down()
        {
            let volume = self.shared.config.name_of(volume);
            self.hang_up(Parting::VolumeFailed, alloc::format!("volume {volume}: {fault}"));
        }
    }

    fn keep_flowing(&mut self) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.keep_flowing(&mut self.shared);
        }
    }

    /// Serves the primary's digest and read requests about this node's copy.
    fn tell_held(&mut self) {
        let blank = self.is_blank();
        let Some(follower) = self.standing.follower() else { return };
        if (follower.is_following() || blank) && follower.failed().is_none() {
            if follower.is_settled() {
                self.teller.serve(&mut self.shared);
            }
            // Before a stream is taken up the cursors are another line's, and say nothing of what is asked behind an item.
            if follower.is_following() {
                self.peer_reads.serve(follower.completed(), &mut self.shared);
            }
        } else if follower.is_deaf() {
            self.teller.decline(&mut self.shared);
        }
    }

    /// Notices a change of state, of the verdict, and of what the peer shows of this node.
    fn look(&mut self) {
        let state = self.state();
        if state != self.seen.state {
            let (node, reason) = (self.shared.config.node.clone(), self.reason());
            self.shared.info(alloc::format!("{node}: {} -> {state}: {reason}", self.seen.state));
            (self.seen.state, self.seen.since) = (state, self.shared.now);
        }
        let verdict = self.verdict(state);
        if verdict != self.seen.verdict {
            (self.seen.verdict, self.seen.verdict_since) = (verdict, self.shared.now);
        }
        self.report_to_peer(state);
    }

    /// The next moment at which [`Engine::settle`] has something to do even if nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        let follower = self.standing.follower().map_or(Moment::NEVER, Follower::deadline);
        let copying =
            |p: &Primary| p.copy_deadline(&self.shared).min(p.lack_deadline(&self.shared));
        let verify = self.standing.primary().filter(|_| self.standing.serves());
        let verify = verify.map_or(Moment::NEVER, |p| p.verify_deadline(&self.shared));
        let copier = self.standing.primary().map_or(Moment::NEVER, copying);
        let work = follower.min(copier).min(self.keep_deadline());
        let s = &self.shared;
        let pause = Pause::deadline(self.standing.leads(), s.now, s.config.peer_timeout);
        let lease = s.lease.deadline(self.lease_use());
        let own = self.role_deadline().min(verify).min(lease);
        let session = self.session.deadline(self.outstanding(), &s.config);
        session.min(own).min(work).min(pause)
    }

    /// The metadata could not be written, so a command is refused.
    pub(crate) fn refuse_command(&mut self, command: Option<CommandId>, text: String) {
        if let Some(id) = command {
            let Refusal { code, hint, .. } = self.shared.metadata_refusal();
            let refusal = Refusal::new(code, text, hint);
            self.shared.out.push(Effect::CommandDone { id, result: Err(refusal) });
        }
    }
}
