// SPDX-License-Identifier: Apache-2.0
use super::*;
use helio_units::Generation;
use proptest::prelude::*;

fn sample() -> Superblock {
    Superblock {
        role: Role::Primary,
        clean: false,
        consistent: true,
        wrote: true,
        equal: false,
        alone: true,
        sure: false,
        discarded: true,
        marks_void: false,
        safe_copy: SafeCopy::GivenUp,
        lineage: Lineage::default()
            .fork(Generation { number: 2, tag: 0xFEED }, Sequence(0))
            .fork(Generation { number: 3, tag: 0xDEAD_BEEF }, Sequence(41)),
        head: Sequence(99),
        remembers: 77,
        reported: Some(61),
        granularity: 8192,
        hot_slots: 509,
        group: "db".into(),
        node: "paris".into(),
        sizes: [1 << 30, 4096].into(),
        verified: [0, 0x0123_4567].into(),
        members: [0, 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100].into(),
        hold: 0x0A0B,
        peer_invalid: Generation { number: 5, tag: 6 },
        seeding: 0x0765_4321,
        differed: [0, 0x0200_1000].into(),
        repaired: 2,
        began: 0x0908_0706,
        tenure: 0x0D0C_0B0A,
        suspect: 2,
        copies_over: CopyNumber(0x0304),
        rollback: Some(CopyNumber(0x0305)),
        rollbacks_over: CopyNumber(0x0206),
        first_mark: Some(0x0D0E),
        names: [0, 0x0A0B_0C0D].into(),
        before_sequence: 0x0102_0304_0506_0708,
        blocks: [4096, 0].into(),
    }
}

#[test]
fn a_superblock_comes_back_as_it_was_saved() {
    assert_eq!(Superblock::decode(&sample().encode()), Ok(sample()));
    let fresh = Superblock::new("db", "lyon", [512].into());
    assert_eq!(Superblock::decode(&fresh.encode()), Ok(fresh));
}

#[test]
fn another_name_keeps_the_mark_of_the_first_one() {
    let checksum = |bytes: &[u8]| {
        bytes.iter().fold(7, |sum: u32, byte| sum.wrapping_mul(31) ^ u32::from(*byte))
    };
    let first = Superblock::new("db", "paris", [512].into());
    let mark = first.owner(checksum);
    assert_eq!(mark, page::owner("db", "paris", checksum));
    for (group, node) in [("pg", "paris"), ("pg", "rome"), ("db", "paris")] {
        let renamed = first.clone().renamed("x", "y", checksum).renamed(group, node, checksum);
        assert_eq!((renamed.group.as_str(), renamed.node.as_str()), (group, node));
        assert_eq!(renamed.owner(checksum), mark);
        assert_eq!(Superblock::decode(&renamed.encode()), Ok(renamed));
    }
}

#[test]
fn a_new_node_proves_nothing_by_its_marks() {
    let fresh = Superblock::new("db", "lyon", [512, 1024].into());
    assert!(fresh.marks_void && !fresh.alone);
    assert_eq!((fresh.remembers, fresh.granularity, fresh.hot_slots), (0, 65536, 2032));
    assert_eq!((fresh.safe_copy, fresh.verified), (SafeCopy::None, [0, 0].into()));
}

/// The table above, read against the bytes.
#[test]
fn the_fields_stand_where_the_table_says() {
    let page = [&[0; HEADER_BYTES][..], &sample().encode()].concat();
    assert_eq!(&page[32..40], &[1, 0, 1, 1, 0, 1, 0, 2]);
    assert_eq!((page[40], page[48], page[57], page[60], page[61]), (99, 77, 32, 253, 1));
    assert_eq!((page[64], page[80], page[81], page[97]), (3, 1, 2, 41));
    assert_eq!(&page[465..468], &[2, b'd', b'b']);
    assert_eq!(&page[530..536], &[5, b'p', b'a', b'r', b'i', b's']);
    assert_eq!((page[595], page[596]), (0, 1));
    assert_eq!((page[600], page[611], page[617]), (2, 64, 16));
    assert_eq!((page[1120], &page[1128..1132]), (0, &[0x67, 0x45, 0x23, 0x01][..]));
    assert!(page[1132..1648].iter().all(|byte| *byte == 0));
    assert_eq!(page[1648..1664], core::array::from_fn::<u8, 16, _>(|n| n as u8));
    assert!(page[1664..2656].iter().all(|byte| *byte == 0));
    assert_eq!(&page[2656..2660], &[0x0B, 0x0A, 0, 0]);
    assert_eq!((page[2660], page[2668]), (5, 6));
    assert_eq!(&page[2676..2680], &[0x21, 0x43, 0x65, 0x07]);
    assert!(page[2680..2692].iter().all(|byte| *byte == 0));
    assert_eq!(&page[2692..2696], &[0, 0x10, 0, 2]);
    assert!(page[2696..3196].iter().all(|byte| *byte == 0));
    assert_eq!((page[3196], &page[3204..3208]), (2, &[6, 7, 8, 9][..]));
    assert_eq!((&page[3208..3212], &page[3212..3216]), (&[0; 4][..], &[10, 11, 12, 13][..]));
    assert!(page[3216..3220].iter().all(|byte| *byte == 0));
    assert_eq!(page[3220], 2);
    assert!(page[3221..3228].iter().all(|byte| *byte == 0));
    assert_eq!(page[3228], 61);
    assert!(page[3229..3236].iter().all(|byte| *byte == 0));
    assert_eq!((page[3236], page[3237]), (4, 3));
    assert!(page[3238..3244].iter().all(|byte| *byte == 0));
    assert_eq!((page[3244], page[3245]), (5, 3));
    assert!(page[3246..3252].iter().all(|byte| *byte == 0));
    assert_eq!((page[3252], page[3253]), (6, 2));
    assert!(page[3254..3260].iter().all(|byte| *byte == 0));
    assert_eq!(&page[3260..3268], &[14, 13, 0, 0, 1, 0, 0, 0]);
    assert!(page[3268..3276].iter().all(|byte| *byte == 0));
    assert_eq!(&page[3780..3788], &[8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(&page[3276..3284], &[13, 12, 11, 10, 0, 0, 0, 0]);
    assert!(page[3284..3780].iter().chain(&page[3788..4032]).all(|byte| *byte == 0));
    assert_eq!((page[4032], &page[4033..]), (12, &[0; 63][..]));
}

/// Those bytes that mean nothing and those that only take some values.
#[test]
fn a_byte_that_cannot_be_is_damage_even_with_the_right_checksum() {
    let body = sample().encode();
    let zeros = [
        200, 464, 470, 529, 540, 597, 599, 602, 607, 624, 1119, 1136, 1631, 1664, 2655, 2700, 3195,
        3284, 3788, 4031, 4034, 4095,
    ];
    let picky = [
        32, 33, 34, 35, 36, 37, 38, 39, 56, 62, 80, 465, 595, 596, 601, 615, 3196, 3220, 3264,
        4032, 4033,
    ];
    for at in zeros.into_iter().chain(picky) {
        let mut damaged = body;
        damaged[at - HEADER_BYTES] = 0xF7;
        assert_eq!(Superblock::decode(&damaged), Err(PageError::Damaged), "byte {at}");
    }
}

#[test]
fn granularity_and_hot_slots_keep_their_bounds() {
    for (granularity, hot_slots, fits) in [
        (4096, 1, true),
        (1 << 20, 65_024, true),
        (2048, 1, false),
        (1 << 21, 1, false),
        (12_288, 1, false),
        (4096, 0, false),
        (4096, 65_025, false),
    ] {
        let mut body = sample().encode();
        body[24..28].copy_from_slice(&u32::to_le_bytes(granularity));
        body[28..32].copy_from_slice(&u32::to_le_bytes(hot_slots));
        assert_eq!(Superblock::decode(&body).is_ok(), fits, "{granularity} {hot_slots}");
    }
}

proptest! {
    #[test]
    fn a_body_is_read_in_one_way_only(at in 0..BODY_BYTES, bit in 0..8u8) {
        let mut body = sample().encode();
        body[at] ^= 1 << bit;
        if let Ok(read) = Superblock::decode(&body) {
            prop_assert_ne!(&read, &sample());
            prop_assert_eq!(read.encode(), body);
        }
    }
}
