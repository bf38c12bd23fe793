// SPDX-License-Identifier: Apache-2.0
//! Allocating a metadata file in full, so that no later write of a page finds its file system full.
//!
//! On a file system that writes elsewhere each time (btrfs, ZFS), an allocated file can still find no room.

use helio_driver::{Errno, FallocateFlags, File, Host, SeekFrom};
use std::io;
use std::path::Path;

/// Zeros are written in pieces of that length.
const PIECE: u64 = 64 << 10;

/// Whether a folder's file system has that much room. Where it does not say, allocating will.
///
/// # Errors
/// It has not, as the kernel would say it.
pub(super) fn room(host: &Host, folder: &Path, bytes: u64) -> io::Result<()> {
    let Ok(room) = host.room(folder) else { return Ok(()) };
    if room.free.0 < bytes {
        return Err(Errno::NOSPC.into());
    }
    Ok(())
}

/// Gives every byte of the file its place on the disk, and leaves what it holds as it is.
pub(super) fn in_full(file: &File, length: u64) -> io::Result<()> {
    since(file, 0, length)
}

/// Makes a file longer that the daemon writes meanwhile. What it holds already is allocated, and left alone.
pub(super) fn longer(file: &File, length: u64) -> io::Result<()> {
    let stored = file.body().facts()?.length.0;
    if stored < length { since(file, stored, length) } else { Ok(()) }
}

/// Allocates what lies between these places.
fn since(file: &File, from: u64, length: u64) -> io::Result<()> {
    match file.body().allocate(FallocateFlags::empty(), from, length - from) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill_holes(file, from, length),
        other => Ok(other?),
    }
}

/// Allocates what is missing of a file that an older version made: it has holes, and a write into one may find no room.
/// Where there is no room now, it says so and goes on: the group was served from that file until now.
///
/// # Errors
/// Its length cannot be read.
pub(super) fn older(file: &File, shown: &str, group: &str) -> io::Result<()> {
    let length = file.body().facts()?.length.0;
    if let Err(error) = in_full(file, length) {
        tracing::warn!(group, "{}", refusal(shown, length, &error));
    }
    Ok(())
}

/// Writes zeros where nothing is stored between these places.
fn fill_holes(file: &File, from: u64, length: u64) -> io::Result<()> {
    let stored = file.body().facts()?.length.0.min(length);
    let zeros = vec![0; PIECE as usize];
    let mut at = from;
    while at < length {
        let hole = if at < stored { file.body().seek(SeekFrom::Hole(at))?.min(length) } else { at };
        let end = match file.body().seek(SeekFrom::Data(hole)) {
            Ok(data) => data.min(length),
            // Only holes follow.
            Err(Errno::NXIO) => length,
            Err(error) => return Err(error.into()),
        };
        let mut from = hole;
        while from < end {
            let piece = (end - from).min(PIECE);
            file.write_all_at(&zeros[..piece as usize], from)?;
            from += piece;
        }
        at = end.max(hole + 1);
    }
    Ok(())
}

/// What an operator reads.
pub(super) fn refusal(shown: &str, bytes: u64, error: &io::Error) -> String {
    let bytes = helio_units::Bytes(bytes);
    format!(
        "{shown}: {bytes} cannot be allocated on its file system: {error}\n  hint: free space on that file system, or \
         give the daemon a --state on another one"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        File::new(tempfile::tempfile().expect("a file can be made")).expect("it is open")
    }

    #[test]
    fn holes_are_filled_and_what_is_stored_stays() {
        let file = file();
        file.body().set_length(1 << 20).expect("it takes its length");
        file.write_all_at(&[7; 4096], 512 << 10).expect("it can be written");
        fill_holes(&file, 0, (1 << 20) + 4096).expect("there is room");
        let about = file.body().facts().expect("it is there");
        assert_eq!(about.length.0, (1 << 20) + 4096);
        assert!(about.held >= about.length, "{about:?}");
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, 512 << 10).expect("it can be read");
        assert_eq!(page, [7; 4096]);
        file.read_exact_at(&mut page, 0).expect("it can be read");
        assert_eq!(page, [0; 4096]);
    }

    #[test]
    fn a_file_gets_longer_and_what_it_holds_is_left_alone() {
        let file = file();
        file.body().set_length(64 << 10).expect("it takes its length");
        let held = || file.body().facts().expect("it is there").held;
        let before = held();
        fill_holes(&file, 64 << 10, 128 << 10).expect("there is room");
        assert_eq!(held().0 - before.0, 64 << 10, "a hole before that was filled");
        longer(&file, 192 << 10).expect("there is room");
        longer(&file, 4096).expect("it is longer");
        assert_eq!(file.body().facts().expect("it is there").length.0, 192 << 10);
    }
}
