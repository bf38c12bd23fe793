// SPDX-License-Identifier: Apache-2.0
//! The times of the disk under the members: short writes past the page cache, and flushes.

use anyhow::Result;
use helio_bench::disk::open;
use helio_forecast::disk;
use helio_testkit::TempDir;
use helio_twin::{DiskModel, ServiceTime, Spread};
use helio_units::Bytes;
use std::os::unix::fs::FileExt;
use std::time::Instant;

const WRITES: u64 = 2000;
const FLUSH_EVERY: u64 = 20;
const BLOCK: usize = 4096;

/// Measures it.
pub(crate) fn measure() -> Result<DiskModel> {
    let scratch = TempDir::new();
    let size = Bytes::mib(64);
    let path = scratch.file("disk.img", size);
    let file = open(&path, true)?;
    // Aligned, as writes past the page cache must be.
    let space = vec![1u8; BLOCK * 2];
    let block = &space[space.as_ptr().align_offset(BLOCK)..][..BLOCK];
    let (mut writes, mut flushes) = (Spread::default(), Spread::default());
    for n in 0..WRITES {
        let at = n * 7919 % (size.0 / BLOCK as u64) * BLOCK as u64;
        let began = Instant::now();
        file.write_all_at(block, at)?;
        writes.add_time(began.elapsed());
        if n % FLUSH_EVERY == 0 {
            let began = Instant::now();
            file.sync_data()?;
            flushes.add_time(began.elapsed());
        }
    }
    let time = |of: &Spread| ServiceTime { median: of.time_at(50.0), p99: of.time_at(99.0) };
    Ok(DiskModel {
        write: time(&writes),
        read: time(&writes),
        flush: time(&flushes),
        ..disk("nvme")?
    })
}
