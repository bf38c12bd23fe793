// SPDX-License-Identifier: Apache-2.0
//! Judging what lies in a metadata file: which copy of every page holds, what was damaged, what is to be written anew.
//!
//! | copy A | copy B | the page is | and then |
//! |---|---|---|---|
//! | whole | whole, the same | as they say | |
//! | whole | whole and older, or never written | as A says | B is made like A: a crash came between them |
//! | whole | damaged | as A says | B is made like A, and named |
//! | damaged, older or never written | whole | as B says | A is made like B, and named |
//! | never written | never written | empty | |
//! | damaged | never written | empty, as before its first write, which tore | both are written, and A named |
//! | of an earlier map | damaged | empty: this map wrote A first, and did not | both are written, and B named |
//!
//! A copy that an earlier map left counts as never written. A directory that was never written is that of a new file: a crash
//! came behind its superblock. A file of the version before is read, and the ledger of a new file begins with what it said.
//!
//! Everything else is refused by name; so is a superblock that was damaged in its first write, since all else depends
//! on it, and a page of another version or owner, whatever its twin says.

use crate::directory::{DIRECTORY_AT, Directory, MAPS_AT, MEMBERS_AT};
use crate::error::{LedgerError, PageName};
use crate::layout::Layout;
use crate::ledger::{Change, Ledger};
use crate::members::Members;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::directory::{self, Entries, MapOwner};
use helio_format::members::{self, CopyHealth, VolumeEntries};
use helio_format::page::{
    self, BODY_BYTES, Kind, PAGE_BYTES, PAIR_BYTES, PageError, Place, VERSION, VERSION_BEFORE,
    Words,
};
use helio_format::superblock::Superblock;
use helio_format::{Checksum, hot, marks};

/// A metadata file as it lies there. The caller has flushed it since it was last written: the newest copy of a page may
/// be the work of a process that died before its own flush, and what is built on it must not outlive it.
pub trait MetadataFile {
    /// Length in bytes.
    fn length(&self) -> u64;

    /// Reads the page at a byte offset within the length. Returns false where it cannot be read, which is a damaged
    /// page.
    fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool;
}

impl MetadataFile for [u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn page(&self, offset: u64, into: &mut [u8; PAGE_BYTES]) -> bool {
        let at = offset as usize;
        match self.get(at..at + PAGE_BYTES) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

/// What opening found.
#[derive(Debug)]
pub enum Opened {
    /// Never written: a new node. [`Ledger::fresh`] begins the file.
    Fresh,
    /// A file that is in use.
    Found(Box<(Ledger, Found)>),
    /// A file of the version before, and the ledger of a new file that says the same: all of it is queued. Once the new
    /// file is durable, it takes the place of the old one.
    Older(Box<(Ledger, Found)>),
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The superblock.
    pub superblock: Superblock,
    /// The hot extents, ascending.
    pub hot: Vec<u64>,
    /// The pages with a bit set of the bitmap of peer 0, ascending.
    pub marks: Vec<(u32, Box<Words>)>,
    /// Those of other bitmaps, in the order of their places.
    pub others: Vec<(MapOwner, u32, Box<Words>)>,
    /// What was damaged and is written anew, a sentence each, for the log.
    pub repaired: Vec<String>,
}

impl Found {
    /// What a new file begins with.
    #[must_use]
    pub fn nothing(superblock: Superblock) -> Self {
        Self {
            superblock,
            hot: Vec::new(),
            marks: Vec::new(),
            others: Vec::new(),
            repaired: Vec::new(),
        }
    }

    /// A page of a bitmap.
    fn add(&mut self, (owner, page): (MapOwner, u32), bits: Box<Words>) {
        if bits.iter().all(|word| *word == 0) {
            return;
        }
        match owner {
            MapOwner::Peer(0) => self.marks.push((page, bits)),
            owner => self.others.push((owner, page, bits)),
        }
    }

    /// A member whose state was recorded before the superblock was: a crash came between them. Everything of it counts as
    /// marked, as the superblock would have said; one that says seeding proves nothing either.
    fn suspect(&mut self, members: &[VolumeEntries]) {
        for (volume, members) in members.iter().enumerate() {
            let bit = 1 << volume;
            let is = members.iter().flatten().any(|member| member.health == CopyHealth::Suspect);
            if is && self.superblock.suspect & bit == 0 {
                self.superblock.suspect |= bit;
                self.superblock.marks_void |= self.superblock.seeding == 0;
            }
        }
    }
}

impl Ledger {
    /// Reads the metadata file of `node` in `group`. What must be written anew is queued already.
    ///
    /// # Errors
    /// The file cannot be served from; see [`LedgerError`].
    pub fn open<F: MetadataFile + ?Sized>(
        file: &F,
        (group, node): (&str, &str),
        checksum: Checksum,
    ) -> Result<Opened, LedgerError> {
        if file.length() == 0 {
            return Ok(Opened::Fresh);
        }
        let mut reader = Reader { file, owner: page::owner(group, node, checksum), checksum };
        reader.long_enough(PAIR_BYTES as u64)?;
        let version = reader.version();
        reader.owner = reader.first_mark(group, node).unwrap_or(reader.owner);
        let Some((superblock, first)) = reader.superblock(version, group, node)? else {
            return Ok(Opened::Fresh);
        };
        let layout = Layout::of(&superblock);
        let mut ledger = Self::of(layout.clone(), (group, node), reader.owner, checksum);
        let mut found = Found::nothing(superblock);
        if version == VERSION_BEFORE {
            return older(&reader, ledger, found, first);
        }
        reader.long_enough(u64::from(MAPS_AT) * PAIR_BYTES as u64)?;
        take(&mut ledger, &mut found, 0, first);
        let mut buffers = Buffers::new();
        reader.members(&mut ledger, &mut found, &mut buffers)?;
        reader.directory(&mut ledger, &mut found, &mut buffers)?;
        let directory = ledger.directory().clone();
        reader.long_enough(u64::from(directory.end()) * PAIR_BYTES as u64)?;
        for entry in directory.maps() {
            for index in 0..entry.pairs {
                let number = entry.first + index;
                let verdict = reader.mapped(number, &directory, &layout, &mut buffers)?;
                match take(&mut ledger, &mut found, number, verdict) {
                    None => {}
                    Some(words) if entry.owner == MapOwner::Engine => {
                        ledger.found_hot(index, words)
                    }
                    Some(words) => found.add((entry.owner, index), words),
                }
            }
        }
        found.hot = ledger.hot_extents();
        Ok(Opened::Found(Box::new((ledger, found))))
    }
}

/// Hands a verdict to the ledger, and its content to the caller.
fn take<T>(ledger: &mut Ledger, found: &mut Found, number: u32, verdict: Verdict<T>) -> Option<T> {
    match verdict {
        Verdict::Holds { content, sequence, mend, note } => {
            found.repaired.extend(note);
            if let Some((copy, bytes)) = mend {
                ledger.mend(number, copy, bytes);
            }
            ledger.found_sequence(sequence);
            Some(content)
        }
        Verdict::Torn { note } => {
            found.repaired.push(note);
            ledger.rewrite(number);
            None
        }
        Verdict::Empty => None,
    }
}

/// Reads the rest of a file of the version before.
fn older<F: MetadataFile + ?Sized>(
    reader: &Reader<'_, F>,
    mut ledger: Ledger,
    mut found: Found,
    first: Verdict<()>,
) -> Result<Opened, LedgerError> {
    let layout = ledger.layout().clone();
    let directory = Directory::before(&layout);
    reader.long_enough(u64::from(directory.end()) * PAIR_BYTES as u64)?;
    let mut buffers = Buffers::new();
    let (mut hot, mut last) = (Vec::new(), 0);
    if let Verdict::Holds { sequence, note, .. } = first {
        (last, found.repaired) = (sequence, note.into_iter().collect());
    }
    for entry in directory.maps() {
        for index in 0..entry.pairs {
            match reader.mapped(entry.first + index, &directory, &layout, &mut buffers)? {
                Verdict::Holds { content, sequence, note, .. } => {
                    last = last.max(sequence);
                    found.repaired.extend(note);
                    match entry.owner {
                        MapOwner::Engine => {
                            hot.extend(content.iter().filter_map(|slot| slot.checked_sub(1)));
                        }
                        owner => found.add((owner, index), content),
                    }
                }
                Verdict::Torn { note } => found.repaired.push(note),
                Verdict::Empty => {}
            }
        }
    }
    hot.sort_unstable();
    hot.dedup();
    found.hot = hot;
    ledger.continue_from(last);
    let mut changes = Vec::from([Change::Superblock(Box::new(found.superblock.clone()))]);
    changes.push(Change::Hot { ticket: 0, add: found.hot.clone(), remove: Vec::new() });
    changes.extend(found.marks.iter().map(|(page, bits)| {
        let owner = MapOwner::Peer(0);
        Change::Marks { owner, page: *page, bits: bits.clone() }
    }));
    for change in changes {
        let refused = ledger.keep(change);
        debug_assert_eq!(refused, None, "a new ledger refuses nothing");
    }
    Ok(Opened::Older(Box::new((ledger, found))))
}

/// What a pair amounts to.
enum Verdict<T> {
    /// The page is as a copy says.
    Holds {
        content: T,
        sequence: u64,
        /// The copy (0 A, 1 B) that is to be made like the other, and the other's bytes.
        mend: Option<(u64, Vec<u8>)>,
        note: Option<String>,
    },
    /// Its first write of all tore.
    Torn { note: String },
    /// It was never written.
    Empty,
}

/// Room for the two copies.
struct Buffers(Box<[[u8; PAGE_BYTES]; 2]>);

impl Buffers {
    fn new() -> Self {
        Self(Box::new([[0; PAGE_BYTES]; 2]))
    }
}

struct Reader<'a, F: ?Sized> {
    file: &'a F,
    owner: u32,
    checksum: Checksum,
}

impl<F: MetadataFile + ?Sized> Reader<'_, F> {
    fn long_enough(&self, needed: u64) -> Result<(), LedgerError> {
        let found = self.file.length();
        if found < needed { Err(LedgerError::Truncated { found, needed }) } else { Ok(()) }
    }

    /// The format of the file, as a copy of its superblock says.
    fn version(&self) -> u16 {
        let version = |copy: u64| {
            let mut page = [0; PAGE_BYTES];
            let read = self.file.page(copy * PAGE_BYTES as u64, &mut page);
            let header = page::decode(&page, self.checksum).ok().filter(|_| read);
            header.map(|(header, _)| header.place.version)
        };
        version(0).or_else(|| version(1)).unwrap_or(VERSION)
    }

    /// The mark of the pages of a file that was begun under other names, if a copy of its superblock is of these names.
    fn first_mark(&self, group: &str, node: &str) -> Option<u32> {
        [0, PAGE_BYTES as u64].into_iter().find_map(|offset| {
            let mut page = [0; PAGE_BYTES];
            let (_, body) = self
                .file
                .page(offset, &mut page)
                .then(|| page::decode(&page, self.checksum))?
                .ok()?;
            let found = Superblock::decode(body).ok()?;
            found
                .first_mark
                .filter(|_| (found.group.as_str(), found.node.as_str()) == (group, node))
        })
    }

    /// The superblock; none in a file that was never written.
    fn superblock(
        &self,
        version: u16,
        group: &str,
        node: &str,
    ) -> Result<Option<(Superblock, Verdict<()>)>, LedgerError> {
        let place = Place { version, ..Place::fixed(Kind::Superblock, 0) };
        let name = PageName { kind: Kind::Superblock, index: 0, owner: None };
        let mut buffers = Buffers::new();
        let pair = self.pair(0, (place, name), &mut buffers, Superblock::decode);
        let verdict = pair.map_err(|error| match error {
            LedgerError::Owner { page, .. } => {
                LedgerError::Owner { page, found: self.whose(&buffers) }
            }
            other => other,
        })?;
        let unreadable = |a, b| Err(LedgerError::Unreadable { page: name, copies: [a, b] });
        let (superblock, sequence, mend, note) = match verdict {
            Verdict::Holds { content, sequence, mend, note } => (content, sequence, mend, note),
            Verdict::Torn { .. } => return unreadable(PageError::Damaged, PageError::Empty),
            Verdict::Empty if self.is_blank() => return Ok(None),
            Verdict::Empty => return unreadable(PageError::Empty, PageError::Empty),
        };
        if (superblock.group.as_str(), superblock.node.as_str()) != (group, node) {
            let found = Some((superblock.group, superblock.node));
            return Err(LedgerError::Owner { page: name, found });
        }
        Ok(Some((superblock, Verdict::Holds { content: (), sequence, mend, note })))
    }

    /// The member states.
    fn members(
        &self,
        ledger: &mut Ledger,
        found: &mut Found,
        buffers: &mut Buffers,
    ) -> Result<(), LedgerError> {
        let volumes = found.superblock.sizes.len();
        let decode = |body: &[u8; BODY_BYTES]| members::decode(body, volumes);
        let name = PageName { kind: Kind::Members, index: 0, owner: None };
        let place = Place::fixed(Kind::Members, 0);
        let verdict = self.pair(MEMBERS_AT, (place, name), buffers, decode)?;
        let is_empty = matches!(verdict, Verdict::Empty);
        let members = take(ledger, found, MEMBERS_AT, verdict);
        if let Some((entries, _)) = &members {
            found.suspect(entries);
        }
        ledger.found_members(Members::found(members, (volumes, found.superblock.suspect)));
        if is_empty {
            ledger.rewrite(MEMBERS_AT);
        }
        Ok(())
    }

    /// The directory.
    fn directory(
        &self,
        ledger: &mut Ledger,
        found: &mut Found,
        buffers: &mut Buffers,
    ) -> Result<(), LedgerError> {
        let mut pages: Vec<Option<Entries>> = Vec::new();
        for number in DIRECTORY_AT {
            let index = number - DIRECTORY_AT.start;
            let name = PageName { kind: Kind::Directory, index, owner: None };
            let place = Place::fixed(Kind::Directory, index);
            let verdict = self.pair(number, (place, name), buffers, directory::decode)?;
            pages.push(take(ledger, found, number, verdict));
        }
        if pages[0].is_none() {
            // A crash came behind the first superblock: the ledger has the directory of a new file.
            ledger.rewrite(DIRECTORY_AT.start);
            let others = pages.iter().any(Option::is_some);
            return if others { Err(LedgerError::Directory) } else { Ok(()) };
        }
        let none = || Entries { next: 1, slots: Vec::new() };
        let pages = pages.into_iter().map(|page| page.unwrap_or_else(none)).collect();
        let directory = Directory::found(pages, ledger.layout()).ok_or(LedgerError::Directory)?;
        ledger.found_directory(directory);
        Ok(())
    }

    /// A page of a map: its slots or bits.
    fn mapped(
        &self,
        number: u32,
        directory: &Directory,
        layout: &Layout,
        buffers: &mut Buffers,
    ) -> Result<Verdict<Box<Words>>, LedgerError> {
        let (Some(place), Some(name)) = (directory.place(number), directory.name(number)) else {
            return Ok(Verdict::Empty);
        };
        let decode = |body: &[u8; BODY_BYTES]| match name.owner {
            None | Some(MapOwner::Engine) => hot::decode(body, layout.extents()),
            Some(owner) => {
                let unit = directory.map(owner).unit;
                marks::decode(body, layout.bits_in(owner, unit, place.index))
            }
        };
        self.pair(number, (place, name), buffers, decode)
    }

    /// Whose superblock it is, where one of the copies says so.
    fn whose(&self, buffers: &Buffers) -> Option<(String, String)> {
        buffers.0.iter().find_map(|copy| {
            let (_, body) = page::decode(copy, self.checksum).ok()?;
            let superblock = Superblock::decode(body).ok()?;
            Some((superblock.group, superblock.node))
        })
    }

    /// Whether the whole file is zeros.
    fn is_blank(&self) -> bool {
        let mut page = [0; PAGE_BYTES];
        let pages = self.file.length() / PAGE_BYTES as u64;
        (0..pages)
            .all(|n| self.file.page(n * PAGE_BYTES as u64, &mut page) && page == [0; PAGE_BYTES])
    }

    /// Reads both copies of a page and judges them by the table above.
    fn pair<T>(
        &self,
        number: u32,
        (place, name): (Place, PageName),
        buffers: &mut Buffers,
        decode: impl Fn(&[u8; BODY_BYTES]) -> Result<T, PageError>,
    ) -> Result<Verdict<T>, LedgerError> {
        let mut copy = 0;
        let copies = buffers.0.each_mut().map(|buffer| {
            let offset = u64::from(number) * PAIR_BYTES as u64 + copy * PAGE_BYTES as u64;
            copy += 1;
            if !self.file.page(offset, buffer) {
                return Err(PageError::Damaged);
            }
            let (header, body) = page::decode(buffer, self.checksum)?;
            header.belongs(place, self.owner)?;
            Ok((header.sequence, decode(body)?))
        });
        judge(name, copies, buffers)
    }
}

/// The table above.
fn judge<T>(
    name: PageName,
    copies: [Result<(u64, T), PageError>; 2],
    buffers: &Buffers,
) -> Result<Verdict<T>, LedgerError> {
    for copy in &copies {
        match copy {
            Err(PageError::Version { found }) => {
                return Err(LedgerError::Version { page: name, found: *found });
            }
            Err(PageError::Owner { .. }) => {
                return Err(LedgerError::Owner { page: name, found: None });
            }
            _ => {}
        }
    }
    let holds = |(sequence, content), mend: Option<u64>, note| Verdict::Holds {
        content,
        sequence,
        // What is mended is made like its neighbour.
        mend: mend.map(|copy| (copy, buffers.0[1 - copy as usize].to_vec())),
        note,
    };
    let anew = |copy: &str, why: &dyn core::fmt::Display, from: &str| {
        Some(format!("copy {copy} of {name} was {why}; it is written again from copy {from}"))
    };
    Ok(match copies {
        [Ok(a), Ok(b)] => {
            if a.0 == b.0 && buffers.0[0] != buffers.0[1] {
                return Err(LedgerError::Contradiction { page: name });
            } else if a.0 == b.0 {
                holds(a, None, None)
            } else if a.0 > b.0 {
                holds(a, Some(1), None)
            } else {
                holds(b, Some(0), anew("A", &"older than copy B", "B"))
            }
        }
        [Ok(a), Err(PageError::Empty | PageError::EarlierMap)] => holds(a, Some(1), None),
        [Ok(a), Err(error)] => holds(a, Some(1), anew("B", &error, "A")),
        [Err(error), Ok(b)] => holds(b, Some(0), anew("A", &error, "B")),
        [
            Err(PageError::Empty | PageError::EarlierMap),
            Err(PageError::Empty | PageError::EarlierMap),
        ] => Verdict::Empty,
        [Err(PageError::Damaged), Err(PageError::Empty | PageError::EarlierMap)] => {
            let note =
                format!("copy A of {name} was damaged in its first write; it is written again");
            Verdict::Torn { note }
        }
        [Err(PageError::EarlierMap), Err(PageError::Damaged)] => {
            let note =
                format!("copy B of {name} was damaged before its first write; it is written again");
            Verdict::Torn { note }
        }
        [Err(a), Err(b)] => return Err(LedgerError::Unreadable { page: name, copies: [a, b] }),
    })
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
