// SPDX-License-Identifier: Apache-2.0
//! The thread that serves a faulty store: FUSE messages in, answers out, in the order they came except for what waits.

use super::State;
use super::fault::Fua;
use super::record::Event;
use helio_attach::{
    Arrival, Channel, Fault, HEAD_BYTES, MESSAGE_BYTES, Session, Shape, Step, Work,
};
use helio_driver::{Buffer, Errno};
use helio_units::{Bytes, Extent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::SeekFrom;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// FUSE's numbers of requests that a [`Session`] does not answer as a file that grows needs it.
const SETATTR: u32 = 4;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const WRITE: u32 = 16;
const SETXATTR: u32 = 21;
const GETXATTR: u32 = 22;
const REMOVEXATTR: u32 = 24;
/// Not a flush of the disk, but the question at every close.
const FLUSH: u32 = 25;
const FALLOCATE: u32 = 43;
const LSEEK: u32 = 46;
/// The bytes before a request's own fields.
const HEADER: usize = 40;
/// SETATTR's flag for a new size, and where that lies.
const NEW_SIZE: u32 = 1 << 3;
const NEW_SIZE_AT: usize = HEADER + 16;
/// Room behind the end for discards alone: a daemon asks there whether the file system makes holes.
const BEHIND: u64 = 1 << 20;
/// How often it looks whether something that waits is due, in nanoseconds.
const LOOK: i64 = 2_000_000;
/// The longest that a flush is held.
const LONGEST_HOLD: Duration = Duration::from_secs(20);

pub(super) struct Served {
    channel: Channel,
    state: Arc<Mutex<State>>,
    block: u32,
    grows: bool,
    late: Vec<Message>,
    waiting: Vec<Waiting>,
}

/// A request that the store is slow at.
struct Message {
    head: [u8; HEAD_BYTES],
    length: usize,
    body: Buffer,
    came: Instant,
}

/// A request that was understood, and its bytes.
struct Waiting {
    unique: u64,
    work: Work,
    body: Buffer,
    came: Instant,
}

impl Served {
    pub(super) fn new(channel: Channel, state: Arc<Mutex<State>>, block: u32, grows: bool) -> Self {
        Self { channel, state, block, grows, late: Vec::new(), waiting: Vec::new() }
    }

    pub(super) fn run(mut self) -> io::Result<()> {
        let mut spare: Vec<Buffer> = Vec::new();
        loop {
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK };
            let wanted = if self.hangs() { PollFlags::empty() } else { PollFlags::IN };
            let mut set = [PollFd::from_borrowed_fd(self.channel.socket().as_fd(), wanted)];
            let looks = wanted.is_empty() || !self.waiting.is_empty() || !self.late.is_empty();
            poll(&mut set, looks.then_some(&look))?;
            // The end of the mount comes however it hangs.
            if self.hangs() && !set[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
                self.serve_due(&mut spare)?;
                continue;
            }
            let mut head = [0; HEAD_BYTES];
            let mut body = spare.pop().unwrap_or_else(|| Buffer::zeroed(MESSAGE_BYTES));
            match self.channel.receive(&mut head, &mut body, &mut [])? {
                Arrival::Message(length) if self.delay(&head).is_zero() => {
                    self.take(&head, length, body)?;
                }
                Arrival::Message(length) => {
                    self.state().control.counts.slowed += 1;
                    self.late.push(Message { head, length, body, came: Instant::now() });
                }
                Arrival::Over => return Ok(()),
                Arrival::Nothing => spare.push(body),
            }
            self.take_late()?;
            self.serve_due(&mut spare)?;
        }
    }

    fn delay(&self, head: &[u8]) -> Duration {
        self.state().control.delay(word(head, 4))
    }

    /// Takes what has been late for long enough.
    fn take_late(&mut self) -> io::Result<()> {
        for message in std::mem::take(&mut self.late) {
            if message.came.elapsed() < self.delay(&message.head) {
                self.late.push(message);
            } else {
                self.take(&message.head, message.length, message.body)?;
            }
        }
        Ok(())
    }

    fn hangs(&self) -> bool {
        self.state().control.hangs
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves what need not wait any longer.
    fn serve_due(&mut self, spare: &mut Vec<Buffer>) -> io::Result<()> {
        let mut at = 0;
        while at < self.waiting.len() {
            if self.is_due(&self.waiting[at]) {
                let mut request = self.waiting.remove(at);
                self.serve(&mut request)?;
                spare.push(request.body);
            } else {
                at += 1;
            }
        }
        let flushes = self.waiting.iter().filter(|waiting| waiting.work == Work::Flush).count();
        self.state().control.counts.waiting = flushes;
        Ok(())
    }

    /// A flush may be held; a killed daemon ends only after its last operation did.
    fn is_due(&self, waiting: &Waiting) -> bool {
        let is_held = waiting.work == Work::Flush && self.state().control.holds;
        !is_held || waiting.came.elapsed() >= LONGEST_HOLD
    }

    /// Answers a message, or puts its work into the queue.
    fn take(&mut self, head: &[u8], length: usize, body: Buffer) -> io::Result<()> {
        let opcode = word(head, 4);
        let unique = long(head, 8);
        match opcode {
            OPEN => self.state().cache.show_lost()?,
            SETATTR if self.grows && word(head, HEADER) & NEW_SIZE != 0 => {
                self.state().set_size(long(head, NEW_SIZE_AT))?;
                return self.answer_with_attributes(head);
            }
            WRITE | FALLOCATE if self.grows => {
                // WRITE names a length of 32 bits.
                let span = long(head, HEADER + 16);
                let span = if opcode == WRITE { span & 0xffff_ffff } else { span };
                let end = long(head, HEADER + 8) + span;
                let mode = if opcode == FALLOCATE { word(head, HEADER + 24) } else { 0 };
                let mut state = self.state();
                if mode == 0 && end > state.cache.size() {
                    state.set_size(end)?;
                }
                drop(state);
                if opcode == FALLOCATE && mode == 0 {
                    return self.done(&Session::done(unique, &Work::Flush), &[]);
                }
            }
            LSEEK => return self.seek(unique, head),
            FLUSH => return self.reply(unique, Err(Errno::NOSYS)),
            SETXATTR | GETXATTR | REMOVEXATTR => {
                let behind = length.saturating_sub(HEAD_BYTES);
                let message = [&head[..length.min(HEAD_BYTES)], &body[..behind]].concat();
                return self.attribute(unique, &message);
            }
            _ => {}
        }
        let room = if opcode == FALLOCATE { BEHIND } else { 0 };
        match self.session(room).consume(&head[..length.min(HEAD_BYTES)], length) {
            Step::Answer(answer) => self.done(&answer, &[]),
            Step::Silent => Ok(()),
            Step::Work { unique, work } => {
                self.waiting.push(Waiting { unique, work, body, came: Instant::now() });
                Ok(())
            }
        }
    }

    fn session(&self, room: u64) -> Session {
        let size = Bytes(self.state().cache.size() + room);
        // What grows is no member, and is written in any lengths.
        Session::new(Shape { size, block: self.block, read_only: false, trims: true })
    }

    fn answer_with_attributes(&self, head: &[u8]) -> io::Result<()> {
        let mut ask = head.to_vec();
        ask[4..8].copy_from_slice(&GETATTR.to_ne_bytes());
        match self.session(0).consume(&ask, ask.len()) {
            Step::Answer(answer) => self.done(&answer, &[]),
            Step::Silent | Step::Work { .. } => Ok(()),
        }
    }

    /// Keeps an extended attribute, removes it, or returns it.
    fn attribute(&self, unique: u64, message: &[u8]) -> io::Result<()> {
        if word(message, 4) == REMOVEXATTR {
            let name = message[HEADER..].split(|byte| *byte == 0).next().unwrap_or_default();
            let removed = self.state().attributes.remove(name);
            return self.reply(unique, removed.map(|_| &[][..]).ok_or(Errno::NODATA));
        }
        let size = word(message, HEADER) as usize;
        let named = &message[HEADER + 8..];
        let end = named.iter().position(|byte| *byte == 0).unwrap_or(named.len());
        let (name, value) = (&named[..end], named.get(end + 1..).unwrap_or_default());
        if word(message, 4) == SETXATTR {
            let value = value[..size.min(value.len())].to_vec();
            self.state().attributes.insert(name.to_vec(), value);
            return self.reply(unique, Ok(&[]));
        }
        let found = self.state().attributes.get(name).cloned();
        match found {
            None => self.reply(unique, Err(Errno::NODATA)),
            Some(value) if size == 0 => {
                let length = (value.len() as u64).to_ne_bytes();
                self.reply(unique, Ok(&length))
            }
            Some(value) if size < value.len() => self.reply(unique, Err(Errno::RANGE)),
            Some(value) => self.reply(unique, Ok(&value)),
        }
    }

    /// Where data or a hole begins.
    fn seek(&self, unique: u64, head: &[u8]) -> io::Result<()> {
        let offset = long(head, HEADER + 8);
        let to = match word(head, HEADER + 16) {
            3 => SeekFrom::Data(offset),
            4 => SeekFrom::Hole(offset),
            _ => return self.done(&Session::failed(unique, Fault::Invalid), &[]),
        };
        let found = self.state().cache.seek(to).map(u64::to_ne_bytes);
        self.reply(unique, found.as_ref().map(|found| &found[..]).map_err(|errno| *errno))
    }

    /// The answer to what a [`Session`] does not know.
    fn reply(&self, unique: u64, result: Result<&[u8], Errno>) -> io::Result<()> {
        let (error, body) = match result {
            Ok(body) => (0, body),
            Err(errno) => (-errno.raw_os_error(), &[][..]),
        };
        let mut answer = (16 + body.len() as u32).to_ne_bytes().to_vec();
        answer.extend_from_slice(&error.to_ne_bytes());
        answer.extend_from_slice(&unique.to_ne_bytes());
        self.done(&answer, body)
    }

    fn done(&self, head: &[u8], payload: &[u8]) -> io::Result<()> {
        match self.channel.answer(head, payload) {
            // The file was unmounted by force.
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(()),
            other => Ok(other?),
        }
    }

    fn serve(&self, request: &mut Waiting) -> io::Result<()> {
        let done = Session::done(request.unique, &request.work);
        let ok = perform(&mut self.state(), &request.work, &mut request.body)?;
        let payload = match request.work {
            Work::Read { skip, length, .. } => &request.body[skip..skip + length],
            _ => &[],
        };
        match ok {
            true => self.done(&done, payload),
            false => self.done(&Session::failed(request.unique, Fault::Io), &[]),
        }
    }
}

/// Does the work; false if it fails on demand.
fn perform(state: &mut State, work: &Work, body: &mut Buffer) -> io::Result<bool> {
    let State { cache, control, record, .. } = state;
    match *work {
        Work::Read { extent, .. } => {
            if control.is_bad(extent, false) {
                return Ok(false);
            }
            cache.read(extent, &mut body[..extent.length as usize])?;
        }
        Work::Write { extent, durable } => {
            if control.is_bad(extent, true) {
                return Ok(false);
            }
            control.counts.writes += 1;
            let bytes = &body[..extent.length as usize];
            cache.write(extent.offset, bytes)?;
            record.note(|| Event::Write { offset: extent.offset, bytes: bytes.into() });
            if durable {
                return durable_write(state, extent);
            }
        }
        Work::Zero { extent, .. } => {
            if control.is_bad(extent, true) {
                return Ok(false);
            }
            if extent.offset < cache.size() {
                control.counts.writes += 1;
                cache.zero(extent)?;
                record.note(|| Event::Zero(extent));
            }
        }
        Work::Flush => {
            control.counts.flushes += 1;
            if let Some((loss, shows)) = control.ends(false) {
                control.counts.dropped += cache.lose(loss, shows)? as u64;
                return Ok(false);
            }
            cache.flush();
            record.note(|| Event::Flush);
        }
    }
    Ok(true)
}

/// A write with FUA that the cache holds already.
fn durable_write(state: &mut State, extent: Extent) -> io::Result<bool> {
    let State { cache, control, record, .. } = state;
    control.counts.fuas += 1;
    let failing = control.ends(true);
    match (control.fua, failing) {
        (Fua::WriteAndFlush, None) => {
            cache.flush();
            record.note(|| Event::Flush);
        }
        (Fua::Native, None) => cache.persist(extent)?,
        (Fua::WriteAndFlush, Some((loss, shows))) => {
            control.counts.dropped += cache.lose(loss, shows)? as u64;
        }
        // The write is in the cache, and nothing else changed.
        (Fua::Native, Some(_)) => {}
    }
    Ok(failing.is_none())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|n| bytes[at + n]))
}
