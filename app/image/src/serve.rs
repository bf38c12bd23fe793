// SPDX-License-Identifier: Apache-2.0
//! Serves images to NBD clients on a Unix socket, a thread for each connection.

use crate::folder::Folder;
use crate::image::Image;
use crate::recorder::Recorder;
use anyhow::{Result, anyhow, bail};
use helio_driver::listen_for_owner;
use helio_format::exported::ExportRecord;
use helio_nbd::{
    Command, Contexts, ErrorCode, ExportInfo, Exports, OpenRefusal, Request, Session, SessionError,
    SessionOptions, Step,
};
use helio_units::Bytes;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Connections at once; each holds at most one request of a client.
const CONNECTIONS_MAX: usize = 16;
/// After a connection could not be accepted.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Bytes that are read from a connection at once.
const INPUT_BYTES: usize = 256 << 10;

/// A server of the images of a directory.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    socket: Socket,
    stop: Arc<AtomicBool>,
    listening: JoinHandle<()>,
}

/// A socket in the file system.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    listener: UnixListener,
    /// Which file it is.
    inode: (u64, u64),
}

#[derive(Debug)]
struct Shared {
    exports: Vec<ExportInfo>,
    images: Vec<Image>,
    recorder: Recorder,
    connections: Mutex<Vec<(UnixStream, JoinHandle<()>)>>,
}

impl Server {
    /// Serves the images, which belong to the volumes of the record of the directory, at a socket. From now on they may change.
    ///
    /// # Errors
    /// The directory has no record, it cannot be written, or the socket cannot be opened.
    pub fn start(
        folder: Folder,
        record: ExportRecord,
        images: Vec<Image>,
        socket: &Path,
    ) -> Result<Self> {
        let exports = record.volumes.iter().enumerate();
        let exports =
            exports.map(|(at, volume)| export(&record.of.group, &volume.name, volume.size, at));
        let exports = exports.collect();
        let socket = Socket::listen(socket)?;
        let listener = socket.listener.try_clone()?;
        let recorder = Recorder::begin(folder, record, &images)?;
        let connections = Mutex::default();
        let shared = Arc::new(Shared { exports, images, recorder, connections });
        let stop = Arc::new(AtomicBool::new(false));
        let (all, stopped) = (Arc::clone(&shared), Arc::clone(&stop));
        let accept = move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                if stream.and_then(|stream| all.welcome(stream, &all)).is_err() {
                    // The connection is lost. If descriptors ran out, another connection may end in the meantime.
                    thread::park_timeout(RETRY_AFTER);
                }
            }
        };
        let listening = thread::Builder::new().name("helio-images".to_owned()).spawn(accept)?;
        Ok(Self { shared, socket, stop, listening })
    }

    /// The names of the exports.
    pub fn exports(&self) -> impl Iterator<Item = &str> {
        self.shared.exports.iter().map(|export| export.name.as_str())
    }

    /// Ends all connections, makes the images durable, and completes the record.
    ///
    /// # Errors
    /// A disk fails. What changed is on record.
    pub fn finish(self) -> Result<ExportRecord> {
        let Self { shared, socket, stop, listening } = self;
        stop.store(true, Ordering::SeqCst);
        // Wakes it, whatever became of its name.
        rustix::net::shutdown(&socket.listener, rustix::net::Shutdown::Both)?;
        let _ended = listening.join();
        let connections = shared.connections.lock().map(|mut all| std::mem::take(&mut *all));
        for (stream, thread) in
            connections.unwrap_or_else(|broken| std::mem::take(&mut *broken.into_inner()))
        {
            // It may have ended by itself.
            let _closed = stream.shutdown(Shutdown::Both);
            let _ended = thread.join();
        }
        socket.remove();
        let shared =
            Arc::into_inner(shared).ok_or_else(|| anyhow!("a connection is still served"))?;
        shared.recorder.end(&shared.images)
    }
}

impl Socket {
    /// Listens there. What a server that was killed has left is replaced.
    fn listen(path: &Path) -> Result<Self> {
        let shown = path.display();
        let hint = "name another path with --socket, at most 107 bytes long, in a directory that this user may write to";
        if let Ok(found) = fs::symlink_metadata(path) {
            if !found.file_type().is_socket() || UnixStream::connect(path).is_ok() {
                bail!("{shown} already exists and is in use, or is not a socket\n  hint: {hint}");
            }
            fs::remove_file(path)
                .map_err(|why| anyhow!("cannot remove {shown}: {why}\n  hint: {hint}"))?;
        }
        let bind = || {
            let listener = listen_for_owner(path, CONNECTIONS_MAX as u16)?;
            let found = fs::symlink_metadata(path)?;
            Ok::<_, io::Error>((listener, (found.dev(), found.ino())))
        };
        let (listener, inode) =
            bind().map_err(|why| anyhow!("cannot listen at {shown}: {why}\n  hint: {hint}"))?;
        Ok(Self { path: path.to_path_buf(), listener, inode })
    }

    /// Removes it, if it is still this one.
    fn remove(&self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|it| (it.dev(), it.ino()) == self.inode) {
            // It does not matter if it was removed in between.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

fn export(group: &str, volume: &str, size: Bytes, handle: usize) -> ExportInfo {
    ExportInfo {
        name: format!("{group}/{volume}"),
        description: format!("image of {volume} of group {group}"),
        size,
        read_only: false,
        volatile: false,
        trim: true,
        fast_zero: false,
        longest_effect: Bytes::gib(1),
        contexts: Contexts::NONE,
        minimum_block: 1,
        preferred_block: 4096,
        handle: handle as u64,
    }
}

impl Exports for Shared {
    fn list(&self, each: &mut dyn FnMut(&ExportInfo)) {
        self.exports.iter().for_each(each);
    }

    fn open(&self, name: &str) -> Result<ExportInfo, OpenRefusal> {
        let found = self.exports.iter().find(|export| export.name == name);
        found.cloned().ok_or(OpenRefusal::Unknown)
    }
}

impl Shared {
    /// Serves a connection in a thread, unless there are too many.
    fn welcome(&self, stream: UnixStream, all: &Arc<Self>) -> io::Result<()> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|(_, thread)| !thread.is_finished());
        if connections.len() >= CONNECTIONS_MAX {
            return Ok(());
        }
        let (ours, shared) = (stream.try_clone()?, Arc::clone(all));
        let serve = move || {
            // What breaks the protocol, or hangs up, is gone.
            let _ended = shared.serve(&stream);
            let _closed = stream.shutdown(Shutdown::Both);
        };
        let thread = thread::Builder::new().name("helio-client".to_owned()).spawn(serve)?;
        connections.push((ours, thread));
        Ok(())
    }

    fn serve(&self, mut stream: &UnixStream) -> Result<(), SessionError> {
        let mut session = Session::with(SessionOptions::default());
        let mut out = Vec::new();
        session.greeting(&mut out);
        let mut input = vec![0; INPUT_BYTES];
        let mut image = 0;
        let mut write: Option<(Request, Vec<u8>)> = None;
        loop {
            if stream.write_all(&out).is_err() {
                return Ok(());
            }
            out.clear();
            let Ok(length @ 1..) = stream.read(&mut input) else { return Ok(()) };
            let mut at = 0;
            loop {
                let rest = &input[at..length];
                let (used, step) = session.consume(rest, self, &mut out)?;
                match step {
                    Step::NeedMore => break,
                    Step::Negotiating => {}
                    Step::StartTls => unreachable!("TLS was not offered"),
                    Step::Ready { handle, .. } => image = handle as usize,
                    Step::Request(request) if request.command == Command::Write => {
                        write = Some((request, Vec::with_capacity(request.extent.length as usize)));
                    }
                    Step::Request(request) => self.answer(&session, image, &request, &[], &mut out),
                    Step::Payload { chunk, last } => {
                        let (_, payload) = write
                            .as_mut()
                            .unwrap_or_else(|| unreachable!("a payload follows its write"));
                        payload.extend_from_slice(&rest[chunk]);
                        if last && let Some((request, payload)) = write.take() {
                            self.answer(&session, image, &request, &payload, &mut out);
                        }
                    }
                    Step::Disconnect => {
                        let _sent = stream.write_all(&out);
                        return Ok(());
                    }
                }
                at += used;
                // Answers of many requests are not gathered.
                if out.len() >= INPUT_BYTES {
                    if stream.write_all(&out).is_err() {
                        return Ok(());
                    }
                    out.clear();
                }
            }
        }
    }

    /// Carries a request out, and appends its answer.
    fn answer(
        &self,
        session: &Session,
        image: usize,
        request: &Request,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) {
        let (extent, it) = (request.extent, &self.images[image]);
        let changed = |change: &dyn Fn() -> io::Result<()>| {
            self.recorder.changes(image, extent)?;
            change()?;
            if request.fua { it.flush() } else { Ok(()) }
        };
        let done = match request.command {
            Command::Read => {
                let mut data = vec![0; extent.length as usize];
                let read = it.read(extent.offset, &mut data);
                if read.is_ok() {
                    session.reply_read(request, out);
                    out.extend_from_slice(&data);
                    return;
                }
                read
            }
            Command::Write => changed(&|| it.write(extent.offset, payload)),
            Command::Trim => changed(&|| it.zero(extent, true)),
            Command::WriteZeroes => changed(&|| it.zero(extent, !request.no_hole)),
            Command::Flush => it.flush(),
            Command::Cache | Command::BlockStatus => Ok(()),
        };
        match done {
            Ok(()) => session.reply_done(request, out),
            Err(why) => {
                let code = match why.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ErrorCode::NoSpace,
                    _ => ErrorCode::Io,
                };
                session.reply_error(request, code, &why.to_string(), out);
            }
        }
    }
}
