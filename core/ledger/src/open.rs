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
//!
//! Everything else is refused by name; so is a superblock that was damaged in its first write, since all else depends
//! on it, and a page of another version or owner, whatever its twin says.

use crate::error::{LedgerError, PageName};
use crate::layout::Layout;
use crate::ledger::Ledger;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::page::{self, BODY_BYTES, Kind, PAGE_BYTES, PAIR_BYTES, PageError, Words};
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
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The superblock.
    pub superblock: Superblock,
    /// The hot extents, ascending.
    pub hot: Vec<u64>,
    /// The mark pages with a mark, ascending.
    pub marks: Vec<(u32, Box<Words>)>,
    /// What was damaged and is written anew, a sentence each, for the log.
    pub repaired: Vec<String>,
}

impl Found {
    /// What a new file begins with.
    #[must_use]
    pub fn nothing(superblock: Superblock) -> Self {
        Self { superblock, hot: Vec::new(), marks: Vec::new(), repaired: Vec::new() }
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
        let reader = Reader { file, owner: page::owner(group, node, checksum), checksum };
        reader.long_enough(PAIR_BYTES as u64)?;
        let Some((superblock, first)) = reader.superblock(group, node)? else {
            return Ok(Opened::Fresh);
        };
        let layout = Layout::of(&superblock);
        reader.long_enough(layout.bytes())?;
        let mut ledger = Self::fresh(layout.clone(), (group, node), checksum);
        let mut found = Found::nothing(superblock);
        take(&mut ledger, &mut found, 0, first);
        let mut buffers = Buffers::new();
        for number in 1..layout.pairs() {
            let (kind, index) = layout.page(number);
            let name = PageName { kind, index };
            if kind == Kind::Hot {
                let decode = |body: &[u8; BODY_BYTES]| hot::decode(body, layout.extents());
                let verdict = reader.pair(number, name, &mut buffers, decode)?;
                if let Some(slots) = take(&mut ledger, &mut found, number, verdict) {
                    ledger.found_hot(index, slots);
                }
            } else {
                let regions = layout.regions_in(index);
                let decode = |body: &[u8; BODY_BYTES]| marks::decode(body, regions);
                let verdict = reader.pair(number, name, &mut buffers, decode)?;
                if let Some(bits) = take(&mut ledger, &mut found, number, verdict)
                    && bits.iter().any(|word| *word != 0)
                {
                    found.marks.push((index, bits));
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
            match ledger.layout().page(number) {
                (Kind::Hot, index) => ledger.rewrite_hot(index),
                (_, index) => ledger.rewrite_marks(index),
            }
            None
        }
        Verdict::Empty => None,
    }
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

    /// The superblock; none in a file that was never written.
    fn superblock(
        &self,
        group: &str,
        node: &str,
    ) -> Result<Option<(Superblock, Verdict<()>)>, LedgerError> {
        let name = PageName { kind: Kind::Superblock, index: 0 };
        let mut buffers = Buffers::new();
        let pair = self.pair(0, name, &mut buffers, Superblock::decode);
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
        name: PageName,
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
            header.belongs(name.kind, name.index, self.owner)?;
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
        [Ok(a), Err(PageError::Empty)] => holds(a, Some(1), None),
        [Ok(a), Err(error)] => holds(a, Some(1), anew("B", &error, "A")),
        [Err(error), Ok(b)] => holds(b, Some(0), anew("A", &error, "B")),
        [Err(PageError::Empty), Err(PageError::Empty)] => Verdict::Empty,
        [Err(PageError::Damaged), Err(PageError::Empty)] => {
            let note =
                format!("copy A of {name} was damaged in its first write; it is written again");
            Verdict::Torn { note }
        }
        [Err(a), Err(b)] => return Err(LedgerError::Unreadable { page: name, copies: [a, b] }),
    })
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
