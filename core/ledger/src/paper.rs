// SPDX-License-Identifier: Apache-2.0
//! A metadata file for tests: sectors that tear, writes that are reordered until a flush, and dice.

use crate::ledger::{Kept, Ledger, MetadataEffect};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::mem;
use helio_format::directory::MapOwner;
use helio_format::superblock::Superblock;
use helio_format::{Checksum, slow_crc32c};

pub(crate) const SECTOR: usize = 512;
pub(crate) const OWNER: (&str, &str) = ("db", "paris");
pub(crate) const PEER: MapOwner = MapOwner::Peer(0);
pub(crate) const CHECKSUM: Checksum = slow_crc32c;

/// The owner's mark.
pub(crate) fn mark() -> u32 {
    helio_format::page::owner(OWNER.0, OWNER.1, CHECKSUM)
}

/// 3 GiB: two hot pages, two mark pages.
pub(crate) fn superblock(head: u64) -> Superblock {
    let mut b = Superblock::new(OWNER.0, OWNER.1, [3 << 30].into());
    b.head = helio_units::Sequence(head);
    b.hot_slots = 509;
    b
}

/// Chance from a seed (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What is under way on the file: writes, each with its offset, or a flush.
#[derive(Clone)]
enum UnderWay {
    Writes(Vec<(u64, Vec<u8>)>),
    Flush,
}

impl UnderWay {
    const NOTHING: Self = Self::Writes(Vec::new());
}

/// The file, and what is under way on it.
#[derive(Clone)]
pub(crate) struct Paper {
    bytes: Vec<u8>,
    /// What sectors held at the last flush, where they changed since.
    before: BTreeMap<usize, Vec<u8>>,
    under_way: UnderWay,
    /// Writes and flushes that ended.
    ended: (usize, usize),
}

impl Paper {
    pub(crate) fn new(length: u64) -> Self {
        Self::of(vec![0; length as usize])
    }

    pub(crate) const fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, before: BTreeMap::new(), under_way: UnderWay::NOTHING, ended: (0, 0) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Zeros are added at the end, durably, up to that length.
    pub(crate) fn grow(&mut self, length: u64) {
        self.bytes.resize(self.bytes.len().max(length as usize), 0);
    }

    /// The power is cut, and of the writes under way only these land, as a whole.
    pub(crate) fn cut(&mut self, lands: impl Fn(usize) -> bool) {
        let under_way = mem::replace(&mut self.under_way, UnderWay::NOTHING);
        let UnderWay::Writes(writes) = under_way else { return };
        for (n, (offset, bytes)) in writes.into_iter().enumerate() {
            self.put(offset, &bytes, || lands(n));
        }
    }

    /// Damage: bytes of the file change.
    pub(crate) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Damage: bits of one byte flip.
    pub(crate) fn flip(&mut self, at: usize, bits: u8) {
        self.bytes[at] ^= bits;
    }

    /// The writes under way.
    pub(crate) fn writes(&self) -> &[(u64, Vec<u8>)] {
        match &self.under_way {
            UnderWay::Writes(writes) => writes,
            UnderWay::Flush => &[],
        }
    }

    pub(crate) const fn is_flushing(&self) -> bool {
        matches!(self.under_way, UnderWay::Flush)
    }

    /// How many writes and flushes ended.
    pub(crate) const fn ended(&self) -> (usize, usize) {
        self.ended
    }

    pub(crate) const fn reset_ended(&mut self) {
        self.ended = (0, 0);
    }

    /// Takes what the ledger asks for.
    pub(crate) fn ask(&mut self, ledger: &mut Ledger) {
        let mut out = Vec::new();
        ledger.next(&mut out);
        for effect in out {
            let UnderWay::Writes(writes) = &mut self.under_way else {
                panic!("{effect:?} during a flush");
            };
            match effect {
                MetadataEffect::Write { offset, bytes } => writes.push((offset, bytes)),
                MetadataEffect::Flush => {
                    assert!(writes.is_empty(), "a flush during a write");
                    self.under_way = UnderWay::Flush;
                }
            }
        }
    }

    fn put(&mut self, offset: u64, bytes: &[u8], mut lands: impl FnMut() -> bool) {
        for (n, new) in bytes.chunks(SECTOR).enumerate() {
            let at = offset as usize + n * SECTOR;
            if lands() {
                let old = self.bytes[at..at + SECTOR].to_vec();
                self.before.entry(at).or_insert(old);
                self.bytes[at..at + SECTOR].copy_from_slice(new);
            }
        }
    }

    /// One of the writes under way ends.
    pub(crate) fn end_write(&mut self, which: usize, ok: bool, dice: &mut Dice) {
        let UnderWay::Writes(writes) = &mut self.under_way else { panic!("no write is under way") };
        let (offset, bytes) = writes.swap_remove(which);
        self.put(offset, &bytes, || ok || dice.one_in(2));
        self.ended.0 += 1;
    }

    /// The flush ends.
    pub(crate) fn end_flush(&mut self, ok: bool) {
        assert!(self.is_flushing());
        self.under_way = UnderWay::NOTHING;
        self.ended.1 += 1;
        if ok {
            self.before.clear();
        }
    }

    /// The power is cut: of what was not flushed, every sector is the old or the new one.
    pub(crate) fn crash(&mut self, dice: &mut Dice) {
        let whole = dice.below(3);
        if let UnderWay::Writes(writes) = mem::replace(&mut self.under_way, UnderWay::NOTHING) {
            for (offset, bytes) in writes {
                self.put(offset, &bytes, || whole == 0 || dice.one_in(2));
            }
        }
        for (at, old) in mem::take(&mut self.before) {
            if whole != 1 && dice.one_in(2) {
                self.bytes[at..at + SECTOR].copy_from_slice(&old);
            }
        }
    }

    /// Everything the ledger asks for succeeds, until it asks for nothing.
    pub(crate) fn settle(&mut self, ledger: &mut Ledger) -> Vec<Kept> {
        let mut kept = Vec::new();
        loop {
            self.ask(ledger);
            if !self.writes().is_empty() {
                self.end_write(0, true, &mut Dice::new(0));
                kept.extend(ledger.written(true));
            } else if self.is_flushing() {
                self.end_flush(true);
                kept.extend(ledger.flushed(true));
            } else {
                return kept;
            }
        }
    }
}
