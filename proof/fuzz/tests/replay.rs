// SPDX-License-Identifier: Apache-2.0
//! Everything that is kept, once more; then seconds of damage to it. `HELIO_SEED` picks the damage.

use helio_fuzz::{Sort, TARGETS, kept, mutate, target};
use helio_testkit::Dice;
use std::time::{Duration, Instant};

/// How long each target is fed.
const FED_FOR: Duration = Duration::from_millis(1500);
/// What all that is kept may come to.
const FILES_MOST: usize = 300;
const BYTES_MOST: usize = 1 << 20;

/// Says how to see it again where the target it is about panics.
struct Replay(String);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: {}", self.0);
        }
    }
}

fn feed(name: &str) {
    let target = target(name);
    let mut inputs: Vec<Vec<u8>> = (target.seeds)().into_iter().map(|(_, bytes)| bytes).collect();
    for seed in &inputs {
        (target.run)(seed);
    }
    let all = [Sort::Regress, Sort::Corpus].map(|sort| kept(sort, name));
    for kept in all.into_iter().flatten() {
        let _told = Replay(format!("cargo test -p helio-fuzz {name}, at {}", kept.path.display()));
        (target.run)(&kept.bytes);
        inputs.push(kept.bytes);
    }
    // Each damage has a seed of its own, one behind the other from this one.
    let mut seed = helio_testkit::first_seed();
    let until = Instant::now() + FED_FOR;
    // The first is tried whatever the time is, since it may be the one to be replayed.
    loop {
        let _told = Replay(format!("HELIO_SEED={seed} cargo test -p helio-fuzz {name}"));
        (target.run)(&mutate(&inputs, &mut Dice::new(seed)));
        seed = seed.wrapping_add(1);
        if Instant::now() >= until {
            break;
        }
    }
}

#[test]
fn nbd_keeps_its_promises() {
    feed("nbd");
}

#[test]
fn link_keeps_its_promises() {
    feed("link");
}

#[test]
fn formats_keep_their_promises() {
    feed("formats");
}

#[test]
fn config_keeps_its_promises() {
    feed("config");
}

#[test]
fn control_keeps_its_promises() {
    feed("control");
}

#[test]
fn before_keeps_its_promises() {
    feed("before");
}

#[test]
fn fuse_keeps_its_promises() {
    feed("fuse");
}

#[test]
fn sets_keep_their_promises() {
    feed("sets");
}

#[test]
fn tls_keeps_its_promises() {
    feed("tls");
}

#[test]
fn traces_keep_their_promises() {
    feed("traces");
}

#[test]
fn lab_keeps_its_promises() {
    feed("lab");
}

#[test]
fn the_whole_program_keeps_its_promises_to_clients() {
    feed("whole-nbd");
}

#[test]
fn the_whole_program_keeps_its_promises_to_a_peer() {
    feed("whole-peer");
}

#[test]
fn the_whole_program_keeps_its_promises_to_operators() {
    feed("whole-control");
}

#[test]
fn the_whole_program_keeps_its_promises_to_the_kernel() {
    feed("whole-attach");
}

#[test]
fn every_target_can_be_fuzzed_with_coverage() {
    for target in TARGETS {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/targets/");
        let text = std::fs::read_to_string(format!("{file}{}.rs", target.name)).expect("its file");
        assert!(text.contains(&format!("target(\"{}\")", target.name)));
    }
}

#[test]
fn what_is_kept_is_small_and_of_targets_there_are() {
    let (mut files, mut bytes) = (0, 0);
    for sort in [Sort::Corpus, Sort::Regress] {
        for target in TARGETS {
            let kept = kept(sort, target.name);
            files += kept.len();
            bytes += kept.iter().map(|kept| kept.bytes.len()).sum::<usize>();
        }
        let folder = sort.folder("");
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name();
            assert!(TARGETS.iter().any(|t| *t.name == *name), "{name:?} is no target");
        }
    }
    assert!(files < FILES_MOST && bytes < BYTES_MOST, "{files} files of {bytes} bytes");
}
