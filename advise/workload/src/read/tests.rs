// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{Kind, Request, SizeShare, Synthetic, Volume};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use core::convert::Infallible;
use core::time::Duration;
use helio_format::slow_crc32c;
use helio_units::{Bytes, Extent, Items, Moment, VolumeIndex};
use proptest::prelude::*;

fn read(format: Format, text: &str) -> Result<Reading, String> {
    let mut reader = TextReader::new(format).expect("a text");
    for line in text.lines() {
        reader.line(line.as_bytes()).map_err(|error| error.to_string())?;
    }
    reader.finish().map_err(|error| error.to_string())
}

fn refused(format: Format, text: &str) -> String {
    read(format, text).expect_err("it is wrong")
}

/// Moment in microseconds, kind, offset, length, FUA.
fn short(reading: &Reading) -> Vec<(u64, Kind, u64, u64, bool)> {
    let short = |r: &Request| (r.at.0 / 1000, r.kind, r.extent.offset, r.extent.length, r.fua);
    reading.workload.requests().iter().map(short).collect()
}

const BLKPARSE: &str = "\
  8,0    3        1     1.000000000   697  Q  WS 2048 + 8 [kjournald]
  8,0    3        2     1.000000400   697  G  WS 2048 + 8 [kjournald]
  8,16   0        9     1.000020000     0  Q   R 0 + 64 [fio]
  8,0    3        4     1.000010000   697  Q FWFS 4096 + 16 [kjournald]
  8,0    1        5     1.000030000   697  Q  FWS [kjournald]
  8,0    1        6     1.000040000   697  Q   D 8192 + 2048 [fstrim]
  8,0    1        7     1.000050000   697  Q   N 0 + 8 [blkdiscard]
  8,0    1        0     1.000060000     0  m   N cfq workload
CPU0 (sda):
 Reads Queued:           1,       32KiB\t Writes Queued:           3,       12KiB
";

#[test]
fn blkparse_is_read_by_its_queued_requests() {
    let reading = read(Format::Blkparse, BLKPARSE).expect("it is sound");
    let wanted = [
        (0, Kind::Write, 1 << 20, 4096, false),
        (10, Kind::Flush, 0, 0, false),
        (10, Kind::Write, 2 << 20, 8192, true),
        (20, Kind::Read, 0, 32_768, false),
        (30, Kind::Flush, 0, 0, false),
        (40, Kind::Discard, 4 << 20, 1 << 20, false),
        (50, Kind::Zero, 0, 4096, false),
    ];
    assert_eq!(short(&reading), wanted);
    let volumes = reading.workload.volumes();
    let sizes: Vec<_> = volumes.iter().map(|v| (v.name.as_str(), v.size)).collect();
    assert_eq!(sizes, [("8,0", Bytes::mib(5)), ("8,16", Bytes::mib(1))]);
    assert_eq!(reading.remarks.len(), 3, "{:?}", reading.remarks);
}

#[test]
fn fio_version_3_has_times_and_version_2_has_waits() {
    let text = "fio version 3 iolog\n10 /dev/sdb add\n20 /dev/sdb open\n1000 /dev/sdb write 4096 8192\n\
                2500 /dev/sdb sync 4096 0\n3000 /dev/sdb trim 0 512\n4000 /dev/sdb close\n";
    let wanted = [
        (0, Kind::Write, 4096, 8192, false),
        (1500, Kind::Flush, 0, 0, false),
        (2000, Kind::Discard, 0, 512, false),
    ];
    assert_eq!(short(&read(Format::Fio, text).expect("it is sound")), wanted);
    let text = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb write 4096 8192\n/dev/sdb wait 1500 0\n\
                /dev/sdb datasync 0 0\n/dev/sdb wait 500 0\n/dev/sdb trim 0 512\n";
    assert_eq!(short(&read(Format::Fio, text).expect("it is sound")), wanted);
    let without = read(Format::Fio, "fio version 2 iolog\nf read 0 512\nf read 0 512\n");
    assert!(without.expect("it is sound").remarks[0].contains("has no times"));
}

#[test]
fn csv_may_have_its_columns_in_any_order_and_unit() {
    let text =
        "kind, fua ,time_ms,length_sectors,offset_bytes\nwrite,1,0.5,8,4096\nflush,,1.25,,\n";
    let reading = read(Format::Csv, text).expect("it is sound");
    let wanted = [(0, Kind::Write, 4096, 4096, true), (750, Kind::Flush, 0, 0, false)];
    assert_eq!(short(&reading), wanted);
}

/// What is read, where `{csv}` stands for a first line of CSV, and what is told of it.
const WRONG: &[(Format, &str, &str)] = &[
    (
        Format::Csv,
        "{csv}0,a,write,12x,512",
        "line 2, field 4 (offset_bytes): \"12x\" is not a whole",
    ),
    (
        Format::Csv,
        "{csv}0,a,write,0,2147483648",
        "line 2, field 5 (length_bytes): \"2147483648\" is more than 1 GiB",
    ),
    (Format::Csv, "{csv}0,a,write,0", "line 2: \"0,a,write,0\" does not have as many fields"),
    (
        Format::Csv,
        "{csv}0,a,write,9223372036854775807,512",
        "field 4 (offset_bytes): \"9223372036854775807\" is beyond 8 EiB",
    ),
    (
        Format::Csv,
        "{csv}0,a,write,0,512\n90000000,a,read,0,512",
        "line 3, field 1 (time_s): \"90000000\" is more than a year off; check the unit",
    ),
    (
        Format::Csv,
        "{csv}0,a,flush,0,512",
        "field 5 (length_bytes): \"512\" must be zero for a flush",
    ),
    (Format::Csv, "{csv}-1,a,read,0,512", "line 2, field 1 (time_s): \"-1\" is not a whole number"),
    (
        Format::Csv,
        "time,kind,offset_bytes,length_bytes",
        "line 1, field 1 (column): \"time\" has no unit",
    ),
    (
        Format::Csv,
        "time_s,kind,offset_bytes,length_bytes,x",
        "line 1, field 5 (column): \"x\" is not a column",
    ),
    (Format::Csv, "time_s,time_ms,kind", "repeats another"),
    (Format::Csv, "{csv}", "it has no requests"),
    (
        Format::Csv,
        "#volume,a,512\n{csv}0,a,read,512,512",
        "line 3, field 4 (offset_bytes): \"512\" and its length exceed the end of the volume",
    ),
    (
        Format::Csv,
        "#span_s,0.05\n{csv}0.06,a,read,512,512",
        "line 3, field 1 (time_s): \"0.06\" is after the end of the workload",
    ),
    (Format::Csv, "#volume,a\n{csv}0,a,read,512,512", "line 1, field 1 (header): \"volume,a\""),
    (Format::Fio, "fio version 1 iolog", "line 1: \"fio version 1 iolog\" is not the start"),
    (
        Format::Fio,
        "fio version 3 iolog\n1 f write 0",
        "line 2, field 5 (length): is not a whole number",
    ),
    (
        Format::Fio,
        "fio version 3 iolog\nf write 0 512",
        "line 2, field 1 (time): \"f\" is not a whole number",
    ),
    (
        Format::Fio,
        "fio version 2 iolog\nf jump 0 512",
        "line 2, field 2 (action): \"jump\" is not an action",
    ),
    (Format::Blkparse, "8,0 3 1 0.5 697 Q W 12 - 8 [x]", "line 1, field 9 (+): \"-\" is not the +"),
    (
        Format::Blkparse,
        "8,0 3 1 0.5 697 Q W 12 + 0 [x]",
        "line 1, field 10 (sectors): \"0\" must be zero for a flush",
    ),
    (
        Format::Blkparse,
        "8,0 3 1 0,5 697 Q W 12 + 8 [x]",
        "line 1, field 4 (seconds): \"0,5\" is not a whole number",
    ),
    (
        Format::Blkparse,
        "8,0 3 1 0.5 697 Q X 12 + 8 [x]",
        "line 1, field 7 (kind): \"X\" is not a kind",
    ),
    (Format::Blkparse, "8,0 3 1 0.5 697 D W 12 + 8 [x]", "no line has the action Q"),
    (Format::Blkparse, "sda 3 1", "line 1, field 1 (device): \"sda\" is not a device"),
];

#[test]
fn what_is_wrong_is_told_with_line_and_field() {
    let csv = "time_s,volume,kind,offset_bytes,length_bytes\n";
    for (format, text, wanted) in WRONG {
        let text = text.replace("{csv}", csv);
        let told = refused(*format, &text);
        assert!(told.contains(wanted), "{text:?}: {told}");
    }
    let mut reader = TextReader::new(Format::Csv).expect("a text");
    assert!(reader.line(&[b'#'; 5000]).is_err() && reader.line(&[0xff]).is_err());
}

#[test]
fn a_format_is_told_by_how_it_begins() {
    let guess = |text: &str| Format::guess(text.as_bytes());
    assert_eq!(guess(BLKPARSE), Some(Format::Blkparse));
    assert_eq!(guess("fio version 3 iolog\n"), Some(Format::Fio));
    assert_eq!(guess("\ntime_s,kind\n"), Some(Format::Csv));
    assert_eq!(guess("HLTR"), Some(Format::Recorded));
    assert_eq!(guess("hello\n"), None);
}

fn synthetic(seed: u64) -> Reading {
    let sizes = [512, 4096, 65_536].map(|n| SizeShare { size: Bytes(n), weight: 1 });
    let synthetic = Synthetic {
        seed,
        sizes: sizes.to_vec(),
        reads: helio_netmodel::Ppm(300_000),
        flush_every: Items(5),
        fua: helio_netmodel::Ppm(100_000),
        duration: Duration::from_secs(10),
        ..Synthetic::default()
    };
    let workload = synthetic.draw().expect("it is sound");
    Reading { workload, group: Some("db".into()), began: Some(WallTime(5)), remarks: vec![] }
}

fn recorded(reading: &Reading) -> Vec<u8> {
    let mut out = Vec::new();
    let written: Result<(), Infallible> = write_recorded(reading, slow_crc32c, |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    written.expect("memory takes everything");
    out
}

fn read_back(bytes: &[u8]) -> Result<Reading, ReadError<Infallible>> {
    let mut left = bytes;
    let more = |buffer: &mut [u8]| {
        // In pieces, as files of some systems come.
        let n = buffer.len().min(left.len()).min(777);
        buffer[..n].copy_from_slice(&left[..n]);
        left = &left[n..];
        Ok(n)
    };
    read_recorded(more, slow_crc32c)
}

#[test]
fn a_workload_written_as_csv_or_as_a_trace_is_read_again() {
    for seed in 0..4 {
        let reading = synthetic(seed);
        assert_eq!(read_back(&recorded(&reading)), Ok(reading.clone()), "seed {seed}");
        let mut text = String::new();
        let written: Result<(), Infallible> = write_csv(&reading.workload, |line| {
            text.push_str(line);
            text.push('\n');
            Ok(())
        });
        written.expect("memory takes everything");
        let again = read(Format::Csv, &text).expect("it is sound");
        assert_eq!(again.workload, reading.workload, "seed {seed}");
        assert!(again.remarks.is_empty(), "{:?}", again.remarks);
    }
}

#[test]
fn a_trace_takes_about_nine_bytes_a_request() {
    let reading = synthetic(1);
    let bytes = recorded(&reading).len();
    let per_request = bytes as f64 / reading.workload.requests().len() as f64;
    assert!((6.0..10.0).contains(&per_request), "{per_request}");
}

#[test]
fn a_trace_cut_off_anywhere_tells_what_is_whole() {
    let reading = synthetic(2);
    let (whole, all) = (recorded(&reading), reading.workload.requests());
    let mut most = 0;
    for at in (0..whole.len()).step_by(97) {
        match read_back(&whole[..at]) {
            Ok(read) => {
                let requests = read.workload.requests();
                assert_eq!(requests, &all[..requests.len()], "cut at {at}");
                assert_eq!(read.remarks.len(), 1, "cut at {at}: {:?}", read.remarks);
                assert!(requests.len() >= most, "cut at {at}");
                most = requests.len();
            }
            Err(error) => assert!(matches!(error, ReadError::Header(_)), "cut at {at}"),
        }
    }
    assert!(most >= all.len() - 4096, "{most}");
}

#[test]
fn a_damaged_block_is_left_out_and_the_others_are_read() {
    let reading = synthetic(3);
    let (mut bytes, all) = (recorded(&reading), reading.workload.requests().len());
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let read = read_back(&bytes).expect("the header is whole");
    let left = read.workload.requests().len();
    assert!(left < all && left >= all - 4096, "{left} of {all}");
    assert!(read.remarks[0].contains(&format!("{} requests are in damaged", all - left)));
}

fn line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[0-9]{1,20}",
        "[0-9]{1,4}\\.[0-9]{0,12}",
        "[0-9],[0-9]",
        "Q|G|\\+|F?[RWDN]F?S?",
        "read|write|wait|sync|flush|trim",
        "time_s|kind|offset_bytes|length_bytes|#volume",
        ".{0,8}",
    ];
    (proptest::collection::vec(word, 0..12), prop_oneof![Just(" "), Just(",")])
        .prop_map(|(words, between)| words.join(between))
}

proptest! {
    #[test]
    fn no_lines_make_a_reader_panic(
        lines in proptest::collection::vec(line(), 0..20), which in 0..3usize, head in any::<bool>()
    ) {
        let (format, first) = [
            (Format::Blkparse, "8,0 3 1 0.5 697 Q W 12 + 8 [x]"),
            (Format::Fio, "fio version 3 iolog"),
            (Format::Csv, "time_s,kind,offset_bytes,length_bytes"),
        ][which];
        let first = head.then_some(first.to_string());
        let text: Vec<String> = first.into_iter().chain(lines).collect();
        if let Err(told) = read(format, &text.join("\n")) {
            prop_assert!(!told.is_empty());
        }
    }

    #[test]
    fn no_damage_makes_the_reader_of_traces_panic(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 1..6)
    ) {
        let volumes = vec![Volume { name: "data".into(), size: Bytes::mib(1) }];
        let request = Request {
            at: Moment(3), extent: Extent::new(0, 512), volume: VolumeIndex(0), kind: Kind::Write,
            fua: false,
        };
        let workload = Workload::new(volumes, vec![request; 9], Duration::from_nanos(7));
        let workload = workload.expect("it is sound");
        let mut bytes = recorded(&Reading { workload, group: None, began: None, remarks: vec![] });
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        if let Ok(read) = read_back(&bytes) {
            prop_assert!(read.workload.requests().len() <= 9);
        }
    }
}
