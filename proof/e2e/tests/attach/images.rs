// SPDX-License-Identifier: Apache-2.0
//! What a disk may hold after its power was cut, made from the record of what reached it.
//!
//! Everything a flush covered is there. Of what came later, up to the cut, each sector of 512 bytes is there or not:
//! all of it, none of it, or as the dice say. Only the superblock of ext4 is never torn: it has two sectors and one checksum,
//! and ext4 does not mount without it on any disk.

use crate::recorder::{Event, Record, zero};
use crate::workload::{Found, look};
use helio_e2e::PATIENCE;
use helio_testkit::{Dice, TempDir, eventually, run};
use helio_units::{Bytes, Extent};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

const SECTOR: usize = 512;
/// The second sector of ext4's superblock.
const SUPERBLOCK_END: u64 = 3;

/// What is left of what no flush covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// All that came before the cut.
    All,
    /// Nothing.
    None,
    /// What the dice of this number say.
    Some(u64),
}

/// A moment, as a number of events, and what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) at: usize,
    pub(crate) left: Left,
}

/// Cuts of a record behind `from`, in their order: half of them at flushes, the other half torn.
pub(crate) fn cuts(record: &Record, from: usize, count: u64, dice: &mut Dice) -> Vec<Cut> {
    let all = from..record.events.len();
    let flushes: Vec<usize> =
        all.clone().filter(|at| matches!(record.events[*at], Event::Flush { .. })).collect();
    assert!(!flushes.is_empty(), "no flush reached the member");
    // A step that spreads them over the whole record, from another place with every seed.
    let half = count.div_ceil(2);
    let mut found = Vec::new();
    let offset = dice.below(flushes.len() as u64);
    for n in 0..half {
        let which = (offset + n * flushes.len() as u64 / half) % flushes.len() as u64;
        // Before the flush and behind it.
        let at = flushes[which as usize] + dice.below(2) as usize;
        found.push(Cut { at, left: Left::All });
    }
    for _ in half..count {
        // Before a flush there is most to lose.
        let at = if dice.chance(50) {
            *dice.pick(&flushes)
        } else {
            from + dice.below(all.len() as u64) as usize
        };
        let left = if dice.chance(20) { Left::None } else { Left::Some(dice.roll()) };
        found.push(Cut { at, left });
    }
    found.sort_by_key(|cut| cut.at);
    found
}

/// The images of one record, each made from the last one's durable part. In memory.
pub(crate) struct Images {
    folder: TempDir,
    base: File,
    /// Events in `base`.
    applied: usize,
}

impl Images {
    pub(crate) fn new(size: Bytes) -> Self {
        let folder = TempDir::new();
        fs::create_dir(folder.join("ram"))
            .and_then(|()| fs::create_dir(folder.join("mnt")))
            .expect("a folder of our own");
        mount("none", folder.join("ram"), "tmpfs", MountFlags::empty(), None).expect("root may");
        let base = folder.join("ram/base");
        let base = File::options().create_new(true).write(true).open(base).expect("room");
        base.set_len(size.0).expect("room");
        Self { folder, base, applied: 0 }
    }

    /// Makes the image of a cut, which must not lie before the last one's.
    pub(crate) fn make(&mut self, record: &Record, cut: Cut) -> PathBuf {
        let events = &record.events[..cut.at];
        let covered = events.iter().filter_map(|event| match event {
            Event::Flush { covers } => Some(*covers),
            _ => None,
        });
        let durable = covered.max().unwrap_or(0);
        for event in &events[self.applied.min(durable)..durable] {
            apply(&self.base, event, |_| true).expect("room");
        }
        self.applied = self.applied.max(durable);
        let image = self.folder.join("ram/image");
        let mut copy = Command::new("cp");
        run(copy.arg("--sparse=auto").arg(self.folder.join("ram/base")).arg(&image))
            .expect_success();
        let file = File::options().write(true).open(&image).expect("just made");
        let mut dice = match cut.left {
            Left::All => None,
            Left::None => return image,
            Left::Some(seed) => Some(Dice::new(seed)),
        };
        for event in &events[durable..] {
            match &mut dice {
                None => apply(&file, event, |_| true),
                Some(dice) => {
                    // Whole writes are kept or lost more often than torn.
                    let odds = *dice.pick(&[0, 0, 100, 100, 50]);
                    apply(&file, event, |_| dice.chance(odds))
                }
            }
            .expect("room");
        }
        image
    }

    /// Mounts the image, which recovers it, looks what is there, and has it checked.
    pub(crate) fn recover(&self, kind: &str, check: &[&str]) -> Result<Found, String> {
        let (image, place) = (self.folder.join("ram/image"), self.folder.join("mnt"));
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o"]);
        // The same file system may be mounted from another image.
        mount.arg(if kind == "xfs" { "loop,nouuid" } else { "loop" });
        let told = run(mount.arg(&image).arg(&place));
        if !told.status.success() {
            return Err(format!("it cannot be mounted: {told}"));
        }
        let found = look(&place).map_err(|why| format!("it cannot be read: {why}"));
        // Another test that starts a program at that moment holds what we had open until its program runs.
        eventually(PATIENCE, "the image to be unused", || {
            unmount(&place, UnmountFlags::empty()).ok()
        });
        let told = run(Command::new(check[0]).args(&check[1..]).arg(&image));
        if !told.status.success() {
            return Err(format!("{}: {told}", check[0]));
        }
        found
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for place in ["mnt", "ram"] {
            let _not_mounted = unmount(self.folder.join(place), UnmountFlags::DETACH);
        }
    }
}

/// Applies an event to an image, of a write those sectors that are wanted.
fn apply(file: &File, event: &Event, mut wanted: impl FnMut(usize) -> bool) -> io::Result<()> {
    match event {
        Event::Flush { .. } => Ok(()),
        Event::Zero(extent) => {
            // Where one asks for a part, the part in front.
            let sectors = extent.length as usize / SECTOR;
            let length = (0..sectors).take_while(|sector| wanted(*sector)).count() * SECTOR;
            if length == 0 {
                return Ok(());
            }
            zero(file, Extent::new(extent.offset, length as u64))
        }
        Event::Write { offset, bytes } => {
            let mut kept: Vec<bool> = (0..bytes.len().div_ceil(SECTOR)).map(wanted).collect();
            let whole = SUPERBLOCK_END.checked_sub(offset / SECTOR as u64).map(|at| at as usize);
            if let Some(at) = whole.filter(|at| (1..kept.len()).contains(at)) {
                kept[at] = kept[at - 1];
            }
            let mut at = 0;
            for run in kept.chunk_by(|one, next| one == next) {
                let from = at * SECTOR;
                at += run.len();
                if run[0] {
                    file.write_all_at(&bytes[from..at * SECTOR], offset + from as u64)?;
                }
            }
            Ok(())
        }
    }
}

#[test]
fn the_superblock_of_ext4_is_written_whole_and_all_else_is_torn() {
    let made = |offset: u64, sectors: usize| {
        let folder = TempDir::new();
        let path = folder.file("image", Bytes::kib(8));
        let file = File::options().read(true).write(true).open(path).expect("just made");
        let bytes = vec![1; sectors * SECTOR].into();
        let event = Event::Write { offset: offset * SECTOR as u64, bytes };
        apply(&file, &event, |sector| sector.is_multiple_of(2)).expect("room");
        let mut image = [0; 16 * SECTOR];
        file.read_exact_at(&mut image, 0).expect("it is there");
        (0..16).filter(|sector| image[sector * SECTOR] == 1).collect::<Vec<_>>()
    };
    assert_eq!(made(0, 8), [0, 2, 3, 4, 6]);
    assert_eq!(made(2, 2), [2, 3]);
    // Sector 2 is lost, and so is 3.
    assert_eq!(made(1, 4), [1]);
    assert_eq!(made(8, 4), [8, 10]);
}
