// SPDX-License-Identifier: Apache-2.0
//! The machine of a product: what the kernel has.

use crate::ask::{Subject, ask};
use crate::body::{FileBody, SocketBody};
use crate::limits;
use crate::machine::{Blocking, Facts, Host, Machine, Room};
use crate::service::Service;
use crate::{Address, Buffer, File, Socket};
use helio_units::{Bytes, SECTOR};
use rustix::fs::{
    Access, Advice, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, SeekFrom, StatVfs, Statx,
    StatxFlags, XattrFlags, access, fadvise, fallocate, fchmod, fgetxattr, fremovexattr, fsetxattr,
    fstatvfs, fsync, ftruncate, makedev, mkdir, rename, rmdir, seek, statvfs, statx, unlink,
};
use rustix::io::{Errno, pread, pwrite, read, readv, retry_on_intr, writev};
use rustix::net::{
    Shutdown, SocketFlags, SocketType, bind, getsockname, listen, shutdown, socket_with, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file system that has not answered a question for so long is given up: longer than a disk takes to spin up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// The machine that this process runs on.
#[derive(Clone, Copy, Debug)]
pub struct Linux {
    patience: Duration,
}

impl Default for Linux {
    fn default() -> Self {
        Self { patience: PATIENCE }
    }
}

impl Linux {
    /// It, to be shared.
    #[must_use]
    pub fn host() -> Host {
        Arc::new(Self::default())
    }

    /// The same, for a caller who wants to know within that time whether a file system answers.
    #[must_use]
    pub fn host_within(patience: Duration) -> Host {
        Arc::new(Self { patience })
    }

    /// Before a change: it is waited for, however long, so the file system of its folder is asked whether it answers at all.
    fn answers(self, path: &Path) -> Result<(), Errno> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        self.answers_at(folder.unwrap_or(Path::new(".")))
    }

    fn answers_at(self, folder: &Path) -> Result<(), Errno> {
        match self.ask(folder, |folder| statvfs(folder).map(drop)) {
            Err(Errno::TIMEDOUT) => Err(Errno::TIMEDOUT),
            // The change itself says what is wrong.
            _ => Ok(()),
        }
    }

    /// Asks a question about a path.
    fn ask<T, E, Q>(self, path: &Path, question: Q) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Errno> + Send + 'static,
        Q: FnOnce(&Path) -> Result<T, E> + Send + 'static,
    {
        if is_kernels(path) {
            return question(path);
        }
        let path = path.to_owned();
        ask(self.patience, Subject::Path(path.clone()), move || question(&path))
    }
}

impl Machine for Linux {
    fn since_boot(&self) -> Duration {
        let shown = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(shown.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(shown.tv_nsec).unwrap_or_default())
    }

    fn calendar(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn memory(&self) -> Bytes {
        let host = rustix::system::sysinfo();
        limits::memory(Bytes(host.totalram.saturating_mul(host.mem_unit.into())))
    }

    fn descriptor_limits(&self) -> [Option<u64>; 2] {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        [current, maximum]
    }

    fn limit_descriptors(&self, most: u64) -> Result<(), Errno> {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })
    }

    fn random(&self, into: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            filled += retry_on_intr(|| getrandom(&mut into[filled..], GetRandomFlags::empty()))?;
        }
        Ok(())
    }

    fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<File, Errno> {
        let patience = self.patience;
        let open = move |path: &Path| {
            let fd = retry_on_intr(|| rustix::fs::open(path, flags | OFlags::CLOEXEC, mode))?;
            let file = File::within(fd, patience);
            file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        // One that makes or cuts a file must not do so later.
        if flags.intersects(OFlags::CREATE | OFlags::TRUNC) {
            self.answers(path)?;
            open(path)
        } else {
            self.ask(path, open)
        }
    }

    fn facts(&self, path: &Path, follow: bool) -> Result<Facts, Errno> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        self.ask(path, move |path| Ok(facts(&statx(CWD, path, flags, wanted())?)))
    }

    fn room(&self, path: &Path) -> Result<Room, Errno> {
        self.ask(path, |path| Ok(room(&statvfs(path)?)))
    }

    fn may_create_in(&self, folder: &Path) -> Result<(), Errno> {
        // Its names are made durable through a descriptor that reads it.
        let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        self.ask(folder, move |folder| access(folder, wanted))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        self.ask(folder, |folder| {
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
        })
    }

    fn make_folder(&self, path: &Path, mode: Mode) -> Result<(), Errno> {
        self.answers(path)?;
        mkdir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.answers(from)?;
        self.answers(to)?;
        rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), Errno> {
        self.answers(path)?;
        unlink(path)
    }

    fn remove_folder(&self, path: &Path) -> Result<(), Errno> {
        self.answers(path)?;
        rmdir(path)
    }

    fn remove_tree(&self, folder: &Path) -> io::Result<()> {
        self.answers_at(folder)?;
        std::fs::remove_dir_all(folder)
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.ask(path, |path| std::fs::canonicalize(path))
    }

    fn stream_for(&self, address: &Address) -> io::Result<Socket> {
        Ok(Socket::new(stream_for(address)?))
    }

    fn listen(&self, address: &Address, backlog: u16) -> io::Result<Socket> {
        if let Address::Unix(path) = address {
            return Ok(Socket::new(listen_for_owner(path, backlog)?));
        }
        let socket = stream_for(address)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &address.for_kernel()?)?;
        listen(&socket, i32::from(backlog))?;
        Ok(Socket::new(socket))
    }

    fn take_work(&self, _name: &str, work: Blocking) -> Option<Blocking> {
        Some(work)
    }

    fn together(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            // The caller is one of them, and does all of it if no other can be started.
            for _ in 1..threads {
                let _not_started = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    fn pause(&self, span: Duration) {
        thread::park_timeout(span);
    }
}

/// Listens on a Unix socket of mode 0600. Linux gives the file the mode that the socket had before, so there is no moment in which
/// another user could connect.
///
/// # Errors
/// As of `bind`.
pub fn listen_for_owner(path: &Path, backlog: u16) -> io::Result<UnixListener> {
    let address = Address::Unix(path.to_path_buf());
    let socket = stream_for(&address)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address.for_kernel()?)?;
    listen(&socket, i32::from(backlog))?;
    Ok(socket.into())
}

fn stream_for(address: &Address) -> io::Result<OwnedFd> {
    Ok(socket_with(address.family(), SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// Whether the kernel itself answers, at once: there may be much to ask. What a process has open may lie anywhere.
fn is_kernels(path: &Path) -> bool {
    let links = ["fd", "root", "cwd", "exe"];
    let leads_away =
        || path.components().any(|part| links.iter().any(|it| part.as_os_str() == *it));
    path.starts_with("/sys") || path.starts_with("/proc") && !leads_away()
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

fn facts(of: &Statx) -> Facts {
    let mode = u32::from(of.stx_mode);
    let is_born = of.stx_mask & StatxFlags::BTIME.bits() != 0;
    Facts {
        kind: FileType::from_raw_mode(mode),
        length: Bytes(of.stx_size),
        held: Bytes(of.stx_blocks.saturating_mul(SECTOR)),
        device: makedev(of.stx_dev_major, of.stx_dev_minor),
        inode: of.stx_ino,
        represents: makedev(of.stx_rdev_major, of.stx_rdev_minor),
        mode: Mode::from_raw_mode(mode),
        owner: of.stx_uid,
        modified: Duration::new(of.stx_mtime.tv_sec.try_into().unwrap_or(0), of.stx_mtime.tv_nsec),
        born: is_born.then_some((of.stx_btime.tv_sec, of.stx_btime.tv_nsec)),
    }
}

fn room(of: &StatVfs) -> Room {
    let blocks = |count: u64| Bytes(count.saturating_mul(of.f_frsize));
    Room { free: blocks(of.f_bavail), size: blocks(of.f_blocks) }
}

/// An open file, reached by its descriptor until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenFile {
    fd: Option<Arc<OwnedFd>>,
    service: Service,
    patience: Duration,
}

impl OpenFile {
    pub(crate) fn new(fd: OwnedFd, service: Service, patience: Duration) -> Self {
        Self { fd: Some(Arc::new(fd)), service, patience }
    }

    fn fd(&self) -> &Arc<OwnedFd> {
        self.fd.as_ref().expect("it is open until it is dropped")
    }

    /// Asks its file system something, on a thread if it may not answer.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&OwnedFd) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        if self.service == Service::Here {
            return question(self.fd());
        }
        let fd = Arc::clone(self.fd());
        let about = Subject::File(Arc::as_ptr(&fd).addr());
        ask(self.patience, about, move || question(&fd))
    }
}

impl Drop for OpenFile {
    /// A file system may flush what is closed, and wait for that: one that keeps callers waiting is asked on a thread.
    fn drop(&mut self) {
        let fd = self.fd.take();
        if self.service != Service::Here {
            // Without a thread, `fd` is closed here.
            let _not_started = thread::Builder::new().name("helio-close".into()).spawn(|| drop(fd));
        }
    }
}

impl FileBody for OpenFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd().as_fd())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> Result<usize, Errno> {
        if self.service == Service::Here {
            return read_at(self.fd(), into, at);
        }
        let mut bytes = Buffer::zeroed(into.len());
        let (count, bytes) =
            self.ask(move |fd| read_at(fd, &mut bytes, at).map(|count| (count, bytes)))?;
        into[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> Result<usize, Errno> {
        retry_on_intr(|| pwrite(self.fd(), bytes, at))
    }

    fn sync_all(&self) -> Result<(), Errno> {
        retry_on_intr(|| fsync(self.fd()))
    }

    fn set_length(&self, length: u64) -> Result<(), Errno> {
        retry_on_intr(|| ftruncate(self.fd(), length))
    }

    fn allocate(&self, flags: FallocateFlags, at: u64, length: u64) -> Result<(), Errno> {
        retry_on_intr(|| fallocate(self.fd(), flags, at, length))
    }

    fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        self.ask(move |fd| seek(fd, to))
    }

    fn drop_cache(&self) -> Result<(), Errno> {
        fadvise(self.fd(), 0, None, Advice::DontNeed)
    }

    fn lock(&self) -> Result<bool, Errno> {
        self.ask(lock)
    }

    fn facts(&self) -> Result<Facts, Errno> {
        self.ask(|fd| Ok(facts(&statx(fd, "", AtFlags::EMPTY_PATH, wanted())?)))
    }

    fn direct_alignment(&self) -> Option<(Bytes, Bytes)> {
        let wanted = StatxFlags::DIOALIGN;
        let facts = self.ask(move |fd| statx(fd, "", AtFlags::EMPTY_PATH, wanted)).ok()?;
        let is_told = facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
        let (offset, memory) = (facts.stx_dio_offset_align, facts.stx_dio_mem_align);
        is_told.then(|| (Bytes(offset.into()), Bytes(memory.into())))
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Errno> {
        fchmod(self.fd(), mode)
    }

    fn room(&self) -> Result<Room, Errno> {
        self.ask(|fd| Ok(room(&fstatvfs(fd)?)))
    }

    fn attribute(&self, name: &str, into: &mut [u8]) -> Result<usize, Errno> {
        if self.service == Service::Here {
            return fgetxattr(self.fd(), name, into);
        }
        let (name, mut value) = (name.to_owned(), vec![0; into.len()]);
        let (count, value) = self.ask(move |fd| {
            fgetxattr(fd, name.as_str(), &mut value[..]).map(|count| (count, value))
        })?;
        let copied = count.min(into.len());
        into[..copied].copy_from_slice(&value[..copied]);
        Ok(count)
    }

    fn set_attribute(&self, name: &str, value: &[u8]) -> Result<(), Errno> {
        retry_on_intr(|| fsetxattr(self.fd(), name, value, XattrFlags::empty()))
    }

    fn remove_attribute(&self, name: &str) -> Result<(), Errno> {
        fremovexattr(self.fd(), name)
    }
}

fn read_at(fd: &OwnedFd, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    match retry_on_intr(|| pread(fd, &mut *into, at)) {
        // A pipe, which may be in the place of a configuration file, has no offsets.
        Err(Errno::SPIPE) => retry_on_intr(|| read(fd, &mut *into)),
        read => read,
    }
}

/// What the kernel keeps of a socket is reached by its descriptor.
#[derive(Debug)]
pub(crate) struct Descriptor(pub(crate) OwnedFd);

impl SocketBody for Descriptor {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn local_address(&self) -> io::Result<Option<SocketAddr>> {
        Ok(getsockname(&self.0)?.try_into().ok())
    }

    fn shutdown(&self) -> io::Result<()> {
        Ok(shutdown(&self.0, Shutdown::Both)?)
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        readv(&self.0, into)
    }

    fn send(&self, message: &[IoSlice<'_>]) -> Result<usize, Errno> {
        writev(&self.0, message)
    }
}

/// Locks a whole file by its description, not by the process: another opening in the same process is refused, too.
///
/// A kernel keeps a description open while an operation on it is under way, also behind the end of the process that began it. So the
/// holder of the lock of a description that is written through knows that no such operation of another process lands any more.
///
/// `flock` would be a safe call, but udev takes it on every block device and QEMU does not look at it; the older record locks vanish
/// when any descriptor of the file is closed anywhere in the process. Locks of a description have neither fault.
#[allow(unsafe_code)]
fn lock(fd: &OwnedFd) -> Result<bool, Errno> {
    // The constants are small; their types differ between libc's targets and the struct's fields.
    let whole = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open for the length of the borrow, and the kernel only reads the struct, which
    // outlives the call.
    let answer = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
    if answer == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
        Errno::AGAIN | Errno::ACCESS => Ok(false),
        errno => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_read_to_its_end() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        writer.write_all(b"[node.paris]\n").expect("it has room");
        let file = Linux::default().open(Path::new(&path), OFlags::RDONLY, Mode::empty());
        drop((reader, writer));
        let read = file.expect("it opens").read_all();
        assert_eq!(read.expect("it is read"), b"[node.paris]\n");
    }

    #[test]
    fn folders_are_made_with_those_above_them_and_removed_with_what_is_in_them() {
        let (host, scratch) = (Linux::host(), tempfile::tempdir().expect("there is room"));
        let folder = scratch.path().join("a/b/c");
        for _ in 0..2 {
            host.make_folders(&folder, Mode::RWXU).expect("there is room, or they are there");
        }
        assert_eq!(host.facts(&folder, true).expect("it is there").mode, Mode::RWXU);
        let file = folder.join("file");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        drop(host.open(&file, flags, Mode::RUSR | Mode::WUSR).expect("there is room"));
        assert_eq!(host.make_folders(&file.join("d"), Mode::RWXU), Err(Errno::NOTDIR));
        host.remove_tree(&scratch.path().join("a")).expect("it is there");
        assert!(host.list(scratch.path()).expect("it is there").is_empty());
    }
}
