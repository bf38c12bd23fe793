// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::slow_crc32c;
use alloc::vec;
use proptest::prelude::*;

fn header() -> Header {
    let volume = |name: &str, size| Volume { name: name.into(), size };
    let volumes = vec![volume("data", Bytes::mib(64)), volume("log", Bytes(1000))];
    Header { began: WallTime(1_795_205_704_000), group: "db".into(), volumes }
}

fn request(at: u64, kind: Kind, offset: u64, length: u64) -> Request {
    let extent = Extent::new(offset, length);
    Request { at: Moment(at), extent, volume: VolumeIndex(0), kind, fua: false }
}

fn requests() -> Vec<Request> {
    vec![
        request(1_000, Kind::Write, 4096, 4096),
        Request { fua: true, ..request(1_500, Kind::Write, 8192, 4096) },
        Request { volume: VolumeIndex(1), ..request(2_000, Kind::Read, 3, 7) },
        request(2_000, Kind::Flush, 0, 0),
        request(70_000, Kind::Zero, 0, 1 << 20),
        request(70_001, Kind::Discard, 512, 512),
    ]
}

fn block(requests: &[Request]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_block(requests, Items(3), slow_crc32c, &mut out);
    out
}

fn read_block(bytes: &[u8]) -> Result<(BlockHead, Vec<Request>), TraceError> {
    let (head, body) = bytes.split_first_chunk().ok_or(TraceError::Damaged)?;
    let head = BlockHead::decode(head, slow_crc32c)?;
    let mut out = Vec::new();
    head.decode_body(body, slow_crc32c, &mut out)?;
    Ok((head, out))
}

/// Bytes as they were written when the format was made: whoever changes them moves the version.
#[test]
fn the_bytes_are_those_of_version_1() {
    let golden = "484c5452010002003800000000000000402999faa101000002646200000004000000000464617461\
                  e803000000000000036c6f67";
    let bytes = header().encode(slow_crc32c);
    assert_eq!(hex(&bytes[..bytes.len() - 4]), golden);
    let body = "21001008\
                69f40300\
                10f40301f9bf0107\
                140000\
                22a09304008010\
                2301fd1f01";
    let told = block(&requests());
    assert_eq!(hex(&told[BLOCK_HEAD_BYTES..]), body);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect()
}

#[test]
fn what_is_written_is_read_again() {
    let bytes = header().encode(slow_crc32c);
    assert_eq!(Header::decode(&bytes, slow_crc32c), Ok(header()));
    let (head, read) = read_block(&block(&requests())).expect("it is whole");
    assert_eq!(read, requests());
    assert_eq!((head.at, head.dropped, head.end), (Moment(1_000), Items(3), false));
    let mut end = Vec::new();
    encode_end(Moment(9), Items(1), slow_crc32c, &mut end);
    let (head, read) = read_block(&end).expect("it is whole");
    assert_eq!((head.at, head.dropped, head.end), (Moment(9), Items(1), true));
    assert!(read.is_empty());
}

#[test]
fn a_flipped_bit_or_a_missing_end_is_found_everywhere() {
    let (whole, read) = (block(&requests()), |bytes: &[u8]| read_block(bytes).is_ok());
    let header = header().encode(slow_crc32c);
    for (bytes, whole) in [(&header, false), (&whole, true)] {
        let sound = |bytes: &[u8]| match whole {
            true => read(bytes),
            false => Header::decode(bytes, slow_crc32c).is_ok(),
        };
        assert!(sound(bytes));
        for at in 0..bytes.len() {
            assert!(!sound(&bytes[..at]), "cut at {at}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(!sound(&flipped), "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn what_is_no_trace_or_anothers_is_told_apart() {
    let bytes = header().encode(slow_crc32c);
    let lead = |at: usize, byte| {
        let mut lead: [u8; HEADER_LEAD_BYTES] = *bytes.first_chunk().expect("it is longer");
        lead[at] = byte;
        Header::length(&lead)
    };
    assert_eq!(lead(0, b'H'), Ok(bytes.len()));
    assert_eq!(lead(0, b'X'), Err(TraceError::Foreign));
    assert_eq!(lead(4, 2), Err(TraceError::Version { found: 2 }));
    assert_eq!(lead(11, 0xff), Err(TraceError::Damaged));
}

/// The body of a block, with its checksums made right again.
fn forged(body: &[u8], requests: usize, at: u64) -> Vec<u8> {
    let (sum, at) = (slow_crc32c(body), Moment(at));
    let head = BlockHead { body: body.len(), requests, end: false, at, dropped: Items(0), sum };
    [&head.encode(slow_crc32c)[..], body].concat()
}

#[test]
fn a_longer_way_to_say_the_same_is_refused() {
    let sound = |body: &[u8]| read_block(&forged(body, 1, 0)).is_ok();
    assert!(sound(&[0x21, 0, 16, 8]), "a write of 8 sectors at sector 8");
    assert!(!sound(&[0x21, 0x80, 0, 16, 8]), "a varint that ends in zero");
    assert!(!sound(&[0x31, 0, 0, 16, 8]), "a volume that is that of before");
    assert!(!sound(&[0x01, 0, 0x80, 0x20, 0x80, 0x20]), "bytes where sectors would do");
    assert!(!sound(&[0x21, 0, 16, 0]), "a length that is that of before");
    assert!(!sound(&[0x28, 0, 16, 8]), "a read with FUA");
    assert!(!sound(&[0x44, 0]), "a flush with a length");
    assert!(!sound(&[0x05, 0, 16, 8]), "a kind that is none");
    assert!(!sound(&[0xa1, 0, 16, 8]), "a bit that means nothing");
    assert!(!sound(&[0x21, 1, 16, 8]), "a first request that is not at the block's moment");
    assert!(!sound(&[0x21, 0, 16, 8, 0]), "more than it says");
}

fn any_request() -> impl Strategy<Value = Request> {
    let place = prop_oneof![0..1u64 << 20, any::<u64>()];
    let length = prop_oneof![0..1u64 << 20, any::<u64>()];
    let sectors = any::<bool>();
    (0..5usize, 0..1u64 << 40, place, length, sectors, any::<u16>(), any::<bool>()).prop_map(
        |(kind, gap, offset, length, sectors, volume, fua)| {
            let kind = Kind::ALL[kind];
            let unit = if sectors { SECTOR } else { 1 };
            let extent = Extent::new(offset / unit * unit, (length / unit * unit).max(unit));
            let extent = if kind == Kind::Flush { Extent::default() } else { extent };
            let (volume, fua) = (VolumeIndex(volume % 3), fua && kind.changes());
            Request { at: Moment(gap), extent, volume, kind, fua }
        },
    )
}

proptest! {
    #[test]
    fn any_requests_come_back_as_they_were(
        mut requests in proptest::collection::vec(any_request(), 1..40)
    ) {
        let mut at = 0;
        for request in &mut requests {
            at += request.at.0;
            request.at = Moment(at);
        }
        let bytes = block(&requests);
        prop_assert!(bytes.len() <= BLOCK_HEAD_BYTES + requests.len() * REQUEST_BYTES_MAX);
        let (_, read) = read_block(&bytes).expect("it is whole");
        prop_assert_eq!(read, requests);
    }

    #[test]
    fn bytes_that_are_read_are_those_that_would_be_written(
        body in proptest::collection::vec(any::<u8>(), 2..40), count in 1..6usize, at in any::<u64>()
    ) {
        if let Ok((head, read)) = read_block(&forged(&body, count, at)) {
            let mut again = Vec::new();
            encode_block(&read, head.dropped, slow_crc32c, &mut again);
            prop_assert_eq!(&again[BLOCK_HEAD_BYTES..], &body[..]);
        }
    }
}
