// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::slow_crc32c;
use helio_units::Generation;
use proptest::prelude::*;

fn sample() -> Superblock {
    Superblock {
        saves: 7,
        role: Role::Primary,
        clean: false,
        consistent: true,
        wrote: true,
        equal: false,
        lineage: Lineage::default()
            .fork(Generation { number: 2, tag: 0xFEED }, Sequence(0))
            .fork(Generation { number: 3, tag: 0xDEAD_BEEF }, Sequence(41)),
        head: Sequence(99),
        group: "db".into(),
        node: "paris".into(),
        sizes: [1 << 30, 4096].into(),
    }
}

fn slot(superblock: &Superblock) -> [u8; SLOT_BYTES] {
    superblock.encode(slow_crc32c).try_into().expect("one slot")
}

#[test]
fn a_superblock_comes_back_as_it_was_saved() {
    assert_eq!(Superblock::decode(&slot(&sample()), slow_crc32c), Ok(sample()));
    let fresh = Superblock::new("db", "lyon", [512].into());
    assert_eq!(Superblock::decode(&slot(&fresh), slow_crc32c), Ok(fresh));
}

#[test]
fn an_unwritten_slot_is_not_called_damaged() {
    assert_eq!(Superblock::decode(&[0; SLOT_BYTES], slow_crc32c), Err(SlotError::Empty));
}

#[test]
fn a_torn_slot_is_noticed_at_every_sector() {
    let (old, mut new) = (slot(&sample()), sample());
    new.saves = 9;
    new.node = "lyon".into();
    new.sizes.push(77);
    let new = slot(&new);
    for sectors in 1..8 {
        let mut torn = old;
        torn[..sectors * 512].copy_from_slice(&new[..sectors * 512]);
        assert_eq!(
            Superblock::decode(&torn, slow_crc32c),
            Err(SlotError::Damaged),
            "{sectors} sectors"
        );
    }
}

#[test]
fn a_later_format_is_named() {
    let mut bytes = slot(&sample());
    bytes[8] = 2;
    let crc = slow_crc32c(&bytes[..CRC_AT]).to_le_bytes();
    bytes[CRC_AT..].copy_from_slice(&crc);
    assert_eq!(Superblock::decode(&bytes, slow_crc32c), Err(SlotError::Version { found: 2 }));
}

/// The table above, read against the bytes.
#[test]
fn the_fields_stand_where_the_table_says() {
    let bytes = slot(&sample());
    assert_eq!(&bytes[0..8], b"HELIOSB1");
    assert_eq!(bytes[16], 7);
    assert_eq!(&bytes[24..29], &[1, 0, 1, 1, 0]);
    assert_eq!((bytes[32], bytes[40], bytes[56], bytes[57], bytes[73]), (99, 3, 1, 2, 41));
    assert_eq!(&bytes[441..444], &[2, b'd', b'b']);
    assert_eq!(&bytes[506..512], &[5, b'p', b'a', b'r', b'i', b's']);
    assert_eq!((bytes[576], bytes[581], bytes[587]), (2, 64, 16));
    assert_eq!(slow_crc32c(&bytes[..CRC_AT]).to_le_bytes(), bytes[CRC_AT..]);
}

proptest! {
    #[test]
    fn a_flipped_bit_anywhere_is_noticed(at in 0..SLOT_BYTES, bit in 0..8u8) {
        let mut bytes = slot(&sample());
        bytes[at] ^= 1 << bit;
        prop_assert!(Superblock::decode(&bytes, slow_crc32c).is_err());
    }
}
