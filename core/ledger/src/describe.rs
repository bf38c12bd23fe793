// SPDX-License-Identifier: Apache-2.0
//! A metadata file shown to people, whoever's it is and however damaged: `helio inspect`, `helio metadata check`.

use crate::directory::Directory;
use crate::error::PageName;
use crate::layout::Layout;
use crate::open::MetadataFile;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use helio_format::directory::{self, Entries, MapOwner};
use helio_format::epochs::{Carried, Epochs, VolumeEpochs};
use helio_format::files::{self, FileRecord, Standing};
use helio_format::members::{self, CopyHealth, DiskMark, MemberEntry, VolumeEntries};
use helio_format::page::{self, Kind, PAGE_BYTES, PAIR_BYTES, PageError, Place, VERSION};
use helio_format::superblock::{SafeCopy, Superblock};
use helio_format::{Checksum, hot, marks};
use helio_units::{Generation, Role, WallTime};

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its length in bytes.
    pub length: u64,
    /// The format that its superblock has.
    pub version: Option<u16>,
    /// The length that its superblock and directory ask for.
    pub needed: Option<u64>,
    /// The superblock, where a copy of it can be read.
    pub superblock: Option<Superblock>,
    /// Highest sequence in it.
    pub sequence: u64,
    /// Every pair of pages, in order.
    pub pairs: Vec<PairLine>,
}

/// One pair of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairLine {
    /// Byte offset of copy A.
    pub offset: u64,
    /// What belongs here; without a superblock, what a copy says it is.
    pub kind: Option<Kind>,
    /// Which of its kind, or of its map.
    pub index: u32,
    /// Whose map it is part of.
    pub owner: Option<MapOwner>,
    /// Copy A and copy B.
    pub copies: [CopyState; 2],
    /// What the two amount to.
    pub state: PairState,
    /// What the copy that holds says.
    pub content: Content,
}

/// One copy of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyState {
    /// Whole, of this sequence.
    Valid {
        /// When it changed.
        sequence: u64,
    },
    /// Never written.
    Empty,
    /// It cannot be used.
    Bad(PageError),
}

/// What a pair amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairState {
    /// Both copies say the same.
    Level,
    /// Never written.
    Empty,
    /// Copy B is behind copy A: a crash came between their writes. The next start levels them.
    Lags,
    /// One copy is bad; the next start writes it anew from the other.
    Repairable,
    /// Nothing can be read here.
    Lost,
}

/// What a page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    None,
    /// The superblock; see [`Description::superblock`].
    Superblock,
    /// The extents in a hot page.
    Hot(Vec<u64>),
    /// How many regions a page of a bitmap marks.
    Marks(u32),
    /// The members of every volume, and their epochs.
    Members(Vec<VolumeEntries>, Epochs),
    /// The maps in a page of the directory, and the lowest id that was never used.
    Directory(Entries),
    /// Whether this file counts.
    Files(FileRecord),
}

/// What the pages seen so far say of the others.
struct Known {
    layout: Layout,
    /// The owner's mark on every page.
    owner: u32,
    directory: Directory,
}

/// Looks at every page. Nothing is written, and nothing is refused.
pub fn describe<F: MetadataFile + ?Sized>(file: &F, checksum: Checksum) -> Description {
    let length = file.length();
    let mut found = Description {
        length,
        version: None,
        needed: None,
        superblock: None,
        sequence: 0,
        pairs: Vec::new(),
    };
    let mut known: Option<Known> = None;
    let mut entries = Vec::new();
    for number in 0..length.div_ceil(PAIR_BYTES as u64) {
        // Fewer than 2^32: no directory names more.
        let at = number as u32;
        let place = known.as_ref().and_then(|known| known.directory.name(at));
        let place = match &known {
            Some(known) if number >= u64::from(known.directory.end()) => break,
            Some(_) if place.is_none() => continue,
            None if number == 0 => Some(PageName { kind: Kind::Superblock, index: 0, owner: None }),
            _ => place,
        };
        let looker = Looker { checksum, number: at, known: known.as_ref() };
        let (line, superblock) = looker.pair(file, number * PAIR_BYTES as u64, place);
        for copy in line.copies {
            // The record of the files has a count of its own.
            if let CopyState::Valid { sequence } = copy
                && line.kind != Some(Kind::Files)
            {
                found.sequence = found.sequence.max(sequence);
            }
        }
        match (&mut known, &line.content) {
            (Some(known), Content::Directory(page)) => {
                entries.push(page.clone());
                if let Some(directory) = Directory::found(entries.clone(), &known.layout) {
                    known.directory = directory;
                }
            }
            (Some(_), _) if line.kind == Some(Kind::Directory) => {
                entries.push(Entries { next: 1, slots: Vec::new() });
            }
            _ => {}
        }
        found.pairs.push(line);
        if let Some((version, superblock)) = superblock {
            let layout = Layout::of(&superblock);
            let owner = superblock.owner(checksum);
            let directory = match version {
                VERSION => Directory::standing(&layout),
                _ => Directory::before(&layout),
            };
            (found.version, found.superblock) = (Some(version), Some(superblock));
            known = Some(Known { layout, owner, directory });
        }
    }
    let end = known.map(|known| known.directory.end());
    found.needed = end.map(|pairs| u64::from(pairs) * PAIR_BYTES as u64);
    found
}

struct Looker<'a> {
    checksum: Checksum,
    /// Which pair.
    number: u32,
    known: Option<&'a Known>,
}

struct Copy {
    name: PageName,
    version: u16,
    sequence: u64,
    content: Content,
    superblock: Option<Superblock>,
    bytes: [u8; PAGE_BYTES],
}

impl Looker<'_> {
    fn pair<F: MetadataFile + ?Sized>(
        &self,
        file: &F,
        offset: u64,
        place: Option<PageName>,
    ) -> (PairLine, Option<(u16, Superblock)>) {
        let [a, b] = [0, PAGE_BYTES as u64].map(|copy| {
            let mut bytes = [0; PAGE_BYTES];
            let whole = offset + copy + PAGE_BYTES as u64 <= file.length();
            if whole && file.page(offset + copy, &mut bytes) {
                self.copy(&bytes, place)
            } else {
                Err(PageError::Damaged)
            }
        });
        let copies = [state(&a), state(&b)];
        let contradict =
            matches!((&a, &b), (Ok(a), Ok(b)) if a.sequence == b.sequence && a.bytes != b.bytes);
        let first = place.is_some_and(|name| name.kind == Kind::Superblock);
        let together = if contradict { PairState::Lost } else { together(copies, first) };
        let holds = match (a, b) {
            (Ok(a), Ok(b)) => Some(if b.sequence > a.sequence { b } else { a }),
            (Ok(copy), Err(_)) | (Err(_), Ok(copy)) => Some(copy),
            (Err(_), Err(_)) => None,
        };
        let name = place.or(holds.as_ref().map(|copy| copy.name));
        let (content, superblock) = holds.map_or((Content::None, None), |copy| {
            (copy.content, copy.superblock.map(|superblock| (copy.version, superblock)))
        });
        let line = PairLine {
            offset,
            kind: name.map(|name| name.kind),
            index: name.map_or(0, |name| name.index),
            owner: name.and_then(|name| name.owner),
            copies,
            state: together,
            content,
        };
        (line, superblock)
    }

    fn copy(&self, bytes: &[u8; PAGE_BYTES], name: Option<PageName>) -> Result<Copy, PageError> {
        let (header, body) = page::decode(bytes, self.checksum)?;
        let Place { version, kind, index, .. } = header.place;
        let name = name.unwrap_or(PageName { kind, index, owner: None });
        let place = match self.known {
            Some(known) => known.directory.place(self.number).unwrap_or(header.place),
            None => Place { kind: name.kind, index: name.index, ..header.place },
        };
        header.belongs(place, self.known.map_or(header.owner, |known| known.owner))?;
        let mut superblock = None;
        let content = match name.kind {
            Kind::Superblock => {
                superblock = Some(Superblock::decode(body)?);
                Content::Superblock
            }
            Kind::Hot => {
                let slots = hot::decode(body, self.known.map_or(u64::MAX, |k| k.layout.extents()))?;
                let extents = slots.iter().filter_map(|slot| slot.checked_sub(1));
                Content::Hot(extents.collect())
            }
            Kind::Marks => {
                let bits = marks::decode(body, self.regions(name))?;
                Content::Marks(bits.iter().map(|word| word.count_ones()).sum())
            }
            Kind::Members => {
                let volumes = |known: &Known| known.layout.volumes();
                let volumes = self.known.map_or(helio_format::message::VOLUMES_MAX, volumes);
                let (members, epochs) = members::decode(body, volumes)?;
                Content::Members(members, epochs)
            }
            Kind::Directory => Content::Directory(directory::decode(body)?),
            Kind::Files => Content::Files(files::decode(body)?),
        };
        Ok(Copy { name, version, sequence: header.sequence, content, superblock, bytes: *bytes })
    }

    /// How many regions a page of a bitmap holds.
    fn regions(&self, name: PageName) -> u32 {
        let of = |(known, owner): (&Known, MapOwner)| {
            known.layout.bits_in(owner, known.directory.map(owner).unit, name.index)
        };
        self.known.zip(name.owner).map_or(marks::REGIONS_PER_PAGE, of)
    }
}

fn state(copy: &Result<Copy, PageError>) -> CopyState {
    match copy {
        Ok(copy) => CopyState::Valid { sequence: copy.sequence },
        Err(PageError::Empty | PageError::EarlierMap) => CopyState::Empty,
        Err(error) => CopyState::Bad(*error),
    }
}

/// As opening judges it.
fn together(copies: [CopyState; 2], superblock: bool) -> PairState {
    use CopyState::{Bad, Empty, Valid};
    match copies {
        [Valid { sequence: a }, Valid { sequence: b }] if a == b => PairState::Level,
        [Valid { sequence: a }, Valid { sequence: b }] if a > b => PairState::Lags,
        [Valid { .. }, Empty] => PairState::Lags,
        [Empty, Empty] => PairState::Empty,
        // Pages of others are never overwritten.
        [Bad(PageError::Version { .. } | PageError::Owner { .. }), _]
        | [_, Bad(PageError::Version { .. } | PageError::Owner { .. })] => PairState::Lost,
        [Valid { .. }, _] | [_, Valid { .. }] => PairState::Repairable,
        [Bad(PageError::Damaged), Empty] if !superblock => PairState::Repairable,
        _ => PairState::Lost,
    }
}

impl Description {
    /// Whether a daemon would serve from it without having to repair anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sound =
            |line: &PairLine| !matches!(line.state, PairState::Repairable | PairState::Lost);
        self.pairs.iter().all(sound) && self.needed.is_none_or(|needed| needed <= self.length)
    }
}

impl fmt::Display for PairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Level => "level",
            Self::Empty => "never written",
            Self::Lags => "copy B behind",
            Self::Repairable => "repairable",
            Self::Lost => "lost",
        })
    }
}

impl fmt::Display for CopyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid { sequence } => write!(f, "sequence {sequence}"),
            Self::Empty => f.write_str("never written"),
            Self::Bad(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nothing"),
            Self::Superblock => f.write_str("the fields above"),
            Self::Hot(extents) => write!(f, "{} hot", extents.len()),
            Self::Marks(regions) => write!(f, "{regions} dirty"),
            Self::Files(FileRecord { standing, epoch }) => {
                let standing = match standing {
                    Standing::Alone => "alone",
                    Standing::Both => "both files",
                    Standing::Stale => "stale",
                };
                write!(f, "{standing}, epoch {epoch}")
            }
            Self::Members(volumes, epochs) => {
                let text = |(members, epochs): (&VolumeEntries, &VolumeEpochs)| {
                    let pairs = members.iter().zip(epochs.carried);
                    let members = pairs.filter_map(|(it, carried)| Some(member(&(*it)?, carried)));
                    let members = members.collect::<Vec<_>>().join(" ");
                    match epochs.epoch {
                        Some(epoch) => format!("members in epoch {epoch}: {members}"),
                        None => members,
                    }
                };
                let volumes = volumes.iter().zip(&epochs.volumes).map(text);
                f.write_str(&volumes.collect::<Vec<_>>().join(", "))
            }
            Self::Directory(entries) => {
                let maps = entries.slots.iter().flatten();
                let text = |map: &directory::Entry| {
                    format!(
                        "{} in {} pages from {}",
                        map.owner,
                        map.pairs,
                        u64::from(map.first) * PAIR_BYTES as u64
                    )
                };
                f.write_str(&maps.map(text).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A member, and the epoch that its stamp has.
fn member(MemberEntry { health, disk }: &MemberEntry, carried: Option<Carried>) -> String {
    let health = match health {
        CopyHealth::Good => "good",
        CopyHealth::Suspect => "suspect",
        CopyHealth::Copying => "copying",
        CopyHealth::Removed => "removed",
        CopyHealth::Unproven => "unproven",
        CopyHealth::Failed => "failed",
        CopyHealth::Withdrawn => "withdrawn",
        CopyHealth::Blank => "blank",
    };
    let carried = carried.map_or(String::new(), |it| format!(" at {}", it.first()));
    match *disk {
        DiskMark::UNKNOWN => format!("{health}{carried}"),
        disk => format!("{health} ({disk}){carried}"),
    }
}

/// `hot page 2 at 24576: level; A sequence 9; B sequence 9; 3 hot`.
impl fmt::Display for PairLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind @ (Kind::Superblock | Kind::Members | Kind::Files)) => write!(f, "{kind}")?,
            Some(kind) => {
                let name = PageName { kind, index: self.index, owner: self.owner };
                write!(f, "{name}")?;
            }
            None => f.write_str("unknown page")?,
        }
        let [a, b] = &self.copies;
        write!(f, " at {}: {}; A {a}; B {b}; {}", self.offset, self.state, self.content)
    }
}

/// A superblock's fields by name, in the order of its table.
#[must_use]
pub fn fields(b: &Superblock) -> Vec<(&'static str, String)> {
    let role = match b.role {
        Role::Primary => "primary",
        Role::Secondary => "secondary",
    };
    let safe_copy = match b.safe_copy {
        SafeCopy::None => "none",
        SafeCopy::Kept => "kept",
        SafeCopy::GivenUp => "discarded",
    };
    let ancestors = b.lineage.ancestors().iter();
    let ancestors: Vec<String> =
        ancestors.map(|a| format!("{} up to {}", a.generation, a.fork.0)).collect();
    let sizes: Vec<String> = b.sizes.iter().map(ToString::to_string).collect();
    let time = |ms: u64, none: &str| match ms {
        0 => none.to_string(),
        ms => WallTime(ms).to_string(),
    };
    let verified = (0..64).zip(b.verified.iter().zip(&b.differed)).map(|(n, (at, differed))| {
        let found = match (at, differed, b.repaired >> n & 1) {
            (0, ..) | (_, 0, _) => String::new(),
            (_, bytes, 0) => alloc::format!(", {bytes} bytes differed"),
            (_, bytes, _) => alloc::format!(", {bytes} bytes differed and were repaired"),
        };
        time(*at, "never") + &found
    });
    let verified: Vec<String> = verified.collect();
    let members = b.members.iter().map(|identity| match identity {
        0 => "unknown".to_string(),
        identity => alloc::format!("{identity:032x}"),
    });
    let members: Vec<String> = members.collect();
    let peer_invalid = match b.peer_invalid {
        Generation::NONE => "no".to_string(),
        since => since.to_string(),
    };
    let restore = match b.rollback {
        None => "none".to_string(),
        Some(by) => alloc::format!("from snapshot number {}, not finished", by.0),
    };
    Vec::from([
        ("group", b.group.clone()),
        ("node", b.node.clone()),
        ("role", role.to_string()),
        ("clean", b.clean.to_string()),
        ("consistent", b.consistent.to_string()),
        ("wrote", b.wrote.to_string()),
        ("equal", b.equal.to_string()),
        ("alone", b.alone.to_string()),
        ("sure", b.sure.to_string()),
        ("discarded", b.discarded.to_string()),
        ("marks-void", b.marks_void.to_string()),
        ("safe-copy", safe_copy.to_string()),
        ("restore", restore),
        ("head", b.head.0.to_string()),
        ("remembers", b.remembers.to_string()),
        ("granularity", b.granularity.to_string()),
        ("hot-slots", b.hot_slots.to_string()),
        ("generation", b.lineage.generation.to_string()),
        ("ancestors", ancestors.join(", ")),
        ("sizes", sizes.join(", ")),
        ("verified", verified.join("; ")),
        ("members", members.join(", ")),
        ("hold-ms", b.hold.to_string()),
        ("peer-invalid-since", peer_invalid),
        ("seeding-since", time(b.seeding, "no")),
        ("generation-began", time(b.began, "unknown")),
        ("tenure", format!("{:016x}", b.tenure)),
    ])
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
