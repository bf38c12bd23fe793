// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::disks::Disk;
use crate::members::DiskMark;
use crate::message::tests::any_message;
use crate::message::{Item, ItemKind};
use crate::slow_crc32c;
use helio_units::{Extent, Payload, PayloadId, Sequence, VolumeIndex};
use proptest::prelude::*;

fn framed(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, 0, slow_crc32c, &mut out);
    out
}

fn read(bytes: &[u8]) -> Result<Message, FrameError> {
    let (head, body) = bytes.split_at(HEADER_BYTES);
    let header = decode_header(head.try_into().expect("32 bytes"), slow_crc32c)?;
    decode_body(&header, body, slow_crc32c)
}

proptest! {
    #[test]
    fn a_framed_message_comes_back(message in any_message()) {
        prop_assert_eq!(read(&framed(&message)), Ok(message));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed(message in any_message(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = framed(&message);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(read(&bytes).is_err(), "bit {bit} of byte {at} was flipped unseen");
    }
}

#[test]
fn another_version_is_named_and_not_called_corruption() {
    let mut bytes = framed(&Message::Pong {
        token: 1,
        flushing: false,
        waits: false,
        short: false,
        metadata: 0,
    });
    bytes[4] = 9;
    let crc = slow_crc32c(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&crc);
    assert_eq!(read(&bytes), Err(FrameError::Version { theirs: 9 }));
}

#[test]
fn a_checksum_of_no_payload_is_a_stray_one() {
    let mut bytes = framed(&Message::Pong {
        token: 1,
        flushing: false,
        waits: false,
        short: false,
        metadata: 0,
    });
    bytes[20] = 1;
    let crc = slow_crc32c(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&crc);
    assert_eq!(read(&bytes), Err(FrameError::Length));
}

/// Any change of these bytes is a change of the protocol: count [`VERSION`] up and write the new ones here.
#[test]
fn the_golden_frames_of_version_eight() {
    assert_eq!(VERSION, 8);
    let item = Item {
        sequence: Sequence(0x0102),
        after: Sequence(0x0101),
        kind: ItemKind::Write,
        fua: true,
        punch: false,
        resync: false,
        volume: VolumeIndex(3),
        extent: Extent::new(0x1000, 0x200),
        payload: Some(Payload { id: PayloadId(7), length: 0x200 }),
    };
    let mut out = Vec::new();
    encode(&Message::Item(item), 0xAABB_CCDD, slow_crc32c, &mut out);
    let hex: alloc::string::String = out.iter().map(|b| alloc::format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "484c47310800030024000000000200009cdc116bddccbbaa000000000b1cbeaa\
         020100000000000001010000000000000101030000100000000000000002000000000000"
    );
    let pong = Message::Pong { token: 5, flushing: false, waits: true, short: false, metadata: 9 };
    let hex: alloc::string::String =
        framed(&pong).iter().map(|b| alloc::format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "484c47310800060013000000000000009cffcc2300000000000000000a790c65\
         05000000000000000001000900000000000000"
    );
    let mark = DiskMark::of(0x0001_0203_0405_0607);
    let disk = Disk { volume: VolumeIndex(3), mark, whole: true };
    let hex: alloc::string::String =
        framed(&Message::Disks([disk].into())).iter().map(|b| alloc::format!("{b:02x}")).collect();
    let disks =
        "484c4731080022000a000000000000008f2e242f00000000000000009627be2c01008307060504030201";
    assert_eq!(hex, disks);
}
