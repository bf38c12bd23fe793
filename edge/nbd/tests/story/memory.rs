// SPDX-License-Identifier: Apache-2.0
//! A server whose disk is a vector. It shows what a shard does with a session, one thread per connection.

use helio_nbd::{
    Command, Context, Contexts, ErrorCode, ExportInfo, Exports, OpenRefusal, ReadPart, ReadPiece,
    Request, Session, SessionError, SessionOptions, StatusExtent, Step, status, zero_runs,
};
use helio_units::{Bytes, Extent};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A disk, how it behaves, and what it has seen.
pub(crate) struct Disk {
    pub(crate) bytes: Mutex<Vec<u8>>,
    /// What its export looks like.
    pub(crate) export: ExportInfo,
    /// Touching this fails.
    pub(crate) bad: Option<Extent>,
    /// Whether the replies to requests that arrive together leave in reverse order.
    pub(crate) backwards: bool,
    /// What may differ from the peer's copy.
    pub(crate) marked: Extent,
    /// Bytes clients said they would want.
    pub(crate) warmed: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) forced: AtomicU64,
}

impl Disk {
    pub(crate) fn new(size: Bytes) -> Self {
        Self {
            bytes: Mutex::new(vec![0; size.0 as usize]),
            export: ExportInfo {
                name: "db/data".into(),
                description: "a disk in memory".into(),
                size,
                read_only: false,
                volatile: false,
                trim: true,
                fast_zero: false,
                longest_effect: Bytes(u64::MAX),
                contexts: Contexts::ALL,
                minimum_block: 1,
                preferred_block: 4096,
                handle: 42,
            },
            bad: None,
            backwards: false,
            marked: Extent::default(),
            warmed: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            forced: AtomicU64::new(0),
        }
    }

    /// Carries a request out and writes its reply.
    fn serve(&self, session: &Session, request: Request, payload: &[u8], out: &mut Vec<u8>) {
        let extent = request.extent;
        if self.bad.is_some_and(|bad| bad.overlaps(extent)) {
            return session.reply_error(&request, ErrorCode::Io, "the platter is scratched", out);
        }
        if request.fua {
            self.forced.fetch_add(1, Ordering::SeqCst);
        }
        let place: Range<usize> = extent.offset as usize..extent.end() as usize;
        let mut bytes = self.bytes.lock().unwrap();
        match request.command {
            Command::Read => {
                let data = &bytes[place];
                let parts = zero_runs(extent.offset, data, 4096).map(ReadPart::from);
                return session.reply_read_parts(&request, parts, |piece| match piece {
                    ReadPiece::Bytes(bytes) => out.extend_from_slice(bytes),
                    ReadPiece::Payload(range) => out.extend_from_slice(&data[range]),
                });
            }
            Command::BlockStatus => {
                let allocation = allocation(extent.offset, &bytes[place]);
                let told = [
                    (Context::Allocation, &allocation[..]),
                    (Context::Marks, &self.marks(extent)[..]),
                ];
                return session.reply_block_status(&request, &told, out);
            }
            Command::Cache => {
                self.warmed.fetch_add(extent.length, Ordering::SeqCst);
            }
            Command::Write => bytes[place].copy_from_slice(payload),
            Command::Trim | Command::WriteZeroes => bytes[place].fill(0),
            Command::Flush => {
                self.flushes.fetch_add(1, Ordering::SeqCst);
            }
        }
        session.reply_done(&request, out);
    }

    /// Before, within and behind what is marked, as far as it concerns the extent.
    fn marks(&self, extent: Extent) -> [StatusExtent; 3] {
        let clip = |at: u64| at.clamp(extent.offset, extent.end());
        let (begin, end) = (clip(self.marked.offset), clip(self.marked.end()));
        let part = |length, flags| StatusExtent { length, flags };
        [
            part(begin - extent.offset, 0),
            part(end - begin, status::MARKED),
            part(extent.end() - end, 0),
        ]
    }
}

/// What is zero counts as not allocated.
fn allocation(offset: u64, data: &[u8]) -> Vec<StatusExtent> {
    zero_runs(offset, data, 4096)
        .map(|(run, zero)| StatusExtent {
            length: run.len() as u64,
            flags: if zero { status::HOLE | status::ZERO } else { 0 },
        })
        .collect()
}

impl Exports for Disk {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        each(&self.export);
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        match name {
            "shut" => Err(OpenRefusal::Policy("db is secondary here; promote it first".into())),
            // The empty name asks for the default export.
            "" => Ok(self.export.clone()),
            name if name == self.export.name => Ok(self.export.clone()),
            _ => Err(OpenRefusal::Unknown),
        }
    }
}

/// Serves one connection to its end.
pub(crate) fn serve(mut stream: UnixStream, disk: &Disk) -> Result<(), SessionError> {
    let mut session = Session::with(SessionOptions::default());
    let mut out = Vec::new();
    session.greeting(&mut out);
    let mut input = vec![0; 64 << 10];
    let mut write: Option<(Request, Vec<u8>)> = None;
    loop {
        if stream.write_all(&out).is_err() {
            return Ok(());
        }
        out.clear();
        // A client that hangs up is not the session's business.
        let Ok(length @ 1..) = stream.read(&mut input) else { return Ok(()) };
        let mut replies: Vec<Vec<u8>> = Vec::new();
        let (mut at, mut left) = (0, false);
        loop {
            let rest = &input[at..length];
            let (used, step) = session.consume(rest, disk, &mut out)?;
            let mut reply = Vec::new();
            match step {
                Step::NeedMore => break,
                Step::Disconnect => {
                    left = true;
                    break;
                }
                Step::Negotiating => {}
                Step::StartTls => panic!("TLS was not offered"),
                Step::Ready { handle, name } => assert_eq!((handle, name), (42, "db/data".into())),
                Step::Request(request) if request.command == Command::Write => {
                    write = Some((request, Vec::with_capacity(request.extent.length as usize)));
                }
                Step::Request(request) => disk.serve(&session, request, &[], &mut reply),
                Step::Payload { chunk, last } => {
                    let (request, mut payload) = write.take().expect("a payload follows its write");
                    payload.extend_from_slice(&rest[chunk]);
                    if last {
                        disk.serve(&session, request, &payload, &mut reply);
                    } else {
                        write = Some((request, payload));
                    }
                }
            }
            replies.push(reply);
            at += used;
        }
        if disk.backwards {
            replies.reverse();
        }
        out.extend(replies.into_iter().flatten());
        if left {
            // Nobody need be listening any more.
            let _ = stream.write_all(&out);
            return Ok(());
        }
    }
}

/// Serves one end of a pair of sockets in a thread, and gives the other.
pub(crate) fn pair(disk: &Arc<Disk>) -> (UnixStream, JoinHandle<Result<(), SessionError>>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let disk = Arc::clone(disk);
    (ours, thread::spawn(move || serve(theirs, &disk)))
}

/// A server at a path, for as long as it is held.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(disk: &Arc<Disk>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("nbd.sock")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (disk, stopped) = (Arc::clone(disk), Arc::clone(&stop));
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, disk) = (stream.unwrap(), Arc::clone(&disk));
                thread::spawn(move || serve(stream, &disk));
            }
        });
        Self { folder, stop, listening: Some(listening) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("nbd.sock")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener; if it is gone already there is nothing to wake.
        let _ = UnixStream::connect(self.socket());
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}
