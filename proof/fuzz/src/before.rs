// SPDX-License-Identifier: Apache-2.0
//! The before-image file: its pages, and a whole file as a starting daemon reads it.
//!
//! Input: a byte that says what, then bytes: a header's pages (0) or a record's (1), each as it is; the same with magic,
//! version and checksum mended (2, 3); a whole file with wide header areas, of which only the bytes stand there that are not
//! always zero (5): [`HEAD`] bytes of each header, then those of each record; a whole file with short chunks (others). Pages of
//! a file are mended where they begin as pages of this file do.

use crate::pieces::byte;
use helio_format::before::{
    AREA_PAGES, COPIES_MOST, CopyClass, CopyId, CopyNumber, CopyOwner, CopyStage, CopyView, Header,
    KeptCopy, KeptImage, PAGE_BYTES, Page, Record, Slot, fingerprint, first,
};
use helio_ledger::{BeforeFound, BeforeRecord, BeforeStore, BeforeWrite};
use helio_link::checksum;
use helio_units::{Bytes, CopyName, Extent, Sequence, VolumeIndex, WallTime};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Range;

const OWNER: u32 = 77;
/// Bytes of a chunk in such a file.
const CHUNK: Bytes = Bytes(64);
const STRIDE: usize = PAGE_BYTES + CHUNK.0 as usize;
/// Bytes of a header area.
const AREA: usize = AREA_PAGES as usize * PAGE_BYTES;
/// Bytes of each header in a file of which the zeros do not stand there: those of three copies.
const HEAD: usize = 2048;
/// Bytes of the header of a record there.
const FIELDS: usize = 64;
/// Bytes of a header without its copies, and of a copy.
const COPY: usize = 512;
/// A copy with a number that no mended page names.
const NEW: CopyNumber = CopyNumber(1 << 60);

pub(crate) fn run(mut data: &[u8]) {
    let sort = byte(&mut data);
    let mut page: Page = [0; PAGE_BYTES];
    let length = data.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&data[..length]);
    match sort {
        0 => header(&area(data)),
        1 => record(&page),
        2 => header(&mended_header(&area(data))),
        3 => record(&mended_record(&page)),
        5 => file(whole(data)),
        _ => file(data.to_vec()),
    }
}

/// Whole pages, with zeros behind the data.
fn area(data: &[u8]) -> Vec<u8> {
    let mut area = data[..data.len().min(AREA)].to_vec();
    area.resize(area.len().max(1).next_multiple_of(PAGE_BYTES), 0);
    area
}

/// A file with wide header areas, of which the data is what may not be zero.
fn whole(data: &[u8]) -> Vec<u8> {
    let heads = data.chunks(HEAD).take(2).zip([0, AREA]);
    let records = data.get(2 * HEAD..).unwrap_or(&[]).chunks(FIELDS + CHUNK.0 as usize);
    let mut bytes = vec![0; 2 * AREA + records.len() * STRIDE];
    heads.for_each(|(head, at)| bytes[at..at + head.len()].copy_from_slice(head));
    for (record, page) in records.zip(bytes[2 * AREA..].chunks_mut(STRIDE)) {
        let (fields, data) = record.split_at(record.len().min(FIELDS));
        page[..fields.len()].copy_from_slice(fields);
        page[PAGE_BYTES..PAGE_BYTES + data.len()].copy_from_slice(data);
    }
    bytes
}

/// The page names version 1; another version becomes the one that is written now.
fn is_old(page: &mut [u8], magic: [u8; 4]) -> bool {
    page[..4].copy_from_slice(&magic);
    let old = page[4..6] == [1, 0];
    page[4] = if old { 1 } else { 2 };
    page[5] = 0;
    old
}

/// The checksum at the end of a page is right.
fn seal(page: &mut [u8]) {
    let crc = checksum(&page[..PAGE_BYTES - 4]);
    page[PAGE_BYTES - 4..PAGE_BYTES].copy_from_slice(&crc.to_le_bytes());
}

fn mended_record(page: &Page) -> Page {
    let mut page = *page;
    page[..6].copy_from_slice(b"HLBR\x02\0");
    seal(&mut page);
    page
}

/// Of an area, the list is cut short to what lies in it.
fn mended_header(area: &[u8]) -> Vec<u8> {
    let mut area = area.to_vec();
    if is_old(&mut area, *b"HLBI") {
        seal(&mut area);
        return area;
    }
    let count = usize::from(u16::from_le_bytes([area[6], area[7]])).min(area.len() / COPY - 1);
    area[6..8].copy_from_slice(&(count as u16).to_le_bytes());
    let mut covered = area[..COPY - 4].to_vec();
    covered.extend_from_slice(&area[COPY..(count + 1) * COPY]);
    area[COPY - 4..COPY].copy_from_slice(&checksum(&covered).to_le_bytes());
    area
}

/// The owner that a page names.
fn owner(page: &[u8]) -> u32 {
    u32::from_le_bytes([page[8], page[9], page[10], page[11]])
}

fn header(area: &[u8]) {
    match Header::decode(area, owner(area), checksum) {
        Ok(header) => {
            let again = header.encode(owner(area), checksum);
            assert!(area.starts_with(&again), "there are two ways to write it");
            assert!(header.copies.is_sorted_by_key(|copy| copy.number), "copies out of order");
            assert!(Header::decode(area, !owner(area), checksum).is_err(), "another's was taken");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let Some(page) = area.first_chunk() else { return };
    match first::Header::decode(page, owner(page), checksum) {
        Ok(header) => {
            let number = header.copy.map_or(0, |copy| copy.number.0);
            assert!(number <= header.sequence, "a keeping that no header began");
            assert!(header.copy.is_some() || header.durable == 0, "records of nothing");
            let others = first::Header::decode(page, !owner(page), checksum);
            assert!(others.is_err(), "another's was taken");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn record(page: &Page) {
    match Record::decode(page, owner(page), checksum) {
        Ok(record) => {
            let again = record.encode(owner(page), checksum);
            assert!(again == page, "there are two ways to write it");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Mends what begins as a page of such a file. Sequences and numbers stay below what no file reaches.
fn mend(bytes: &mut [u8]) {
    let narrow = (2 * PAGE_BYTES..bytes.len()).step_by(STRIDE);
    let wide = (2 * AREA..bytes.len()).step_by(STRIDE);
    for at in narrow.chain(wide) {
        let Some(page) = bytes.get_mut(at..at + PAGE_BYTES) else { continue };
        if page.starts_with(b"HLBR") {
            page[8..12].copy_from_slice(&OWNER.to_le_bytes());
            (page[23], page[31]) = (0, 0);
            let whole: Page = page.try_into().unwrap_or([0; PAGE_BYTES]);
            page.copy_from_slice(&mended_record(&whole));
        }
    }
    for at in [0, PAGE_BYTES, AREA] {
        let end = (at + AREA).min(bytes.len() / PAGE_BYTES * PAGE_BYTES);
        let Some(area) = bytes.get_mut(at..end).filter(|area| area.starts_with(b"HLBI")) else {
            continue;
        };
        area[8..12].copy_from_slice(&OWNER.to_le_bytes());
        (area[23], area[31]) = (0, 0);
        let count = usize::from(u16::from_le_bytes([area[6], area[7]]));
        if area[4..6] != [1, 0] {
            area.chunks_mut(COPY).skip(1).take(count).for_each(|copy| copy[7] = 0);
        }
        let whole = mended_header(area);
        area.copy_from_slice(&whole);
    }
}

fn reader(bytes: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<(), Infallible> + '_ {
    |at, buffer| {
        let at = (at as usize).min(bytes.len());
        let end = (at + buffer.len()).min(bytes.len());
        buffer.fill(0);
        buffer[..end - at].copy_from_slice(&bytes[at..end]);
        Ok(())
    }
}

fn open(bytes: &[u8]) -> Option<(BeforeStore, BeforeFound)> {
    BeforeStore::open(&mut reader(bytes), bytes.len() as u64, CHUNK, OWNER, checksum).ok()
}

fn put(bytes: &mut Vec<u8>, at: u64, page: &[u8]) {
    let at = at as usize;
    bytes.resize(bytes.len().max(at + page.len()), 0);
    bytes[at..at + page.len()].copy_from_slice(page);
}

fn file(mut bytes: Vec<u8>) {
    mend(&mut bytes);
    let Some((mut store, found)) = open(&bytes) else { return };
    judge(&store, &found, &bytes);
    if found.damaged {
        return;
    }
    // As a host begins.
    found.torn.iter().for_each(|page| put(&mut bytes, *page, &[0; PAGE_BYTES]));
    if found.copies.is_empty() {
        bytes.truncate(store.header_bytes() as usize);
    }
    if let Some(note) = store.note() {
        put(&mut bytes, note.offset, &note.bytes);
        store.flushed();
    }
    let mut copies = found.copies.clone();
    if copies.len() < COPIES_MOST {
        copies.push(copy(NEW));
    }
    let Some(copy) = copies.last().map(|copy| copy.number) else { return };
    let write = store.list(copies.clone(), 0, WallTime(1));
    put(&mut bytes, write.offset, &write.bytes);
    store.flushed();
    let used: BTreeSet<Slot> = found.records.iter().map(|record| record.slot).collect();
    let free = (0..).map(Slot).find(|slot| !used.contains(slot));
    let (Some(slot), chunk) = (free, (VolumeIndex(3), Extent::new(0, 512))) else { return };
    let place = |it: &BeforeRecord| (it.of, it.chunk.0, it.chunk.1.offset);
    let of = CopyView::Cut(copy);
    let new = BeforeRecord { slot, of, chunk };
    if found.records.iter().any(|it| place(it) == place(&new)) {
        return;
    }
    store.begin_batch();
    let write = store.record(of, slot, chunk, &[5; CHUNK.0 as usize]);
    put(&mut bytes, write.offset, &write.bytes);
    put(&mut bytes, write.offset + PAGE_BYTES as u64, &[5; CHUNK.0 as usize]);
    store.flushed();
    // What is preserved next is found again with all that was there.
    let Some((again, more)) = open(&bytes) else { panic!("it cannot be opened any more") };
    judge(&again, &more, &bytes);
    assert!(!more.damaged && more.torn.is_empty(), "it is damaged by being added to: {more:?}");
    let numbers = |copies: &[KeptCopy]| copies.iter().map(|it| it.number).collect::<Vec<_>>();
    assert_eq!(numbers(&more.copies), numbers(&copies));
    assert_eq!(more.records.len(), found.records.len() + 1);
    assert!(more.records.contains(&new), "what was preserved is gone");
    assert!(found.records.iter().all(|old| more.records.contains(old)), "what was there is gone");
    let loaded = again.load(slot, chunk, &mut reader(&bytes));
    assert!(loaded.is_ok_and(|loaded| loaded.is_some()), "it cannot be loaded");
}

/// What holds of whatever is found.
fn judge(store: &BeforeStore, found: &BeforeFound, bytes: &[u8]) {
    assert!(found.slots as usize <= bytes.len() / STRIDE, "more than there is room for");
    assert!(found.copies.len() <= COPIES_MOST, "more copies than a header has");
    assert!(found.copies.is_sorted_by_key(|copy| copy.number));
    assert!(found.copies.iter().all(|copy| copy.number <= found.last));
    let (mut slots, mut places) = (BTreeSet::new(), BTreeSet::new());
    for BeforeRecord { slot, of, chunk } in &found.records {
        assert!(slot.0 < found.slots && slots.insert(*slot), "{slot:?} counts twice, or is none");
        assert!(found.copies.iter().any(|it| it.number == of.copy()), "a record of nothing");
        assert!(places.insert((*of, chunk.0, chunk.1.offset)), "{chunk:?} counts twice");
        let loaded = store.load(*slot, *chunk, &mut reader(bytes));
        let same = loaded.is_ok_and(|loaded| loaded.is_none_or(|(loaded, _)| loaded == *chunk));
        assert!(same, "another chunk is loaded");
    }
    for page in &found.torn {
        let counts = found.records.iter().any(|record| store.record_at(record.slot) == *page);
        assert!(!counts, "page {page} is needed");
        assert!(*page < bytes.len() as u64, "page {page} lies behind the end");
    }
}

fn copy(number: CopyNumber) -> KeptCopy {
    let image = KeptImage { head: Sequence(7), ..KeptImage::default() };
    let class = if number.0 == 2 { CopyClass::Expendable } else { CopyClass::Required };
    let name = CopyName::new("daily").expect("a name");
    let owner = match class {
        CopyClass::Required => CopyOwner::Resync,
        CopyClass::Expendable => CopyOwner::Operator(name, CopyId::of(7)),
    };
    KeptCopy { number, class, stage: CopyStage::Held, owner, image }
}

/// Three chunks, over and over.
fn chunk_of(slot: u32) -> Extent {
    Extent::new(u64::from(slot % 3) << 16, 4096)
}

/// A file that is written as a daemon does.
struct Written {
    store: BeforeStore,
    bytes: Vec<u8>,
}

impl Written {
    /// Of these copies; what lies in those slots counts no more.
    fn list(&mut self, numbers: &[u64], freed: Range<u32>) -> BeforeWrite {
        let copies = numbers.iter().map(|number| copy(CopyNumber(*number))).collect();
        let marks =
            freed.map(|slot| fingerprint(Slot(slot), VolumeIndex(0), chunk_of(slot).offset));
        let write = self.store.list(copies, marks.fold(0, u64::wrapping_add), WallTime(1));
        put(&mut self.bytes, write.offset, &write.bytes);
        self.store.flushed();
        write
    }

    /// Chunks for a copy or its branch, in slots from that one on. Returns the last header.
    fn batch(&mut self, of: CopyView, slots: Range<u32>) -> Vec<u8> {
        self.store.begin_batch();
        let mut head = Vec::new();
        for slot in slots {
            let chunk = (VolumeIndex(0), chunk_of(slot));
            let data = [9; CHUNK.0 as usize];
            let write = self.store.record(of, Slot(slot), chunk, &data);
            put(&mut self.bytes, write.offset, &write.bytes);
            put(&mut self.bytes, write.offset + PAGE_BYTES as u64, &data);
            head = write.bytes;
        }
        self.store.flushed();
        head
    }

    /// The bytes that are not always zero.
    fn short(&self) -> Vec<u8> {
        let area = |at: usize| {
            let mut head = self.bytes.get(at..).unwrap_or(&[]).to_vec();
            head.resize(HEAD, 0);
            head
        };
        let mut short = [vec![5], area(0), area(AREA)].concat();
        for record in self.bytes.get(2 * AREA..).unwrap_or(&[]).chunks(STRIDE) {
            short.extend_from_slice(&record[..FIELDS]);
            short.extend_from_slice(&record[PAGE_BYTES..]);
        }
        short
    }
}

/// A file of version 1 without a copy.
fn old_file() -> Vec<u8> {
    let mut page = vec![0; 2 * PAGE_BYTES];
    page[..12].copy_from_slice(b"HLBI\x01\0\x01\0\x4d\0\0\0");
    page[16] = 1;
    seal(&mut page);
    page
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let Some((store, _)) = open(&[]) else { return Vec::new() };
    let mut written = Written { store, bytes: Vec::new() };
    written.list(&[1], 0..0);
    let [cut, other] = [1, 2].map(|number| CopyView::Cut(CopyNumber(number)));
    let head = written.batch(cut, 0..3);
    let kept = written.short();
    let begin = written.list(&[1, 2], 0..0);
    written.batch(other, 3..6);
    let several = written.short();
    if let Some(note) = written.store.note() {
        put(&mut written.bytes, note.offset, &note.bytes);
    }
    let noted = written.short();
    written.batch(CopyView::Branch(CopyNumber(1)), 6..8);
    let branch = written.short();
    if let Some(note) = written.store.note() {
        put(&mut written.bytes, note.offset, &note.bytes);
    }
    written.store.flushed();
    let amended = written.store.record_at(Slot(6)) + PAGE_BYTES as u64;
    put(&mut written.bytes, amended, b"amended");
    let amended = written.short();
    written.list(&[1, 3], 3..6);
    // The rest of a page is zeros, which a short input has by itself; the checksum is mended then.
    let short = |sort: u8, page: &[u8], length: usize| [&[sort][..], &page[..length]].concat();
    vec![
        ("header", short(2, &begin.bytes, 3 * COPY)),
        ("header-whole", [&[0][..], &begin.bytes].concat()),
        ("record", short(3, &head, FIELDS)),
        ("record-whole", [&[1][..], &head].concat()),
        ("file", kept),
        ("file-several", several),
        ("file-noted", noted),
        ("file-branch", branch),
        ("file-branch-amended", amended),
        ("file-dropped", written.short()),
        ("file-old", [&[4][..], &old_file()].concat()),
    ]
}
