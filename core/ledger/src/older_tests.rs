// SPDX-License-Identifier: Apache-2.0
use crate::ledger::Ledger;
use crate::open::{Found, Opened};
use crate::paper::CHECKSUM;
use alloc::string::String;
use alloc::vec::Vec;
use helio_format::superblock::{SafeCopy, Superblock};
use helio_units::{Generation, Role, Sequence};

/// A metadata file that the build of version 2 wrote: two volumes, hot extents and dirty regions. Never to be made again.
const VERSION_2: &[u8] = include_bytes!("../fixtures/version-2.meta");

/// What it says.
fn record() -> Superblock {
    let mut b = Superblock::new("db", "paris", [(1 << 30) + 512, 2 << 30].into());
    b.role = Role::Primary;
    (b.clean, b.wrote, b.alone, b.sure, b.marks_void) = (false, true, true, true, false);
    b.safe_copy = SafeCopy::GivenUp;
    for (number, tag, fork) in [(1, 0xFEED, 0), (2, 0xDEAD_BEEF, 41)] {
        b.lineage = b.lineage.fork(Generation { number, tag }, Sequence(fork));
    }
    (b.head, b.remembers, b.hot_slots) = (Sequence(99), 77, 500);
    (b.verified, b.differed, b.repaired) = ([0, 1_234_567].into(), [0, 8192].into(), 2);
    b.members = [0, 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100].into();
    (b.hold, b.began, b.tenure, b.suspect) = (600, 1_700_000_000_000, 0xC0FFEE, 2);
    b.blocks = [4096, 512].into();
    b
}

fn open(bytes: &[u8]) -> (Ledger, Found) {
    match Ledger::open(bytes, ("db", "paris"), CHECKSUM) {
        Ok(Opened::Found(found)) => *found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn metadata_of_version_two_is_read() {
    let (ledger, found) = open(VERSION_2);
    assert_eq!(found.superblock, record());
    assert_eq!(found.hot, [3, 9, 700]);
    let marks: Vec<(u32, u64, u64)> =
        found.marks.iter().map(|(page, bits)| (*page, bits[0], bits[200])).collect();
    assert_eq!(marks, [(0, 5, 1 << 63), (1, 5, 1 << 63)]);
    assert_eq!((ledger.sequence(), found.repaired), (4, Vec::<String>::new()));
}
