// SPDX-License-Identifier: Apache-2.0
//! One node: the engine, its disk, its metadata, its pool of payloads. What outlives the process, and what does not.

use crate::before::Before;
use crate::clock::Clock;
use crate::content::Content;
use crate::disk::{Change, Disk};
use crate::metadata::{Metadata, new_superblock};
use crate::pool::Pool;
use crate::stamps::Stamps;
use core::fmt;
use core::time::Duration;
use helio_engine::{Config, Durable, Effect, Engine, Event, MemberFound, StoreFault, StoreOp};
use helio_format::superblock::Superblock;
use helio_ledger::{BeforeFound, LedgerError};
use helio_snapshot::Snapshot;
use helio_stack::{Layer, Stack};
use helio_units::{Moment, Sequence, VolumeIndex};

/// One of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The first.
    Paris,
    /// The second.
    Lyon,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Paris, Self::Lyon];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Paris => Self::Lyon,
            Self::Lyon => Self::Paris,
        }
    }

    /// For arrays of two.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paris => "paris",
            Self::Lyon => "lyon",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a pause of a process shows to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It stopped between reading its clock and acting: the next event is handled with a reading from before.
    StaleClock(Moment),
    /// It stops between deciding on an acknowledgement and sending it.
    Unsent(Duration),
}

/// What the operator's hook does when it is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hook {
    /// How long it takes.
    pub takes: core::time::Duration,
    /// It says no.
    pub refuses: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node<C: Content = Stamps> {
    /// What its hook does.
    pub hook: Hook,
    /// What it is started with.
    pub config: Config,
    /// The peer timeout of the process that runs: a file that was applied while it hung did not reach it.
    pub peer_timeout: core::time::Duration,
    /// Its volumes: the first member of each.
    pub disk: C::Disk,
    /// The second members of all its volumes, the third ones, and so on.
    pub mirrors: Vec<C::Disk>,
    /// Its metadata file.
    pub metadata: C::Metadata,
    /// What shows it the time.
    pub clock: Clock,
    /// Its before-image file.
    pub before: C::Before,
    /// The layers between the one that preserves copies and its disks, or the one that keeps these alike, as its process starts.
    pub layers: Vec<Box<dyn Layer>>,
    /// How many items it holds as a follower at most, where that is not the default.
    pub receive_items: Option<usize>,
    /// The engine, while the process runs.
    pub engine: Option<Engine>,
    /// The payloads of the process.
    pub pool: C::Pool,
    /// Counts its starts and ends: what was asked for in another life means nothing.
    pub(crate) life: u64,
    /// It does nothing until then, though its sockets stand.
    pub(crate) hung_until: Moment,
    /// Since when it does nothing.
    pub(crate) hung_since: Moment,
    /// How its process takes events.
    pub(crate) process: C::Process,
}

impl<C: Content> Node<C> {
    /// A node whose process does not run.
    pub(crate) fn with(
        config: Config,
        (disk, metadata, before): (C::Disk, C::Metadata, C::Before),
        pool: C::Pool,
        process: C::Process,
    ) -> Self {
        Self {
            hook: Hook::default(),
            peer_timeout: config.peer_timeout,
            config,
            disk,
            mirrors: Vec::new(),
            metadata,
            clock: Clock::default(),
            before,
            layers: Vec::new(),
            receive_items: None,
            engine: None,
            pool,
            life: 0,
            hung_until: Moment::ZERO,
            hung_since: Moment::ZERO,
            process,
        }
    }

    /// The process begins, from what its metadata held and what was found of its members, which `lowest` keeps alike where volumes
    /// have several. Returns what its clock shows.
    pub(crate) fn begin(
        &mut self,
        now: Moment,
        (found, lowest): (Option<Durable>, Option<Box<dyn Layer>>),
        members: Vec<MemberFound>,
        copies: &BeforeFound,
        (incarnation, seed): (u64, u64),
    ) -> Moment {
        let mut durable = found.unwrap_or_else(|| Durable::new(new_superblock(&self.config)));
        let mut layers = self.layers.clone();
        let over = durable.superblock.copies_over(copies.last);
        let rollback = durable.superblock.rollback;
        layers.insert(0, Box::new(Snapshot::new(&self.config.volumes, copies, over, rollback)));
        layers.extend(lowest);
        (durable.members, durable.layers) = (members, Stack::new(layers));
        self.life += 1;
        self.peer_timeout = self.config.peer_timeout;
        let shown = self.clock.read(now);
        self.engine = Some(Engine::new(self.config.clone(), durable, incarnation, seed, shown));
        shown
    }

    /// Whether its process runs and serves the group.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.engine.is_some()
    }

    /// Whether it serves as primary.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.view().is_primary())
    }

    /// Whether it does nothing at that moment, though it runs.
    #[must_use]
    pub fn hangs(&self, now: Moment) -> bool {
        now < self.hung_until
    }

    /// While it does nothing: for how long, by its own clock.
    #[must_use]
    pub fn pause_counted(&self, now: Moment) -> Option<Duration> {
        let until = self.hung_until;
        self.hangs(now).then(|| self.clock.read(until) - self.clock.read(self.hung_since))
    }

    /// Until when it does nothing.
    #[must_use]
    pub fn paused_until(&self) -> Moment {
        self.hung_until
    }

    /// Which life this is: another one after every start and every end.
    #[must_use]
    pub const fn life(&self) -> u64 {
        self.life
    }
}

/// The process of a node with content: it takes one event at a time, and settles soon afterwards.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its daemon runs and does not serve the group: the group failed, or could not be opened. No engine runs then.
    pub(crate) unserved: bool,
    /// How the pause under way shows to it.
    pub(crate) pause: Option<Pause>,
    /// What its engine asked for when it stopped, before any of it was done.
    pub(crate) undone: Vec<Effect>,
    /// When it learned of the connection in force, and whether anything came on it.
    pub(crate) dialled: (Moment, bool),
    /// When it last read a message, by its own clock.
    pub(crate) read_at: Option<Moment>,
    /// It reads nothing from its peer.
    pub(crate) paused: bool,
    /// The last item of its line that was sent once.
    pub(crate) sent: Sequence,
    /// When it is woken.
    pub(crate) wake: Option<Moment>,
    /// How often in a row it asked for a moment that had passed.
    pub(crate) overdue: u32,
    pub(crate) settling: bool,
    /// What a first member was asked for last and will fail: it fails alike on the other members.
    pub(crate) first: Option<(VolumeIndex, StoreOp, StoreFault)>,
    pub(crate) saving: Option<Superblock>,
    pub(crate) saved: Option<Superblock>,
}

impl Node<Stamps> {
    /// A node that never ran.
    #[must_use]
    pub fn new(config: Config, disk: Disk, metadata: Metadata, before: Before) -> Self {
        Self::with(config, (disk, metadata, before), Pool::default(), Process::default())
    }

    /// When its process last read a message, by its own clock.
    #[must_use]
    pub const fn read_at(&self) -> Option<Moment> {
        self.process.read_at
    }

    /// What its metadata said when it started, or what was saved since.
    #[must_use]
    pub fn superblock(&self) -> Option<&Superblock> {
        self.process.saved.as_ref()
    }

    /// Every record that it may find at its next start: the one it knows of, the one it is saving, and the one that lies
    /// in the file although saving it failed.
    pub fn records(&self) -> impl Iterator<Item = Superblock> {
        let known = [&self.process.saved, &self.process.saving].into_iter().flatten().cloned();
        known.chain(self.metadata.says())
    }

    /// Whether its record is about the disk it has, or knows none.
    #[must_use]
    pub fn has_its_disk(&self) -> bool {
        let recorded = self.process.saved.iter().flat_map(|record| &record.members);
        let mut pairs = recorded.zip(&self.disk.identities);
        pairs.all(|(recorded, identity)| [0, *identity].contains(recorded))
    }

    /// Whether its daemon runs and does not serve the group.
    #[must_use]
    pub const fn is_unserved(&self) -> bool {
        self.process.unserved
    }

    /// Whether a process accepts connections of the peer.
    pub(crate) fn listens(&self) -> bool {
        self.is_up() || self.process.unserved
    }

    /// The process begins.
    pub(crate) fn start(
        &mut self,
        now: Moment,
        incarnation: u64,
        seed: u64,
    ) -> Result<(), LedgerError> {
        self.equip()?;
        let found = self.metadata.open()?;
        let lowest = (!self.mirrors.is_empty()).then(|| self.shadow());
        let superblock = found.as_ref().map(|found| found.superblock.clone());
        let saved = superblock.unwrap_or_else(|| new_superblock(&self.config));
        (self.hung_until, self.hung_since) = (now, now);
        let Process { dialled, overdue, .. } = self.process;
        self.process = Process { dialled, overdue, saved: Some(saved), ..Process::default() };
        let members = self.disk.members();
        let copies = self.before.open();
        let seeds = (incarnation, seed);
        let shown = self.begin(now, (found, lowest), members, &copies, seeds);
        let Some(engine) = &mut self.engine else { return Ok(()) };
        if let Some(items) = self.receive_items {
            engine.bound_received(items);
        }
        if !copies.copies.is_empty() {
            engine.handle(shown, Event::BeforeFound(Box::new(copies)), &mut Vec::new());
        }
        Ok(())
    }

    /// Whether its process runs, and nothing of what it asked for is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        let Process { saving, settling, paused, pause, undone, .. } = &self.process;
        let waits = saving.is_some() || *settling || *paused || pause.is_some();
        let works = self.metadata.is_busy() || self.before.is_busy() || self.under_way() > 0;
        self.is_up() && !waits && !works && undone.is_empty()
    }

    /// Its machine was suspended, and goes on: nothing on it counted the time.
    pub(crate) fn go_on_at(&mut self, now: Moment, suspended: Moment, life: u64) {
        self.clock.stand_still(suspended, now);
        self.life = life;
        self.process.wake = None;
        (self.hung_until, self.hung_since) = (now, now);
    }

    /// The process is gone, and perhaps the power: what the files and the disk hold then.
    pub(crate) fn crash(&mut self, power: bool, changes: &mut Vec<Change>) {
        self.before.crash(power);
        let recorded = self.process.saved.as_ref().map_or(0, |record| record.suspect);
        self.disk.crash(power, recorded, changes);
        // What the record tells is the first member's.
        self.mirrors.iter_mut().for_each(|mirror| mirror.crash(power, 0, &mut Vec::new()));
        self.metadata.crash(power);
    }

    /// The process is gone.
    pub(crate) fn end(&mut self) {
        self.life += 1;
        self.engine = None;
        self.pool.forget();
        let Process { dialled, overdue, sent, read_at, saved, .. } = &mut self.process;
        let (dialled, overdue, sent, read_at) = (*dialled, *overdue, *sent, *read_at);
        let saved = saved.take();
        self.process = Process { dialled, overdue, sent, read_at, saved, ..Process::default() };
    }
}
