// SPDX-License-Identifier: Apache-2.0
//! NBD clients of a shard: their sockets, sessions and requests.
//!
//! What one client may have under way is bounded in requests and bytes; beyond that its socket is not read, and
//! nobody else notices (rule 19).

use crate::shard::group::Group;
use crate::shard::token::{Kind, token};
use helio_driver::{Buffer, Driver, Op, Piece, Pool, Shared, Socket};
use helio_engine::{Answer, Denial, Event, Operation, Request, StoreFault};
use helio_nbd::{
    Command, Contexts, ErrorCode, ExportInfo, Exports, OpenRefusal, Session, SessionOptions, Step,
};
use helio_units::{Bytes, Moment, RequestId, VolumeIndex};

/// Requests one connection may have under way; clients in the field keep 16 to 128.
const REQUESTS_MAX: u32 = 256;
/// Bytes one connection may have under way: two of the longest writes, so that the next one can arrive meanwhile.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes one read from a client may bring.
const RECV_BYTES: usize = 256 << 10;
/// Bytes of answers one batch may carry before the socket is asked to take them.
const OUT_PIECES_MAX: usize = 512;
/// Longest TRIM or WRITE_ZEROES of one request: the engine cuts it into parts it holds all at once.
const EFFECT_MAX: Bytes = Bytes::gib(4);
/// Of requests without data nothing counts as bytes.
const NO_DATA: u64 = 0;

/// A write whose payload is arriving.
#[derive(Debug)]
struct Arriving {
    request: helio_nbd::Request,
    buffer: Option<Buffer>,
    filled: usize,
}

/// One connection.
struct Client {
    epoch: u32,
    socket: Socket,
    session: Session,
    place: Option<(usize, VolumeIndex)>,
    rest: Option<(Buffer, std::ops::Range<usize>)>,
    receiving: bool,
    arriving: Option<Arriving>,
    out: Vec<Piece>,
    sending: bool,
    requests: u32,
    bytes: u64,
    /// It goes once everything under way is answered and sent.
    leaving: bool,
    /// Its payload waits for a buffer.
    starved: bool,
}

/// A request under way, found by its name.
#[derive(Clone, Copy, Debug)]
struct Owner {
    client: usize,
    epoch: u32,
    request: helio_nbd::Request,
    bytes: u64,
}

/// All connections of a shard.
#[derive(Default)]
pub(crate) struct Clients {
    slots: Vec<Option<Client>>,
    epochs: u32,
    owners: Vec<Option<Owner>>,
    free_owners: Vec<usize>,
}

/// The exports as a connecting client sees them: volumes of the groups that are primary here.
struct Catalogue<'a>(&'a [Group]);

impl Catalogue<'_> {
    fn info(group: &Group, g: usize, v: usize) -> ExportInfo {
        let volume = &group.volumes[v];
        let minimum_block = volume.member.alignment().0 as u32;
        ExportInfo {
            name: format!("{}/{}", group.name, volume.name),
            description: format!(
                "{} of group {}, mirrored to {}",
                volume.name, group.name, group.peer
            ),
            size: volume.size,
            read_only: false,
            volatile: false,
            trim: volume.member.trims(),
            fast_zero: false,
            longest_effect: EFFECT_MAX,
            contexts: Contexts::NONE,
            minimum_block,
            preferred_block: minimum_block.max(4096),
            handle: (g as u64) << 16 | v as u64,
        }
    }
}

impl Exports for Catalogue<'_> {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        for (g, group) in self.0.iter().enumerate() {
            (0..group.volumes.len()).for_each(|v| each(&Self::info(group, g, v)));
        }
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        let (group, volume) = name.split_once('/').ok_or(OpenRefusal::Unknown)?;
        let found =
            self.0.iter().enumerate().find(|(_, g)| g.name == group).ok_or(OpenRefusal::Unknown)?;
        let (g, group) = found;
        let v = group.volumes.iter().position(|v| v.name == volume).ok_or(OpenRefusal::Unknown)?;
        if !group.engine.is_primary() {
            return Err(OpenRefusal::Policy(format!(
                "group {} is not primary on this node; connect to {}, or `helio promote {}` here",
                group.name, group.peer, group.name
            )));
        }
        Ok(Self::info(group, g, v))
    }
}

impl Clients {
    /// A client connected.
    pub(crate) fn accept(&mut self, socket: Socket, driver: &mut dyn Driver) {
        self.epochs = self.epochs.wrapping_add(1);
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let session = Session::with(SessionOptions::default());
        let mut greeting = Vec::new();
        session.greeting(&mut greeting);
        self.slots[slot] = Some(Client {
            epoch: self.epochs,
            socket,
            session,
            place: None,
            rest: Some((Buffer::zeroed(RECV_BYTES), 0..0)),
            receiving: false,
            arriving: None,
            out: vec![Piece::Bytes(greeting)],
            sending: false,
            requests: 0,
            bytes: 0,
            leaving: false,
            starved: false,
        });
        self.pump_slot(slot, driver);
    }

    /// Connections to volumes of a group, per volume.
    pub(crate) fn count(&self, group: usize, volume: VolumeIndex) -> u64 {
        let at = Some((group, volume));
        self.slots.iter().flatten().filter(|c| c.place == at && !c.leaving).count() as u64
    }

    fn client(&mut self, slot: usize, epoch: u32) -> Option<&mut Client> {
        self.slots.get_mut(slot)?.as_mut().filter(|c| c.epoch == epoch)
    }

    /// Bytes arrived, or the client went.
    pub(crate) fn received(
        &mut self,
        (slot, epoch): (usize, u32),
        buffer: Buffer,
        count: Option<usize>,
        io: &mut ClientIo<'_>,
    ) {
        let Some(client) = self.client(slot, epoch) else { return };
        client.receiving = false;
        match count {
            Some(count) if count > 0 => client.rest = Some((buffer, 0..count)),
            _ => {
                client.leaving = true;
                client.rest = None;
            }
        }
        self.digest(slot, io);
    }

    /// The socket took the answers.
    pub(crate) fn sent(&mut self, slot: usize, epoch: u32, ok: bool, io: &mut ClientIo<'_>) {
        let Some(client) = self.client(slot, epoch) else { return };
        client.sending = false;
        if !ok {
            client.leaving = true;
            client.out.clear();
            client.rest = None;
        }
        self.digest(slot, io);
    }

    /// Turns what arrived into requests, as far as bounds allow; asks for more; sends what is due.
    fn digest(&mut self, slot: usize, io: &mut ClientIo<'_>) {
        while self.digest_step(slot, io) {}
        self.pump_slot(slot, io.driver);
    }

    fn digest_step(&mut self, slot: usize, io: &mut ClientIo<'_>) -> bool {
        let Some(client) = &mut self.slots[slot] else { return false };
        let full = client.requests >= REQUESTS_MAX || client.bytes >= BYTES_MAX;
        if client.leaving || full || client.out.len() > OUT_PIECES_MAX {
            return false;
        }
        if let Some(arriving) = &mut client.arriving
            && arriving.buffer.is_none()
        {
            arriving.buffer = io.pool.take(arriving.request.extent.length as usize);
            client.starved = arriving.buffer.is_none();
            if client.starved {
                return false;
            }
        }
        let Some((buffer, range)) = &mut client.rest else { return false };
        if range.start >= range.end {
            return false;
        }
        let input = &buffer[range.clone()];
        let step = client.session.consume(input, &Catalogue(io.groups), plain(&mut client.out));
        let (taken, step) = match step {
            Ok(done) => done,
            Err(error) => {
                tracing::info!(%error, "an NBD client was sent away");
                client.leaving = true;
                return false;
            }
        };
        let start = range.start;
        range.start += taken;
        match step {
            Step::NeedMore => false,
            // A session without TLS never asks for it.
            Step::Negotiating | Step::StartTls => true,
            Step::Ready { handle, .. } => {
                client.place = Some(((handle >> 16) as usize, VolumeIndex(handle as u16)));
                true
            }
            Step::Disconnect => {
                client.leaving = true;
                false
            }
            Step::Request(request) if request.command == Command::Write => {
                let buffer = io.pool.take(request.extent.length as usize);
                client.starved = buffer.is_none();
                client.arriving = Some(Arriving { request, buffer, filled: 0 });
                !client.starved
            }
            // Advice: everything there is to warm is warm already.
            Step::Request(request) if request.command == Command::Cache => {
                client.session.reply_done(&request, plain(&mut client.out));
                true
            }
            Step::Request(request) => {
                self.submit(slot, request, io);
                true
            }
            Step::Payload { chunk, last } => {
                let Some(arriving) = &mut client.arriving else { return false };
                let bytes = &buffer[start..start + taken][chunk];
                if let Some(into) = &mut arriving.buffer {
                    into[arriving.filled..arriving.filled + bytes.len()].copy_from_slice(bytes);
                    arriving.filled += bytes.len();
                }
                if last {
                    self.submit_write(slot, io);
                }
                true
            }
        }
    }

    fn own(&mut self, slot: usize, request: helio_nbd::Request, bytes: u64) -> RequestId {
        let epoch = self.slots[slot].as_mut().map_or(0, |client| {
            client.requests += 1;
            client.bytes += bytes;
            client.epoch
        });
        let owner = Owner { client: slot, epoch, request, bytes };
        let at = self.free_owners.pop().unwrap_or_else(|| {
            self.owners.push(None);
            self.owners.len() - 1
        });
        self.owners[at] = Some(owner);
        RequestId(at as u64)
    }

    fn submit(&mut self, slot: usize, request: helio_nbd::Request, io: &mut ClientIo<'_>) {
        let helio_nbd::Request { command, fua, no_hole, extent, .. } = request;
        let (operation, bytes) = match command {
            Command::Read => (Operation::Read(extent), extent.length),
            Command::Trim => (Operation::Discard { extent, fua }, NO_DATA),
            Command::WriteZeroes => (Operation::Zero { extent, punch: !no_hole, fua }, NO_DATA),
            // Writes, advice and status, which no export here offers, do not come this way.
            Command::Flush | Command::Write | Command::Cache | Command::BlockStatus => {
                (Operation::Flush, NO_DATA)
            }
        };
        let id = self.own(slot, request, bytes);
        self.tell(slot, id, operation, io);
    }

    fn submit_write(&mut self, slot: usize, io: &mut ClientIo<'_>) {
        let arriving = self.slots[slot].as_mut().and_then(|c| c.arriving.take());
        let Some(Arriving { request, buffer: Some(buffer), .. }) = arriving else { return };
        let helio_nbd::Request { extent, fua, .. } = request;
        let id = self.own(slot, request, extent.length);
        let Some((group, _)) = self.slots[slot].as_ref().and_then(|c| c.place) else { return };
        let payload = io.groups[group].payloads.insert(buffer);
        self.tell(slot, id, Operation::Write { extent, payload, fua }, io);
    }

    fn tell(&mut self, slot: usize, id: RequestId, operation: Operation, io: &mut ClientIo<'_>) {
        let Some((group, volume)) = self.slots[slot].as_ref().and_then(|c| c.place) else { return };
        io.groups[group].tell(io.now, Event::Request(Request { id, volume, operation }));
    }

    /// The engine answers a request. Returns the client's slot if it is still there.
    pub(crate) fn answer(
        &mut self,
        request: RequestId,
        answer: Answer,
        data: Option<Shared>,
    ) -> Option<usize> {
        let at = request.0 as usize;
        let owner = self.owners.get_mut(at)?.take()?;
        self.free_owners.push(at);
        let client = self.client(owner.client, owner.epoch)?;
        client.requests -= 1;
        client.bytes -= owner.bytes;
        let out = plain(&mut client.out);
        let request = &owner.request;
        match (answer, data) {
            (Answer::Denied(denial), _) => {
                let (code, text) = denied(denial);
                client.session.reply_error(request, code, text, out);
            }
            (Answer::Read(_), Some(shared)) => {
                client.session.reply_read(request, out);
                client.out.push(Piece::Shared(shared, 0..request.extent.length as usize));
            }
            _ => client.session.reply_done(request, out),
        }
        Some(owner.client)
    }

    /// Goes on with a client whose request was answered, or whose buffer may be there now.
    pub(crate) fn wake(&mut self, slot: usize, io: &mut ClientIo<'_>) {
        self.digest(slot, io);
    }

    /// Clients whose payload waits for a buffer.
    pub(crate) fn starved(&self) -> Vec<usize> {
        let starved = |c: &Option<Client>| c.as_ref().is_some_and(|c| c.starved);
        (0..self.slots.len()).filter(|n| starved(&self.slots[*n])).collect()
    }

    fn pump_slot(&mut self, slot: usize, driver: &mut dyn Driver) {
        let Some(client) = &mut self.slots[slot] else { return };
        let waiting = client.out.iter().any(|p| !matches!(p, Piece::Bytes(b) if b.is_empty()));
        if waiting && !client.sending {
            client.sending = true;
            let op =
                Op::Send { socket: client.socket.clone(), pieces: std::mem::take(&mut client.out) };
            driver.submit(token(Kind::ClientSend, slot, client.epoch), op);
        }
        if client.leaving {
            if client.requests == 0 && !client.sending {
                driver.cancel(&client.socket);
                self.slots[slot] = None;
            }
            return;
        }
        if let Some((buffer, range)) = client.rest.take_if(|(_, range)| range.start >= range.end) {
            let _consumed = range;
            client.receiving = true;
            let range = 0..buffer.len();
            let op = Op::Recv { socket: client.socket.clone(), buffer, range };
            driver.submit(token(Kind::ClientRecv, slot, client.epoch), op);
        }
    }

    /// Sends everybody of a group away: it is primary here no more, or the daemon stops.
    pub(crate) fn dismiss(&mut self, group: Option<usize>, driver: &mut dyn Driver) {
        for slot in 0..self.slots.len() {
            if let Some(client) = &mut self.slots[slot]
                && group.is_none_or(|g| client.place.is_some_and(|(place, _)| place == g))
            {
                client.leaving = true;
                self.pump_slot(slot, driver);
            }
        }
    }
}

/// What clients need of the shard.
pub(crate) struct ClientIo<'a> {
    pub(crate) groups: &'a mut [Group],
    pub(crate) driver: &'a mut dyn Driver,
    pub(crate) pool: &'a Pool,
    pub(crate) now: Moment,
}

/// The plain bytes at the end of what will be sent.
fn plain(out: &mut Vec<Piece>) -> &mut Vec<u8> {
    if !matches!(out.last(), Some(Piece::Bytes(_))) {
        out.push(Piece::Bytes(Vec::with_capacity(256)));
    }
    match out.last_mut() {
        Some(Piece::Bytes(bytes)) => bytes,
        _ => unreachable!("a piece of bytes was just put there"),
    }
}

fn denied(denial: Denial) -> (ErrorCode, &'static str) {
    match denial {
        Denial::NotPrimary => {
            (ErrorCode::Shutdown, "this node is not primary for the group any more")
        }
        Denial::OutOfBounds => (ErrorCode::Invalid, "the request leaves the volume"),
        Denial::QueueFull => {
            (ErrorCode::NoSpace, "the replication queue is full and its policy is to fail writes")
        }
        Denial::Store(StoreFault::NoSpace) => {
            (ErrorCode::NoSpace, "the local store has no space left")
        }
        Denial::Store(_) => (ErrorCode::Io, "the local store failed"),
    }
}
