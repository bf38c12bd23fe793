// SPDX-License-Identifier: Apache-2.0
//! A before-image file, offline: which copies it has, and whether they could be restored.

use crate::failure::unreadable;
use crate::verbs::print;
use anyhow::{Result, bail};
use helio_format::before::{
    AREA_PAGES, CHUNK_BYTES, CopyClass, CopyOwner, CopyStage, KeptCopy, PAGE_BYTES,
};
use helio_ledger::{BeforeError, BeforeFound, BeforeStore};
use helio_link::checksum;
use helio_units::Bytes;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

/// Where headers lie.
const HEADERS: [u64; 2] = [0, AREA_PAGES as u64 * PAGE_BYTES as u64];

/// Whether a file is one of these: one of its headers begins as theirs do.
pub(crate) fn is_one(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    HEADERS.into_iter().any(|at| {
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, at).is_ok() && &magic == b"HLBI"
    })
}

/// What the file has, and how many of its records are not whole.
fn look(file: &File, length: u64) -> Result<(BeforeFound, u64), BeforeError<std::io::Error>> {
    // Whose it is, only a daemon need ask; a header that is there names one.
    let owners = HEADERS.into_iter().filter_map(|at| {
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, at).ok()?;
        let owner = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        bytes.starts_with(b"HLBI").then_some(owner)
    });
    let owner = owners.into_iter().next().unwrap_or_default();
    let mut read = |at: u64, buffer: &mut [u8]| file.read_exact_at(buffer, at);
    let (store, found) = BeforeStore::open(&mut read, length, Bytes(CHUNK_BYTES), owner, checksum)?;
    let mut bad = 0;
    for record in &found.records {
        bad += u64::from(store.load(record.slot, record.chunk, &mut read)?.is_none());
    }
    Ok((found, bad))
}

/// Prints what the file has; reads all of it.
pub(crate) fn inspect(path: &Path, as_json: bool) -> Result<ExitCode> {
    let shown = path.display();
    let file = File::open(path).map_err(unreadable(path))?;
    let length = file.metadata().map_err(unreadable(path))?.len();
    let (found, bad) = match look(&file, length) {
        Ok(found) => found,
        Err(error) => bail!(
            "{shown}: {error}\n  hint: name a file that was made by this version, or remove a file that is no longer \
             needed"
        ),
    };
    let mut text = String::new();
    if as_json {
        let copies: Vec<_> = found.copies.iter().map(as_value).collect();
        let whole = json!({
            "file": path,
            "bytes": length,
            "copies": copies,
            "chunks": found.records.len(),
            "kept_bytes": bytes_of(&found).0,
            "bad_chunks": bad,
            "sound": !found.damaged && bad == 0,
        });
        text = serde_json::to_string_pretty(&whole)? + "\n";
    } else if found.copies.is_empty() {
        writeln!(text, "{shown}: before-images, {}\n  empty", Bytes(length))?;
    } else {
        let safe =
            |copy: &KeptCopy| copy.owner == CopyOwner::Resync && copy.stage == CopyStage::Held;
        let sound = match (found.damaged, bad) {
            (false, 0) if !found.copies.iter().any(safe) => {
                String::from("no copy that `helio promote --restore` can restore")
            }
            (false, 0) => String::from("complete: `helio promote --restore` can restore it"),
            (true, _) => String::from("damaged: records are missing that were durable"),
            (false, bad) => format!("damaged: {bad} chunks have a wrong checksum"),
        };
        writeln!(text, "{shown}: before-images, {}", Bytes(length))?;
        for KeptCopy { number, stage, owner, image, .. } in &found.copies {
            let exact = if image.exact { "" } else { ", or slightly later" };
            let coming = match stage {
                CopyStage::Held => String::new(),
                CopyStage::Coming => String::from(", incomplete: the next start drops it"),
                CopyStage::Rollback(to) => format!(", a restore: rollback to copy {to}"),
            };
            let inconsistent = if image.consistent { "" } else { ", inconsistent" };
            let owner = match owner {
                CopyOwner::Resync => String::from("the safe copy"),
                CopyOwner::Operator(name, id) => format!("{name}, id {id}"),
            };
            writeln!(text, "  copy {number:<5} {owner}{inconsistent}{coming}")?;
            writeln!(
                text,
                "  holds      generation {}, item {}{exact}",
                image.lineage.generation, image.head
            )?;
            writeln!(text, "  since      {}", image.at)?;
        }
        writeln!(text, "  kept       {} in {} chunks", bytes_of(&found), found.records.len())?;
        writeln!(text, "  state      {sound}")?;
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn as_value(copy: &KeptCopy) -> serde_json::Value {
    json!({
        "number": copy.number.0,
        "name": match &copy.owner {
            CopyOwner::Resync => None,
            CopyOwner::Operator(name, _) => Some(name.as_str()),
        },
        "id": copy.id().map(|id| id.to_string()),
        "required": copy.class == CopyClass::Required,
        "held": copy.stage == CopyStage::Held,
        "rollback_to": match copy.stage {
            CopyStage::Rollback(to) => Some(to.0),
            CopyStage::Coming | CopyStage::Held => None,
        },
        "generation": copy.image.lineage.generation.to_string(),
        "position": copy.image.head.0,
        "exact": copy.image.exact,
        "consistent": copy.image.consistent,
        "since_ms": copy.image.at.0,
    })
}

fn bytes_of(found: &BeforeFound) -> Bytes {
    let lengths = found.records.iter().map(|record| Bytes(record.chunk.1.length));
    lengths.fold(Bytes::ZERO, |sum, length| sum + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::before::{CopyNumber, CopyView, KeptImage, Slot};
    use helio_units::{Extent, Sequence, VolumeIndex, WallTime};

    #[test]
    fn a_file_tells_which_copies_it_has_and_whether_its_bytes_are_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db.before");
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("a file");
        let mut none = |_: u64, _: &mut [u8]| Ok::<_, std::io::Error>(());
        let opened = BeforeStore::open(&mut none, 0, Bytes(CHUNK_BYTES), 7, checksum);
        let (mut store, _) = opened.expect("a new one");
        let image = KeptImage { head: Sequence(42), ..KeptImage::default() };
        let (number, class, stage) = (CopyNumber(1), CopyClass::Required, CopyStage::Held);
        let owner = CopyOwner::Resync;
        let copies = vec![KeptCopy { number, class, stage, owner, image }];
        let list = store.list(copies, 0, WallTime(5));
        file.write_all_at(&list.bytes, list.offset).expect("room");
        store.flushed();
        let chunk = (VolumeIndex(0), Extent::new(0, CHUNK_BYTES));
        let data = vec![5; CHUNK_BYTES as usize];
        store.begin_batch();
        let write = store.record(CopyView::Cut(number), Slot(3), chunk, &data);
        file.write_all_at(&write.bytes, write.offset).expect("room");
        let data_at = write.offset + PAGE_BYTES as u64;
        file.write_all_at(&data, data_at).expect("room");
        assert!(is_one(&path) && !is_one(folder.path()));
        let length = file.metadata().expect("its facts").len();
        let (found, bad) = look(&file, length).expect("it is read");
        assert_eq!(
            (found.copies[0].image.head, found.copies[0].image.at),
            (Sequence(42), WallTime(5))
        );
        assert_eq!((found.records[0].chunk, found.records.len(), bad), (chunk, 1, 0));
        store.flushed();
        let note = store.note().expect("one record is durable");
        file.write_all_at(&note.bytes, note.offset).expect("room");
        file.write_all_at(&[6], data_at).expect("room");
        let (_, bad) = look(&file, length).expect("it is read");
        assert_eq!(bad, 1);
    }
}
