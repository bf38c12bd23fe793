// SPDX-License-Identifier: Apache-2.0
//! What lies on a disk that is looked at for sets of disks: anybody's bytes.
//!
//! Input: two bytes for the disk's size, one for where the rest of the input lies on it.

use crate::pieces::{byte, word};
use helio_disk::sets;

/// Where the signs of sets are, from the beginning and from the end.
const PLACES: [usize; 6] = [0, 512, 4096, 16 << 10, 64 << 10, 256 << 10];

pub(crate) fn run(mut data: &[u8]) {
    let size = word(&mut data) * 64;
    let place = usize::from(byte(&mut data));
    let at = PLACES[place % PLACES.len()];
    let at = if place >= 128 { size.saturating_sub(at) } else { at };
    let mut asked = 0_u64;
    let found = sets(size as u64, &mut |offset, into| {
        let end = offset as usize + into.len();
        assert!(end <= size, "it reads behind the disk's end");
        asked += into.len() as u64;
        into.fill(0);
        for (n, byte) in into.iter_mut().enumerate() {
            let there = (offset as usize + n).checked_sub(at).and_then(|n| data.get(n));
            *byte = there.copied().unwrap_or(0);
        }
        true
    });
    assert!(asked < 40 << 20, "{asked} bytes were read");
    assert!(found.len() <= 4, "one of each kind");
    for set in found {
        assert!(set.to_string().chars().all(|c| !c.is_control()), "{set:?}");
    }
}

fn seed(size: usize, place: u8, bytes: &[u8]) -> Vec<u8> {
    let mut seed = ((size / 64) as u16).to_le_bytes().to_vec();
    seed.push(place);
    seed.extend(bytes);
    seed
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    const SIZE: usize = 1 << 20;
    let mut btrfs = vec![0; 600];
    btrfs[64..72].copy_from_slice(b"_BHRfS_M");
    btrfs[136] = 2;
    let mut md = 0xa92b_4efc_u32.to_le_bytes().to_vec();
    md.extend(1_u32.to_le_bytes());
    md.resize(256, 3);
    let mut lvm = vec![0; 512];
    lvm[..8].copy_from_slice(b"LABELONE");
    lvm[20] = 32;
    lvm[24..32].copy_from_slice(b"LVM2 001");
    lvm[32 + 40 + 16..32 + 40 + 24].copy_from_slice(&1024_u64.to_le_bytes());
    // The area lies at 1024, which is 512 behind the label's own sector.
    lvm.resize(2048, 0);
    lvm[516..532].copy_from_slice(b" LVM2 x[5A%r0N*>");
    lvm[544..552].copy_from_slice(&4096_u64.to_le_bytes());
    lvm[552..560].copy_from_slice(&512_u64.to_le_bytes());
    let text = b"vg {\nid = \"a\"\nphysical_volumes {\npv0 {\nid = \"b\"\n}\n}\n}\n";
    lvm[560..568].copy_from_slice(&(text.len() as u64).to_le_bytes());
    lvm[1024..1024 + text.len()].copy_from_slice(text);
    let mut zfs = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for word in [36_u32, 36, 9] {
        zfs.extend(word.to_be_bytes());
    }
    zfs.extend(b"pool_guid\0\0\0");
    zfs.extend([0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9]);
    let found = [("btrfs", 4, btrfs), ("md", 2, md), ("lvm", 1, lvm), ("zfs", 3, zfs)];
    found.map(|(name, place, bytes)| (name, seed(SIZE, place, &bytes))).to_vec()
}
