// SPDX-License-Identifier: Apache-2.0
//! A member that keeps a record of what reaches it: a file of a FUSE mount served by the test, with every write and
//! every flush in its order, and with what each flush covers.
//!
//! It answers like a disk with a cache: a flush covers only what was answered before it came. What is under way
//! together is done in an order of the dice, and now and then the recorder lingers, so that more is.

use helio_attach::{
    Arrival, Channel, Fault, HEAD_BYTES, MESSAGE_BYTES, Mount, Session, Shape, Step, Work,
};
use helio_driver::Buffer;
use helio_testkit::{Dice, TempDir};
use helio_units::{Bytes, Extent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Messages taken together at most.
const BATCH: usize = 16;
/// FUSE's number of a request for holes and zeroes.
const FALLOCATE: u32 = 43;
/// Room behind the end for holes alone: a member's file system is asked there whether it makes them.
const BEHIND: u64 = 1 << 20;
/// How long it lingers for more, in nanoseconds.
const LINGER: i64 = 300_000;

/// What reached the member.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes.
    Write { offset: u64, bytes: Box<[u8]> },
    /// Zeroes, or space given back.
    Zero(Extent),
    /// The events before this index are durable.
    Flush { covers: usize },
}

/// The record.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
}

/// A recorded member. It must outlive its daemon.
#[derive(Debug)]
pub(crate) struct Recorder {
    record: Arc<Mutex<Record>>,
    mount: Option<Mount>,
    serving: Option<JoinHandle<io::Result<()>>>,
    folder: TempDir,
}

impl Recorder {
    pub(crate) fn new(size: Bytes, dice: Dice) -> Self {
        let folder = TempDir::new();
        let store = folder.file("store", size);
        let store = File::options().read(true).write(true).open(store).expect("just made");
        let shape = Shape { size, block: 512, read_only: false, trims: true };
        let (mount, channel) = Mount::new(&folder.join("member"), "recorder").expect("FUSE");
        let record = Arc::default();
        let roomy = Shape { size: Bytes(size.0 + BEHIND), ..shape };
        let sessions = [shape, roomy].map(Session::new);
        let served = Served { channel, sessions, store, record: Arc::clone(&record), dice };
        let serving = std::thread::spawn(move || served.run());
        Self { record, mount: Some(mount), serving: Some(serving), folder }
    }

    /// The member.
    pub(crate) fn member(&self) -> PathBuf {
        self.folder.join("member")
    }

    /// What the member holds, for a look past the record.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// How many events there are.
    pub(crate) fn now(&self) -> usize {
        self.record().events.len()
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("who records does not panic with it")
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _gone = self.mount.take().map(|mount| mount.remove(true));
        let served = self.serving.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(served, Some(Ok(Ok(())))), "the recorder failed: {served:?}");
        }
    }
}

/// The serving thread's things.
struct Served {
    channel: Channel,
    /// For all requests, and for holes.
    sessions: [Session; 2],
    store: File,
    record: Arc<Mutex<Record>>,
    dice: Dice,
}

/// A request under way.
struct Request {
    unique: u64,
    work: Work,
    body: Buffer,
}

impl Served {
    fn run(mut self) -> io::Result<()> {
        let mut spare: Vec<Buffer> = Vec::new();
        loop {
            self.wait(None)?;
            let mut batch = Vec::new();
            if !self.gather(&mut batch, &mut spare)? {
                return Ok(());
            }
            if self.dice.chance(25) && batch.len() < BATCH {
                let linger = Timespec { tv_sec: 0, tv_nsec: LINGER };
                self.wait(Some(&linger))?;
                if !self.gather(&mut batch, &mut spare)? {
                    return Ok(());
                }
            }
            let answered = self.record.lock().expect("nobody panics with it").events.len();
            while !batch.is_empty() {
                let next = self.dice.below(batch.len() as u64) as usize;
                let mut request = batch.swap_remove(next);
                self.serve(&mut request, answered)?;
                spare.push(request.body);
            }
        }
    }

    fn wait(&self, limit: Option<&Timespec>) -> io::Result<()> {
        let mut set = [PollFd::from_borrowed_fd(self.channel.socket().as_fd(), PollFlags::IN)];
        poll(&mut set, limit)?;
        Ok(())
    }

    /// Takes what there is; false once there will be no more.
    fn gather(&self, batch: &mut Vec<Request>, spare: &mut Vec<Buffer>) -> io::Result<bool> {
        while batch.len() < BATCH {
            let mut head = [0; HEAD_BYTES];
            let mut body = spare.pop().unwrap_or_else(|| Buffer::zeroed(MESSAGE_BYTES));
            let length = match self.channel.receive(&mut head, &mut body, &mut [])? {
                Arrival::Message(length) => length,
                Arrival::Over => return Ok(false),
                Arrival::Nothing => return Ok(true),
            };
            let hole = head[4..8] == FALLOCATE.to_ne_bytes();
            let session = &self.sessions[usize::from(hole)];
            match session.consume(&head[..length.min(HEAD_BYTES)], length) {
                Step::Answer(answer) => self.channel.answer(&answer, &[])?,
                Step::Silent => {}
                Step::Work { unique, work } => batch.push(Request { unique, work, body }),
            }
        }
        Ok(true)
    }

    fn serve(&self, request: &mut Request, answered: usize) -> io::Result<()> {
        let done = Session::done(request.unique, &request.work);
        match self.perform(&request.work, &mut request.body, answered) {
            Ok(payload) => self.channel.answer(&done, payload)?,
            Err(_) => self.channel.answer(&Session::failed(request.unique, Fault::Io), &[])?,
        }
        Ok(())
    }

    fn perform<'a>(
        &self,
        work: &Work,
        body: &'a mut Buffer,
        answered: usize,
    ) -> io::Result<&'a [u8]> {
        match *work {
            Work::Read { extent, skip, length } => {
                self.store.read_exact_at(&mut body[..extent.length as usize], extent.offset)?;
                return Ok(&body[skip..skip + length]);
            }
            Work::Write { extent, durable } => {
                let bytes = &body[..extent.length as usize];
                self.store.write_all_at(bytes, extent.offset)?;
                self.note(Event::Write { offset: extent.offset, bytes: bytes.into() });
                assert!(!durable, "the kernel makes a flush of what a write is to be");
            }
            Work::Flush => self.note(Event::Flush { covers: answered }),
            Work::Zero { extent, .. } if extent.offset >= self.sessions[0].shape().size.0 => {}
            Work::Zero { extent, .. } => {
                zero(&self.store, extent)?;
                self.note(Event::Zero(extent));
            }
        }
        Ok(&[])
    }

    fn note(&self, event: Event) {
        self.record.lock().expect("nobody panics with it").events.push(event);
    }
}

/// Makes a hole.
pub(crate) fn zero(file: &File, extent: Extent) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, how, extent.offset, extent.length)?)
}

/// The path of a member in a configuration.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
