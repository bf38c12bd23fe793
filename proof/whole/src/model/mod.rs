// SPDX-License-Identifier: Apache-2.0
//! What the clients of a group may be answered: for every sector, the set of contents that a read may return now.
//!
//! The model sees what clients sent and received, and what the story did to the nodes. It never asks a daemon
//! whether the daemon is right. Its rules are those of the core simulator's oracle, seen from the client's end:
//!
//! 1. A write *begins* when the client composes it, and *ends* when the client knows that it takes no effect any more:
//!    it was acknowledged, it failed, or nothing of its connection is left at the daemon ([`Model::settled`]). Without an
//!    answer and without that knowledge it may take effect at any later time, for ever.
//! 2. One write is *behind* another one if it began after the other one ended. Writes that overlap in time may take
//!    effect in either order.
//! 3. A write is *certain* if it was acknowledged. If it ended without an answer, a sector of it is certain once a read
//!    returned it. A failed write is never certain: each of its sectors may hold it or not.
//! 4. A read returns, sector by sector, a write that began before the read ended, and that no certain write was
//!    behind which had ended before the read began. ("A read returns what was answered before it, or later.")
//! 5. If every write that could have produced what a read returned had ended before that read began, each other write
//!    that had ended by then, and did not fail, is gone: no later read returns it.
//! 6. A FLUSH that is acknowledged makes durable what was acknowledged on any connection before the FLUSH began; a write
//!    with FUA is durable when it is acknowledged. A power cut ([`Model::power_cut`]) takes from every write that is not
//!    durable its acknowledgement; so a sector holds the last durable write or one that is not before it.
//! 7. A flush that fails ([`Model::flush_failed`]) takes those acknowledgements, too, and those of writes under way; and
//!    as long as the node goes on with that copy, rule 5 does not hold: a cache may forget at any time.
//! 8. A failover takes the acknowledgements that the effective mode at the time of the answer did not carry to the
//!    peer ([`Model::failed_over`]). What is then read is one cut of the order: with any write of before, it holds every
//!    write acknowledged before that one began, or one that is not before it. ("Closed under acknowledged before
//!    accepted.") Writes begun after the failover are not part of the cut.
//! 9. The bytes of a sector are those of one write or zeros, and a write that did not leave its client whole shows
//!    nowhere.
//!
//! Two primaries at once are two truths: clone the model, and give each its own clients.

mod after;
mod heir;
mod order;
mod sector;
pub mod stamp;
mod story;

pub use story::{Promise, Violation};

use helio_nbd::ErrorCode;
use helio_units::{Extent, Mode, Moment};
use order::Cut;
use sector::Volume;
use stamp::SECTOR;
use story::hold;

/// A moment of the story: counts everything that happens, so that no two are simultaneous.
type Serial = u64;

/// Names a request; for a write it is the number that its bytes carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names a connection; the client that opens it gets a new name from [`Model::connected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What a request does to a volume. Extents are whole sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the extent.
    Read(Extent),
    /// Writes the bytes that [`stamp::stamp`] makes.
    Write {
        /// Where.
        extent: Extent,
        /// Durable before it is acknowledged.
        fua: bool,
    },
    /// Writes zeros, or trims, which reads as zeros.
    Zero {
        /// Where.
        extent: Extent,
        /// Durable before it is acknowledged.
        fua: bool,
    },
    /// Makes durable what was acknowledged.
    Flush,
    /// Changes nothing and returns no data: CACHE.
    Hint,
}

impl Action {
    /// Where it changes the volume, and whether zeros get there.
    const fn change(self) -> Option<(Extent, bool)> {
        match self {
            Self::Write { extent, .. } => Some((extent, false)),
            Self::Zero { extent, .. } => Some((extent, true)),
            _ => None,
        }
    }

    const fn forced(self) -> bool {
        matches!(self, Self::Write { fua: true, .. } | Self::Zero { fua: true, .. } | Self::Flush)
    }
}

/// A request that a client makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// On which connection.
    pub connection: ConnectionId,
    /// Of which volume.
    pub volume: u16,
    /// What it does.
    pub action: Action,
}

/// What an acknowledgement carries.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// Nothing.
    Done,
    /// The bytes of the whole extent of a read.
    Data(&'a [u8]),
    /// The stretches of a read's extent that read as zeros; nothing is said of the rest.
    Zeros(&'a [Extent]),
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It waits for its answer.
    Open,
    /// Its connection ended without an answer, and it may still take effect.
    Unanswered,
    /// It ended without an answer.
    Settled {
        at: Serial,
    },
    /// It did not leave its client whole, so that it takes no effect.
    Withdrawn,
    Acknowledged {
        at: Serial,
        when: Moment,
    },
    Failed {
        at: Serial,
        code: ErrorCode,
    },
}

/// How far towards the peer an acknowledged write got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AtPeer {
    Nowhere,
    InMemory,
    Written,
    Durable,
}

/// A request and what became of it.
#[derive(Clone, Debug)]
struct Record {
    request: Request,
    begun: Serial,
    when: Moment,
    fate: Fate,
    /// It is durable on the node that serves.
    durable: bool,
    at_peer: AtPeer,
    /// Since when its acknowledgement counts no more.
    void: Option<Serial>,
}

impl Record {
    /// When it ended; `None` if it may still take effect.
    const fn ended(&self) -> Option<Serial> {
        match self.fate {
            Fate::Acknowledged { at, .. } | Fate::Failed { at, .. } | Fate::Settled { at } => {
                Some(at)
            }
            Fate::Open | Fate::Unanswered | Fate::Withdrawn => None,
        }
    }

    const fn acknowledged(&self) -> Option<Serial> {
        match self.fate {
            Fate::Acknowledged { at, .. } => Some(at),
            _ => None,
        }
    }
}

/// What became of the peer before it took over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Heir {
    /// Its process lived since it received what it was sent.
    #[default]
    Lived,
    /// Its process ended in between.
    Restarted,
    /// It lost power in between.
    LostPower,
}

/// What clients of one group may be answered. See the module's words.
#[derive(Clone, Debug)]
pub struct Model {
    serial: Serial,
    now: Moment,
    connections: u64,
    records: Vec<Record>,
    volumes: Vec<Volume>,
    effective: Option<Mode>,
    effective_since: Serial,
    /// Something was acknowledged that may not be at the peer.
    owes: bool,
    cut: Option<Cut>,
}

impl Model {
    /// Volumes of these sizes, in sectors, that read as zeros.
    #[must_use]
    pub fn new(sectors: &[u64]) -> Self {
        Self {
            serial: 0,
            now: Moment::ZERO,
            connections: 0,
            records: Vec::new(),
            volumes: sectors.iter().map(|sectors| Volume::new(*sectors)).collect(),
            effective: None,
            effective_since: 0,
            owes: false,
            cut: None,
        }
    }

    /// The virtual time, for the stories that violations tell.
    pub const fn set_time(&mut self, now: Moment) {
        self.now = now;
    }

    /// A client opens a connection.
    pub const fn connected(&mut self) -> ConnectionId {
        self.connections += 1;
        ConnectionId(self.connections)
    }

    /// A client composes a request. Its extent lies within the volume.
    pub fn begin(&mut self, request: Request) -> Ticket {
        let begun = self.tick();
        self.records.push(Record {
            request,
            begun,
            when: self.now,
            fate: Fate::Open,
            durable: false,
            at_peer: AtPeer::Nowhere,
            void: None,
        });
        let ticket = Ticket(self.records.len() as u64);
        if let Some((extent, zeros)) = request.action.change() {
            self.volumes[usize::from(request.volume)].issue(ticket.0, begun, extent, zeros);
        }
        ticket
    }

    /// The client received success.
    ///
    /// # Errors
    /// The promise that the answer breaks.
    pub fn acknowledged(&mut self, ticket: Ticket, answer: Answer<'_>) -> Result<(), Violation> {
        let at = self.answer(ticket)?;
        let Record { request, begun, .. } = self.record(ticket.0).clone();
        self.record_mut(ticket.0).fate = Fate::Acknowledged { at, when: self.now };
        match (request.action, answer) {
            (Action::Read(extent), Answer::Data(data)) => {
                hold(data.len() as u64 == extent.length, Promise::AnsweredOnce, || {
                    format!("{} returned {} bytes", self.tell(ticket.0), data.len())
                })?;
                self.data(ticket.0, extent, data)
            }
            (Action::Read(_), Answer::Zeros(stretches)) => self.zeros(ticket.0, stretches),
            (Action::Flush, Answer::Done) => {
                self.flushed(request.volume, begun);
                Ok(())
            }
            (Action::Hint, Answer::Done) => Ok(()),
            (Action::Write { fua, .. } | Action::Zero { fua, .. }, Answer::Done) => {
                self.written(ticket.0, fua);
                Ok(())
            }
            (action, _) => Err(Violation::new(
                Promise::AnsweredOnce,
                format!("{action:?} was answered with {answer:?}"),
            )),
        }
    }

    /// The client received an error. A write that failed may have taken effect in any of its sectors.
    ///
    /// # Errors
    /// The request was answered before.
    pub fn failed(&mut self, ticket: Ticket, code: ErrorCode) -> Result<(), Violation> {
        let at = self.answer(ticket)?;
        let record = self.record_mut(ticket.0);
        record.fate = Fate::Failed { at, code };
        let Request { volume, action, .. } = record.request;
        if action.forced() && code == ErrorCode::Io {
            self.flush_failed(volume);
        }
        Ok(())
    }

    /// The request will never leave its client whole, so that it must not take effect.
    pub fn withdrawn(&mut self, ticket: Ticket) {
        self.record_mut(ticket.0).fate = Fate::Withdrawn;
    }

    /// The connection ended at the client. What waits for an answer may take effect at any later time.
    pub fn connection_lost(&mut self, connection: ConnectionId) {
        for record in &mut self.records {
            if record.request.connection == connection && record.fate == Fate::Open {
                record.fate = Fate::Unanswered;
            }
        }
    }

    /// The connection's requests that were not answered take no effect any more: the client lost the connection, and
    /// the daemon has no request of it and no operation for one, or the daemon's process is gone with all its operations.
    pub fn settled(&mut self, connection: ConnectionId) {
        self.connection_lost(connection);
        let at = self.tick();
        for record in &mut self.records {
            if record.request.connection == connection && record.fate == Fate::Unanswered {
                record.fate = Fate::Settled { at };
            }
        }
    }

    /// Checks that the request waits for an answer; the serial of this answer. After a power cut or a failover an
    /// answer may still be under way.
    fn answer(&mut self, ticket: Ticket) -> Result<Serial, Violation> {
        let at = self.tick();
        let waits = matches!(self.record(ticket.0).fate, Fate::Open | Fate::Settled { .. });
        hold(waits, Promise::AnsweredOnce, || {
            format!("{} is answered again", self.tell(ticket.0))
        })?;
        if let Fate::Settled { at: settled } = self.record(ticket.0).fate {
            // What the node told before it lost power, or its role, counts no more than what arrived in time.
            self.record_mut(ticket.0).void = Some(settled);
        }
        Ok(at)
    }

    fn data(&mut self, ticket: u64, extent: Extent, data: &[u8]) -> Result<(), Violation> {
        let volume = self.record(ticket).request.volume;
        let first = extent.offset / SECTOR as u64;
        for (sector, bytes) in (first..).zip(data.chunks(SECTOR)) {
            let place = stamp::Place { volume, sector };
            let content = stamp::read(bytes, place).map_err(|flaw| {
                let detail = format!("{} returned for {place} {flaw}", self.tell(ticket));
                Violation::new(Promise::KnownBytes, detail)
            })?;
            self.shows(Some(ticket), place, content)?;
        }
        Ok(())
    }

    fn zeros(&mut self, ticket: u64, stretches: &[Extent]) -> Result<(), Violation> {
        let volume = self.record(ticket).request.volume;
        for stretch in stretches {
            let size = SECTOR as u64;
            for sector in stretch.offset.div_ceil(size)..stretch.end() / size {
                let place = stamp::Place { volume, sector };
                self.shows(Some(ticket), place, stamp::Content::Zeros)?;
            }
        }
        Ok(())
    }

    /// How many requests were acknowledged.
    pub(crate) fn acknowledgements(&self) -> usize {
        self.records.iter().filter(|record| record.acknowledged().is_some()).count()
    }

    /// The whole image of the group as the node that serves returns it now: by volume, the bytes.
    ///
    /// # Errors
    /// The promise that the image breaks.
    pub fn read_image(&mut self, volumes: &[&[u8]]) -> Result<(), Violation> {
        self.tick();
        for (volume, bytes) in (0_u16..).zip(volumes) {
            for (sector, bytes) in (0_u64..).zip(bytes.chunks(SECTOR)) {
                let place = stamp::Place { volume, sector };
                let content = stamp::read(bytes, place).map_err(|flaw| {
                    Violation::new(Promise::KnownBytes, format!("{place} holds {flaw}"))
                })?;
                self.shows(None, place, content)?;
            }
        }
        Ok(())
    }

    const fn tick(&mut self) -> Serial {
        self.serial += 1;
        self.serial
    }

    fn record(&self, ticket: u64) -> &Record {
        &self.records[ticket as usize - 1]
    }

    fn record_mut(&mut self, ticket: u64) -> &mut Record {
        &mut self.records[ticket as usize - 1]
    }
}
