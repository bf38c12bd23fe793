// SPDX-License-Identifier: Apache-2.0
//! The stage of the clients' stories, and how they are judged.

use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Far longer than anything here should take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const CHUNK: usize = 1 << 20;

/// Both daemons up, `paris` primary, the copies equal.
pub(crate) fn serving(plan: Plan) -> Pair {
    let mut pair = plan.prepare();
    start_serving(&mut pair);
    pair
}

/// As `serving`, for a pair whose configuration a test has changed.
pub(crate) fn start_serving(pair: &mut Pair) {
    pair.start("lyon");
    pair.start("paris");
    // Paris may ask for lyon's consent only once they have met.
    eventually(PATIENCE, "paris as primary", || {
        pair.helio("paris", &["promote", pair.group()]).status.success().then_some(())
    });
    drained(pair);
}

/// One volume `data` of the group `db`.
pub(crate) fn one_volume(mode: Mode, size: Bytes) -> Pair {
    serving(Plan::new("db").mode(mode).volume("data", size))
}

/// Waits until the secondary has done everything the primary has.
pub(crate) fn drained(pair: &Pair) {
    eventually(PATIENCE, "a drained queue", || {
        let status = pair.status("paris");
        let group = &status["groups"][0];
        let cursors = &group["cursors"];
        let level = group["state"] == "replicating"
            && cursors["peer_completed"] == cursors["accepted"]
            && cursors["completed"] == cursors["accepted"];
        level.then_some(())
    });
}

/// Waits until the queue has drained, and holds the members of these volumes against each other.
#[track_caller]
pub(crate) fn assert_mirrored(pair: &Pair, volumes: &[&str]) {
    drained(pair);
    for volume in volumes {
        assert_same(&pair.member("paris", volume), &pair.member("lyon", volume));
    }
}

/// Fails at the first difference of two files.
#[track_caller]
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let open = |path: &Path| File::open(path).expect("the file is there");
    let (mut left, mut right) = (open(one), open(other));
    let length = |file: &File| file.metadata().expect("a file has metadata").len();
    assert_eq!(
        length(&left),
        length(&right),
        "lengths of {} and {}",
        one.display(),
        other.display()
    );
    let (mut here, mut there) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    loop {
        let count = left.read(&mut here).expect("it can be read");
        if count == 0 {
            return;
        }
        right.read_exact(&mut there[..count]).expect("it is as long");
        if here[..count] != there[..count] {
            let first = (0..count).find(|n| here[*n] != there[*n]).unwrap_or_default();
            let place = at + first;
            panic!("{} and {} differ at byte {place}", one.display(), other.display());
        }
        at += count;
    }
}

/// Makes a file of that size with data here and there and holes between, as images are.
pub(crate) fn sown(path: &Path, size: Bytes, dice: &mut Dice) {
    const EXTENTS: u64 = 60;
    let file = File::create_new(path).expect("the scratch folder takes files");
    file.set_len(size.0).expect("the file takes its size");
    let mut data = vec![0; 2 << 20];
    dice.fill(&mut data);
    for extent in 0..EXTENTS {
        let length = 1 + dice.below(data.len() as u64 - 1);
        let offset = match extent {
            0 => 0,
            1 => size.0 - length,
            _ => dice.below(size.0 - length),
        };
        // Another beginning each time, so that no two extents are the same.
        let from = dice.below(data.len() as u64 - length);
        let (from, to) = (from as usize, (from + length) as usize);
        file.write_all_at(&data[from..to], offset).expect("there is room");
    }
}

/// A command with its arguments.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}
