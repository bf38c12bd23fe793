// SPDX-License-Identifier: Apache-2.0
use crate::describe::describe;
use crate::error::LedgerError;
use crate::ledger::Ledger;
use crate::open::{Found, Opened};
use crate::paper::{CHECKSUM, OWNER, Paper};
use alloc::string::{String, ToString};
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

/// What was found, and the ledger, which is at rest on a file of this version.
fn open(bytes: &[u8]) -> (Ledger, Found) {
    match Ledger::open(bytes, OWNER, CHECKSUM) {
        Ok(Opened::Found(found)) => *found,
        other => panic!("{other:?}"),
    }
}

fn older(bytes: &[u8]) -> (Ledger, Found) {
    match Ledger::open(bytes, OWNER, CHECKSUM) {
        Ok(Opened::Older(found)) => *found,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn is_as_recorded(found: &Found) {
    assert_eq!(found.superblock, record());
    assert_eq!(found.hot, [3, 9, 700]);
    let marks: Vec<(u32, u64, u64)> =
        found.marks.iter().map(|(page, bits)| (*page, bits[0], bits[200])).collect();
    assert_eq!(marks, [(0, 5, 1 << 63), (1, 5, 1 << 63)]);
    assert_eq!(found.others, []);
}

#[test]
fn metadata_of_version_two_is_read_and_converted() {
    let (mut ledger, found) = older(VERSION_2);
    is_as_recorded(&found);
    assert_eq!(found.repaired, Vec::<String>::new());
    let mut new = Paper::new(ledger.layout().bytes());
    new.settle(&mut ledger);
    let (ledger, again) = open(new.bytes());
    is_as_recorded(&again);
    assert_eq!(again.repaired, Vec::<String>::new());
    assert!(ledger.is_idle() && ledger.sequence() > 4, "the peer remembers the old count");
    assert_eq!(describe(VERSION_2, CHECKSUM).version, Some(2));
    assert_eq!(describe(new.bytes(), CHECKSUM).version, Some(3));
}

#[test]
fn a_damaged_copy_in_a_file_of_version_two_is_named_and_the_other_one_is_converted() {
    for (at, name) in [(40, "copy A of the superblock"), (4096 * 3 + 40, "copy B of hot page 0")] {
        let mut bytes = VERSION_2.to_vec();
        bytes[at] ^= 4;
        let (_, found) = older(&bytes);
        is_as_recorded(&found);
        assert_eq!(found.repaired.len(), 1);
        assert!(found.repaired[0].starts_with(name), "{}", found.repaired[0]);
    }
    let mut bytes = VERSION_2.to_vec();
    (bytes[4096 * 6 + 40], bytes[4096 * 7 + 40]) =
        (bytes[4096 * 6 + 40] ^ 1, bytes[4096 * 7 + 40] ^ 1);
    let refused = Ledger::open(&bytes[..], OWNER, CHECKSUM).map(|_| ()).expect_err("both damaged");
    assert!(refused.to_string().starts_with("neither copy of bitmap page 1 can be used"));
    let cut = &VERSION_2[..VERSION_2.len() - 1];
    let refused = Ledger::open(cut, OWNER, CHECKSUM).map(|_| ()).expect_err("cut off");
    assert!(matches!(refused, LedgerError::Truncated { needed: 32768, .. }), "{refused}");
}
