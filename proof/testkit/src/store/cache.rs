// SPDX-License-Identifier: Apache-2.0
//! The content of a store with a volatile cache. A write changes what is read at once; a flush makes it durable.
//!
//! The backing file holds what is read. For every block that is not durable the durable content is kept in memory, so
//! that dropping the cache restores it.

use crate::Dice;
use helio_units::Extent;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What the cache keeps and drops as a whole.
const BLOCK: u64 = 4096;

/// Which blocks are lost that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of them.
    All,
    /// About half of them, chosen by this seed.
    Half(u64),
    /// None: the store reports a failure that had no effect.
    None,
}

/// When a loss shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Reads return the older content at once.
    AtOnce,
    /// Reads return the newer content until the file is opened again, or the power fails. A page cache does this: it
    /// marks pages clean whose write-back failed.
    Later,
}

/// The content of a block; none stands for zeroes that take no space.
type Content = Option<Box<[u8]>>;

#[derive(Debug)]
pub(crate) struct Cache {
    file: File,
    size: u64,
    /// The durable content of each block that changed since.
    volatile: BTreeMap<u64, Content>,
    /// The same for blocks that the cache takes for durable, and that are lost.
    lost: BTreeMap<u64, Content>,
}

impl Cache {
    /// All of the file is durable.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Ok(Self { file, size, volatile: BTreeMap::new(), lost: BTreeMap::new() })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// How many blocks are not durable.
    pub(crate) fn volatile(&self) -> usize {
        self.volatile.len()
    }

    /// Changes the length of the file, durably.
    pub(crate) fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)?;
        self.size = size;
        for blocks in [&mut self.volatile, &mut self.lost] {
            blocks.retain(|block, _| block * BLOCK < size);
        }
        Ok(())
    }

    pub(crate) fn read(&self, extent: Extent, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, extent.offset)
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.keep_durable(Extent::new(offset, bytes.len() as u64))?;
        self.file.write_all_at(bytes, offset)
    }

    /// Makes an extent read as zero.
    pub(crate) fn zero(&mut self, extent: Extent) -> io::Result<()> {
        for run in self.data(extent)? {
            self.keep_durable(run)?;
        }
        punch(&self.file, extent)
    }

    /// The next byte of data or of a hole.
    pub(crate) fn seek(&self, to: SeekFrom) -> rustix::io::Result<u64> {
        seek(&self.file, to)
    }

    /// Makes everything durable that is not lost.
    pub(crate) fn flush(&mut self) {
        self.volatile.clear();
    }

    /// Makes one extent durable, and nothing else: a write with FUA of a disk that knows FUA.
    pub(crate) fn persist(&mut self, extent: Extent) -> io::Result<()> {
        for block in blocks(extent) {
            let Some(kept) = self.volatile.remove(&block) else { continue };
            let whole = Extent::new(block * BLOCK, self.length(block));
            let from = extent.offset.max(whole.offset);
            let to = extent.end().min(whole.end());
            if from > whole.offset || to < whole.end() {
                let mut content = kept.unwrap_or_else(|| vec![0; whole.length as usize].into());
                let part = (from - whole.offset) as usize..(to - whole.offset) as usize;
                self.file.read_exact_at(&mut content[part], from)?;
                self.volatile.insert(block, Some(content));
            }
        }
        Ok(())
    }

    /// Loses what is not durable. Returns how many blocks.
    pub(crate) fn lose(&mut self, loss: Loss, shows: Shows) -> io::Result<usize> {
        let mut dice = match loss {
            Loss::None => return Ok(0),
            Loss::All => None,
            Loss::Half(seed) => Some(Dice::new(seed)),
        };
        let mut count = 0;
        for (block, content) in std::mem::take(&mut self.volatile) {
            if dice.as_mut().is_some_and(|dice| dice.chance(50)) {
                self.volatile.insert(block, content);
                continue;
            }
            count += 1;
            match shows {
                Shows::AtOnce => self.restore(block, content)?,
                Shows::Later => {
                    self.lost.insert(block, content);
                }
            }
        }
        Ok(count)
    }

    /// The file is opened again, or the power was cut: what is lost shows.
    pub(crate) fn show_lost(&mut self) -> io::Result<()> {
        for (block, content) in std::mem::take(&mut self.lost) {
            self.restore(block, content)?;
        }
        Ok(())
    }

    fn restore(&self, block: u64, content: Content) -> io::Result<()> {
        match content {
            Some(content) => self.file.write_all_at(&content, block * BLOCK),
            None => punch(&self.file, Extent::new(block * BLOCK, BLOCK)),
        }
    }

    /// Keeps the durable content of the blocks that an extent touches.
    fn keep_durable(&mut self, extent: Extent) -> io::Result<()> {
        for block in blocks(extent) {
            if self.volatile.contains_key(&block) {
                continue;
            }
            let content = match self.lost.remove(&block) {
                Some(content) => content,
                None => self.content(block)?,
            };
            self.volatile.insert(block, content);
        }
        Ok(())
    }

    fn content(&self, block: u64) -> io::Result<Content> {
        let whole = Extent::new(block * BLOCK, self.length(block));
        if self.data(whole)?.is_empty() {
            return Ok(None);
        }
        let mut content = vec![0; whole.length as usize];
        self.file.read_exact_at(&mut content, whole.offset)?;
        Ok(Some(content.into()))
    }

    fn length(&self, block: u64) -> u64 {
        (self.size - block * BLOCK).min(BLOCK)
    }

    /// The parts of an extent that take space.
    fn data(&self, extent: Extent) -> io::Result<Vec<Extent>> {
        let mut runs = Vec::new();
        let mut at = extent.offset;
        while at < extent.end() {
            let from = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(from) if from < extent.end() => from,
                Ok(_) | Err(rustix::io::Errno::NXIO) => break,
                Err(why) => return Err(why.into()),
            };
            at = seek(&self.file, SeekFrom::Hole(from))?.min(extent.end());
            runs.push(Extent::new(from, at - from));
        }
        Ok(runs)
    }
}

/// Makes a hole.
pub(super) fn punch(file: &File, extent: Extent) -> io::Result<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, how, extent.offset, extent.length)?)
}

fn blocks(extent: Extent) -> impl Iterator<Item = u64> + use<> {
    extent.offset / BLOCK..extent.end().div_ceil(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;
    use helio_units::Bytes;

    fn cache(scratch: &TempDir) -> Cache {
        let path = scratch.file("store", Bytes::mib(1));
        let file = File::options().read(true).write(true).open(path).expect("just made");
        Cache::new(file).expect("it has a length")
    }

    fn byte(cache: &Cache, at: u64) -> u8 {
        let mut byte = [0];
        cache.read(Extent::new(at, 1), &mut byte).expect("inside");
        byte[0]
    }

    #[test]
    fn what_was_flushed_survives_a_loss_and_the_rest_does_not() {
        let scratch = TempDir::new();
        let mut cache = cache(&scratch);
        cache.write(0, &[1; 8192]).expect("room");
        cache.flush();
        cache.write(512, &[2; 512]).expect("room");
        cache.zero(Extent::new(4096, 4096)).expect("room");
        cache.write(65536, &[3; 512]).expect("room");
        assert_eq!([512, 4096, 65536].map(|at| byte(&cache, at)), [2, 0, 3]);
        assert_eq!(cache.lose(Loss::All, Shows::AtOnce).expect("room"), 3);
        assert_eq!([512, 4096, 65536].map(|at| byte(&cache, at)), [1, 1, 0]);
        assert_eq!(cache.volatile(), 0);
    }

    #[test]
    fn a_loss_that_shows_later_is_not_repaired_by_a_flush() {
        let scratch = TempDir::new();
        let mut cache = cache(&scratch);
        cache.write(0, &[1; 4096]).expect("room");
        cache.write(4096, &[1; 4096]).expect("room");
        cache.lose(Loss::All, Shows::Later).expect("room");
        cache.write(4096, &[2; 4096]).expect("room");
        cache.flush();
        assert_eq!([0, 4096].map(|at| byte(&cache, at)), [1, 2]);
        cache.show_lost().expect("room");
        assert_eq!([0, 4096].map(|at| byte(&cache, at)), [0, 2], "written again, then flushed");
    }

    #[test]
    fn a_durable_write_covers_itself_alone() {
        let scratch = TempDir::new();
        let mut cache = cache(&scratch);
        cache.write(0, &[1; 512]).expect("room");
        cache.write(512, &[2; 512]).expect("room");
        cache.persist(Extent::new(512, 512)).expect("room");
        cache.lose(Loss::All, Shows::AtOnce).expect("room");
        assert_eq!([0, 512].map(|at| byte(&cache, at)), [0, 2]);
    }
}
