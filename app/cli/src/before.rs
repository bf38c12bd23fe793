// SPDX-License-Identifier: Apache-2.0
//! A before-image file, offline: which image it keeps, and whether that could be restored.

use crate::failure::unreadable;
use crate::verbs::print;
use anyhow::{Result, bail};
use crc_fast::CrcAlgorithm;
use helio_format::before::{CHUNK_BYTES, PAGE_BYTES};
use helio_ledger::{BeforeError, BeforeKept, BeforeStore};
use helio_units::Bytes;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Whether a file is one of these: one of its two headers begins as theirs do.
pub(crate) fn is_one(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    [0, PAGE_BYTES as u64].into_iter().any(|at| {
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, at).is_ok() && &magic == b"HLBI"
    })
}

/// What the file keeps, and how many of its chunks are not whole.
fn look(
    file: &File,
    length: u64,
) -> Result<Option<(BeforeKept, u64)>, BeforeError<std::io::Error>> {
    let mut owners = [0; 2];
    for (owner, at) in owners.iter_mut().zip([8, PAGE_BYTES as u64 + 8]) {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, at).map_err(BeforeError::Read)?;
        *owner = u32::from_le_bytes(bytes);
    }
    // Whose it is, only a daemon need ask; the header that is there names one.
    let owner = if owners[0] == 0 { owners[1] } else { owners[0] };
    let mut read = |at: u64, buffer: &mut [u8]| file.read_exact_at(buffer, at);
    let (store, kept) = BeforeStore::open(&mut read, length, Bytes(CHUNK_BYTES), owner, checksum)?;
    let Some(kept) = kept else { return Ok(None) };
    let mut bad = 0;
    for number in 0..store.records() {
        bad += u64::from(store.load(number, &mut read)?.is_none());
    }
    Ok(Some((kept, bad)))
}

/// Prints what the file keeps; reads all of it.
pub(crate) fn inspect(path: &Path, as_json: bool) -> Result<ExitCode> {
    let shown = path.display();
    let file = File::open(path).map_err(unreadable(path))?;
    let length = file.metadata().map_err(unreadable(path))?.len();
    let found = match look(&file, length) {
        Ok(found) => found,
        Err(error) => bail!(
            "{shown}: {error}\n  hint: name a file that was made by this version, or remove a file that is no longer \
             needed"
        ),
    };
    let mut text = String::new();
    match found {
        _ if as_json => {
            let kept = found.map(|(kept, bad)| {
                json!({
                    "generation": kept.image.lineage.generation.to_string(),
                    "position": kept.image.head.0,
                    "exact": kept.image.exact,
                    "since_ms": kept.image.at.0,
                    "chunks": kept.chunks.len(),
                    "kept_bytes": bytes_of(&kept).0,
                    "bad_chunks": bad,
                    "sound": !kept.damaged && bad == 0,
                })
            });
            let whole = json!({ "file": path, "bytes": length, "kept": kept });
            text = serde_json::to_string_pretty(&whole)? + "\n";
        }
        None => writeln!(text, "{shown}: before-images, {}\n  empty", Bytes(length))?,
        Some((kept, bad)) => {
            let BeforeKept { image, chunks, damaged } = &kept;
            let exact = if image.exact { "" } else { ", or slightly later" };
            let sound = match (damaged, bad) {
                (false, 0) => String::from("complete: `helio promote --restore` can restore it"),
                (true, _) => String::from("damaged: records are missing that were durable"),
                (false, bad) => format!("damaged: {bad} chunks have a wrong checksum"),
            };
            writeln!(text, "{shown}: before-images, {}", Bytes(length))?;
            writeln!(
                text,
                "  copy       generation {}, item {}{exact}",
                image.lineage.generation, image.head
            )?;
            writeln!(text, "  since      {}", image.at)?;
            writeln!(text, "  kept       {} in {} chunks", bytes_of(&kept), chunks.len())?;
            writeln!(text, "  state      {sound}")?;
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn bytes_of(kept: &BeforeKept) -> Bytes {
    kept.chunks.iter().fold(Bytes::ZERO, |sum, (_, extent)| sum + Bytes(extent.length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::before::KeptImage;
    use helio_units::{Extent, Sequence, VolumeIndex};

    #[test]
    fn a_file_tells_which_image_it_keeps_and_whether_its_bytes_are_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db.before");
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("a file");
        let mut none = |_: u64, _: &mut [u8]| Ok::<_, std::io::Error>(());
        let opened = BeforeStore::open(&mut none, 0, Bytes(CHUNK_BYTES), 7, checksum);
        let (mut store, _) = opened.expect("a new one");
        let begin = store.begin(KeptImage { head: Sequence(42), ..KeptImage::default() });
        file.write_all_at(&begin.bytes, begin.offset).expect("room");
        store.flushed();
        let chunk = (VolumeIndex(0), Extent::new(0, CHUNK_BYTES));
        let data = vec![5; CHUNK_BYTES as usize];
        let write = store.record(chunk, &data);
        file.write_all_at(&write.bytes, write.offset).expect("room");
        let data_at = write.offset + PAGE_BYTES as u64;
        file.write_all_at(&data, data_at).expect("room");
        assert!(is_one(&path) && !is_one(folder.path()));
        let length = file.metadata().expect("its facts").len();
        let (kept, bad) = look(&file, length).expect("it is read").expect("it keeps an image");
        assert_eq!((kept.image.head, kept.chunks, bad), (Sequence(42), vec![chunk], 0));
        store.flushed();
        let note = store.note().expect("one record is durable");
        file.write_all_at(&note.bytes, note.offset).expect("room");
        file.write_all_at(&[6], data_at).expect("room");
        let (_, bad) = look(&file, length).expect("it is read").expect("it keeps an image");
        assert_eq!(bad, 1);
    }
}
