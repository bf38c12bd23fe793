// SPDX-License-Identifier: Apache-2.0
//! The bytes of one file, by sectors of 512 bytes, and the blocks that it holds.

use super::history::{History, Stamp};
use helio_netmodel::Dice;
use helio_units::SECTOR;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a block: the unit in which a file holds room.
pub(crate) const BLOCK: u64 = 4096;

type Bytes = [u8; SECTOR as usize];

/// A sector; none reads as zero.
type Sector = Option<Stored>;

/// The bytes of a sector.
#[derive(Clone, Debug)]
enum Stored {
    /// One word, repeated: what simulated clients write takes little memory.
    Word([u8; 8]),
    All(Arc<Bytes>),
}

impl Stored {
    fn of(bytes: &Bytes) -> Self {
        match bytes.as_chunks::<8>() {
            ([first, rest @ ..], []) if rest.iter().all(|word| word == first) => Self::Word(*first),
            _ => Self::All(Arc::new(*bytes)),
        }
    }

    fn bytes(&self) -> Bytes {
        match self {
            Self::Word(word) => {
                let mut bytes = [0; SECTOR as usize];
                bytes.as_chunks_mut().0.fill(*word);
                bytes
            }
            Self::All(bytes) => **bytes,
        }
    }
}

/// What a change has to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) stamp: Stamp,
    /// Bytes that the file may hold in addition.
    pub(crate) free: u64,
}

/// There is no room for any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The content of a file.
#[derive(Debug)]
pub(crate) struct Content {
    sectors: BTreeMap<u64, History<Sector>>,
    /// At least the sectors that are not settled.
    unsettled: BTreeSet<u64>,
    length: History<u64>,
    /// Blocks that it holds: the first of each run, and the first behind it.
    blocks: BTreeMap<u64, u64>,
    /// How many they are.
    held: u64,
    /// What the flushes under way cover.
    flushes: Vec<Stamp>,
}

impl Content {
    pub(crate) const fn new() -> Self {
        Self {
            sectors: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            length: History::new(0),
            blocks: BTreeMap::new(),
            held: 0,
            flushes: Vec::new(),
        }
    }

    /// Bytes.
    pub(crate) fn length(&self) -> u64 {
        *self.length.current()
    }

    /// Bytes of room that it holds.
    pub(crate) fn held(&self) -> u64 {
        self.held * BLOCK
    }

    fn sector(&self, number: u64) -> Option<Bytes> {
        let sector = self.sectors.get(&number)?.current().as_ref();
        sector.map(Stored::bytes)
    }

    /// Reads up to the end of the file, from the cache or past it; returns how much.
    pub(crate) fn read(&self, at: u64, into: &mut [u8], direct: bool) -> usize {
        let count = self.length().saturating_sub(at).min(into.len() as u64) as usize;
        let (into, end) = (&mut into[..count], at + count as u64);
        into.fill(0);
        for (number, sector) in self.sectors.range(at / SECTOR..end.div_ceil(SECTOR)) {
            let sector = if direct { sector.on_disk() } else { sector.current() };
            let Some(bytes) = sector else { continue };
            let begin = number * SECTOR;
            let (from, to) = (begin.max(at), (begin + SECTOR).min(end));
            let target = &mut into[(from - at) as usize..(to - at) as usize];
            let bytes = bytes.bytes();
            target.copy_from_slice(&bytes[(from - begin) as usize..(to - begin) as usize]);
        }
        count
    }

    /// Writes as much as there is room for; returns how much.
    pub(crate) fn write(&mut self, change: Change, at: u64, bytes: &[u8]) -> Result<usize, Full> {
        let count = self.take_blocks(change.free, at, bytes.len() as u64) as usize;
        if count == 0 && !bytes.is_empty() {
            return Err(Full);
        }
        let mut done = 0;
        while done < count {
            let (number, within) = place(at + done as u64);
            let part = (SECTOR as usize - within).min(count - done);
            let bytes = &bytes[done..done + part];
            let sector: Bytes = bytes.try_into().unwrap_or_else(|_| {
                let mut sector = self.sector(number).unwrap_or([0; SECTOR as usize]);
                sector[within..within + part].copy_from_slice(bytes);
                sector
            });
            self.put(change.stamp, number, Some(Stored::of(&sector)));
            done += part;
        }
        self.grow(change.stamp, at + count as u64);
        Ok(count)
    }

    fn put(&mut self, stamp: Stamp, number: u64, sector: Sector) {
        let history = self.sectors.entry(number).or_insert_with(|| History::new(None));
        history.put(stamp, sector, &self.flushes);
        self.unsettled.insert(number);
    }

    fn grow(&mut self, stamp: Stamp, end: u64) {
        if end > self.length() {
            self.length.put(stamp, end, &self.flushes);
        }
    }

    /// Makes a range read as zero.
    pub(crate) fn zero(&mut self, stamp: Stamp, at: u64, end: u64) {
        let (first, last) = (at / SECTOR, end.div_ceil(SECTOR));
        let written = self.sectors.range(first..last);
        let written = written.filter(|(_, sector)| sector.current().is_some());
        let numbers: Vec<u64> = written.map(|(number, _)| *number).collect();
        for number in numbers {
            let begin = number * SECTOR;
            let from = at.saturating_sub(begin).min(SECTOR) as usize;
            let to = end.saturating_sub(begin).min(SECTOR) as usize;
            let whole = from == 0 && to == SECTOR as usize;
            let rest = self.sector(number).filter(|_| !whole).map(|mut rest| {
                rest[from..to].fill(0);
                Stored::of(&rest)
            });
            self.put(stamp, number, rest);
        }
    }

    /// Makes a range read as zero and gives back the blocks that lie in it.
    pub(crate) fn punch(&mut self, stamp: Stamp, at: u64, end: u64) {
        self.zero(stamp, at, end);
        let (first, last) = (at.div_ceil(BLOCK), end / BLOCK);
        if first >= last {
            return;
        }
        self.held += self.missing(first, last);
        for (from, to) in self.runs(first, last) {
            self.blocks.remove(&from);
            self.held -= to.min(last) - from.max(first);
            if from < first {
                self.blocks.insert(from, first);
            }
            if to > last {
                self.blocks.insert(last, to);
            }
        }
    }

    /// Gives a range room. With `grow` the file becomes as long as that, too.
    pub(crate) fn allocate(
        &mut self,
        change: Change,
        at: u64,
        length: u64,
        grow: bool,
    ) -> Result<(), Full> {
        let (first, last) = (at / BLOCK, (at + length).div_ceil(BLOCK));
        if self.missing(first, last) * BLOCK > change.free {
            return Err(Full);
        }
        self.hold(first, last);
        if grow {
            self.grow(change.stamp, at + length);
        }
        Ok(())
    }

    /// Changes the length; what is behind it is gone.
    pub(crate) fn set_length(&mut self, stamp: Stamp, length: u64) {
        let old = self.length();
        if length < old {
            self.punch(stamp, length, old.next_multiple_of(BLOCK));
        }
        if length != old {
            self.length.put(stamp, length, &self.flushes);
        }
    }

    /// Where data begins, from a place on; none if there is none before the end.
    pub(crate) fn data_from(&self, at: u64) -> Option<u64> {
        let written = |(_, sector): &(&u64, &History<Sector>)| sector.current().is_some();
        let (number, _) = self.sectors.range(at / SECTOR..).find(written)?;
        let begin = (number * SECTOR / BLOCK * BLOCK).max(at);
        (begin < self.length()).then_some(begin)
    }

    /// Where a hole begins, from a place on: at the latest at the end.
    pub(crate) fn hole_from(&self, at: u64) -> u64 {
        let mut block = at / BLOCK;
        let sectors = BLOCK / SECTOR;
        let written = |block: u64| {
            let mut all = self.sectors.range(block * sectors..(block + 1) * sectors);
            all.any(|(_, sector)| sector.current().is_some())
        };
        while block * BLOCK < self.length() && written(block) {
            block += 1;
        }
        (block * BLOCK).max(at).min(self.length())
    }

    /// Runs of blocks that overlap a range.
    fn runs(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let all = self.blocks.range(..last).rev().take_while(|(_, to)| **to > first);
        all.map(|(from, to)| (*from, *to)).collect()
    }

    /// How many blocks of a range it does not hold.
    fn missing(&self, first: u64, last: u64) -> u64 {
        let held = self.runs(first, last).into_iter();
        last - first - held.map(|(from, to)| to.min(last) - from.max(first)).sum::<u64>()
    }

    fn hold(&mut self, mut first: u64, mut last: u64) {
        if first >= last {
            return;
        }
        self.held += self.missing(first, last);
        for (from, to) in self.runs(first, last) {
            self.blocks.remove(&from);
            (first, last) = (first.min(from), last.max(to));
        }
        self.blocks.insert(first, last);
    }

    /// Takes blocks for a range, as far as there is room; returns how many bytes of it have some.
    fn take_blocks(&mut self, free: u64, at: u64, length: u64) -> u64 {
        let (first, mut last) = (at / BLOCK, (at + length).div_ceil(BLOCK));
        while last > first && self.missing(first, last) * BLOCK > free {
            last -= 1;
        }
        self.hold(first, last);
        (last * BLOCK).saturating_sub(at).min(length)
    }

    /// A flush begins that covers every change so far.
    pub(crate) fn begin_flush(&mut self, upto: Stamp) {
        self.flushes.push(upto);
    }

    /// It ended: what it covers is durable, or some of it can no longer be made so.
    pub(crate) fn end_flush(&mut self, upto: Stamp, failed: Option<&mut Dice>) {
        self.drop_flush(upto);
        match failed {
            None => self.flush(upto),
            Some(dice) => {
                for number in &self.unsettled {
                    let sector = self.sectors.get_mut(number).filter(|it| !it.is_settled());
                    if let Some(sector) = sector
                        && dice.chance(1, 2)
                    {
                        // A hole is no data: the file system records it by itself.
                        sector.lose(upto, Option::is_some);
                    }
                }
            }
        }
    }

    /// It never happens.
    pub(crate) fn drop_flush(&mut self, upto: Stamp) {
        if let Some(at) = self.flushes.iter().position(|other| *other == upto) {
            self.flushes.swap_remove(at);
        }
    }

    fn flush(&mut self, upto: Stamp) {
        self.length.flush(upto);
        let sectors = &mut self.sectors;
        self.unsettled.retain(|number| {
            let Some(sector) = sectors.get_mut(number) else { return false };
            sector.flush(upto);
            let settled = sector.is_settled();
            if settled && sector.current().is_none() {
                sectors.remove(number);
            }
            !settled
        });
    }

    /// Makes what one write wrote durable, and the length that is needed to read it.
    pub(crate) fn flush_range(&mut self, upto: Stamp, at: u64, end: u64) {
        self.length.flush(upto);
        for (_, sector) in self.sectors.range_mut(at / SECTOR..end.div_ceil(SECTOR)) {
            sector.flush(upto);
        }
    }

    /// Drops the page cache.
    pub(crate) fn drop_cache(&mut self, stamp: Stamp) {
        self.sectors.values_mut().for_each(History::drop_cache);
        if let Some((number, rest)) = self.tail() {
            self.put(stamp, number, Some(rest));
        }
    }

    /// The last sector without what is behind the end of the file: it must not come back when the file grows again.
    fn tail(&self) -> Option<(u64, Stored)> {
        let (number, within) = place(self.length());
        let mut bytes = self.sector(number)?;
        let behind = &mut bytes[within..];
        let has_rest = behind.iter().any(|byte| *byte != 0);
        behind.fill(0);
        has_rest.then(|| (number, Stored::of(&bytes)))
    }

    /// The power is cut.
    pub(crate) fn cut(&mut self, dice: &mut Dice) {
        self.flushes.clear();
        self.length.cut(dice);
        for number in std::mem::take(&mut self.unsettled) {
            if let Some(sector) = self.sectors.get_mut(&number).filter(|it| !it.is_settled()) {
                sector.cut(dice);
            }
        }
        let end = self.length().div_ceil(SECTOR);
        self.sectors.retain(|number, sector| *number < end && sector.current().is_some());
        if let Some((number, rest)) = self.tail() {
            self.sectors.insert(number, History::new(Some(rest)));
        }
        let held: Vec<u64> = self.sectors.keys().map(|number| number * SECTOR / BLOCK).collect();
        for block in held {
            self.hold(block, block + 1);
        }
    }
}

/// The sector of a place, and where in it.
const fn place(at: u64) -> (u64, usize) {
    (at / SECTOR, (at % SECTOR) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: u64 = 4 * BLOCK;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, u64),
        Zero(u64, u64),
        Punch(u64, u64),
        Length(u64),
        Flush,
        FailedFlush,
        DropCache,
        Cut,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let range = || (0..LENGTH, 1..BLOCK);
        let step = prop_oneof![
            6 => range().prop_map(|(at, length)| Step::Write(at, length)),
            1 => range().prop_map(|(at, length)| Step::Zero(at, length)),
            1 => range().prop_map(|(at, length)| Step::Punch(at, length)),
            1 => (0..LENGTH).prop_map(Step::Length),
            2 => Just(Step::Flush),
            1 => Just(Step::FailedFlush),
            1 => Just(Step::DropCache),
            1 => Just(Step::Cut),
        ];
        prop::collection::vec(step, 1..60)
    }

    /// Byte by byte: what a read returns, and what may be left after a power cut.
    struct Reference {
        now: Vec<u8>,
        may: Vec<Vec<u8>>,
        lengths: Vec<usize>,
        /// A flush failed since the last power cut: later ones prove nothing.
        failed: bool,
    }

    impl Reference {
        fn put(&mut self, at: usize, end: usize, byte: u8) {
            for place in at..end {
                self.now[place] = byte;
                self.may[place].push(byte);
            }
        }

        fn set_length(&mut self, length: usize) {
            for may in &mut self.may[length..] {
                may.push(0);
            }
            self.now.resize(length, 0);
            self.lengths.push(length);
        }

        fn settle(&mut self) {
            for (place, may) in self.may.iter_mut().enumerate() {
                *may = vec![self.now.get(place).copied().unwrap_or(0)];
            }
            self.lengths = vec![self.now.len()];
        }

        /// What is left after a cut, or after the cache was dropped.
        fn is_left(&mut self, read: &[u8]) -> bool {
            let known = read.iter().zip(&self.may).all(|(byte, may)| may.contains(byte));
            let length = self.lengths.contains(&read.len());
            self.now = read.to_vec();
            known && length
        }
    }

    fn all(content: &Content, direct: bool) -> Vec<u8> {
        let mut read = vec![0xff; 3 * LENGTH as usize];
        let count = content.read(0, &mut read, direct);
        read.truncate(count);
        read
    }

    fn play(steps: Vec<Step>, seed: u64) {
        let (mut content, mut dice) = (Content::new(), Dice::new(seed));
        let may = vec![vec![0]; 3 * LENGTH as usize];
        let mut reference = Reference { now: vec![], may, lengths: vec![0], failed: false };
        for (step, stamp) in steps.into_iter().zip(1..) {
            let stamp = Stamp(stamp);
            match step {
                Step::Write(at, length) => {
                    let bytes = vec![stamp.0 as u8; length as usize];
                    let change = Change { stamp, free: u64::MAX };
                    assert_eq!(content.write(change, at, &bytes), Ok(bytes.len()));
                    let end = (at + length) as usize;
                    if end > reference.now.len() {
                        reference.set_length(end);
                    }
                    reference.put(at as usize, end, stamp.0 as u8);
                }
                Step::Zero(at, length) | Step::Punch(at, length) => {
                    let at_end = at + length;
                    match step {
                        Step::Zero(..) => content.zero(stamp, at, at_end),
                        _ => content.punch(stamp, at, at_end),
                    }
                    reference.put(at as usize, reference.now.len().min(at_end as usize), 0);
                }
                Step::Length(length) => {
                    content.set_length(stamp, length);
                    reference.set_length(length as usize);
                }
                Step::Flush | Step::FailedFlush => {
                    content.begin_flush(stamp);
                    let fails = matches!(step, Step::FailedFlush);
                    content.end_flush(stamp, fails.then_some(&mut dice));
                    reference.failed |= fails;
                    if !reference.failed {
                        reference.settle();
                    }
                }
                Step::DropCache => {
                    content.drop_cache(stamp);
                    assert!(reference.is_left(&all(&content, false)));
                }
                Step::Cut => {
                    content.cut(&mut dice);
                    assert!(reference.is_left(&all(&content, false)));
                    reference.failed = false;
                    reference.settle();
                }
            }
            assert!(all(&content, false) == reference.now, "a read returns the last write");
            let direct = all(&content, true);
            let known = direct.iter().zip(&reference.may).all(|(byte, may)| may.contains(byte));
            assert!(known && (reference.failed || direct == reference.now));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn what_was_flushed_stays_and_what_is_read_was_written(steps in steps(), seed: u64) {
            play(steps, seed);
        }
    }

    #[test]
    fn a_file_holds_the_blocks_that_were_written_and_gives_punched_ones_back() {
        let mut content = Content::new();
        let change = |n, free| Change { stamp: Stamp(n), free };
        assert_eq!(content.write(change(1, 2 * BLOCK), 100, &[1; 10_000]), Ok(8092));
        assert_eq!(content.write(change(2, 0), 9000, &[1]), Err(Full));
        assert_eq!((content.held(), content.length()), (2 * BLOCK, 8192));
        assert_eq!(content.allocate(change(3, 3 * BLOCK), BLOCK, 4 * BLOCK, false), Ok(()));
        assert_eq!((content.held(), content.length()), (5 * BLOCK, 8192));
        assert_eq!((content.data_from(0), content.hole_from(0)), (Some(0), 8192));
        content.punch(Stamp(4), 0, BLOCK + 1);
        assert_eq!((content.held(), content.data_from(0)), (4 * BLOCK, Some(BLOCK)));
        assert_eq!((content.hole_from(0), content.hole_from(BLOCK)), (0, 8192));
        assert_eq!(content.allocate(change(5, BLOCK), 0, 9 * BLOCK, true), Err(Full));
    }
}
