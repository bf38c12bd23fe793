// SPDX-License-Identifier: Apache-2.0
//! NBD clients of a shard: a front end that reads requests from sockets and writes replies to them.
//!
//! What one client may have under way is bounded in requests and bytes; beyond that its socket is not read (rule 19). Other clients do not
//! wait for it, except for long reads while all clients together hold too much (`room.rs`).

mod answers;
mod catalogue;
mod client;
mod guests;
mod listing;
mod room;

use crate::shard::census::Table;
use crate::shard::group::{Group, User};
use crate::shard::handshake::Turns;
use crate::shard::log::{Port, RefusalLog};
use crate::shard::requests::{Asker, Ended, Io, Operation, Origin, Place, Reply, Requests};
use crate::shard::token::{Kind, token};
pub(crate) use catalogue::{Catalogue, export_of, is_in_copy};
use client::{Arriving, Client, plain};
pub(crate) use guests::guests_of;
use helio_driver::{Accepted, Buffer, Driver, Piece};
use helio_nbd::{Command, Request, Step, TlsPolicy};
use helio_plant::{Plant, planted};
use helio_tls::NbdTls;
use helio_units::{Bytes, Moment, VolumeIndex};
pub(crate) use listing::{Closing, ListedClients};
use room::Queue;
use std::time::Duration;

/// A client that has not chosen an export by then goes: nobody keeps a place by saying nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// One that was sent away must have taken its last answers by then.
const PARTING_PATIENCE: Duration = Duration::from_secs(10);
/// A socket given up is given up again after that long, should it still be there.
const RETRY: Duration = Duration::from_secs(1);

/// How TCP clients are protected.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    pub(crate) tls: NbdTls,
    pub(crate) required: bool,
}

/// All connections of a shard.
pub(crate) struct Clients {
    slots: Vec<Option<Client>>,
    epochs: u32,
    /// Most connections that have chosen an export, and how many there are.
    most: u32,
    chosen: u32,
    /// Whose handshake is worked on.
    turns: Turns,
    protection: Option<Protection>,
    /// Connections to volumes, per group and volume; those to be read only apart.
    counts: Vec<Vec<u64>>,
    /// Connections that the group's engine answers, read-only ones on its primary included, per group and volume.
    uses: Vec<Vec<u64>>,
    /// Connections that use the volumes of a group alone, per group.
    alone: Vec<u64>,
    /// Groups that connections came to or left since the last look; some more than once.
    changed: Vec<usize>,
    /// Connections to be read only, per group, and whether the group was primary when it was looked at last.
    readers: Vec<(u64, bool)>,
    /// Bytes held for all clients. Above `plenty` each gets one request at a time: those who do not read their answers must not use up
    /// what the others need.
    held: u64,
    plenty: u64,
    /// Those whose read waits for room, in their order.
    postponed: Queue,
    /// When the first of those who have not chosen yet must go, or those who do not read their replies are looked at again.
    next_expiry: Moment,
    /// Those whose payload waits for a buffer.
    starving: Vec<usize>,
    /// Who was refused, or disconnected for breaking the protocol.
    pub(super) log: RefusalLog,
}

impl Clients {
    /// None yet, and room for `most`, for which no more than `plenty` is held.
    pub(crate) fn new(
        most: u32,
        plenty: Bytes,
        protection: Option<Protection>,
        groups: &[Group],
    ) -> Self {
        let counts: Vec<_> = groups.iter().map(|group| vec![0; group.volumes.len()]).collect();
        Self {
            slots: Vec::new(),
            epochs: 0,
            most,
            chosen: 0,
            turns: Turns::default(),
            protection,
            uses: counts.clone(),
            alone: vec![0; groups.len()],
            changed: Vec::new(),
            counts,
            readers: groups.iter().map(|group| (0, group.engine.view().is_primary())).collect(),
            held: 0,
            plenty: plenty.0,
            postponed: Queue::default(),
            next_expiry: Moment::NEVER,
            starving: Vec::new(),
            log: RefusalLog::new(Port::Clients),
        }
    }

    /// One group more.
    pub(crate) fn add(&mut self, group: &Group) {
        self.counts.push(vec![0; group.volumes.len()]);
        self.uses.push(vec![0; group.volumes.len()]);
        self.alone.push(0);
        self.readers.push((0, group.engine.view().is_primary()));
    }

    /// A client connected, over TCP or the Unix socket.
    pub(crate) fn accept(
        &mut self,
        accepted: Accepted,
        tcp: bool,
        now: Moment,
        driver: &mut dyn Driver,
    ) {
        self.make_room(now, driver);
        self.epochs = self.epochs.wrapping_add(1);
        let free = |slot: &Option<Client>| slot.is_none() && !planted(Plant::ClientSlotsGrow);
        let slot = self.slots.iter().position(free).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        // Whoever may open the Unix socket may read its traffic anyway.
        let protection = self.protection.as_ref().filter(|_| tcp);
        let policy = match protection {
            Some(protection) if protection.required => TlsPolicy::Required,
            Some(_) => TlsPolicy::Offered,
            None => TlsPolicy::Off,
        };
        let tls = protection.map(|protection| protection.tls.clone());
        let until = now + PATIENCE;
        self.next_expiry = self.next_expiry.min(until);
        let client = Client::new(self.epochs, accepted, tcp, (tls, policy), (now, until));
        self.slots[slot] = Some(client);
        self.pump_slot(slot, driver);
    }

    /// Lets a connection go: its socket closes with the last handle of it.
    fn free(&mut self, slot: usize, driver: &mut dyn Driver) -> Option<Client> {
        let client = self.slots[slot].take()?;
        driver.cancel(client.stream.socket());
        if planted(Plant::SocketLeaked) {
            std::mem::forget(client.stream.socket().clone());
        }
        self.held -= client.counted;
        self.chosen -= u32::from(client.place.is_some());
        Some(client)
    }

    /// The slots of connections.
    pub(crate) fn table(&self) -> Table {
        Table::of(&self.slots)
    }

    /// Connections to a volume, per volume; those to be read only do not count.
    pub(crate) fn count(&self, group: usize, volume: VolumeIndex) -> u64 {
        self.counts[group][usize::from(volume.0)]
    }

    /// The volumes of a group that connections use: bit n volume n.
    pub(crate) fn used(&self, group: usize) -> u64 {
        let used = self.uses[group].iter().enumerate().filter(|(_, count)| **count > 0);
        used.fold(0, |mask, (n, _)| mask | 1 << n)
    }

    /// Whether those who use the volumes of a group use them alone.
    pub(crate) fn are_alone(&self, group: usize) -> bool {
        self.alone[group] > 0
    }

    /// Groups that connections came to or left since the last call; some more than once.
    pub(crate) fn changed(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Whether anybody reads or writes a group, or did and is not gone yet.
    pub(crate) fn is_used(&self, group: usize) -> bool {
        let clients = self.slots.iter().flatten();
        clients.filter_map(|client| client.place).any(|place| place.group == group)
    }

    fn client(&mut self, slot: usize, epoch: u32) -> Option<&mut Client> {
        self.slots.get_mut(slot)?.as_mut().filter(|c| c.epoch == epoch)
    }

    /// A client chose its export, or leaves it.
    fn tally(&mut self, place: Option<Place>, came: bool) {
        let Some(place) = place else { return };
        let count = if place.target.writes_volume() {
            &mut self.counts[place.group][usize::from(place.volume.0)]
        } else {
            &mut self.readers[place.group].0
        };
        *count = if came { *count + 1 } else { *count - 1 };
        if place.target.uses_volume() {
            let uses = &mut self.uses[place.group][usize::from(place.volume.0)];
            *uses = if came { *uses + 1 } else { *uses - 1 };
        }
        if place.alone {
            let alone = &mut self.alone[place.group];
            *alone = if came { *alone + 1 } else { *alone - 1 };
        }
        self.changed.push(place.group);
    }

    /// How a group stands. Where that changed, readers of a copy that is no secondary's any more, or no copy, are sent
    /// away: what they were told of their export is not true any more.
    pub(crate) fn role_seen(&mut self, group: usize, primary: bool, driver: &mut dyn Driver) {
        let (readers, was) = &mut self.readers[group];
        if std::mem::replace(was, primary) != primary && *readers > 0 {
            self.dismiss_if(driver, |client| {
                client
                    .place
                    .is_some_and(|place| place.group == group && place.target.goes_with_role())
            });
        }
    }

    /// The client is read no more.
    fn leave(&mut self, slot: usize) {
        if let Some(client) = &mut self.slots[slot]
            && !std::mem::replace(&mut client.leaving, true)
        {
            client.until = Moment::NEVER;
            let place = client.place;
            self.tally(place, false);
        }
    }

    /// When the first of those who have not chosen yet, or do not take what they were told last, must go, or those who do not read their
    /// replies are looked at again.
    pub(crate) fn deadline(&self) -> Moment {
        self.next_expiry
    }

    /// Sends those away who have not chosen an export in time, and lets go of those who were sent away and do not take
    /// their last answers.
    pub(crate) fn expire(&mut self, now: Moment, driver: &mut dyn Driver) {
        if now < self.next_expiry {
            return;
        }
        self.dismiss_if(driver, |client| client.place.is_none() && now >= client.until);
        let mut next = self.expire_takers(now, driver);
        for client in self.slots.iter_mut().flatten() {
            if client.leaving && client.load.is_idle() {
                if now >= client.until {
                    // Its send ends with an error, and then it is gone.
                    driver.cancel(client.stream.socket());
                    client.until = now + RETRY;
                }
                client.until = client.until.min(now + PARTING_PATIENCE);
            }
            if client.leaving && client.load.is_idle() || client.place.is_none() {
                next = next.min(client.until);
            }
        }
        self.next_expiry = next;
    }

    /// Bytes arrived, or the client went.
    pub(crate) fn received(
        &mut self,
        (slot, epoch): (usize, u32),
        buffer: Buffer,
        count: Option<usize>,
        io: &mut Io<'_>,
    ) {
        let Some(client) = self.client(slot, epoch) else { return };
        let count = count.unwrap_or(0);
        client.spoke = true;
        let direct = client.arriving.as_mut().filter(|arriving| arriving.direct);
        match direct {
            Some(arriving) => {
                arriving.direct = false;
                arriving.buffer = Some(buffer);
                client.stream.received_elsewhere();
                self.received_in_place(slot, count, io);
            }
            None => client.stream.received(buffer, count),
        }
        if count == 0 {
            self.leave(slot);
        }
        self.digest(slot, io);
    }

    /// Payload arrived where it will be written from: the session only has to know.
    fn received_in_place(&mut self, slot: usize, count: usize, io: &mut Io<'_>) {
        let Some(client) = &mut self.slots[slot] else { return };
        let Some(arriving) = &mut client.arriving else { return };
        let Some(buffer) = &arriving.buffer else { return };
        let input = &buffer[arriving.filled..arriving.filled + count];
        arriving.filled += count;
        let catalogue = Catalogue::new(io.groups, false);
        let step = client.session.consume(input, &catalogue, plain(&mut client.out));
        if let Ok((_, Step::Payload { last: true, .. })) = step {
            self.submit_write(slot, io);
        }
    }

    /// The socket took the answers.
    pub(crate) fn sent(
        &mut self,
        (slot, epoch): (usize, u32),
        pieces: Vec<Piece>,
        ok: bool,
        io: &mut Io<'_>,
    ) {
        let Some(client) = self.client(slot, epoch) else { return };
        client.sent(pieces);
        if !ok {
            client.out.clear();
            self.leave(slot);
        }
        self.digest(slot, io);
    }

    /// A piece of work of a handshake was done.
    pub(crate) fn shaken(&mut self, (slot, epoch): (usize, u32), io: &mut Io<'_>) {
        self.turns.ended();
        if let Some(client) = self.client(slot, epoch) {
            let from = client.from;
            if !client.turn_taken() {
                self.log.refused(from, "its TLS handshake panicked", io.now);
                self.leave(slot);
            }
            self.digest(slot, io);
        }
        self.take_turns(io.driver);
    }

    /// Hands out the next piece of work of a handshake, if none is under way.
    fn take_turns(&mut self, driver: &mut dyn Driver) {
        let Self { turns, slots, .. } = self;
        turns.hand_out(Kind::ClientShake, driver, |(slot, epoch)| {
            let client = slots[slot].as_mut().filter(|client| client.epoch == epoch);
            client.and_then(Client::take_turn)
        });
    }

    /// Turns what arrived into requests, as far as bounds allow; asks for more; sends what is due.
    fn digest(&mut self, slot: usize, io: &mut Io<'_>) {
        while self.digest_step(slot, io) {}
        self.pump_slot(slot, io.driver);
        if self.turns.any_wait() {
            self.take_turns(io.driver);
        }
    }

    /// One step; says whether there may be another at once.
    fn digest_step(&mut self, slot: usize, io: &mut Io<'_>) -> bool {
        match self.next_step(slot, io) {
            Some(step) => self.take_step(slot, step, io),
            None => false,
        }
    }

    /// What the session makes of the next bytes, as far as bounds allow.
    fn next_step(&mut self, slot: usize, io: &mut Io<'_>) -> Option<Step> {
        let (short, full) = (self.held > self.plenty, self.are_full());
        let client = self.slots[slot].as_mut()?;
        client.secure_if_due();
        if client.wants_turn() {
            self.turns.wait((slot, client.epoch), client.handshake.has_begun());
        }
        if client.leaving || client.is_full(short) {
            return None;
        }
        if !client.find_room(io.pool) {
            self.starving.push(slot);
            return None;
        }
        if let Some(request) = client.postponed {
            return self.take_postponed(slot, request);
        }
        if let Some(error) = client.stream.failure() {
            let (from, why) = (client.from, error.to_string());
            self.log.refused(from, &why, io.now);
            self.leave(slot);
            return None;
        }
        let input = client.stream.unread();
        if input.is_empty() {
            return None;
        }
        let catalogue = Catalogue::new(io.groups, full);
        let step = client.session.consume(input, &catalogue, plain(&mut client.out));
        if catalogue.refused_for_room() {
            self.log.full(self.chosen, io.now);
        }
        let (taken, step) = match step {
            Ok(done) => done,
            Err(error) => {
                let from = client.from;
                self.log.refused(from, &error.to_string(), io.now);
                self.leave(slot);
                return None;
            }
        };
        if let (Step::Payload { chunk, .. }, Some(arriving)) = (&step, &mut client.arriving)
            && let Some(into) = &mut arriving.buffer
        {
            let bytes = &input[chunk.clone()];
            into[arriving.filled..arriving.filled + bytes.len()].copy_from_slice(bytes);
            arriving.filled += bytes.len();
        }
        client.stream.consume(taken);
        Some(step)
    }

    /// Does what a step asks for; says whether there may be another at once.
    fn take_step(&mut self, slot: usize, step: Step, io: &mut Io<'_>) -> bool {
        let Some(client) = &mut self.slots[slot] else { return false };
        match step {
            Step::NeedMore => return false,
            Step::Negotiating => {}
            Step::StartTls => {
                client.start_tls();
                self.pump_slot(slot, io.driver);
            }
            Step::Ready { handle, .. } => {
                let place = Place::of(handle);
                client.enter(place);
                self.chosen += 1;
                self.tally(Some(place), true);
                // At once: a hello of the peer may be the next thing that is read.
                let used = self.used(place.group);
                io.groups[place.group].used_alone(self.are_alone(place.group));
                io.groups[place.group].used_by(User::Clients, used, io.now);
            }
            Step::Disconnect => {
                self.leave(slot);
                return false;
            }
            Step::Request(request) if !self.has_room(slot, &request) => {
                self.postpone(slot, request);
                return false;
            }
            Step::Request(request) => self.take_request(slot, request, io),
            Step::Payload { last, .. } => {
                if last {
                    self.submit_write(slot, io);
                }
            }
        }
        true
    }

    /// A request: what a client can ask for, as an operation.
    fn take_request(&mut self, slot: usize, request: Request, io: &mut Io<'_>) {
        let Request { command, extent, fua, no_hole, .. } = request;
        let Some(client) = &mut self.slots[slot] else { return };
        let operation = match command {
            // Its payload follows; a buffer for it is found with the next step.
            Command::Write => {
                let (buffer, filled, direct) = (None, 0, false);
                client.arriving = Some(Arriving { request, buffer, filled, direct });
                return;
            }
            // Advice: doing nothing is a full answer.
            Command::Cache => {
                return client.session.reply_done(&request, plain(&mut client.out));
            }
            Command::Read => Operation::Read(extent),
            Command::Flush => Operation::Flush,
            Command::Trim => Operation::Discard { extent, fua },
            Command::WriteZeroes => Operation::Zero { extent, punch: !no_hole, fua },
            Command::BlockStatus => Operation::Map(extent),
        };
        self.submit(slot, request, operation, io);
    }

    fn submit_write(&mut self, slot: usize, io: &mut Io<'_>) {
        let arriving = self.slots[slot].as_mut().and_then(|c| c.arriving.take());
        let Some(Arriving { request, buffer: Some(payload), .. }) = arriving else { return };
        let Request { extent, fua, .. } = request;
        self.submit(slot, request, Operation::Write { extent, payload, fua }, io);
    }

    fn submit(&mut self, slot: usize, request: Request, operation: Operation, io: &mut Io<'_>) {
        let Some(client) = &mut self.slots[slot] else { return };
        let Some(place) = client.place else { return };
        client.load.begin(operation.bytes());
        if let Some(Ended { bytes, reply, .. }) =
            io.submit(Asker::Client { slot, request }, place, operation)
        {
            self.ended((slot, &request), (bytes, reply), io.groups);
        }
    }

    /// A request of a client ended.
    pub(crate) fn ended(
        &mut self,
        (slot, request): (usize, &Request),
        (bytes, reply): (u64, Reply),
        groups: &[Group],
    ) {
        let Some(client) = &mut self.slots[slot] else { return };
        client.load.end(bytes);
        let Some(place) = client.place else { return };
        if planted(Plant::ReplyTwice) {
            answers::reply(client, request, reply.clone(), &groups[place.group]);
        }
        if planted(Plant::ReplyToAnother) {
            let at = |it: &&mut Client| it.place == Some(place);
            if let Some(another) = self.slots.iter_mut().rev().flatten().find(at) {
                return answers::reply(another, request, reply, &groups[place.group]);
            }
        }
        if let Some(client) = &mut self.slots[slot] {
            answers::reply(client, request, reply, &groups[place.group]);
        }
    }

    /// Goes on with a client whose request was answered, or whose buffer may be there now.
    pub(crate) fn wake(&mut self, slot: usize, io: &mut Io<'_>) {
        self.digest(slot, io);
    }

    /// Clients whose payload waited for a buffer, or whose read for room, to be tried again.
    pub(crate) fn starved(&mut self) -> Vec<usize> {
        let mut starved = std::mem::take(&mut self.starving);
        if !self.postponed.is_empty() {
            starved.append(&mut self.postponed.take());
        }
        starved
    }

    fn pump_slot(&mut self, slot: usize, driver: &mut dyn Driver) {
        let Some(client) = &mut self.slots[slot] else { return };
        if let Some(op) = client.send() {
            driver.submit(token(Kind::ClientSend, slot, client.epoch), op);
        }
        let held = client.held();
        self.held = self.held - std::mem::replace(&mut client.counted, held) + held;
        if client.leaving {
            if client.load.is_idle() && !client.stream.is_sending() {
                let _gone = self.free(slot, driver);
            } else if client.load.is_idle() && client.until == Moment::NEVER {
                // It still takes what it was told last; not for ever.
                self.next_expiry = Moment::ZERO;
            }
            return;
        }
        if let Some(op) = client.receive() {
            driver.submit(token(Kind::ClientRecv, slot, client.epoch), op);
        }
    }

    /// Sends everybody of a group away, or everybody: it is primary here no more, or the daemon stops.
    pub(crate) fn dismiss(&mut self, group: Option<usize>, driver: &mut dyn Driver) {
        self.dismiss_if(driver, |client| {
            group.is_none_or(|g| client.place.is_some_and(|place| place.group == g))
        });
    }

    /// The group failed: its clients' connections end at once. What they have under way is not replied to.
    pub(crate) fn abandon(
        &mut self,
        group: usize,
        requests: &mut Requests,
        driver: &mut dyn Driver,
    ) {
        for slot in 0..self.slots.len() {
            let place = self.slots[slot].as_ref().and_then(|client| client.place);
            if place.is_some_and(|place| place.group == group) {
                self.leave(slot);
                requests.forget(Origin::Client(slot));
                let _gone = self.free(slot, driver);
            }
        }
    }

    fn dismiss_if(&mut self, driver: &mut dyn Driver, gone: impl Fn(&Client) -> bool) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(|client| !client.leaving && gone(client)) {
                self.leave(slot);
                self.pump_slot(slot, driver);
            }
        }
    }
}
