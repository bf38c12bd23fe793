// SPDX-License-Identifier: Apache-2.0
//! Where two members differ, and what the metadata files of their nodes know of it.
//!
//! The pages are read here by a reader of its own, from the format's description, so that what the daemon wrote is
//! not judged by the code that wrote it.

use helio_link::checksum;
use helio_testkit::Pair;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Whether metadata files keep marks and hot extents: those since version 2 do.
const KEPT_ON_DISK: bool = true;

/// The bytes of a region, where the file sets no `granularity`.
const REGION: u64 = 64 << 10;
/// The bytes of a hot extent.
const EXTENT: u64 = 4 << 20;
const PAGE: usize = 4096;
const HEADER: usize = 32;
const HOT: u8 = 2;
const MARKS: u8 = 3;

/// Regions of a group with one volume, by their numbers.
pub type Regions = BTreeSet<u64>;

/// The regions in which the members of a volume differ. Nothing may be writing there.
///
/// # Panics
/// Where they cannot be read.
#[track_caller]
#[must_use]
pub fn differing(pair: &Pair, volume: &str) -> Regions {
    let [one, two] = ["lyon", "paris"].map(|node| read(&pair.member(node, volume)));
    let pieces = one.chunks(REGION as usize).zip(two.chunks(REGION as usize));
    (0..).zip(pieces).filter(|(_, (one, two))| one != two).map(|(region, _)| region).collect()
}

/// The regions a node durably holds to be in doubt: marked, or in a hot extent. None where it keeps no such record.
/// The group must have one volume; nothing may be writing to the metadata file.
///
/// # Panics
/// Where the file cannot be read, or both copies of a page are damaged.
#[track_caller]
#[must_use]
pub fn marks_of(pair: &Pair, node: &str) -> Option<Regions> {
    let file = pair.state(node).join("groups").join(format!("{}.meta", pair.group()));
    KEPT_ON_DISK.then(|| in_pages(&read(&file)).unwrap_or_else(|why| panic!("{node}: {why}")))
}

/// What was found of the rule that a difference is always covered by a durable record of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// So many regions differ, and so many are marked on either node: all of the former are among the latter.
    All {
        /// Regions that differ.
        differing: usize,
        /// Regions marked.
        marked: usize,
    },
    /// It was not looked at, since the metadata files hold no marks.
    NoMarksOnDisk,
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All { differing, marked } => {
                write!(f, "{differing} regions differ, all of {marked} marked")
            }
            Self::NoMarksOnDisk => {
                f.write_str("marks not looked at: metadata files of version 1 hold none")
            }
        }
    }
}

/// Holds the marks of both nodes against what differs. Both daemons must be at rest.
///
/// # Errors
/// Which regions differ and are marked nowhere.
///
/// # Panics
/// As `marks_of` and `differing`.
#[track_caller]
pub fn covered(pair: &Pair, volume: &str) -> Result<Covered, String> {
    let [Some(one), Some(two)] = ["lyon", "paris"].map(|node| marks_of(pair, node)) else {
        return Ok(Covered::NoMarksOnDisk);
    };
    let (differing, marked) = (differing(pair, volume), &one | &two);
    let lost: Vec<&u64> = differing.difference(&marked).collect();
    if lost.is_empty() {
        return Ok(Covered::All { differing: differing.len(), marked: marked.len() });
    }
    Err(format!(
        "regions {lost:?} differ and are marked on neither node: lyon {one:?}, paris {two:?}"
    ))
}

#[track_caller]
fn read(path: &Path) -> Vec<u8> {
    let bytes = File::open(path).and_then(|file| {
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    });
    bytes.unwrap_or_else(|why| panic!("cannot read {}: {why}", path.display()))
}

/// The regions that hot pages and mark pages name.
fn in_pages(file: &[u8]) -> Result<Regions, String> {
    let mut regions = Regions::new();
    for (place, pair) in file.chunks_exact(2 * PAGE).enumerate() {
        let (a, b) = pair.split_at(PAGE);
        let page = match (sequence(a), sequence(b)) {
            (Some(one), Some(two)) => [a, b][usize::from(two > one)],
            (Some(_), None) => a,
            (None, Some(_)) => b,
            (None, None) if pair.iter().all(|byte| *byte == 0) => continue,
            (None, None) => return Err(format!("both copies of page {place} are damaged")),
        };
        let (kind, index, body) = (page[6], u64::from(word(page, 8)), &page[HEADER..]);
        match kind {
            HOT => {
                let slots = body.chunks_exact(8).map(|slot| long(slot, 0)).filter(|slot| *slot > 0);
                regions.extend(slots.flat_map(|slot| {
                    let each = EXTENT / REGION;
                    (slot - 1) * each..slot * each
                }));
            }
            MARKS => {
                let first = index * body.len() as u64 * 8;
                let set = |bit: &u64| body[(bit / 8) as usize] & (1 << (bit % 8)) != 0;
                regions.extend((0..body.len() as u64 * 8).filter(set).map(|bit| first + bit));
            }
            _ => {}
        }
    }
    Ok(regions)
}

/// The sequence of a copy that is whole.
fn sequence(copy: &[u8]) -> Option<u64> {
    let mut bytes = copy.to_vec();
    bytes[28..HEADER].fill(0);
    let whole = copy.starts_with(b"HLMD") && checksum(&bytes) == word(copy, 28);
    whole.then(|| long(copy, 16))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(kind: u8, index: u32, sequence: u64, body: &[u8]) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        page[..4].copy_from_slice(b"HLMD");
        (page[4], page[6]) = (3, kind);
        page[8..12].copy_from_slice(&index.to_le_bytes());
        page[16..24].copy_from_slice(&sequence.to_le_bytes());
        page[HEADER..HEADER + body.len()].copy_from_slice(body);
        let sum = checksum(&page);
        page[28..HEADER].copy_from_slice(&sum.to_le_bytes());
        page
    }

    #[test]
    fn marks_are_bits_and_hot_extents_are_runs_of_regions() {
        let older = page(MARKS, 1, 6, &[0xff]);
        let mut torn = page(HOT, 0, 9, &[7]);
        torn[100] ^= 1;
        let file = [
            [page(1, 0, 7, &[1]), page(1, 0, 7, &[1])].concat(),
            [torn, page(HOT, 0, 8, &3u64.to_le_bytes())].concat(),
            vec![0; 2 * PAGE],
            [page(MARKS, 1, 7, &[0b101]), older].concat(),
        ];
        let found = in_pages(&file.concat()).expect("a copy of each page is whole");
        let expected: Regions = (128..192).chain([32512, 32514]).collect();
        assert_eq!(found, expected);
        assert!(in_pages(&[1; 2 * PAGE]).is_err_and(|why| why.contains("page 0")));
    }

    #[test]
    fn members_are_compared_region_by_region() {
        use helio_units::Bytes;
        let pair = helio_testkit::Plan::new("db").volume("data", Bytes::mib(1)).prepare();
        let lyon = File::options().write(true).open(pair.member("lyon", "data"));
        lyon.and_then(|file| file.write_all_at(&[1], 3 * REGION)).expect("it is there");
        assert_eq!(differing(&pair, "data"), Regions::from([3]));
    }
}
