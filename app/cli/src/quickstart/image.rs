// SPDX-License-Identifier: Apache-2.0
//! A real ext4 file system with real files in it, as an image to be written to a volume.
//!
//! Made by mke2fs, which fills it from a folder without any privilege; where there is no mke2fs, a small one
//! that travels with the program.

use super::plan::FILES;
use super::screen::Screen;
use super::stage::Stage;
use anyhow::{Context, Result, bail};
use helio_units::Bytes;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The small image, compressed; `assets/README.md` says how it was made.
const BUNDLED: &[u8] = include_bytes!("../../assets/files.ext4.lz4");
/// The unit ext4 counts in here.
const BLOCK: u64 = 4096;
/// What the file system needs for itself: journal, inode tables, bitmaps, with room to spare.
const OVERHEAD: Bytes = Bytes::mib(24);
/// Text files made up for the image, and lines in each.
const LETTERS: (u32, u32) = (100, 150);

/// An image and what is in it.
pub(super) struct Image {
    /// The file.
    pub(super) path: PathBuf,
    /// How much of it there is to write.
    pub(super) length: Bytes,
}

/// Where the files come from.
#[derive(Debug)]
pub(super) enum Source {
    /// The user's folder, by way of mke2fs.
    Folder { mke2fs: PathBuf, folder: PathBuf },
    /// Made up, by way of mke2fs.
    MadeUp { mke2fs: PathBuf },
    /// The small image that travels with the program.
    Bundled,
}

impl Source {
    /// Decides, and refuses a folder that cannot be mirrored before anything is begun.
    pub(super) fn choose(from: Option<&Path>) -> Result<Self> {
        let Some(from) = from else {
            return Ok(find("mke2fs").map_or(Self::Bundled, |mke2fs| Self::MadeUp { mke2fs }));
        };
        let Some(mke2fs) = find("mke2fs") else {
            bail!(
                "--from needs mke2fs, which makes a file system from a directory: install e2fsprogs"
            )
        };
        // The processes of the story run in a folder of their own.
        let folder = from
            .canonicalize()
            .with_context(|| format!("cannot read --from {}", from.display()))?;
        let found = measure(&folder)?;
        let room = FILES.size.saturating_sub(OVERHEAD);
        if found.blocks > room {
            bail!(
                "--from {} does not fit: its {} files take {}, and a volume of {} has room for {room}",
                from.display(),
                found.files,
                found.blocks,
                FILES.size
            );
        }
        Ok(Self::Folder { mke2fs, folder })
    }

    /// Makes the image.
    pub(super) fn make(&self, stage: &Stage, screen: &Screen) -> Result<Image> {
        let path = stage.folder().join("files.ext4");
        match self {
            Self::Folder { mke2fs, folder } => fill(stage, screen, mke2fs, folder)?,
            Self::MadeUp { mke2fs } => {
                write_content(&stage.folder().join("content"))?;
                fill(stage, screen, mke2fs, Path::new("content"))?;
            }
            Self::Bundled => {
                screen.say(
                    "mke2fs is not installed (package e2fsprogs), so the small ext4 image in the program is unpacked.",
                )?;
                std::fs::write(&path, unpack()?)?;
            }
        }
        let length = Bytes(path.metadata()?.len());
        Ok(Image { path, length })
    }
}

/// A program of e2fsprogs. Debian keeps them where only root's PATH leads.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join(program)).filter(|found| found.is_file()))
}

/// Makes an image as large as the volume, so that whoever attaches the volume can mount it.
fn fill(stage: &Stage, screen: &Screen, mke2fs: &Path, content: &Path) -> Result<()> {
    let found = measure(&stage.folder().join(content))?;
    let from = content.display().to_string();
    let size = format!("{}M", FILES.size.0 >> 20);
    let block = BLOCK.to_string();
    let words =
        ["-q", "-t", "ext4", "-b", &block, "-L", "heliograph", "-d", &from, "files.ext4", &size];
    screen.command(&[&["mke2fs"], &words[..]].concat())?;
    let mut command = Command::new(mke2fs);
    command.args(words);
    let told = stage.run(command)?;
    screen.output(&told.text)?;
    if !told.status.success() {
        bail!("mke2fs could not make a file system of {from}: {}", told.status);
    }
    let Found { files, bytes, .. } = found;
    screen.say(&format!("An ext4 file system with {files} files in it, {bytes} together."))?;
    Ok(())
}

/// What a folder holds.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    files: u64,
    bytes: Bytes,
    /// The bytes, each file rounded up to whole blocks, and a block for whatever is no file.
    blocks: Bytes,
}

/// Walks a folder. Links are counted, not followed.
fn measure(folder: &Path) -> Result<Found> {
    let mut found = Found::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot = || format!("cannot read {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let about = entry.metadata().with_context(cannot)?;
            if about.is_file() {
                found.files += 1;
                found.bytes += Bytes(about.len());
                found.blocks += Bytes(about.len().div_ceil(BLOCK) * BLOCK);
            } else {
                found.blocks += Bytes(BLOCK);
                if about.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
    }
    Ok(found)
}

/// Makes up what to mirror: the program that mirrors it, and a heap of text files.
fn write_content(folder: &Path) -> Result<()> {
    let letters = folder.join("letters");
    std::fs::create_dir_all(&letters)?;
    let program = std::env::current_exe()?;
    // A build without optimisation can be too large for the volume; then the letters have to do.
    if program.metadata()?.len() <= FILES.size.0 / 2 {
        std::fs::copy(&program, folder.join("helio"))?;
    }
    for number in 1..=LETTERS.0 {
        std::fs::write(letters.join(format!("letter-{number:03}.txt")), letter(number))?;
    }
    Ok(())
}

fn letter(number: u32) -> String {
    let mut text = format!("Letter {number}, by heliograph\n\n");
    for line in 1..=LETTERS.1 {
        let word = u64::from(number * LETTERS.1 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line:4}: the mirror on the next hill answers {word:016x}");
    }
    text
}

fn unpack() -> Result<Vec<u8>> {
    let mut image = Vec::new();
    lz4_flex::frame::FrameDecoder::new(BUNDLED)
        .read_to_end(&mut image)
        .context("the image in the program is damaged")?;
    Ok(image)
}

/// Reads an image in pieces of `piece` bytes, the last one shorter where it does not divide.
pub(super) fn pieces(image: &Image, piece: usize) -> Result<impl Iterator<Item = Result<Vec<u8>>>> {
    let mut file = File::open(&image.path)?;
    let mut left = image.length.0;
    Ok(std::iter::from_fn(move || {
        let length = left.min(piece as u64);
        if length == 0 {
            return None;
        }
        left -= length;
        let mut bytes = vec![0; length as usize];
        Some(file.read_exact(&mut bytes).map(|()| bytes).context("reading the image"))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_that_travels_along_is_ext4() {
        let image = unpack().expect("it is whole");
        assert_eq!(image.len(), 4 << 20);
        assert_eq!(image[1024 + 56..1024 + 58], [0x53, 0xef], "the magic of ext2 and its children");
        assert_eq!(image[1024 + 96] & 0x40, 0x40, "extents, which make it ext4");
    }

    #[test]
    fn letters_differ() {
        assert_ne!(letter(1).lines().next_back(), letter(2).lines().next_back());
        assert!(letter(3).len() > 4096, "more than one block each");
    }

    #[test]
    fn a_folder_is_measured_in_whole_blocks() {
        let folder = std::env::temp_dir().join(format!("helio-measure-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).expect("the folder can be written to");
        std::fs::write(folder.join("a"), [1; 100]).expect("so can this");
        std::fs::write(folder.join("inner/b"), [1; 5000]).expect("and this");
        let found = measure(&folder);
        std::fs::remove_dir_all(&folder).expect("it was made");
        let expected = Found { files: 2, bytes: Bytes(5100), blocks: Bytes(4 * BLOCK) };
        assert_eq!(found.expect("it can be read"), expected);
    }
}
