// SPDX-License-Identifier: Apache-2.0
//! The image of a volume: a file, or what a symbolic link of its name leads to, for example a block device.

use anyhow::{Result, anyhow, bail};
use helio_disk::{Io, Member, OpenOptions, OtherUsers, nameplate_at};
use helio_driver::Linux;
use helio_format::exported::ExportedVolume;
use helio_units::{Bytes, Extent};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Zeros that are written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// What an image is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To be read: nothing about it changes.
    Read,
    /// To be read and written.
    Write,
    /// The same, and a missing one is created, without data.
    Create,
}

/// An open image. If it is open for writing, it is locked against other processes.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    /// Holds the claim, if it is written.
    member: Option<Member>,
    file: File,
    named: String,
    blank: bool,
}

impl Image {
    /// Opens the image of a volume.
    ///
    /// # Errors
    /// It is missing, in use, or has not the size of the volume.
    pub fn open(path: &Path, volume: &ExportedVolume, access: Access) -> Result<Self> {
        let found = fs::metadata(path).ok();
        if found.is_none() && access != Access::Create {
            bail!(
                "the image of {} is missing: {}\n  hint: bring it back, or export a snapshot to its directory again",
                volume.name,
                path.display()
            );
        }
        let is_wrong = |found: &fs::Metadata| found.is_file() && found.len() != volume.size.0;
        if let Some(found) = found.as_ref().filter(|found| is_wrong(found)) {
            bail!(
                "the image of {} has {}, and its volume has {}: {}\n  hint: remove it and export a snapshot to its directory again, or name another directory",
                volume.name,
                Bytes(found.len()),
                volume.size,
                path.display()
            );
        }
        match access {
            Access::Read => Self::open_to_read(path, volume),
            Access::Write | Access::Create => Self::open_to_write(path, volume, found),
        }
    }

    fn open_to_read(path: &Path, volume: &ExportedVolume) -> Result<Self> {
        let mut file = File::open(path).map_err(unreadable(path))?;
        let size = file.seek(SeekFrom::End(0)).map_err(unreadable(path))?;
        if size < volume.size.0 {
            let (name, size) = (&volume.name, Bytes(size));
            bail!(
                "the image of {name} has only {size}: {}\n  hint: name another directory",
                path.display()
            );
        }
        let named = nameplate_at(&Linux::host(), path).unwrap_or_default();
        Ok(Self { path: path.to_path_buf(), member: None, file, named, blank: false })
    }

    fn open_to_write(
        path: &Path,
        volume: &ExportedVolume,
        found: Option<fs::Metadata>,
    ) -> Result<Self> {
        let blank = found.is_none();
        let options = OpenOptions {
            size: volume.size,
            io: Io::Buffered,
            create: blank,
            sparse: true,
            role: format!("image of volume {}", volume.name),
        };
        let member = helio_disk::open(path, &options, &OtherUsers::of(&Linux::host()))?;
        let file = File::options().read(true).write(true).open(path).map_err(unreadable(path))?;
        // The tests of its abilities count as writes, and changed nothing.
        if let Some(found) = found.filter(fs::Metadata::is_file) {
            let reset = found.modified().and_then(|time| file.set_modified(time));
            reset.map_err(unreadable(path))?;
        }
        let named = member.nameplate().unwrap_or_default().to_owned();
        let it = Self { path: path.to_path_buf(), member: Some(member), file, named, blank };
        // Of a write that failed, memory may have what the disk does not have.
        it.forget();
        Ok(it)
    }

    /// What an error of it is for people.
    pub fn failed(&self, what: &str) -> impl FnOnce(io::Error) -> anyhow::Error {
        let path = self.path.display().to_string();
        let what = what.to_owned();
        move |why| {
            let hint = match why.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    "free space on its disk, then repeat the command"
                }
                _ => "see the log of the kernel (`dmesg`), and use another disk",
            };
            anyhow!("cannot {what} the image {path}: {why}\n  hint: {hint}")
        }
    }

    /// Whether it was just created: it reads as zero.
    #[must_use]
    pub const fn is_blank(&self) -> bool {
        self.blank
    }

    /// Whether it is the recorded file or disk. If the system identifies neither, it counts as the same.
    #[must_use]
    pub fn is_that_of(&self, volume: &ExportedVolume) -> bool {
        volume.image == self.named()
    }

    /// Whether it is a file whose modification time differs from the recorded one.
    ///
    /// # Errors
    /// The file system fails.
    pub fn was_written_since(&self, volume: &ExportedVolume) -> Result<bool> {
        Ok(volume.written != 0 && self.written()? != volume.written)
    }

    /// The identity of the file or disk; empty: unknown.
    #[must_use]
    pub fn named(&self) -> &str {
        &self.named
    }

    /// A flush failed before it was opened: what was written then, and can be read, may be lost.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.failed_flush().is_some())
    }

    /// Whether it is another device than the recorded one. For files, the modification time is compared instead: a copy of a file is valid.
    ///
    /// # Errors
    /// The file system fails.
    pub fn is_another_device(&self, volume: &ExportedVolume) -> Result<bool> {
        let it = self.file.metadata().map_err(self.failed("look at"))?;
        Ok(!it.is_file() && !volume.image.is_empty() && !self.is_that_of(volume))
    }

    /// When it was last written, in nanoseconds since 1970, if it is a file; otherwise 0.
    ///
    /// # Errors
    /// The file system fails.
    pub fn written(&self) -> Result<u64> {
        let it = self.file.metadata().map_err(self.failed("look at"))?;
        if !it.is_file() {
            return Ok(0);
        }
        let nanos = i128::from(it.mtime()) * 1_000_000_000 + i128::from(it.mtime_nsec());
        Ok(u64::try_from(nanos).unwrap_or(0))
    }

    /// Reads from there on.
    ///
    /// # Errors
    /// The disk fails.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    /// Writes from there on.
    ///
    /// # Errors
    /// The disk fails, or has no space.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    /// Makes an extent read as zero. `hole`: its space may be given back.
    ///
    /// # Errors
    /// The disk fails, or has no space.
    pub fn zero(&self, extent: Extent, hole: bool) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if hole && fallocate(&self.file, punch, extent.offset, extent.length).is_ok() {
            return Ok(());
        }
        let mut at = extent.offset;
        while at < extent.end() {
            let length = (extent.end() - at).min(ZEROS.len() as u64);
            self.write(at, &ZEROS[..length as usize])?;
            at += length;
        }
        Ok(())
    }

    /// Makes durable what was written.
    ///
    /// # Errors
    /// The disk fails: some of it may be lost.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// What was read and written needs no place in memory any more. Advice.
    pub fn forget(&self) {
        // A file system that takes no advice loses nothing.
        let _ignored = fadvise(&self.file, 0, None, Advice::DontNeed);
    }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    let shown = path.display().to_string();
    move |why| {
        anyhow!("cannot open {shown}: {why}\n  hint: run the command as its owner, or as root")
    }
}
