// SPDX-License-Identifier: Apache-2.0
//! Files of workloads: traces of our own, and texts of other tools.
//!
//! Input: a byte that says what, then the file: a trace as it is (0) or with the checksums of its header and blocks
//! mended (1), what blkparse prints (2), a log of fio (3), CSV (4); others as their beginning says.

use crate::pieces::byte;
use helio_format::trace::{BLOCK_HEAD_BYTES, HEADER_LEAD_BYTES, Header, MAGIC};
use helio_link::checksum;
use helio_units::{Bytes, Extent, Items, Moment, VolumeIndex, WallTime};
use helio_workload::{
    Format, Kind, Reading, Request, Summary, Synthetic, TextReader, Volume, Workload,
    read_recorded, write_csv, write_recorded,
};
use std::convert::Infallible;
use std::time::Duration;

pub(crate) fn run(mut data: &[u8]) {
    match byte(&mut data) {
        0 => recorded(data),
        1 => recorded(&mended(data)),
        2 => text(Format::Blkparse, data),
        3 => text(Format::Fio, data),
        4 => text(Format::Csv, data),
        _ => match Format::guess(data) {
            Some(Format::Recorded) => recorded(data),
            Some(format) => text(format, data),
            None => {}
        },
    }
}

/// A trace whose header and block heads have the checksums that belong to them.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let Some(lead) = bytes.first_chunk_mut::<HEADER_LEAD_BYTES>() else { return bytes };
    lead[..4].copy_from_slice(&MAGIC);
    let Ok(length) = Header::length(lead) else { return bytes };
    seal(&mut bytes, 0, length);
    let mut at = length;
    while let Some(head) = bytes.get(at..at + BLOCK_HEAD_BYTES) {
        let body = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(whole) = bytes.get(at + BLOCK_HEAD_BYTES..at + BLOCK_HEAD_BYTES + body) else {
            break;
        };
        let sum = checksum(whole);
        bytes[at + 32..at + 36].copy_from_slice(&sum.to_le_bytes());
        seal(&mut bytes, at, BLOCK_HEAD_BYTES);
        at += BLOCK_HEAD_BYTES + body;
    }
    bytes
}

/// Writes the checksum of so many bytes into their last four.
fn seal(bytes: &mut [u8], at: usize, length: usize) {
    let Some(sealed) = bytes.get_mut(at..at + length) else { return };
    let (fields, sum) = sealed.split_at_mut(length - 4);
    sum.copy_from_slice(&checksum(fields).to_le_bytes());
}

fn read(data: &[u8]) -> Option<Reading> {
    let mut left = data;
    let more = |buffer: &mut [u8]| {
        let n = buffer.len().min(left.len());
        buffer[..n].copy_from_slice(&left[..n]);
        left = &left[n..];
        Ok::<_, Infallible>(n)
    };
    read_recorded(more, checksum).map_err(|error| assert!(!error.to_string().is_empty())).ok()
}

fn recorded(data: &[u8]) {
    let Some(reading) = read(data) else { return };
    // A request takes two bytes at least.
    assert!(reading.workload.requests().len() <= data.len() / 2, "more than there is room for");
    summed(&reading.workload);
    let mut again = Vec::new();
    let written = write_recorded(&reading, checksum, |bytes| {
        again.extend_from_slice(bytes);
        Ok::<_, Infallible>(())
    });
    assert!(written.is_ok());
    let read = read(&again).map(|reading| reading.workload);
    assert_eq!(read, Some(reading.workload), "what was written is read as something else");
}

fn parsed(format: Format, data: &[u8]) -> Option<Reading> {
    let mut reader = TextReader::new(format)?;
    for line in data.split(|byte| *byte == b'\n') {
        if let Err(error) = reader.line(line) {
            assert!(error.line > 0 && error.to_string().starts_with("line "));
            return None;
        }
    }
    reader.finish().map_err(|error| assert!(!error.to_string().is_empty())).ok()
}

fn text(format: Format, data: &[u8]) {
    let Some(reading) = parsed(format, data) else { return };
    let workload = reading.workload;
    summed(&workload);
    let mut again = String::new();
    let written = write_csv(&workload, |line| {
        again += line;
        again.push('\n');
        Ok::<_, Infallible>(())
    });
    assert!(written.is_ok());
    // A name with a comma is two fields there, and one that begins or ends with a space of any script loses it.
    let keeps = |name: &str| !name.contains(',') && name.trim() == name;
    if workload.volumes().iter().all(|volume| keeps(&volume.name)) {
        let read = parsed(Format::Csv, again.as_bytes()).map(|reading| reading.workload);
        assert_eq!(read, Some(workload), "what was written is read as something else");
    }
}

/// A summary loses nothing, whatever it is of.
fn summed(workload: &Workload) {
    let summary = Summary::of(workload, None);
    let all: u64 = summary.kinds.iter().map(|of| of.tally.requests.0).sum();
    assert_eq!(all, workload.requests().len() as u64);
    let writes = summary.write_sizes.count();
    let in_steps: u64 = summary.steps.iter().map(|step| step.writes.requests.0).sum();
    assert_eq!(in_steps, writes);
    assert_eq!(summary.peaks.last().map(|peak| peak.writes.0.0), Some(writes));
    assert!(summary.overwriting.iter().all(|of| of.distinct <= of.written));
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let synthetic = Synthetic {
        duration: Duration::from_millis(50),
        flush_every: Items(7),
        ..Synthetic::default()
    };
    let volume = |name: &str| Volume { name: name.to_owned(), size: Bytes::mib(1) };
    let request = |at, kind, length| Request {
        at: Moment(at),
        extent: Extent::new(0, length),
        volume: VolumeIndex(1),
        kind,
        fua: kind == Kind::Zero,
    };
    let few = vec![request(5, Kind::Zero, 512), request(9, Kind::Discard, 7)];
    let few = Workload::new(vec![volume("data"), volume("log")], few, Duration::from_secs(1));
    let mut all = Vec::new();
    for (name, workload) in [("trace", synthetic.draw().ok()), ("trace-small", few.ok())] {
        let Some(workload) = workload else { continue };
        let began = Some(WallTime(1_795_205_704_000));
        let reading = Reading { workload, group: Some("db".into()), began, remarks: Vec::new() };
        let mut bytes = vec![1];
        let written = write_recorded(&reading, checksum, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, Infallible>(())
        });
        assert!(written.is_ok());
        all.push((name, bytes));
    }
    let blkparse = "  8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [fio]\n\
                    8,0 3 2 0.000010000 697 Q FWFS 8 + 16 [fio]\n8,0 3 3 0.5 697 Q FWS [fio]\n\
                    8,0 3 4 0.6 697 C WS 223490 + 8 [0]\nCPU0 (sda):\n";
    let second = "fio version 2 iolog\nf add\nf open\nf write 0 4096\nf wait 150 0\nf sync 0 0\n";
    let third = "fio version 3 iolog\n0 f open\n20 f write 4096 512\n90 f trim 0 512\n";
    let csv = "#span_s,2.5\n#volume,data,1048576\ntime_us,volume,kind,offset_sectors,length_bytes,fua\n\
               0.5,data,write,8,4096,1\n1000,data,flush,,,\n";
    for (name, sort, text) in
        [("blkparse", 2, blkparse), ("fio-2", 3, second), ("fio-3", 3, third), ("csv", 4, csv)]
    {
        all.push((name, [&[sort], text.as_bytes()].concat()));
    }
    all
}
