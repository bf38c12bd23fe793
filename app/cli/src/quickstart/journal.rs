// SPDX-License-Identifier: Apache-2.0
//! A journal as applications keep one: records in sequential slots, each with its number and a checksum.
//! What a copy holds of it tells in which order the copy was written.

use super::digest;
use helio_units::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One record, and one slot, in bytes.
pub(super) const RECORD: usize = 4096;
const MAGIC: &[u8; 8] = b"helio-qs";
/// Where the checksum of all before it stands.
const SUM_AT: usize = RECORD - 8;

/// Records of different runs look alike but for this number, so the slots need no clearing between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run(pub(super) u64);

/// How many records a volume of that size has room for.
pub(super) const fn slots(size: Bytes) -> u64 {
    size.0 / RECORD as u64
}

/// Where the record of a number stands; numbers count from 0.
pub(super) const fn offset(number: u64) -> u64 {
    number * RECORD as u64
}

/// The record of a number.
pub(super) fn record(run: Run, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RECORD);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&run.0.to_le_bytes());
    // Filled with its number to the end, so that a part of it is as telling as the whole.
    while bytes.len() < SUM_AT {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let sum = digest::of_bytes(&bytes).0;
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes
}

/// Whether a slot holds the whole record of that number and run.
pub(super) fn holds(slot: &[u8], run: Run, number: u64) -> bool {
    slot == record(run, number)
}

/// Which of the first `count` records a member file holds.
///
/// Read from the last to the first: a record that is found was written before those below it are looked at, so
/// a file that is written in order meanwhile never seems to have a gap.
pub(super) fn look(member: &Path, run: Run, count: u64) -> io::Result<Vec<bool>> {
    let file = File::open(member)?;
    // Read-ahead would look at slots above earlier than at the one asked for.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    let mut found = vec![false; count as usize];
    let mut slot = vec![0; RECORD];
    for (number, found) in found.iter_mut().enumerate().rev() {
        file.read_exact_at(&mut slot, offset(number as u64))?;
        *found = holds(&slot, run, number as u64);
    }
    Ok(found)
}

/// What a journal that is written one record after another shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The records 0 to n - 1 and none behind them.
    Prefix(u64),
    /// A record is missing though a later one is there.
    Gap { missing: u64, later: u64 },
}

/// Judges the order by what was found.
pub(super) fn order(found: &[bool]) -> Order {
    let length = found.iter().take_while(|there| **there).count();
    match found[length..].iter().rposition(|there| *there) {
        None => Order::Prefix(length as u64),
        Some(more) => Order::Gap { missing: length as u64, later: (length + more) as u64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_whole_or_not_at_all() {
        let whole = record(Run(1), 7);
        assert_eq!(whole.len(), RECORD);
        assert!(holds(&whole, Run(1), 7));
        assert!(!holds(&whole, Run(2), 7), "of another run");
        assert!(!holds(&whole, Run(1), 8), "of another slot");
        for at in [0, 8, 16, 2048, SUM_AT - 1, SUM_AT, RECORD - 1] {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            assert!(!holds(&torn, Run(1), 7), "flipped at {at}");
        }
    }

    #[test]
    fn a_prefix_is_told_from_a_gap() {
        assert_eq!(order(&[]), Order::Prefix(0));
        assert_eq!(order(&[false, false]), Order::Prefix(0));
        assert_eq!(order(&[true, true, false]), Order::Prefix(2));
        assert_eq!(order(&[true; 3]), Order::Prefix(3));
        assert_eq!(order(&[true, false, true, false]), Order::Gap { missing: 1, later: 2 });
        assert_eq!(order(&[false, false, true, true]), Order::Gap { missing: 0, later: 3 });
    }

    #[test]
    fn a_member_file_is_looked_at_slot_by_slot() {
        let path = std::env::temp_dir().join(format!("helio-journal-{}", std::process::id()));
        let mut bytes = record(Run(3), 0);
        bytes.extend(record(Run(2), 1));
        bytes.extend(record(Run(3), 2));
        std::fs::write(&path, bytes).expect("the folder can be written to");
        let found = look(&path, Run(3), 3);
        std::fs::remove_file(&path).expect("it was made");
        assert_eq!(found.expect("it can be read"), [true, false, true]);
    }
}
