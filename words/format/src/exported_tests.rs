// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::slow_crc32c;
use alloc::borrow::ToOwned;

fn record() -> ExportRecord {
    let of = Exported {
        group: "db".to_owned(),
        name: "nightly".to_owned(),
        generation: "2.77aa".to_owned(),
        node: "paris".to_owned(),
        identity: "2.9c.31".to_owned(),
        position: Sequence(31),
        at: WallTime(0x0102_0304),
        consistent: true,
    };
    let volume = |name: &str, size, written| ExportedVolume {
        name: name.to_owned(),
        size,
        written,
        image: "x".to_owned(),
        differs: ChunkSet::new(size),
    };
    let mut volumes =
        vec![volume("data", Bytes(10 * CHUNK_BYTES), 0), volume("log", Bytes(512), 77)];
    volumes[0].differs.add(2..4);
    volumes[0].differs.add(9..10);
    ExportRecord { of, stage: ExportStage::Complete, volumes }
}

#[test]
fn a_record_comes_back_and_stands_where_the_table_says() {
    let it = record();
    let bytes = it.encode(slow_crc32c);
    assert_eq!(ExportRecord::decode(&bytes, slow_crc32c), Ok(it));
    assert_eq!(bytes[..8], *b"HLXS\x01\0\x02\0");
    assert_eq!(bytes[8..16], (bytes.len() as u64).to_le_bytes());
    assert_eq!((bytes[16], bytes[17], &bytes[18..24]), (2, 1, &[0; 6][..]));
    assert_eq!((bytes[24], bytes[27], bytes[32]), (4, 1, 31));
    assert_eq!(bytes[40..64], *b"\x02db\x07nightly\x062.77aa\x05paris");
    assert_eq!(bytes[64..73], *b"\x07\x002.9c.31");
    assert_eq!(bytes[73..78], *b"\x04data");
    assert_eq!(bytes[78..86], (10 * CHUNK_BYTES).to_le_bytes());
    assert_eq!(bytes[86..99], *b"\0\0\0\0\0\0\0\0\x01\0x\x0c\x02", "and a bit for each chunk");
    assert_eq!(bytes[99..103], *b"\x03log");
    assert_eq!(bytes.len(), 127);
}

/// Bytes that stand for version 1 for ever.
#[test]
fn the_golden_record_is_written_as_ever() {
    let bytes = record().encode(slow_crc32c);
    assert_eq!(bytes[bytes.len() - 4..], [136, 177, 252, 109]);
    let addition = ExportRecord::addition(&bytes, 1, &(0..1), slow_crc32c);
    assert_eq!(addition[16..], [136, 177, 252, 109, 172, 54, 4, 43]);
}

#[test]
fn a_byte_that_turned_is_noticed_anywhere() {
    let good = record().encode(slow_crc32c);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(ExportRecord::decode(&bad, slow_crc32c).is_err(), "bit {bit} of byte {at}");
        }
    }
    for length in 0..good.len() {
        let found = ExportRecord::decode(&good[..length], slow_crc32c);
        let wanted = if length < 4 { ExportError::Foreign } else { ExportError::Damaged };
        assert_eq!(found, Err(wanted), "{length} bytes");
    }
    let mut newer = good;
    newer[4] = 2;
    let found = ExportRecord::decode(&newer, slow_crc32c);
    assert_eq!(found, Err(ExportError::Version { found: 2 }));
}

#[test]
fn additions_count_up_to_the_first_one_that_is_torn() {
    let it = record();
    let bytes = it.encode(slow_crc32c);
    let addition = |volume, chunks| ExportRecord::addition(&bytes, volume, &chunks, slow_crc32c);
    let [first, second] = [addition(0, 5..7), addition(1, 0..1)];
    let added = |additions: &[u8]| {
        let all = [&bytes[..], additions].concat();
        let it = ExportRecord::decode(&all, slow_crc32c).expect("the record is whole");
        let data = &it.volumes[0].differs;
        (
            (0..10).filter(|chunk| data.has(*chunk)).collect::<Vec<_>>(),
            it.volumes[1].differs.count(),
        )
    };
    assert_eq!(added(&[first, second].concat()), (vec![2, 3, 5, 6, 9], 1));
    assert_eq!(added(&first[..23]), (vec![2, 3, 9], 0));
    for at in 0..ADDITION_BYTES {
        let mut torn = [first, second].concat();
        torn[at] ^= 0x10;
        assert_eq!(added(&torn), (vec![2, 3, 9], 0), "byte {at}");
    }
    let none = (vec![2, 3, 9], 0);
    assert_eq!(added(&addition(2, 0..1)), none, "there is no such volume");
    assert_eq!(added(&addition(0, 8..11)), none, "it has no such chunk");
    let other = ExportRecord { stage: ExportStage::Copying, ..record() }.encode(slow_crc32c);
    let foreign = ExportRecord::addition(&other, 0, &(0..1), slow_crc32c);
    assert_eq!(added(&foreign), none, "of another record");
}

#[test]
fn fields_that_cannot_be_are_damage() {
    let reject = |change: fn(&mut ExportRecord)| {
        let mut it = record();
        change(&mut it);
        let found = ExportRecord::decode(&it.encode(slow_crc32c), slow_crc32c);
        assert_eq!(found, Err(ExportError::Damaged));
    };
    reject(|it| it.volumes[1].name = "data".to_owned());
    reject(|it| it.volumes[1].name = "../log".to_owned());
    reject(|it| it.volumes[1].size = Bytes(100));
    reject(|it| it.volumes[1].differs.bits[0] = 2);
    reject(|it| {
        it.volumes[1] = ExportedVolume { size: Bytes(0), ..it.volumes[1].clone() };
        it.volumes[1].differs = ChunkSet::new(Bytes(0));
    });
}

#[test]
fn a_set_gives_its_chunks_in_runs() {
    let mut set = ChunkSet::new(Bytes(40 * CHUNK_BYTES + 1));
    assert_eq!((set.chunks(), set.count(), set.run_from(0, 8)), (41, 0, None));
    set.add(3..30);
    set.add(40..99);
    set.remove(20..22);
    assert_eq!(set.count(), 26);
    let runs = core::iter::successors(set.run_from(0, 16), |run| set.run_from(run.end, 16));
    assert_eq!(runs.collect::<Vec<_>>(), [3..19, 19..20, 22..30, 40..41]);
    let mut other = ChunkSet::new(Bytes(41 * CHUNK_BYTES));
    other.add(0..1);
    other.add_set(&set);
    assert_eq!(other.count(), 27);
    let extent = Extent { offset: CHUNK_BYTES - 1, length: 2 };
    assert_eq!(ChunkSet::touched(extent), 0..2);
    set.add_all();
    assert_eq!(set.run_from(5, u64::MAX), Some(5..41));
}

#[test]
fn snapshots_are_the_same_where_they_hold_the_same() {
    let of = record().of;
    assert!(of.is_same(&Exported { name: "weekly".to_owned(), at: WallTime(9), ..of.clone() }));
    assert!(!of.is_same(&Exported { identity: "2.9c.32".to_owned(), ..of.clone() }));
    assert!(!of.is_same(&Exported { group: "web".to_owned(), ..of.clone() }));
}
