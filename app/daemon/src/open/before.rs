// SPDX-License-Identifier: Apache-2.0
//! Opening a group's before-image file.

use super::state::writable;
use super::{private, take};
use crate::shard::Before;
use anyhow::{Context, Result, anyhow, bail};
use helio_driver::{Buffer, File, Host, OFlags};
use helio_format::before::{CHUNK_BYTES, CopyStage, KeptCopy, PAGE_BYTES, PageError};
use helio_format::superblock::Superblock;
use helio_ledger::{BeforeError, BeforeFound, BeforeStore, BeforeWrite, RollbackStanding};
use helio_units::Bytes;
use std::path::{Path, PathBuf};

/// No before-image file has changed so often since its last start.
const BEYOND_ANY: u64 = 1 << 32;

/// Where it is. A directory of `safe-copy-dir` must be there.
pub(super) fn place(
    host: &Host,
    group: &str,
    state: &Path,
    folder: Option<&Path>,
) -> Result<PathBuf> {
    if let Some(folder) = folder {
        writable(host, folder).map_err(|errno| {
            anyhow!(
                "safe-copy-dir {} of group {group} cannot be used: {}\n  hint: make this directory writable for the \
                 daemon's user, or leave the setting out",
                folder.display(),
                std::io::Error::from(errno)
            )
        })?;
    }
    let folder = folder.map_or_else(|| state.join("groups"), Path::to_owned);
    Ok(folder.join(format!("{group}.before")))
}

/// Opens the file for reading and writing; makes an empty one if asked to.
pub(super) fn file(host: &Host, path: &Path, make: bool) -> Result<File> {
    let mut flags = OFlags::RDWR;
    flags.set(OFlags::CREATE, make);
    private(host, path, flags).map_err(|error| {
        anyhow!(
            "the before-images {} cannot be opened: {error}\n  hint: let the daemon's user read and write this file, or \
             give the daemon another --state or `safe-copy-dir`",
            path.display()
        )
    })
}

/// Opens the file, or creates it. Returns also the sequence that the metadata records from now on. If both headers are damaged, this is
/// logged and the file begins anew: the volumes themselves are sound.
pub(super) fn open(
    host: &Host,
    engine: &helio_engine::Config,
    state: &Path,
    (folder, record): (Option<&Path>, &Superblock),
) -> Result<((Before, BeforeFound), u64)> {
    let path = place(host, &engine.group, state, folder)?;
    let shown = path.display().to_string();
    let file = file(host, &path, true)?;
    if file.body().facts()?.length == Bytes::ZERO {
        // Metadata that records a safe copy must not outlive the name of the file.
        host.sync_folder(path.parent().unwrap_or(Path::new("/"))).with_context(|| shown.clone())?;
    }
    // What is kept is written through this description: the lock on it is free once the last write of a process before,
    // a killed one too, has landed.
    let io = direct(host, &path).unwrap_or_else(|| file.clone());
    take(host, &io, &shown)?;
    file.sync_all().with_context(|| shown.clone())?;
    // What a process before failed to make durable may lie in the page cache alone, where it counts for nothing.
    file.body().drop_cache()?;
    let (mut store, found) = match scan(&file, record)? {
        Ok(found) => found,
        Err(BeforeError::Unreadable(pages)) if pages.iter().all(|page| !is_foreign(*page)) => {
            tracing::warn!(file = %shown, "both headers of the before-image file are damaged; its content is lost");
            file.body().set_length(0)?;
            match scan(&file, record)? {
                Ok(found) => found,
                Err(error) => bail!("{shown}: {error}"),
            }
        }
        Err(error @ BeforeError::First) => bail!(
            "{shown}: {error}\n  hint: start the version of the daemon that wrote this file, and wait for the end of the resync; \
             or remove the file: then this node has no safe copy"
        ),
        Err(error) => bail!(
            "{shown}: {error}\n  hint: start this daemon with the --state and `safe-copy-dir` of this file; a file \
             that is no longer needed may be removed"
        ),
    };
    holds_rollback(&found, record, &shown)?;
    if found.copies.is_empty() {
        // Records of copies that are gone mean nothing, and their room is given back.
        file.body().set_length(store.header_bytes())?;
        file.sync_all()?;
    }
    clear(&file, &found.torn)?;
    let known = record.before_sequence;
    let least = match (store.sequence() < known, found.copies.is_empty()) {
        // The newest file does not count from now on either: it will not have what is preserved in this one.
        (true, _) => Some(known.saturating_add(BEYOND_ANY)),
        (false, false) => Some(known),
        (false, true) => None,
    };
    let sequence = match least.map(|least| raise(&file, &mut store, least)) {
        Some(Ok(sequence)) => sequence,
        // What fails for good fails again where something is to be preserved.
        Some(Err(error)) => {
            tracing::warn!(
                group = engine.group,
                file = %shown,
                "the before-image file cannot be written: {error}; an older copy of it in its place may not be noticed"
            );
            known
        }
        None => {
            if let Some(note) = store.note() {
                write(&file, &mut store, &note)?;
            }
            known
        }
    };
    let safe = |copy: &KeptCopy| copy.is_safe_copy() && copy.stage == CopyStage::Held;
    if found.damaged && found.copies.iter().any(safe) {
        tracing::warn!(
            group = engine.group,
            file = %shown,
            "the safe copy is damaged and cannot be restored\n  hint: wait for the resync, which copies everything"
        );
    }
    let before = Before::new((io, shown), file, store, engine.member_timeout);
    Ok(((before, found), sequence))
}

/// Writes a header, durably.
fn write(file: &File, store: &mut BeforeStore, header: &BeforeWrite) -> std::io::Result<()> {
    file.write_all_at(&header.bytes, header.offset)?;
    file.sync_all()?;
    store.flushed();
    Ok(())
}

/// Raises the sequence in both headers, so that damage to one of them does not make the file an older one. Returns the lower one.
fn raise(file: &File, store: &mut BeforeStore, least: u64) -> std::io::Result<u64> {
    let first = store.raise(least);
    write(file, store, &first)?;
    let lower = store.sequence();
    let second = store.raise(least);
    write(file, store, &second)?;
    Ok(lower)
}

/// Fills these pages with zeros, durably.
fn clear(file: &File, pages: &[u64]) -> Result<()> {
    for page in pages {
        file.write_all_at(&[0; PAGE_BYTES], *page)?;
    }
    match pages.is_empty() {
        true => Ok(()),
        false => Ok(file.sync_all()?),
    }
}

/// Refuses a group whose volumes were restored from a snapshot in part, if what is to be written still is not there, or if the record
/// knows nothing of it: they hold neither what they held before nor what the snapshot holds.
fn holds_rollback(found: &BeforeFound, record: &Superblock, shown: &str) -> Result<()> {
    let (group, node) = (&record.group, &record.node);
    let standing = found.standing(record);
    let label = standing.label();
    match standing {
        RollbackStanding::Nothing | RollbackStanding::GoesOn | RollbackStanding::Over => Ok(()),
        RollbackStanding::Lost => bail!(
            "the volumes of group {group} were being restored from a snapshot, and the rest of it is not in {shown} ({label}): the \
             file is missing, damaged, or another one\n  hint: put the right file in its place; if it is lost, move the \
             metadata of {group} away: then `helio metadata create {group} --node {node}` discards the copy of this node"
        ),
        RollbackStanding::Unrecorded(_) => {
            let finish = match (found.damaged, record.is_new()) {
                (true, _) => String::new(),
                (_, true) => format!(
                    "if the metadata is lost: `helio metadata create {group} --node {node} --finish-restore {shown}`. "
                ),
                (_, false) => format!(
                    "if the metadata is older than this file and no newer one exists: `helio metadata accept {group} \
                     --finish-restore {shown}`. "
                ),
            };
            bail!(
                "{shown} has the rest of a restore of group {group} that the metadata of {node} does not know ({label}): the \
                 metadata is older than this file, or new, or the file is an older one. Parts of the volumes may hold what was \
                 before the restore\n  hint: put the metadata of this file in its place. {finish}If {shown} is an older one, or \
                 the peer has all data, move it away: then the volumes are used as they are"
            )
        }
    }
}

type Scanned = std::result::Result<(BeforeStore, BeforeFound), BeforeError<std::io::Error>>;

/// What lies in the file. A copy of it from before the last start that the record knows has not all that was preserved since.
fn scan(file: &File, record: &Superblock) -> std::io::Result<Scanned> {
    let length = file.body().facts()?.length.0;
    let mut read = |at: u64, buffer: &mut [u8]| file.read_exact_at(buffer, at);
    let (chunk, checksum) = (Bytes(CHUNK_BYTES), helio_link::checksum);
    let owner = record.owner(checksum);
    let mut scanned = BeforeStore::open(&mut read, length, chunk, owner, checksum);
    if let Ok((store, found)) = &mut scanned
        && store.sequence() < record.before_sequence
    {
        if found.copies.is_empty() {
            tracing::warn!(
                group = record.group,
                "the before-image file is older than the metadata, or was removed: snapshots that it had cannot be used"
            );
        } else {
            tracing::error!(
                group = record.group,
                "the before-image file is older than the metadata: its snapshots, and a safe copy in it, cannot be used\n  \
                 hint: create new snapshots. A newer file helps only if it is put in its place before the daemon starts"
            );
            store.distrust();
            found.damaged = true;
        }
    }
    Ok(scanned)
}

/// What a before-image file holds while no daemon uses it; nothing if it is not there.
pub(super) fn found(host: &Host, path: &Path, record: &Superblock) -> Result<BeforeFound> {
    if !host.exists(path) {
        return Ok(BeforeFound::default());
    }
    let (file, shown) = (file(host, path, false)?, path.display().to_string());
    take(host, &file, &shown)?;
    match scan(&file, record)? {
        Ok((_, found)) => Ok(found),
        Err(BeforeError::Unreadable(pages)) if pages.iter().all(|page| !is_foreign(*page)) => {
            Ok(BeforeFound { damaged: true, ..BeforeFound::default() })
        }
        Err(error) => {
            let Superblock { group, node, .. } = record;
            bail!(
                "{shown}: {error}\n  hint: name the before-image file of {group} on {node}; one that lies in its place and is of no use \
                 is moved away"
            )
        }
    }
}

/// The record of a node, with the restore that this file lists, so that the next start of the daemon finishes it. The daemon is stopped.
///
/// # Errors
/// The file is not there, is of another group or node, lists no restore, or has not all of it.
pub fn with_restore(host: &Host, path: &Path, record: Superblock) -> Result<Superblock> {
    let shown = path.display();
    if !host.exists(path) {
        bail!("{shown} is not there\n  hint: name the before-image file of the group");
    }
    let found = found(host, path, &record)?;
    match found.standing(&record) {
        RollbackStanding::Unrecorded(by) if found.rollback(by).is_some() => {
            Ok(Superblock { rollback: Some(by), ..record })
        }
        RollbackStanding::Unrecorded(_) | RollbackStanding::Lost => bail!(
            "{shown} has not all of its restore\n  hint: put a sound copy of this file in its place, or discard the copy of this node"
        ),
        RollbackStanding::GoesOn => bail!(
            "the metadata knows the restore of {shown}\n  hint: start the daemon, which finishes it"
        ),
        RollbackStanding::Nothing | RollbackStanding::Over => bail!(
            "{shown} has no restore that is to be finished\n  hint: leave out --finish-restore"
        ),
    }
}

/// The file past the page cache, where its file system reads it so: what is kept is written once, and seldom read.
fn direct(host: &Host, path: &Path) -> Option<File> {
    let file = private(host, path, OFlags::RDWR | OFlags::DIRECT).ok()?;
    let mut page = Buffer::zeroed(PAGE_BYTES);
    file.body().read_at(&mut page[..], 0).is_ok().then_some(file)
}

fn is_foreign(page: PageError) -> bool {
    matches!(page, PageError::Owner | PageError::Version { .. })
}
