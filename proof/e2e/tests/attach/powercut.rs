// SPDX-License-Identifier: Apache-2.0
//! The power of either node is cut: whatever its disk may hold then, the file system recovers, and what a program
//! made durable is there.
//!
//! Of the primary: every file whose fsync had returned. Of the secondary in `sync`: the same. In the other modes of a
//! secondary: the files as they were at some moment, none of a later one. That holds while order is kept, so not during an
//! update; the stories have none.
//!
//! A run looks at about 100 images; the seed moves the cuts. The full count:
//! `HELIO_IMAGES=1000 cargo test -p helio-e2e --test attach powercut`.

use crate::common::{Stage, attachable, edit, on};
use crate::filesystems::has;
use crate::images::{Cut, Images, cuts};
use crate::recorder::{Recorder, shown};
use crate::workload::Workload;
use helio_e2e::wait_level;
use helio_testkit::{Dice, Plan, require, run, times};
use helio_units::{Bytes, Mode};
use std::fs::File;
use std::io::Read;
use std::process::Command;

/// The nodes, as records and positions are kept: the primary, then the secondary.
const NODES: [&str; 2] = ["paris", "lyon"];
/// Images of an ordinary run.
const IMAGES: u64 = 100;
/// From so many on, every mode has its share.
const MANY: u64 = 400;
const STEPS: usize = 120;

struct Kind {
    name: &'static str,
    size: Bytes,
    make: &'static [&'static str],
    check: &'static [&'static str],
}

const EXT4: Kind = Kind {
    name: "ext4",
    size: Bytes::mib(64),
    make: &["mke2fs", "-q", "-t", "ext4"],
    check: &["fsck.ext4", "-fn"],
};

const XFS: Kind = Kind {
    name: "xfs",
    size: Bytes::mib(320),
    make: &["mkfs.xfs", "-q"],
    check: &["xfs_repair", "-n"],
};

#[test]
fn ext4_survives_a_power_cut_of_either_node() {
    attachable!();
    require!("mke2fs", "fsck.ext4");
    survives(&EXT4, Dice::of_test("ext4_survives_a_power_cut_of_either_node"));
}

#[test]
fn xfs_survives_a_power_cut_of_either_node() {
    attachable!();
    require!("mkfs.xfs", "xfs_repair");
    if has("xfs") {
        survives(&XFS, Dice::of_test("xfs_survives_a_power_cut_of_either_node"));
    }
}

/// The stories of one file system, which has half of the images; `sync` has half of these.
fn survives(kind: &Kind, mut dice: Dice) {
    let share = times("HELIO_IMAGES", IMAGES).div_ceil(2);
    let (modes, steps) = if share * 2 < MANY {
        (vec![*dice.pick(&[Mode::Async, Mode::NearSync])], STEPS)
    } else {
        (vec![Mode::Async, Mode::NearSync], STEPS * 3)
    };
    let each = share.div_ceil(2 * modes.len() as u64);
    let stories = modes.into_iter().map(|mode| (mode, each));
    for (mode, share) in [(Mode::Sync, share.div_ceil(2))].into_iter().chain(stories) {
        let recorded = record(kind, mode, steps, &mut dice);
        for node in 0..2 {
            recorded.check(kind, mode, node, share.div_ceil(2), &mut dice);
        }
    }
}

/// What a story left behind.
struct Recorded {
    workload: Workload,
    recorders: [Recorder; 2],
    /// How many events there were before the first step.
    from: [usize; 2],
    /// How many events there were when each step's last fsync had returned.
    ends: Vec<[usize; 2]>,
    /// State of the link and of the secondary's copy when the power was cut.
    states: String,
}

fn record(kind: &Kind, mode: Mode, steps: usize, dice: &mut Dice) -> Recorded {
    let recorders = [0, 1].map(|n| Recorder::new(kind.size, dice.fork(n)));
    // A busy machine must not lose the link: without it the queue may overflow, and an update is of no moment until it ends.
    let plan = Plan::new("db").mode(mode).volume("data", kind.size);
    let plan = plan.group_line("peer-timeout = \"60s\"");
    let mut stage = Stage::with(plan, |pair| {
        for (node, recorder) in NODES.iter().zip(&recorders) {
            edit(pair, &shown(&pair.member(node, "data")), &shown(&recorder.member()));
        }
    });
    let device = stage.attach();
    on(kind.make[0], &kind.make[1..], &device).expect_success();
    let place = stage.mount(&device);
    run(Command::new("sync").arg("-f").arg(&place)).expect_success();
    wait_level(&stage.pair, "paris");
    let now = || [recorders[0].now(), recorders[1].now()];
    let from = now();
    let (mut workload, mut ends) = (Workload::default(), Vec::new());
    while workload.steps() < steps {
        workload.step(&place, dice).expect("room");
        ends.push(now());
        if workload.steps().is_multiple_of(STEPS / 3) {
            on("fstrim", &[], &place).expect_success();
        }
    }
    stage.unmount();
    stage.detach();
    wait_level(&stage.pair, "paris");
    let log = stage.pair.daemon("lyon").log();
    let states = log.lines().filter(|line| line.contains("lyon: ")).collect::<Vec<_>>().join("\n");
    assert_eq!(states.matches("-> syncing").count(), 1, "an update in mid-story: {states}");
    drop(stage);
    let [one, two] = [0, 1].map(|n| bytes(&recorders[n]));
    assert!(one == two, "the members differ");
    Recorded { workload, recorders, from, ends, states }
}

fn bytes(recorder: &Recorder) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(recorder.store())
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .expect("it can be read");
    bytes
}

impl Recorded {
    fn check(&self, kind: &Kind, mode: Mode, node: usize, count: u64, dice: &mut Dice) {
        let record = self.recorders[node].record();
        let mut images = Images::new(kind.size);
        for cut in cuts(&record, self.from[node], count, dice) {
            images.make(&record, cut);
            if let Err(why) = self.look(&images, kind, mode, node, cut) {
                let events = record.events.len();
                panic!(
                    "{} of {} in {mode}, {cut:?} of {events} events: {why}\n{}",
                    kind.name, NODES[node], self.states
                );
            }
        }
    }

    fn look(
        &self,
        images: &Images,
        kind: &Kind,
        mode: Mode,
        node: usize,
        cut: Cut,
    ) -> Result<(), String> {
        let found = images.recover(kind.name, kind.check)?;
        let ended = self.ends.partition_point(|end| end[node] <= cut.at);
        let strictly = self.workload.fits(&found, ended);
        if node == 0 || mode == Mode::Sync {
            return strictly.map_err(|why| format!("{ended} steps had ended: {why}"));
        }
        let any =
            (0..=self.workload.steps()).any(|ended| self.workload.fits(&found, ended).is_ok());
        if any { Ok(()) } else { Err("it is of no moment".to_owned()) }
    }
}
