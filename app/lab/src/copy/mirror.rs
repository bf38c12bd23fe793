// SPDX-License-Identifier: Apache-2.0
//! The measurement of "SRDF against host mirroring": small writes, one at a time and durable, on a local disk, on a remote one behind an
//! emulated link, and mirrored on both. The mirror is the layer that keeps members alike.

use super::host::Host;
use super::legs::{Legs, Way};
use super::raw::{self, SOURCE, TARGET};
use crate::error::LabError;
use crate::meet::Stage;
use helio_disk::Io;
use helio_driver::{Buffer, Token};
use helio_netmodel::{Dice, Profile};
use helio_units::{Bytes, Extent};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Writes of one kind that go one behind the other before another kind has its turn.
const TURN: u64 = 50;

/// How a mirror is measured.
#[derive(Clone, Debug)]
pub struct MirrorTest {
    /// Directories on the disks, the local one first.
    pub folders: [PathBuf; 2],
    /// Bytes that are written over, again and again: whole MiB.
    pub size: Bytes,
    /// Sizes of writes.
    pub blocks: Vec<Bytes>,
    /// Writes of each kind.
    pub writes: u64,
    /// Each direction of the link to the remote disk.
    pub link: Profile,
}

/// What was measured with writes of one size: times of all writes together, in the order local, remote, mirrored.
#[derive(Clone, Copy, Debug)]
pub struct MirrorRow {
    /// Bytes of a write.
    pub block: Bytes,
    /// Writes of each kind.
    pub writes: u64,
    /// How long they took.
    pub spans: [Duration; 3],
}

impl MirrorRow {
    /// The mean time of a write on the mirror, divided by that on its slower leg.
    #[must_use]
    pub fn above_slower(&self) -> f64 {
        let [local, remote, mirrored] = self.spans;
        mirrored.as_secs_f64() / local.max(remote).as_secs_f64()
    }
}

/// Measures writes of each size.
///
/// # Errors
/// No file can be made in a directory, a disk fails or has no direct I/O, its blocks are larger than the writes, or the
/// measurement was stopped.
pub fn mirror_experiment(test: &MirrorTest, stage: &Stage<'_>) -> Result<Vec<MirrorRow>, LabError> {
    let folders = [test.folders[0].as_path(), test.folders[1].as_path()];
    let mut legs = Legs::open(folders, test.size, Io::Direct, stage)?;
    for leg in [SOURCE, TARGET] {
        raw::fill(&mut legs, leg, test.size, 1)?;
    }
    legs.make(TARGET, Way::over(&test.link));
    test.blocks.iter().map(|block| measure(test, *block, &mut legs)).collect()
}

fn measure(test: &MirrorTest, block: Bytes, legs: &mut Legs<'_>) -> Result<MirrorRow, LabError> {
    if !block.0.is_multiple_of(legs.block().0) {
        let why = format!("writes of {block} do not fit disks with blocks of {}", legs.block());
        return Err(LabError::Asked(format!("{why}; hint: use directories on other disks")));
    }
    let (places, mut spans, mut at) = (test.size.0 / block.0, [Duration::ZERO; 3], 0);
    let mut dice = Dice::new(1);
    while at < test.writes {
        let turn = at..test.writes.min(at + TURN);
        // What is written is made before the time counts.
        let mut writes = |legs: &Legs<'_>| -> Vec<(u64, Extent, Buffer)> {
            let extent = |n: u64| Extent::new(n % places * block.0, block.0);
            turn.clone().map(|n| (n, extent(n), raw::noise(legs, block.0, &mut dice))).collect()
        };
        for leg in [SOURCE, TARGET] {
            let writes = writes(legs);
            let begun = Instant::now();
            for (n, extent, buffer) in writes {
                let op = legs.write(leg, extent, buffer, true)?;
                legs.submit(leg, Token(n), op);
                legs.settle()?;
            }
            spans[leg] += begun.elapsed();
        }
        let writes = writes(legs);
        let mut host = Host::mirror(legs, test.size);
        let begun = Instant::now();
        for (n, extent, buffer) in writes {
            host.write(n, extent, buffer)?;
        }
        spans[2] += begun.elapsed();
        at = turn.end;
    }
    Ok(MirrorRow { block, writes: test.writes, spans })
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Rate;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_write_to_a_remote_disk_takes_a_round_trip_and_one_to_the_mirror_no_second_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let stop = AtomicBool::new(false);
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let rtt = Duration::from_millis(20);
        let test = MirrorTest {
            folders: [folder.path().to_path_buf(), folder.path().to_path_buf()],
            size: Bytes::mib(1),
            blocks: vec![Bytes::kib(4), Bytes::kib(8)],
            writes: 5,
            link: Profile::wan(rtt, Rate::mbit(1000)),
        };
        let rows = mirror_experiment(&test, &stage).expect("measured");
        assert_eq!(rows.len(), 2);
        for row in rows {
            let [_, remote, mirrored] = row.spans;
            assert!(remote >= rtt * 5 && mirrored >= rtt * 5, "{row:?}");
            assert!(row.above_slower() < 2.0, "{row:?}");
        }
        stop.store(true, Ordering::Relaxed);
        let stopped = mirror_experiment(&test, &stage).expect_err("it was stopped");
        assert!(stopped.to_string().contains("stopped before"), "{stopped}");
        stop.store(false, Ordering::Relaxed);
        let odd = MirrorTest { blocks: vec![Bytes(100)], ..test };
        let why = mirror_experiment(&odd, &stage).expect_err("no disk has such blocks");
        assert!(why.to_string().contains("hint"), "{why}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }
}
