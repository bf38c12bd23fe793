// SPDX-License-Identifier: Apache-2.0
//! Opening a member: every reason not to, before anything is changed.

use crate::identity::{DeviceNumber, MemberIdentity};
use crate::member::{Member, StoreKind};
use crate::nameplate;
use crate::prepare::{self, Space, lacking, make_room};
use crate::refusal::{OpenError, Refusal};
use crate::surroundings::{
    OtherUsers, file_of_loop, holders, is_read_only, mounted_at, unmaps_to_zero,
};
use helio_driver::{
    ALIGNMENT, Buffer, Errno, Facts, FallocateFlags, File, FileType, Host, Mode, OFlags, SeekFrom,
};
use helio_units::{Bytes, SECTOR};
use rustix::fs::ioctl_blksszget;
use std::path::{Path, PathBuf};

/// How a member's bytes travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Io {
    /// Past the page cache: what completed is in the device, and memory is left to others.
    #[default]
    Direct,
    /// Through the page cache.
    Buffered,
}

/// How a member is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// The volume's size.
    pub size: Bytes,
    /// Direct or buffered.
    pub io: Io,
    /// Whether a file that does not exist is made, for its owner alone.
    pub create: bool,
    /// Whether a file may have holes; otherwise opening allocates it.
    pub sparse: bool,
    /// What the store is to be, for messages: `member of db/data`.
    pub role: String,
}

/// Opens, locks and prepares the store at `path`.
///
/// Blocks, for a large file that must be allocated for seconds: not for a shard's thread.
///
/// # Errors
/// One [`Refusal`] for each reason; every one says what helps. A refusal changes no data: a file may have got its name, or space; a file made by
/// this very call is removed again.
pub fn open(
    path: &Path,
    options: &OpenOptions,
    other_users: &OtherUsers,
) -> Result<Member, OpenError> {
    let explained =
        |refusal| OpenError { role: options.role.clone(), path: path.to_path_buf(), refusal };
    let host = &other_users.host;
    let made = options.create && matches!(host.facts(path, true), Err(Errno::NOENT));
    if made {
        match missing(path, options.size) {
            no_device @ Refusal::NoDevice => return Err(explained(no_device)),
            _ => create(host, path).map_err(explained)?,
        }
    }
    let sized = if made { set_size(host, path, options.size) } else { Ok(()) };
    sized.and_then(|()| open_existing(path, options, other_users)).map_err(|refusal| {
        if made {
            // The refusal is what matters; a file left behind is seen by the next attempt.
            let _ = host.remove(path);
        }
        explained(refusal)
    })
}

/// What is not there: below /dev a device, which no file takes the place of. /dev/shm is an ordinary file system.
fn missing(path: &Path, size: Bytes) -> Refusal {
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    if is_device { Refusal::NoDevice } else { Refusal::Missing { size } }
}

fn create(host: &Host, path: &Path) -> Result<(), Refusal> {
    host.open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
        .map(drop)
        .map_err(|errno| refused("create", errno))
}

/// Gives a file just made its size; its name must survive a power cut as well as that does.
fn set_size(host: &Host, path: &Path, size: Bytes) -> Result<(), Refusal> {
    let file =
        host.open(path, OFlags::RDWR, Mode::empty()).map_err(|errno| refused("open", errno))?;
    file.body().set_length(size.0).map_err(|errno| refused("set the size", errno))?;
    file.body().sync_all().map_err(|errno| refused("fsync", errno))?;
    host.sync_folder(path.parent().unwrap_or(Path::new(""))).map_err(|error| {
        refused("fsync of the folder", Errno::from_io_error(&error).unwrap_or(Errno::IO))
    })
}

/// What [`look`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// A file or a block device.
    pub kind: StoreKind,
    /// Which store it is.
    pub identity: MemberIdentity,
    /// The block size that requests must keep to.
    pub block: Bytes,
    /// Bytes that [`open`] will still allocate on its file system.
    pub lacking: Bytes,
}

/// Judges the store at `path` as [`open`] does, and changes nothing: it is not created, allocated, flushed or named.
///
/// # Errors
/// The [`Refusal`] that [`open`] would give.
pub fn look(
    path: &Path,
    options: &OpenOptions,
    other_users: &OtherUsers,
) -> Result<Look, OpenError> {
    let judge = || {
        let (file, facts) = claimed(path, options, other_users)?;
        let Measure { kind, identity, blocks } =
            measure(&other_users.host, &file, &facts, options)?;
        let lacking = match kind {
            StoreKind::File => lacking(&file, options.size, options.sparse)?,
            StoreKind::Device => Bytes::ZERO,
        };
        Ok(Look { kind, identity, block: blocks.alignment, lacking })
    };
    judge().map_err(|refusal| OpenError {
        role: options.role.clone(),
        path: path.to_path_buf(),
        refusal,
    })
}

fn open_existing(
    path: &Path,
    options: &OpenOptions,
    other_users: &OtherUsers,
) -> Result<Member, Refusal> {
    let (file, facts) = claimed(path, options, other_users)?;
    measured(&other_users.host, (path, file), &facts, options)
}

/// Opens and locks what is there, unless somebody else uses it.
fn claimed(
    path: &Path,
    options: &OpenOptions,
    other_users: &OtherUsers,
) -> Result<(File, Facts), Refusal> {
    let host = &other_users.host;
    let facts = host.facts(path, true).map_err(|errno| match errno {
        Errno::NOENT => missing(path, options.size),
        errno => refused("stat", errno),
    })?;
    refuse_if_used(&facts, other_users)?;
    let file = open_exclusively(host, path, &facts, options.io)?;
    // Whatever the path names by now: these are the facts of what was opened.
    let facts = file.body().facts().map_err(|errno| refused("fstat", errno))?;
    let (kind, identity) = kind_of(host, &facts)?;
    if !file.body().lock().map_err(|errno| refused("lock", errno))? {
        return Err(Refusal::Held);
    }
    let file_below = match kind {
        StoreKind::File => Some(identity),
        StoreKind::Device => file_of_loop(host, DeviceNumber::of(facts.represents)),
    };
    if let Some(who) = file_below.and_then(|file| other_users.written_by(&file)) {
        return Err(Refusal::Written { who });
    }
    Ok((file, facts))
}

/// A store that is open and locked, apart from its [`Member`]: so that it can be measured anew, should it have been mended.
#[derive(Debug)]
pub struct Held {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

impl Held {
    /// Whether that path leads to it.
    #[must_use]
    pub fn is_at(&self, host: &Host, path: &Path) -> bool {
        let facts = self.file.body().facts().ok();
        let ours = facts.and_then(|facts| MemberIdentity::of_facts(host, &facts));
        ours.is_some() && ours == MemberIdentity::of_path(host, path).ok()
    }

    /// Measures it as [`open`] does, and prepares it.
    ///
    /// # Errors
    /// As those of [`open`].
    pub fn reopen(self, host: &Host, options: &OpenOptions) -> Result<Member, OpenError> {
        let Self { path, file } = self;
        let measure = || {
            let facts = file.body().facts().map_err(|errno| refused("fstat", errno))?;
            measured(host, (&path, file), &facts, options)
        };
        measure().map_err(|refusal| OpenError {
            role: options.role.clone(),
            path: path.clone(),
            refusal,
        })
    }
}

/// What was opened and locked is looked at, and prepared.
fn measured(
    host: &Host,
    (path, file): (&Path, File),
    facts: &Facts,
    options: &OpenOptions,
) -> Result<Member, Refusal> {
    let Measure { kind, identity, blocks } = measure(host, &file, facts, options)?;
    let space = match kind {
        StoreKind::File => make_room(&file, options.size, options.sparse)?,
        StoreKind::Device => Space::Written,
    };
    let trims = match kind {
        StoreKind::File => can_punch(&file, options.size),
        StoreKind::Device => unmaps_to_zero(host, DeviceNumber::of(facts.represents)),
    };
    let (nameplate, claims, stamp, failed_flush) = match kind {
        StoreKind::File => {
            let name = nameplate::of_file(host, &file).map_err(|errno| {
                refused("read or store its identity in the attribute user.heliograph", errno)
            })?;
            let stamp = nameplate::stamp_of(&file);
            let claims = nameplate::claims_of_file(&name, facts).into_iter().collect();
            (Some(name), claims, stamp, prepare::flush(&file)?)
        }
        StoreKind::Device => {
            let claims = nameplate::claims_of_device(host, facts);
            (nameplate::of_device(host, facts), claims, None, None)
        }
    };
    Ok(Member {
        path: path.to_path_buf(),
        file,
        kind,
        identity,
        nameplate,
        claims,
        stamp,
        size: options.size,
        alignment: blocks.alignment,
        memory_alignment: blocks.memory,
        space,
        failed_flush,
        trims,
        // An allocated file keeps its promise of room: its discards zero, and give nothing back.
        gives_back: trims && (kind == StoreKind::Device || options.sparse),
    })
}

/// A store that fits its volume.
struct Measure {
    kind: StoreKind,
    identity: MemberIdentity,
    blocks: Blocks,
}

fn measure(
    host: &Host,
    file: &File,
    facts: &Facts,
    options: &OpenOptions,
) -> Result<Measure, Refusal> {
    let (kind, identity) = kind_of(host, facts)?;
    check_size(file, kind, options.size)?;
    let blocks = Blocks::of(file, kind, options.io)?;
    let most = Bytes(ALIGNMENT as u64);
    if blocks.alignment > most {
        return Err(Refusal::LargeBlocks { block: blocks.alignment, most });
    }
    if options.size == Bytes::ZERO || !options.size.0.is_multiple_of(blocks.alignment.0) {
        return Err(Refusal::UnevenSize { size: options.size, block: blocks.alignment });
    }
    Ok(Measure { kind, identity, blocks })
}

fn kind_of(host: &Host, facts: &Facts) -> Result<(StoreKind, MemberIdentity), Refusal> {
    let is_file = facts.kind == FileType::RegularFile;
    let kind = if is_file { StoreKind::File } else { StoreKind::Device };
    match MemberIdentity::of_facts(host, facts) {
        Some(identity) => Ok((kind, identity)),
        None => Err(Refusal::WrongKind {
            found: match facts.kind {
                FileType::Directory => "directory",
                FileType::CharacterDevice => "character device",
                FileType::Fifo => "pipe",
                FileType::Socket => "socket",
                _ => "special file",
            },
        }),
    }
}

/// What can be seen before opening, and explained better than by the kernel's "busy".
fn refuse_if_used(facts: &Facts, other_users: &OtherUsers) -> Result<(), Refusal> {
    let host = &other_users.host;
    let (kind, identity) = kind_of(host, facts)?;
    if kind == StoreKind::File {
        return match other_users.loop_device_on(&identity) {
            Some(device) => Err(Refusal::BacksLoop { device }),
            None => Ok(()),
        };
    }
    if is_read_only(host, DeviceNumber::of(facts.represents)) {
        return Err(Refusal::ReadOnly);
    }
    match mounted_at(host, &identity) {
        Some(at) => Err(Refusal::Mounted { at }),
        None => Ok(()),
    }
}

/// Opens for reading and writing; a block device with the claim that keeps mounts and mappers away.
fn open_exclusively(host: &Host, path: &Path, facts: &Facts, io: Io) -> Result<File, Refusal> {
    let mut flags = OFlags::RDWR;
    flags.set(OFlags::DIRECT, io == Io::Direct);
    flags.set(OFlags::EXCL, facts.kind == FileType::BlockDevice);
    match host.open(path, flags, Mode::empty()) {
        Ok(file) => Ok(file),
        Err(Errno::INVAL) if io == Io::Direct => Err(Refusal::NoDirectIo),
        Err(Errno::BUSY | Errno::TXTBSY) => {
            // Another daemon's claim comes with its lock; that makes a better message.
            let again = host.open(path, OFlags::RDWR, Mode::empty());
            match again.and_then(|file| file.body().lock()) {
                Ok(false) => Err(Refusal::Held),
                _ => {
                    let holders = holders(host, DeviceNumber::of(facts.represents));
                    Err(Refusal::InUse { holders })
                }
            }
        }
        Err(errno) => Err(refused("open", errno)),
    }
}

fn check_size(file: &File, kind: StoreKind, configured: Bytes) -> Result<(), Refusal> {
    // The end of a block device is found the same way as that of a file.
    let found = file.body().seek(SeekFrom::End(0));
    let found = Bytes(found.map_err(|errno| refused("find the end", errno))?);
    if found < configured {
        return Err(Refusal::TooSmall { found, configured });
    }
    if found > configured && kind == StoreKind::File {
        return Err(Refusal::TooLarge { found, configured });
    }
    Ok(())
}

/// What requests must keep to.
struct Blocks {
    alignment: Bytes,
    memory: Bytes,
}

impl Blocks {
    fn of(file: &File, kind: StoreKind, io: Io) -> Result<Self, Refusal> {
        let sector = Bytes(SECTOR);
        let device_block = || match kind {
            StoreKind::Device => ioctl_blksszget(file).ok().map(|block| Bytes(u64::from(block))),
            StoreKind::File => None,
        };
        if io == Io::Buffered {
            // A device's zeroing keeps to its blocks even where the page cache hides them from writes.
            let alignment = device_block().unwrap_or(sector).max(sector);
            return Ok(Self { alignment, memory: Bytes(1) });
        }
        if let Some((offset, memory)) = file.body().direct_alignment() {
            // Zero is the kernel's "not on this file"; buffers are aligned to no more than a page.
            if offset == Bytes::ZERO || memory > Bytes(ALIGNMENT as u64) {
                return Err(Refusal::NoDirectIo);
            }
            return Ok(Self { alignment: offset.max(sector), memory: memory.max(Bytes(1)) });
        }
        let alignment = device_block().map_or_else(|| probed(file), Ok)?.max(sector);
        Ok(Self { alignment, memory: alignment })
    }
}

/// Finds the block by reading one sector, which works or does not; and then by reading a page.
fn probed(file: &File) -> Result<Bytes, Refusal> {
    let mut buffer = Buffer::zeroed(ALIGNMENT);
    for length in [SECTOR as usize, ALIGNMENT] {
        match file.body().read_at(&mut buffer[..length], 0) {
            Ok(_) => return Ok(Bytes(length as u64)),
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(refused("read", errno)),
        }
    }
    Err(Refusal::NoDirectIo)
}

/// Whether the file system makes holes, asked behind the end of the file where there is nothing to lose.
fn can_punch(file: &File, size: Bytes) -> bool {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    file.body().allocate(flags, size.0, ALIGNMENT as u64).is_ok()
}

fn refused(step: &'static str, errno: Errno) -> Refusal {
    match errno {
        Errno::ROFS | Errno::PERM => Refusal::ReadOnly,
        Errno::ACCESS => Refusal::Denied,
        Errno::TIMEDOUT => Refusal::NoAnswer { step },
        errno => Refusal::Kernel { step, errno },
    }
}
