// SPDX-License-Identifier: Apache-2.0
//! A server in memory: the product's own session state machine over two vectors, one for the cache and one for what is
//! durable. It can be told to lie.

use crate::client::{Client, Ending, Stepped, Turn};
use crate::model::{Model, Violation};
use helio_nbd::{
    Command, Context, Contexts, ErrorCode, ExportInfo, Exports, OpenRefusal, ReadPart, ReadPiece,
    Request, Session, SessionOptions, StatusExtent, Step, status, zero_runs,
};
use helio_units::{Bytes, Moment};
use helio_world::{Received, Stream};
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes that a direction of a pipe holds.
const ROOM: usize = 48 << 10;

/// A generator of numbers below a bound, by a seed.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// It answers a write twice.
    AnswersTwice,
    /// It acknowledges a write and drops it.
    DropsWrite,
    /// It returns what a sector held before its last write.
    OldSector,
    /// It acknowledges a flush and flushes nothing.
    EarlyFlush,
    /// It acknowledges a forced write that is not durable.
    EarlyFua,
    /// It puts a write one sector too far.
    WrongPlace,
    /// It performs a write whose payload did not arrive whole.
    PartialWrite,
    /// It calls a stretch zeros that is not.
    FalseZeros,
    /// It answers a read with another request's cookie.
    WrongCookie,
    /// It answers a request that it should refuse.
    Obliges,
}

/// Both directions between one client and the server.
#[derive(Default)]
pub(super) struct Pipe {
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    client_gone: bool,
    reset: bool,
    server_gone: bool,
    /// Where the pieces of what is sent and received are cut.
    cuts: u64,
}

impl Pipe {
    fn cut(&mut self) -> usize {
        self.cuts = self.cuts.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        match self.cuts >> 61 {
            0 => 1,
            1 => (self.cuts >> 40) as usize % 64 + 1,
            _ => (self.cuts >> 40) as usize % 16_384 + 1,
        }
    }
}

impl Stream for Pipe {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        if self.server_gone || self.client_gone {
            return Err(());
        }
        let count = self.cut().min(bytes.len()).min(ROOM - self.to_server.len());
        self.to_server.extend(&bytes[..count]);
        Ok(count)
    }

    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> Received {
        let count = self.cut().min(most).min(self.to_client.len());
        into.extend(self.to_client.drain(..count));
        match (count, self.server_gone) {
            (1.., _) => Received::Bytes,
            (0, true) => Received::End,
            (0, false) => Received::Nothing,
        }
    }

    fn close(&mut self) {
        self.client_gone = true;
    }

    fn reset(&mut self) {
        self.client_gone = true;
        self.reset = true;
        self.to_server.clear();
    }
}

/// A request that the server has not performed.
struct Task {
    request: Request,
    payload: Vec<u8>,
}

/// The server's end of one connection.
struct Peer {
    session: Session,
    greeted: bool,
    tasks: Vec<Task>,
    /// The write whose payload is arriving.
    write: Option<Task>,
    out: Vec<u8>,
    left: bool,
}

/// One volume.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) cache: Vec<u8>,
    pub(super) durable: Vec<u8>,
    before: Vec<u8>,
    /// What a peer began with, and every change since, in order.
    base: Vec<u8>,
    changes: Vec<(usize, Vec<u8>)>,
    pub(super) export: ExportInfo,
    pub(super) lie: Option<Lie>,
    /// Flushes and forced writes fail.
    pub(super) failing: bool,
}

impl Disk {
    pub(super) fn new(sectors: usize) -> Self {
        let bytes = vec![0; sectors * 512];
        Self {
            cache: bytes.clone(),
            durable: bytes.clone(),
            before: bytes.clone(),
            base: bytes,
            changes: Vec::new(),
            export: ExportInfo {
                name: "db/data".into(),
                description: String::new(),
                size: Bytes(sectors as u64 * 512),
                read_only: false,
                volatile: false,
                trim: true,
                fast_zero: false,
                longest_effect: Bytes(u64::MAX),
                contexts: Contexts::ALL,
                minimum_block: 512,
                preferred_block: 4096,
                handle: 1,
            },
            lie: None,
            failing: false,
        }
    }

    /// The power goes: of each sector either the cached or the durable content stays.
    pub(super) fn lose_power(&mut self, chance: &mut Chance) {
        for (cached, durable) in self.cache.chunks_mut(512).zip(self.durable.chunks_mut(512)) {
            if chance.below(2) == 0 {
                durable.copy_from_slice(cached)
            } else {
                cached.copy_from_slice(durable)
            }
        }
        self.level();
    }

    /// A flush of the store fails: of each sector either the cached or the durable content is left in the cache.
    pub(super) fn drop_some(&mut self, chance: &mut Chance) {
        for (cached, durable) in self.cache.chunks_mut(512).zip(self.durable.chunks(512)) {
            if chance.below(2) == 0 {
                cached.copy_from_slice(durable);
            }
        }
        self.level();
    }

    /// The peer has the same image from here on.
    fn level(&mut self) {
        self.base.copy_from_slice(&self.cache);
        self.changes.clear();
    }

    /// How many changes a peer may have.
    pub(super) fn order(&self) -> usize {
        self.changes.len()
    }

    /// A peer takes over that has the changes up to `cut`, except for `lacking`.
    pub(super) fn fail_over(&mut self, cut: usize, lacking: Option<usize>) {
        self.cache.copy_from_slice(&self.base);
        for (at, (begin, bytes)) in self.changes[..cut].iter().enumerate() {
            if lacking != Some(at) {
                self.cache[*begin..*begin + bytes.len()].copy_from_slice(bytes);
            }
        }
        self.durable.copy_from_slice(&self.cache);
        self.level();
    }

    fn change(&mut self, request: &Request, payload: &[u8], chance: &mut Chance) {
        let mut begin = request.extent.offset as usize;
        let end = request.extent.end() as usize;
        match self.lie {
            Some(Lie::DropsWrite) if chance.below(4) == 0 => return,
            Some(Lie::WrongPlace) if end < self.cache.len() && chance.below(4) == 0 => begin += 512,
            _ => {}
        }
        let length = request.extent.length as usize;
        let place = begin..begin + length;
        self.before[place.clone()].copy_from_slice(&self.cache[place.clone()]);
        match payload {
            [] => self.cache[place.clone()].fill(0),
            bytes => self.cache[place.clone()][..bytes.len()].copy_from_slice(bytes),
        }
        self.changes.push((begin, self.cache[place.clone()].to_vec()));
        if request.fua && self.lie != Some(Lie::EarlyFua) {
            self.durable[place.clone()].copy_from_slice(&self.cache[place]);
        }
    }

    fn perform(&mut self, session: &Session, task: &Task, chance: &mut Chance, out: &mut Vec<u8>) {
        let Task { mut request, ref payload } = *task;
        let place = request.extent.offset as usize..request.extent.end() as usize;
        if self.failing && (request.fua || request.command == Command::Flush) {
            return session.reply_error(&request, ErrorCode::Io, "the flush failed", out);
        }
        match request.command {
            Command::Read => {
                let mut data = self.cache[place.clone()].to_vec();
                if self.lie == Some(Lie::OldSector) && chance.below(4) == 0 {
                    data[..512].copy_from_slice(&self.before[place.start..place.start + 512]);
                }
                if self.lie == Some(Lie::WrongCookie) {
                    request.cookie.0 ^= 1;
                }
                let parts = zero_runs(request.extent.offset, &data, 1024).map(ReadPart::from);
                return session.reply_read_parts(&request, parts, |piece| match piece {
                    ReadPiece::Bytes(bytes) => out.extend_from_slice(bytes),
                    ReadPiece::Payload(range) => out.extend_from_slice(&data[range]),
                });
            }
            Command::BlockStatus => {
                let data = &self.cache[place];
                let all = self.lie == Some(Lie::FalseZeros);
                let runs: Vec<_> = zero_runs(request.extent.offset, data, 512)
                    .map(|(run, zero)| StatusExtent {
                        length: run.len() as u64,
                        flags: if zero || all { status::ZERO } else { 0 },
                    })
                    .collect();
                return session.reply_block_status(&request, &[(Context::Allocation, &runs)], out);
            }
            Command::Write => self.change(&request, payload, chance),
            Command::Trim | Command::WriteZeroes => self.change(&request, &[], chance),
            Command::Flush if self.lie == Some(Lie::EarlyFlush) => {}
            Command::Flush => self.durable.copy_from_slice(&self.cache),
            Command::Cache => {}
        }
        session.reply_done(&request, out);
        if self.lie == Some(Lie::AnswersTwice) && request.command == Command::Write {
            session.reply_done(&request, out);
        }
    }
}

impl Exports for Disk {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        each(&self.export);
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        if name == "db/other" {
            return Err(OpenRefusal::Policy("db is secondary here".into()));
        }
        Ok(self.export.clone())
    }
}

impl Peer {
    fn new() -> Self {
        let session = Session::with(SessionOptions::default());
        let (tasks, out) = (Vec::new(), Vec::new());
        Self { session, greeted: false, tasks, write: None, out, left: false }
    }

    /// Takes in what has arrived, and performs some of it, in any order.
    fn serve(&mut self, pipe: &mut Pipe, disk: &mut Disk, chance: &mut Chance) {
        if pipe.server_gone {
            return;
        }
        if !std::mem::replace(&mut self.greeted, true) {
            self.session.greeting(&mut self.out);
        }
        self.read(pipe, disk);
        if pipe.reset || pipe.client_gone && pipe.to_server.is_empty() && self.tasks.is_empty() {
            self.end(pipe, disk, chance);
            return;
        }
        while !self.tasks.is_empty() && chance.below(3) > 0 {
            let task = self.tasks.swap_remove(chance.below(self.tasks.len() as u64) as usize);
            disk.perform(&self.session, &task, chance, &mut self.out);
        }
        let room = ROOM.saturating_sub(pipe.to_client.len()).min(self.out.len());
        pipe.to_client.extend(self.out.drain(..room));
        if self.left && self.tasks.is_empty() && self.out.is_empty() {
            pipe.server_gone = true;
        }
    }

    fn read(&mut self, pipe: &mut Pipe, disk: &Disk) {
        if self.left || self.tasks.len() > 64 || self.out.len() > ROOM {
            return;
        }
        let count = (pipe.cut() * 4).min(pipe.to_server.len());
        let input: Vec<u8> = pipe.to_server.drain(..count).collect();
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let Ok((used, step)) = self.session.consume(rest, disk, &mut self.out) else {
                self.left = true;
                return;
            };
            at += used;
            if disk.lie == Some(Lie::Obliges) {
                oblige(&mut self.out);
            }
            match step {
                Step::NeedMore => return,
                Step::Disconnect => {
                    self.left = true;
                    return;
                }
                Step::Request(request) if request.command == Command::Write => {
                    self.write = Some(Task { request, payload: Vec::new() });
                }
                Step::Request(request) => self.tasks.push(Task { request, payload: Vec::new() }),
                Step::Payload { chunk, last } => {
                    let mut task = self.write.take().expect("a payload follows its write");
                    task.payload.extend_from_slice(&rest[chunk]);
                    if last { self.tasks.push(task) } else { self.write = Some(task) }
                }
                _ => {}
            }
        }
    }

    /// The client is gone: what waits may be performed or not.
    fn end(&mut self, pipe: &mut Pipe, disk: &mut Disk, chance: &mut Chance) {
        pipe.server_gone = true;
        let mut nowhere = Vec::new();
        for task in std::mem::take(&mut self.tasks) {
            if chance.below(2) == 0 {
                disk.perform(&self.session, &task, chance, &mut nowhere);
            }
        }
        if let Some(task) = self.write.take().filter(|_| disk.lie == Some(Lie::PartialWrite)) {
            disk.change(&task.request, &task.payload[..task.payload.len() / 512 * 512], chance);
        }
    }
}

/// Turns the error in a simple reply into success.
fn oblige(out: &mut [u8]) {
    let magic = 0x6744_6698_u32.to_be_bytes();
    if let Some(at) = out.windows(4).position(|word| word == magic) {
        out[at + 4..at + 8].fill(0);
    }
}

/// Clients of one disk, in virtual time.
pub(super) struct Story {
    pub(super) disk: Disk,
    pub(super) model: Model,
    pub(super) chance: Chance,
    pub(super) now: Moment,
    pub(super) links: Vec<Link>,
}

/// A client and its connection.
pub(super) struct Link {
    pub(super) client: Client,
    pipe: Pipe,
    peer: Peer,
    pub(super) endings: Vec<Ending>,
    over: bool,
}

impl Story {
    pub(super) fn new(sectors: usize, seed: u64) -> Self {
        Self {
            disk: Disk::new(sectors),
            model: Model::new(&[sectors as u64]),
            chance: Chance::new(seed),
            now: Moment::ZERO,
            links: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, habits: crate::client::Habits) {
        let client = Client::new(habits, &mut self.model);
        let pipe = Pipe { cuts: self.chance.below(u64::MAX), ..Pipe::default() };
        let link = Link { client, pipe, peer: Peer::new(), endings: Vec::new(), over: false };
        self.links.push(link);
    }

    /// Connects every client again whose connection is over. The server has nothing of the old one.
    pub(super) fn reconnect(&mut self) {
        for link in self.links.iter_mut().filter(|link| link.over) {
            self.model.settled(link.client.connection());
            link.client.connected(&mut self.model);
            link.pipe = Pipe { cuts: self.chance.below(u64::MAX), ..Pipe::default() };
            (link.peer, link.over) = (Peer::new(), false);
        }
    }

    /// The server ends all connections, and performs nothing that waits. Some answers are still under way.
    pub(super) fn end_connections(&mut self) {
        for link in &mut self.links {
            link.peer.serve(&mut link.pipe, &mut self.disk, &mut self.chance);
            link.pipe.server_gone = true;
            link.peer.tasks.clear();
            link.peer.write = None;
        }
    }

    /// Runs until every connection is over, or for that many rounds.
    pub(super) fn run(&mut self, rounds: u32) -> Result<(), Violation> {
        for _ in 0..rounds {
            self.now = self.now + Duration::from_micros(100);
            let (mut busy, mut next) = (false, Moment::NEVER);
            let before = self.under_way();
            for link in &mut self.links {
                link.peer.serve(&mut link.pipe, &mut self.disk, &mut self.chance);
                if link.over {
                    continue;
                }
                busy = true;
                let mut turn = Turn {
                    stream: &mut link.pipe,
                    now: self.now,
                    dice: &mut |below| self.chance.below(below),
                    model: &mut self.model,
                };
                match link.client.step(&mut turn)? {
                    Stepped::Waits(until) => next = next.min(until),
                    Stepped::Ended(ending) => {
                        link.endings.push(ending);
                        link.over = true;
                    }
                }
            }
            let waits = self.links.iter().all(|link| link.peer.tasks.is_empty());
            if waits && before == self.under_way() && next < Moment::NEVER {
                self.now = self.now.max(next);
            }
            let served = |link: &Link| link.pipe.server_gone;
            if !busy && self.links.iter().all(served) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Bytes under way on each connection, in each of their places.
    fn under_way(&self) -> Vec<[usize; 3]> {
        let links = self.links.iter();
        let bytes = |link: &Link| {
            [link.pipe.to_server.len(), link.pipe.to_client.len(), link.peer.out.len()]
        };
        links.map(bytes).collect()
    }

    pub(super) fn is_over(&self) -> bool {
        self.links.iter().all(|link| link.over)
    }

    /// Judges the image.
    pub(super) fn look(&mut self) -> Result<(), Violation> {
        self.model.read_image(&[&self.disk.cache])
    }
}
