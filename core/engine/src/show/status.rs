// SPDX-License-Identifier: Apache-2.0
//! What the engine shows of itself. The state is derived here and nowhere else.

use crate::follow::follower::Follower;
use crate::lead::status::SyncStatus;
use crate::lead::{Lag, Primary};
use crate::peer::attempts::{Attempts, Unsteady};
use crate::role::{Following, Leading, Stage, Standing};
use crate::show::fault::Fault;
use crate::show::recorder::Record;
use crate::show::view::View;
use crate::stream::queue::BoundSource;
use crate::stream::times::AnswerTimes;
use crate::turn::Counters;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_plant::{Plant, planted};
use helio_units::{
    Bytes, Generation, Items, MemberState, Mode, Moment, Rate, Role, Sequence, State, Verdict,
    VolumeIndex,
};

/// A snapshot for people and programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// What the node is to the group.
    pub role: Role,
    /// A change of role under way, or waiting to go on as primary.
    pub changing: Option<&'static str>,
    /// The state of the group here.
    pub state: State,
    /// Since when.
    pub state_since: Moment,
    /// Why.
    pub reason: String,
    /// Whether the data is protected.
    pub verdict: Verdict,
    /// Since when the verdict is so.
    pub verdict_since: Moment,
    /// The generation written or followed.
    pub generation: Generation,
    /// The image keeps the order promise.
    pub consistent: bool,
    /// Mode asked for.
    pub mode: Mode,
    /// Mode in force for answers given now, on a secondary as its primary reported; none while no write waits for, or
    /// queues to, the peer.
    pub effective: Option<Mode>,
    /// Since when the peer is level with the answers given.
    pub level_since: Option<Moment>,
    /// The queue, on a primary.
    pub queue: Option<QueueStatus>,
    /// What the peer lacks; on a secondary, what this node lacks as its primary reported last.
    pub lag: Lag,
    /// In mode periodic, on a primary: when the last cut was made that the peer has as a whole.
    pub committed: Option<Moment>,
    /// When the primary reported that, on a secondary: it may have continued since.
    pub lag_reported: Option<Moment>,
    /// Cursors on the line.
    pub cursors: CursorStatus,
    /// The conversation.
    pub link: LinkStatus,
    /// An update under way.
    pub sync: Option<SyncStatus>,
    /// Marked bytes per volume, by whole regions; zero on a secondary.
    pub marked: Vec<Bytes>,
    /// How the disk of each volume responds.
    pub members: Vec<MemberState>,
    /// What failed on this node.
    pub fault: Option<Fault>,
    /// What failed on the peer, as it reported last.
    pub peer_fault: Option<Fault>,
    /// An operator paused replication. On a primary: here. On a secondary: at the peer, as it reported last.
    pub paused: bool,
    /// This secondary has acknowledged writes that its peer may not have.
    pub ahead: bool,
    /// So has the peer, as it reported last.
    pub peer_ahead: bool,
    /// Data that the peer alone may have, as it reported when it connected last; none where it did not know.
    pub only_at_peer: Option<Bytes>,
    /// When a client changed data on this node last; none if no client did since the daemon started.
    pub last_write: Option<Moment>,
    /// How long before the last handshake a client changed data at the peer last, and when that handshake was, while it is refused; none
    /// if the peer reported none then. A connected peer does not report each write, so it is not known otherwise.
    pub last_write_at_peer: Option<(Duration, Moment)>,
    /// The last consistent image, where one is kept on this node while its copy is not consistent.
    pub safe_copy: Option<SafeCopyStatus>,
    /// Differences that a verify found and that were not repaired, on a secondary as its primary reported.
    pub differing: u64,
    /// Until when this secondary may become primary by its hold lease.
    pub lease_held: Option<Moment>,
    /// Until when this primary answers nothing without its peer, which may hold a lease.
    pub lease_granted: Option<Moment>,
    /// Counters.
    pub counters: Counters,
}

/// A kept image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeCopyStatus {
    /// Its generation.
    pub generation: Generation,
    /// The last position in it.
    pub head: Sequence,
    /// Bytes kept because they were overwritten since.
    pub bytes: Bytes,
    /// It can be restored.
    pub sound: bool,
}

/// What a group is, in words and flags alone: small enough to be compared after every batch, so that a change is
/// noticed where it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// What the node is to the group.
    pub role: Role,
    /// A change of role under way, or waiting to go on as primary.
    pub changing: Option<&'static str>,
    /// The state of the group here.
    pub state: State,
    /// The generation written or followed.
    pub generation: Generation,
    /// The image keeps the order promise.
    pub consistent: bool,
    /// Mode asked for.
    pub mode: Mode,
    /// Mode in force for answers given now.
    pub effective: Mode,
    /// The peer is level with the answers given, as far as a primary knows.
    pub level: bool,
    /// Whether the peer is connected.
    pub link: LinkState,
    /// The peer's role, as it said.
    pub peer_role: Option<Role>,
    /// The group's state, as the peer said.
    pub peer_state: Option<State>,
    /// The volume that failed on this node.
    pub failed: Option<VolumeIndex>,
    /// The metadata file cannot be written.
    pub metadata_failed: bool,
    /// Differences that a verify found and nobody mended.
    pub differing: u64,
    /// Whether the data is protected.
    pub verdict: Verdict,
}

/// The queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Bytes in it.
    pub bytes: Bytes,
    /// Items in it.
    pub items: Items,
    /// Most bytes since `marks_since`.
    pub bytes_high: Bytes,
    /// When they were in it first.
    pub bytes_high_at: Moment,
    /// Most items since `marks_since`.
    pub items_high: Items,
    /// When they were in it first.
    pub items_high_at: Moment,
    /// When this node became primary, or the marks were reset.
    pub marks_since: Moment,
    /// Its bound.
    pub bound: Bytes,
    /// Its bound in items.
    pub bound_items: Items,
    /// Where the bound comes from.
    pub source: BoundSource,
    /// With a measured bound: the round trip and the rate it was chosen by.
    pub chosen_by: Option<(Duration, Rate)>,
    /// Writes waiting for room now.
    pub waiting: u64,
    /// Writes that had to wait since `marks_since`.
    pub throttled: u64,
    /// How long they waited since then, together.
    pub throttle_time: Duration,
    /// Writes refused for want of room since `marks_since`.
    pub refused: u64,
    /// How often it was dropped for want of room since `marks_since`.
    pub dropped: u64,
}

/// Cursors on the line; the peer's as it told last, and at the head while it has told nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorStatus {
    /// Accepted on a primary, received on a secondary.
    pub head: Sequence,
    /// Completed here, on a secondary.
    pub completed: Sequence,
    /// Durable here, on a secondary.
    pub durable: Sequence,
    /// Sent to the peer.
    pub peer_sent: Sequence,
    /// Received by it.
    pub peer_received: Sequence,
    /// Completed there.
    pub peer_completed: Sequence,
    /// Durable there.
    pub peer_durable: Sequence,
}

/// Whether the peer is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is no connection yet, or none any more.
    Connecting,
    /// Both nodes completed the handshake.
    Connected,
    /// One of the nodes refused the handshake.
    Refused,
}

/// The conversation with the peer.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// Whether the peer is connected.
    pub state: LinkState,
    /// Since when.
    pub since: Moment,
    /// Why.
    pub why: String,
    /// When the last conversation ended; before the first one, when this process began.
    pub apart_since: Moment,
    /// What helps, where the two must not mirror each other now.
    pub hint: Option<String>,
    /// When the peer was heard last.
    pub last_heard: Option<Moment>,
    /// Round trip of the last ping, its wait behind data included.
    pub round_trip: Option<Duration>,
    /// The least of this connection.
    pub round_trip_least: Option<Duration>,
    /// The peer's role, as it said.
    pub peer_role: Option<Role>,
    /// The group's state, as the peer said.
    pub peer_state: Option<State>,
    /// Connections that ended since one lasted.
    pub attempts: Attempts,
    /// What is wrong, where connections begin and none lasts.
    pub unsteady: Option<Unsteady>,
}

impl View<'_> {
    /// How long answers took since this node became primary, or its queue was reset; none on a secondary.
    #[must_use]
    pub fn answer_times(&self) -> Option<AnswerTimes> {
        self.standing.primary().map(|primary| primary.answer_times())
    }

    /// The state, in the vocabulary's words.
    #[must_use]
    pub fn state(&self) -> State {
        let Some(primary) = self.standing.primary() else { return self.secondary_state() };
        match primary.streams() {
            false if primary.owed().queues_in_order() => State::Queuing,
            false if primary.keeping().is_refused() => State::NeedsRoom,
            _ if primary.committed().is_some() => State::Periodic,
            false => State::Logging,
            true if primary.owed().is_image_out_of_order() => State::Syncing,
            true if !primary.is_level() => State::CatchingUp,
            true if primary.owed().marker().is_some() => State::CatchingUp,
            true if !primary.marks().none_dirty() => State::Syncing,
            true => State::Replicating,
        }
    }

    /// A secondary believes its primary, and its own superblock more.
    fn secondary_state(&self) -> State {
        // What was told on an earlier connection says nothing of this one.
        let fresh = self.peer.session().told().filter(|(_, at)| *at >= self.peer.session().since());
        let told = self
            .peer
            .session()
            .peer()
            .filter(|h| h.serving)
            .and(fresh)
            .and_then(|(ping, _)| ping.state);
        match told {
            None if !self.is_consistent() => State::NeedsSync,
            None => State::Logging,
            Some(State::Replicating) if !self.is_consistent() => State::CatchingUp,
            Some(state) => state,
        }
    }

    /// Why the state is what it is, and what stands still.
    pub(crate) fn reason(&self) -> String {
        let mut why = self.why();
        if let Some(silent) = self.local.first_silent() {
            let volume = self.turn.config().name_of(silent);
            why += &format!("; the disk of volume {volume} is silent");
        }
        if let Some(fault) = self.show.files() {
            why += &format!("; {}", fault.what);
        }
        why
    }

    fn why(&self) -> String {
        let peer = &self.turn.config().peer;
        if self.turn.config().peer_name().is_none() {
            return String::from(self.why_without_peer());
        }
        let waits = self.standing.leads() && self.state() != State::Replicating;
        if let Some(text) = self.permit.text(self.turn.config(), self.turn.now()).filter(|_| waits)
        {
            return format!("{}; {text}", self.peer.session().why());
        }
        let Some(primary) = self.standing.primary() else { return self.reason_following() };
        match self.state() {
            State::Queuing if primary.keeping().is_refused() => {
                primary.keeping().needs_room(self.turn.config())
            }
            State::Queuing => {
                format!("{}; writes are kept in the queue, in order", self.peer.session().why())
            }
            State::Logging if self.resync.seed().is_under_way(self.record.superblock()) => {
                let (changed, peer) = (primary.marks().dirty_bytes(), &self.turn.config().peer);
                format!("a disk is being shipped to {peer}: {changed} in changed regions since")
            }
            State::Logging if primary.owed().is_paused() => String::from("paused by an operator"),
            State::Logging if primary.why_no_cut().is_some() => {
                primary.period_text(self.turn.config())
            }
            State::Logging if self.peer.session().peer().is_some() => {
                format!(
                    "{}; `helio resync {}` copies the dirty regions",
                    primary.owed().why(),
                    self.turn.config().group
                )
            }
            State::Logging => format!("{}; {}", self.peer.session().why(), primary.owed().why()),
            State::NeedsRoom => primary.keeping().needs_room(self.turn.config()),
            State::Periodic => primary.period_text(self.turn.config()),
            State::Syncing if primary.is_lacking() => {
                format!("missing regions are served from {peer}, and copied from there")
            }
            State::Syncing if primary.fault().is_some() => {
                String::from("a local write or read failed; see the fault")
            }
            State::Syncing => {
                format!("dirty regions are copied; {peer} is inconsistent until then")
            }
            State::CatchingUp => String::from("the queued writes are being sent in order"),
            _ => self.peer.session().why().into(),
        }
    }

    fn why_without_peer(&self) -> &'static str {
        match self.standing.primary() {
            Some(primary) if primary.fault().is_some() => {
                "a local write or read failed; see the fault"
            }
            Some(_) => "this is the only node of the group",
            None if self.local.members().are_foreign() => "a volume is on another disk now",
            None if self.local.suspect().any() => "the copy of this node is suspect",
            None if !self.is_consistent() => "the copy of this node is inconsistent",
            None if self.standing.is(Following::Returning) => "this node is not primary again yet",
            None => "this node is not primary",
        }
    }

    fn reason_following(&self) -> String {
        let (group, peer) = (&self.turn.config().group, &self.turn.config().peer);
        match (self.standing.stage(), self.peer.session().peer()) {
            (Stage::Following(Following::Returning), _) if self.local.members().are_foreign() => {
                String::from("was primary when it stopped; a volume is on another disk now")
            }
            (Stage::Following(Following::Returning), _) if !self.record.superblock().consistent => {
                format!(
                    "was primary when it stopped, and some regions exist only on {peer}; `helio promote {}` \
                         on {peer}",
                    group
                )
            }
            (Stage::Following(Following::Returning), _) if self.local.suspect().any() => {
                format!(
                    "was primary when it stopped, and its copy is suspect; `helio promote {}` on {peer}, or accept the copy of this node",
                    group
                )
            }
            (Stage::Following(Following::Returning), _) => {
                format!(
                    "was primary when it stopped; waits for a report of {peer} before it becomes primary again"
                )
            }
            (_, Some(hello)) if hello.serving => format!("follows {peer}"),
            (_, Some(_)) => format!("{peer} is connected and not primary either"),
            _ => self.peer.session().why().into(),
        }
    }

    /// What the group is, without figures and texts.
    #[must_use]
    pub fn words(&self) -> Words {
        let (config, primary) = (self.turn.config(), self.standing.primary());
        let state = self.state();
        Words {
            role: if primary.is_some() { Role::Primary } else { Role::Secondary },
            changing: self.changing(),
            state,
            generation: self.record.superblock().lineage.generation,
            // A copy that never was in sync is no copy of anything.
            consistent: primary.map_or(self.is_consistent() && !self.is_blank(), |p| {
                !p.is_lacking() && !self.local.suspect().any()
            }),
            mode: config.mode,
            effective: primary.map_or(config.mode, |p| p.effective(config.mode)),
            level: state == State::Replicating && self.level_since().is_some(),
            link: self.link_state(),
            peer_role: self.peer_role(),
            peer_state: self.peer.session().told().and_then(|(ping, _)| ping.state),
            failed: self.failed_disk().map(|(volume, _)| volume),
            metadata_failed: self.local.metadata_failed(),
            differing: primary.map_or(0, |_| self.resync.verify().unmended()),
            verdict: self.verdict(state),
        }
    }

    fn level_since(&self) -> Option<Moment> {
        self.standing.primary()?.level_since()
    }

    fn changing(&self) -> Option<&'static str> {
        match self.standing.stage() {
            Stage::Following(Following::Secondary) | Stage::Leading(Leading::Primary) => None,
            Stage::Following(Following::Returning) => Some("returning"),
            Stage::Following(Following::Asking { .. }) => Some("asking the peer"),
            Stage::Following(Following::Promoting { .. }) => Some("becoming primary"),
            Stage::Leading(Leading::Leaving { .. }) => Some("leaving the primary role"),
            Stage::Following(Following::Handing { .. }) => Some("handing over"),
            Stage::Following(Following::Closing { .. } | Following::Stopped) => Some("stopping"),
            Stage::Following(Following::Accepting { .. }) => Some("writing a suspect copy again"),
        }
    }

    /// What `helio status` shows.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let words = self.words();
        let config = self.turn.config();
        let primary = self.standing.primary();
        // A group of one node has no lag and no lease.
        let source = primary.filter(|_| config.peer_name().is_some());
        let lease_held = config.peer_name().and_then(|_| self.lease_held());
        Status {
            role: words.role,
            changing: words.changing,
            state: words.state,
            state_since: self.show.state_since(),
            reason: self.reason(),
            verdict: words.verdict,
            verdict_since: self.show.verdict_since(),
            generation: words.generation,
            consistent: words.consistent,
            mode: words.mode,
            effective: match (primary, self.peer.session().report()) {
                (Some(_), _) => Some(words.effective).filter(|_| words.state.has_mode()),
                (None, Some(report)) if self.peer_serves() => report.effective,
                (None, _) => None,
            },
            level_since: self.level_since().filter(|_| words.level),
            queue: self.queue_status(),
            lag: config.peer_name().map_or_else(Lag::default, |_| self.lag(now)),
            committed: self.standing.primary().and_then(Primary::committed),
            lag_reported: self.lag_reported(),
            cursors: self.cursor_status(),
            link: self.link_status(),
            sync: primary.and_then(|p| p.sync_status(now)),
            marked: config
                .indices()
                .map(|v| source.map_or(Bytes::ZERO, |p| p.marks().differing_bytes(v)))
                .collect(),
            members: self.turn.config().indices().map(|v| self.local.member_state(v)).collect(),
            fault: self.fault(),
            peer_fault: self.peer_fault(),
            paused: match primary {
                Some(_) => self.is_paused(),
                None => self.peer.session().report().is_some_and(|report| report.paused),
            },
            ahead: self.is_ahead(),
            peer_ahead: self.peer.session().report().is_some_and(|report| report.ahead),
            only_at_peer: self.peer.session().report().and_then(|report| report.only_here),
            last_write: self.turn.last_write(),
            last_write_at_peer: self
                .peer
                .session()
                .peer_wrote()
                .filter(|_| self.link_state() == LinkState::Refused),
            safe_copy: self.safe_copy(),
            differing: self.unrepaired(),
            lease_held,
            lease_granted: source.and_then(|_| self.permit.lease().granted(self.turn.now())),
            counters: self.turn.counters(),
        }
    }

    fn safe_copy(&self) -> Option<SafeCopyStatus> {
        let keeper = &self.keeper;
        let (image, sound) = keeper.kept().filter(|_| !self.record.superblock().consistent)?;
        let generation = image.lineage.generation;
        Some(SafeCopyStatus { generation, head: image.head, bytes: self.local.preserved(), sound })
    }

    /// Age of the oldest change that the peer of this primary lacks; none if it lacks none.
    #[must_use]
    pub fn oldest_owed(&self, now: Moment) -> Option<Duration> {
        let _peer = self.turn.config().peer_name()?;
        self.standing.primary()?.oldest_owed(now, self.local)
    }

    /// Whether the resync that this primary sends converges; none if it sends none.
    #[must_use]
    pub fn converges(&self, now: Moment) -> Option<bool> {
        self.standing.primary()?.sync_status(now).map(|sync| sync.converges)
    }

    /// The queue of a primary.
    #[must_use]
    pub fn queue_status(&self) -> Option<QueueStatus> {
        let q = self.standing.primary()?.queue();
        let (figures, (bytes, items)) = (q.figures(), q.held());
        let (bound, source, chosen_by) = q.bound();
        Some(QueueStatus {
            bytes,
            items,
            bytes_high: figures.bytes_high.0,
            bytes_high_at: figures.bytes_high.1,
            items_high: figures.items_high.0,
            items_high_at: figures.items_high.1,
            marks_since: figures.since,
            bound,
            bound_items: self.turn.config().queue.items,
            source,
            chosen_by,
            waiting: q.waiters() as u64,
            throttled: figures.throttled,
            throttle_time: figures.throttle_time,
            refused: figures.refused,
            dropped: figures.dropped,
        })
    }

    fn lag_reported(&self) -> Option<Moment> {
        let told = self.peer.session().told().filter(|(ping, _)| ping.state.is_some());
        told.filter(|_| !self.standing.leads()).map(|(_, at)| at)
    }

    /// On a primary counted from the stream and the bitmap; on a secondary what the primary reported last, aged since, and until
    /// a report that came after the start of a stream what this node's own records cover. Only
    /// what is known to be here since counts no more: all of it, or nothing, since nothing tells how long each item was.
    fn lag(&self, now: Moment) -> Lag {
        match (&self.standing, self.peer.session().told()) {
            (Standing::Leading { primary, .. }, _) => primary.lag(now, self.local),
            (Standing::Following { follower, .. }, Some((told, at))) => {
                let left = told.accepted.0.saturating_sub(follower.completed().0);
                let whole = told.state == Some(State::Replicating) && follower.streams();
                if left == 0 && (whole || planted(Plant::LevelOnceDrained)) {
                    return Lag::default();
                }
                let age = Duration::from_millis(told.backlog_age) + (now - at);
                // The primary receives this node's dirty regions only when the nodes connect, and reports them from the start of the
                // stream on. Some may be in its backlog before: the sum is an upper bound.
                let counted = follower.streams() && !self.peer.session().told_before_stream();
                let own = if counted { Bytes::ZERO } else { self.may_differ() };
                // The two differ in no more than the volumes hold.
                let told_bytes = Bytes(told.backlog_bytes);
                let bytes = (told_bytes + own).min(told_bytes.max(self.turn.config().size()));
                let some = bytes > Bytes::ZERO || told.backlog_items > 0;
                Lag {
                    bytes,
                    dirty: if whole { Bytes::ZERO } else { bytes },
                    writes: told.backlog_items.min(left),
                    oldest: if some { age } else { Duration::ZERO },
                }
            }
            (Standing::Following { .. }, None) => Lag::default(),
        }
    }

    fn cursor_status(&self) -> CursorStatus {
        match &self.standing {
            Standing::Leading { primary: p, .. } => CursorStatus {
                head: p.head(),
                completed: p.head(),
                durable: p.head(),
                peer_sent: p.cursors().sent(),
                peer_received: p.cursors().received(),
                peer_completed: p.cursors().completed(),
                peer_durable: p.cursors().durable(),
            },
            Standing::Following { follower, .. } => CursorStatus {
                head: follower.received(),
                completed: follower.completed(),
                durable: follower.durable(),
                ..CursorStatus::default()
            },
        }
    }

    fn link_state(&self) -> LinkState {
        match (self.peer.session().peer(), self.peer.session().refused()) {
            (Some(_), _) => LinkState::Connected,
            (_, Some(_)) => LinkState::Refused,
            _ => LinkState::Connecting,
        }
    }

    pub(crate) fn peer_role(&self) -> Option<Role> {
        let peer = self.peer.session().peer()?;
        Some(if peer.serving { Role::Primary } else { Role::Secondary })
    }

    fn link_status(&self) -> LinkStatus {
        let session = self.peer.session();
        let (round_trip, round_trip_least) = session.round_trips();
        LinkStatus {
            state: self.link_state(),
            since: session.since(),
            why: session.why().into(),
            apart_since: session.apart_since(),
            hint: Some(session.hint()).filter(|hint| !hint.is_empty()).map(String::from),
            last_heard: session.last_heard(),
            round_trip,
            round_trip_least,
            peer_role: session.role(),
            peer_state: session.told().and_then(|(ping, _)| ping.state),
            attempts: session.attempts().clone(),
            unsteady: session.unsteady(),
        }
    }

    /// The flight recorder, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.show.records()
    }

    /// The last position in this node's images as its record has it, and whether the record says that everything up to
    /// there is durable. Of a node that has stopped.
    #[must_use]
    pub fn left_behind(&self) -> (Sequence, bool) {
        (self.record.superblock().head, self.record.superblock().clean)
    }

    /// Whether connections to the peer begin, and none lasts.
    #[must_use]
    pub const fn is_unsteady(&self) -> bool {
        self.peer.session().unsteady().is_some()
    }

    /// When the peer's last message came.
    #[must_use]
    pub const fn last_heard(&self) -> Option<Moment> {
        self.peer.session().last_heard()
    }

    /// The lag that this node reports: none as a secondary that heard of none.
    #[must_use]
    pub fn reported_lag(&self) -> Option<Lag> {
        let told = self.standing.leads() || self.lag_reported().is_some();
        told.then(|| self.lag(self.turn.now()))
    }

    /// The token of the last ping of the peer's: what it told is what a secondary reports.
    #[must_use]
    pub fn told(&self) -> Option<u64> {
        self.peer.session().told().map(|(ping, _)| ping.token)
    }

    /// Whether this node was primary when it stopped, and is not primary again yet.
    #[must_use]
    pub fn is_returning(&self) -> bool {
        self.standing.is(Following::Returning)
    }

    /// Whether the peer of this primary reported that it has no space for before-images, and no stream flows.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
        let primary = self.standing.primary();
        primary.is_some_and(|p| p.keeping().is_refused() && !p.streams())
    }

    /// Whether this node is primary and lacks regions that its peer holds.
    #[must_use]
    pub fn lacks_regions(&self) -> bool {
        self.is_lacking()
    }

    /// Whether the peer received anything in an update that has not ended, as far as this primary knows.
    #[must_use]
    pub fn peer_may_go_back(&self) -> bool {
        self.standing.primary().is_some_and(|primary| primary.marks().has_received())
    }

    /// The last position that the peer told this primary to be durable: zero if it told none, while the cursors begin at the head;
    /// for tests and proofs.
    #[must_use]
    pub fn told_durable(&self) -> Sequence {
        self.standing.primary().map_or(Sequence::ZERO, |primary| primary.told_durable())
    }

    /// Whether the peer's copy may differ from this primary's at that place; for tests and proofs.
    #[must_use]
    pub fn is_marked(&self, volume: VolumeIndex, offset: u64) -> bool {
        self.standing
            .primary()
            .is_none_or(|p| self.local.suspect().is(volume) || p.marks().may_differ(volume, offset))
    }

    /// Where this node stands in the drawing of `role`, in a word; for tests and proofs.
    #[must_use]
    pub fn standing(&self) -> &'static str {
        self.standing.stage().name()
    }

    /// Whether this node's role lets its peer write the volumes: it is secondary, or hands the primary role over.
    #[must_use]
    pub fn lets_peer_write(&self) -> bool {
        self.standing.stage().lets_peer_write()
    }

    /// Which of this node's times as primary this is, or was; another number whenever others may have written between.
    #[must_use]
    pub const fn tenure(&self) -> u64 {
        self.record.superblock().tenure
    }

    /// Whether this node serves as primary now.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.standing.serves()
    }

    /// Whether the peer said in its handshake that it serves as primary.
    #[must_use]
    pub fn peer_serves(&self) -> bool {
        self.peer.session().peer().is_some_and(|peer| peer.serving)
    }

    /// Whether this node holds the line: it serves as primary, or is on its way out of that role.
    #[must_use]
    pub fn holds_line(&self) -> bool {
        self.standing.leads()
    }

    /// The mode in force for answers given now; none where this node holds no line.
    #[must_use]
    pub fn effective(&self) -> Option<Mode> {
        self.standing.primary().map(|p| p.effective(self.turn.config().mode))
    }

    /// Payload held for items not yet applied, on a secondary.
    #[must_use]
    pub fn receive_memory(&self) -> Bytes {
        self.standing.follower().map_or(Bytes::ZERO, Follower::memory)
    }
}
