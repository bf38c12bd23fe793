// SPDX-License-Identifier: Apache-2.0
//! What blocks may hold: the versions a client wrote, which of them were acknowledged, and which are durable.

use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) const BLOCK: usize = 4096;

/// Which versions of a block may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    /// The last one that was acknowledged, or a later one.
    Acknowledged,
    /// The last one that a FLUSH or FUA made durable, or a later one.
    Durable,
}

/// The versions of a block, from 1; 0 is a block of zeroes.
#[derive(Clone, Copy, Debug, Default)]
struct Versions {
    last: u64,
    acknowledged: u64,
    durable: u64,
}

/// The content that a volume may have.
#[derive(Debug, Default)]
pub(crate) struct Content {
    run: u64,
    blocks: BTreeMap<u64, Versions>,
}

impl Content {
    pub(crate) fn new(run: u64) -> Self {
        Self { run, blocks: BTreeMap::new() }
    }

    /// The next version of a block, as it is to be written.
    pub(crate) fn next(&mut self, block: u64) -> Vec<u8> {
        let versions = self.blocks.entry(block).or_default();
        versions.last += 1;
        stamp(self.run, block, versions.last)
    }

    /// The last version of a block was acknowledged.
    pub(crate) fn acknowledged(&mut self, block: u64) {
        let versions = self.blocks.entry(block).or_default();
        versions.acknowledged = versions.last;
    }

    /// The last version of a block was acknowledged with FUA.
    pub(crate) fn durable(&mut self, block: u64) {
        self.acknowledged(block);
        let versions = self.blocks.entry(block).or_default();
        versions.durable = versions.last;
    }

    /// A FLUSH succeeded, and nothing was written meanwhile.
    pub(crate) fn flushed(&mut self) {
        for versions in self.blocks.values_mut() {
            versions.durable = versions.acknowledged;
        }
    }

    /// An operator gave up what may be lost: what was acknowledged and is not durable.
    pub(crate) fn give_up(&mut self) {
        for versions in self.blocks.values_mut() {
            versions.acknowledged = versions.durable;
        }
    }

    /// The blocks that were written.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.blocks.keys().copied()
    }

    /// Checks what a block holds.
    pub(crate) fn check(&self, block: u64, bytes: &[u8], least: Least) -> Result<(), String> {
        let versions = self.blocks.get(&block).copied().unwrap_or_default();
        let from = match least {
            Least::Acknowledged => versions.acknowledged,
            Least::Durable => versions.durable,
        };
        let is = |version: &u64| bytes == stamp(self.run, block, *version);
        if (from..=versions.last).any(|version| is(&version)) {
            return Ok(());
        }
        match (0..from).rev().find(is) {
            Some(older) => Err(format!("block {block} holds version {older}, older than {from}")),
            None => Err(format!("block {block} holds none of its versions, {versions:?}")),
        }
    }

    /// Checks a whole image: what was written, and that nothing else is there.
    pub(crate) fn check_image(&self, file: &Path, least: Least) -> Result<(), String> {
        let opened = File::open(file).map_err(|why| format!("{}: {why}", file.display()))?;
        let mut places: Vec<u64> = self.written().collect();
        for block in data_blocks(&opened) {
            if !self.blocks.contains_key(&block) {
                places.push(block);
            }
        }
        let mut wrong = Vec::new();
        for block in places {
            let mut bytes = [0; BLOCK];
            opened
                .read_exact_at(&mut bytes, block * BLOCK as u64)
                .map_err(|why| format!("{}: {why}", file.display()))?;
            wrong.extend(self.check(block, &bytes, least).err());
        }
        match wrong.first() {
            None => Ok(()),
            Some(first) => Err(format!("{} blocks are wrong; {first}", wrong.len())),
        }
    }
}

/// The blocks of a file that take space.
fn data_blocks(file: &File) -> Vec<u64> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Ok(from) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(from)).expect("a hole follows");
        blocks.extend(from / BLOCK as u64..at.div_ceil(BLOCK as u64));
    }
    blocks
}

/// The bytes of a version of a block.
fn stamp(run: u64, block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if version > 0 {
        for (at, word) in bytes.chunks_exact_mut(32).enumerate() {
            for (place, value) in word.chunks_exact_mut(8).zip([run, block, version, at as u64]) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    bytes
}
