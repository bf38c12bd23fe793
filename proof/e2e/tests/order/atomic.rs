// SPDX-License-Identifier: Apache-2.0
//! Snapshots of two volumes under load: each is what a crash at one moment would leave, on both nodes.
//!
//! A chain writes its numbers to the two volumes in turns, each number once the one before it was answered, over a ring of blocks. So
//! the largest number in a snapshot says what every block of the chain shows.

use crate::snapshot::names;
use helio_e2e::{BLOCK, begin, wait_level};
use helio_nbd::Client;
use helio_testkit::{Pair, Plan, eventually, rounds};
use helio_units::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const VOLUMES: [&str; 2] = ["data", "logs"];
const CHAINS: usize = 4;
/// Blocks of a chain on each volume.
const RING: u64 = 64;
/// Snapshots that are held at once.
const HELD: u64 = 5;
/// Far longer than a snapshot should take.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(pair: &Pair, node: &str, export: &str) -> Client {
    let (socket, export) = (pair.state(node).join("nbd.sock"), format!("db/{export}"));
    Client::connect_unix(&socket, &export).unwrap_or_else(|why| panic!("{export}: {why}"))
}

/// On which volume a number lies, and in which block.
fn place(chain: usize, number: u64) -> (usize, u64) {
    ((number % 2) as usize, chain as u64 * RING + number / 2 % RING)
}

/// Writes numbers until it is told to stop.
fn write(pair: &Pair, chain: usize, answered: &AtomicU64, stop: &AtomicBool) {
    let mut clients = VOLUMES.map(|volume| open(pair, "paris", volume));
    for number in 1.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let (volume, block) = place(chain, number);
        let data: Vec<u8> = number.to_le_bytes().repeat(BLOCK / 8);
        clients[volume].write(block * BLOCK as u64, &data, false).expect("it is written");
        answered.store(number, Ordering::Release);
    }
}

/// The number that each block of the chains shows, by volume.
fn shown(pair: &Pair, node: &str, snapshot: &str) -> [Vec<u64>; 2] {
    VOLUMES.map(|volume| {
        let mut bytes = vec![0; CHAINS * RING as usize * BLOCK];
        open(pair, node, &format!("{volume}@{snapshot}")).read(0, &mut bytes).expect("it is read");
        let number = |block: &[u8]| {
            let (words, _) = block.as_chunks::<8>();
            assert!(words.iter().all(|word| *word == words[0]), "a block is torn");
            u64::from_le_bytes(words[0])
        };
        bytes.chunks(BLOCK).map(number).collect()
    })
}

/// What a chain shows once it has written up to that number.
fn expected(chain: usize, last: u64) -> [Vec<u64>; 2] {
    let mut blocks = [(); 2].map(|()| vec![0; RING as usize]);
    for number in last.saturating_sub(2 * RING - 1).max(1)..=last {
        let (volume, block) = place(chain, number);
        blocks[volume][(block % RING) as usize] = number;
    }
    blocks
}

#[test]
fn a_snapshot_of_two_volumes_is_one_moment_of_both_on_both_nodes_and_on_one_alone() {
    let pair = Plan::new("db").volume("data", Bytes::mib(8)).volume("logs", Bytes::mib(8)).start();
    begin(&pair, "paris");
    let (stop, answered) = (AtomicBool::new(false), [(); CHAINS].map(|()| AtomicU64::new(0)));
    let count = rounds(30);
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for (chain, answered) in answered.iter().enumerate() {
            let (pair, stop) = (&pair, &stop);
            scope.spawn(move || write(pair, chain, answered, stop));
        }
        for round in 0..count {
            let before: Vec<u64> = answered.iter().map(|it| it.load(Ordering::Acquire)).collect();
            let name = format!("s{round}");
            pair.helio("paris", &["snapshot", "create", &format!("db@{name}")]).expect_success();
            eventually(PATIENCE, "lyon's snapshot", || {
                names(&pair, "lyon").contains(&name).then_some(())
            });
            for node in ["paris", "lyon"] {
                judge(&shown(&pair, node, &name), &before, &format!("{name} on {node}"));
            }
            let both = shown(&pair, "paris", &name);
            assert_eq!(both, shown(&pair, "lyon", &name));
            // One that lyon creates by itself holds that, and more.
            let here = ["db@here", "--here"];
            pair.helio("lyon", &[&["snapshot", "create"], &here[..]].concat()).expect_success();
            judge(&shown(&pair, "lyon", "here"), &ends(&both), &format!("here, behind {name}"));
            let delete = ["snapshot", "delete", "--yes"];
            pair.helio("lyon", &[&delete[..], &here].concat()).expect_success();
            if let Some(old) = round.checked_sub(HELD) {
                // It is as it was.
                let old = format!("s{old}");
                judge(&shown(&pair, "lyon", &old), &[0; CHAINS], &old);
                pair.helio("paris", &["snapshot", "delete", &format!("db@{old}"), "--yes"])
                    .expect_success();
            }
        }
    });
    let written: u64 = answered.iter().map(|it| it.load(Ordering::Acquire)).sum();
    println!("{count} snapshots, {written} writes");
    assert!(written > 10 * count, "there was no load: {written}");
    wait_level(&pair, "paris");
}

/// The last number that each chain had written.
fn ends(shown: &[Vec<u64>; 2]) -> Vec<u64> {
    let ours = |chain: usize| {
        let range = chain * RING as usize..(chain + 1) * RING as usize;
        shown.iter().flat_map(|volume| volume[range.clone()].to_vec()).max().unwrap_or_default()
    };
    (0..CHAINS).map(ours).collect()
}

/// A snapshot that contains at least these numbers shows what each chain had written at one moment.
#[track_caller]
fn judge(shown: &[Vec<u64>; 2], least: &[u64], whose: &str) {
    for (chain, least) in least.iter().enumerate() {
        let range = chain * RING as usize..(chain + 1) * RING as usize;
        let ours = [0, 1].map(|volume| shown[volume][range.clone()].to_vec());
        let last = ours.iter().flatten().copied().max().unwrap_or_default();
        assert!(
            last >= *least,
            "{whose}: chain {chain} ends with {last}, and {least} was answered"
        );
        assert_eq!(ours, expected(chain, last), "{whose}: chain {chain} up to {last}");
    }
}

/// Ends the writers also where the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
