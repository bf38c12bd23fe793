// SPDX-License-Identifier: Apache-2.0
//! Disks of sets: bytes as the formats have them, images that the real programs made, and damage.

use super::*;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn of(image: &[u8]) -> Vec<DiskSet> {
    sets(image.len() as u64, &mut |offset, into| {
        into.copy_from_slice(&image[offset as usize..][..into.len()]);
        true
    })
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

const MIB: usize = 1 << 20;

fn lvm() -> Vec<u8> {
    let mut image = vec![0; MIB];
    put(&mut image, 512, b"LABELONE");
    put(&mut image, 512 + 20, &32_u32.to_le_bytes());
    put(&mut image, 512 + 24, b"LVM2 001");
    let areas = [(MIB as u64, 0), (0, 0), (4096, MIB as u64 - 4096), (0, 0)];
    for (n, (offset, size)) in areas.into_iter().enumerate() {
        put(&mut image, 512 + 32 + 40 + 16 * n, &u64::to_le_bytes(offset));
        put(&mut image, 512 + 32 + 48 + 16 * n, &u64::to_le_bytes(size));
    }
    let text = b"vg0 {\nid = \"aaaaaa-1111\"\nseqno = 1\nphysical_volumes {\npv0 {\nid = \"bbbb\"\n}\npv1 {\n\
        id = \"cccc\"\n}\n}\nlogical_volumes {\nlv {\nid = \"dddd\"\n}\n}\n}\n";
    put(&mut image, 4096 + 4, b" LVM2 x[5A%r0N*>");
    put(&mut image, 4096 + 32, &(MIB as u64 - 4096).to_le_bytes());
    put(&mut image, 4096 + 40, &(512_u64).to_le_bytes());
    put(&mut image, 4096 + 48, &(text.len() as u64).to_le_bytes());
    put(&mut image, 4096 + 512, text);
    image
}

fn md(at: usize) -> Vec<u8> {
    let mut image = vec![0; MIB];
    put(&mut image, at, &0xa92b_4efc_u32.to_le_bytes());
    put(&mut image, at + 4, &1_u32.to_le_bytes());
    put(&mut image, at + 16, &[0x5a; 16]);
    put(&mut image, at + 32, b"host:0");
    put(&mut image, at + 92, &2_u32.to_le_bytes());
    image
}

fn pair(name: &str, kind: u32, count: u32, value: &[u8]) -> Vec<u8> {
    let mut name_bytes = name.as_bytes().to_vec();
    name_bytes.resize(name.len().next_multiple_of(4), 0);
    let mut body = (name.len() as u32).to_be_bytes().to_vec();
    body.extend(name_bytes);
    body.extend(kind.to_be_bytes().into_iter().chain(count.to_be_bytes()));
    body.extend(value);
    let size = (body.len() as u32 + 8).to_be_bytes();
    size.into_iter().chain(size).chain(body).collect()
}

fn zfs(at: usize) -> Vec<u8> {
    let text = |text: &str| {
        let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(4 + text.len().next_multiple_of(4), 0);
        bytes
    };
    let mut tree = [0; 8].to_vec();
    tree.extend(pair("type", 9, 1, &text("mirror")));
    tree.extend(pair("children", 20, 2, &[0; 24]));
    tree.extend([0; 8]);
    let mut list = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    list.extend(pair("name", 9, 1, &text("tank")));
    list.extend(pair("pool_guid", 8, 1, &4711_u64.to_be_bytes()));
    list.extend(pair("vdev_children", 8, 1, &1_u64.to_be_bytes()));
    list.extend(pair("vdev_tree", 19, 1, &tree));
    let mut image = vec![0; MIB];
    put(&mut image, at + (16 << 10), &list);
    image
}

fn one(kind: SetKind, id: &str, name: Option<&str>, disks: u64) -> Vec<DiskSet> {
    vec![DiskSet { kind, id: id.to_owned(), name: name.map(str::to_owned), disks }]
}

#[test]
fn each_kind_is_known_by_its_bytes() {
    assert_eq!(of(&lvm()), one(SetKind::Lvm, "aaaaaa-1111", Some("vg0"), 2));
    let id = "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a";
    for at in [0, 4096, MIB - 8192] {
        assert_eq!(of(&md(at)), one(SetKind::Md, id, Some("host:0"), 2), "at {at}");
    }
    let mut old = vec![0; MIB];
    for (word, value) in
        [(0, 0xa92b_4efc), (1, 0), (2, 90), (5, 1), (10, 3), (13, 2), (14, 3), (15, 4)]
    {
        put(&mut old, MIB - (64 << 10) + 4 * word, &u32::to_le_bytes(value));
    }
    assert_eq!(of(&old), one(SetKind::Md, "01000000-0200-0000-0300-000004000000", None, 3));
    for at in [0, 3 * (256 << 10)] {
        assert_eq!(of(&zfs(at)), one(SetKind::Zfs, "4711", Some("tank"), 2), "at {at}");
    }
    assert_eq!(of(&vec![0; MIB]), []);
    assert_eq!(of(&[]), []);
}

#[test]
fn a_text_that_runs_over_its_rings_end_is_read_on_at_its_beginning() {
    let mut image = lvm();
    let (size, cut) = (64 << 10, 40);
    let text = image[4096 + 512..4096 + 2048].to_vec();
    let length = text.iter().position(|byte| *byte == 0).expect("zeros behind it");
    put(&mut image, 4096 + 512, &[0; 1536]);
    put(&mut image, 4096 + 32, &(size as u64).to_le_bytes());
    put(&mut image, 4096 + 40, &(size as u64 - cut as u64).to_le_bytes());
    put(&mut image, 4096 + size - cut, &text[..cut]);
    put(&mut image, 4096 + 512, &text[cut..length]);
    assert_eq!(of(&image), one(SetKind::Lvm, "aaaaaa-1111", Some("vg0"), 2));
}

#[test]
fn damaged_and_cut_images_are_no_more_than_no_set() {
    let mut dice = 7_u64;
    let mut roll = |below: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % below
    };
    let images = [lvm(), md(4096), md(MIB - 8192), zfs(0)];
    for round in 0..400 {
        let mut image = images[round % images.len()].clone();
        for _ in 0..8 {
            // Where the structures are.
            let at = [512, 4096, 4096 + 512, 16 << 10][roll(4)] + roll(300);
            image[at] = roll(256) as u8;
        }
        let _whatever_it_says = of(&image);
        image.truncate(roll(MIB));
        let _whatever_it_says = of(&image);
    }
}

#[test]
fn what_real_programs_make_is_known() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    fs::File::create(&image).and_then(|file| file.set_len(128 << 20)).expect("room");
    let mut mkfs = Command::new("mkfs.btrfs");
    let id = "12345678-9abc-4def-8123-456789abcdef";
    mkfs.args(["-q", "-L", "here", "-U", id]).arg(&image).stdout(Stdio::null());
    match mkfs.status() {
        Ok(status) if status.success() => {
            let found = of(&fs::read(&image).expect("an image"));
            assert_eq!(found, one(SetKind::Btrfs, id, Some("here"), 1));
        }
        // Written past the capture of libtest, for `cargo xtask test`.
        _ => {
            let _ = writeln!(std::io::stdout().lock(), "skipped: needs mkfs.btrfs");
        }
    }
}
