// SPDX-License-Identifier: Apache-2.0
//! How long small reads of a store take.

use crate::open::Io;
use helio_driver::Buffer;
use helio_units::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::io::pread;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Reads, at places that are spread evenly.
const READS: u64 = 15;
/// Bytes of each: a block of a file system or database.
const BLOCK: u64 = 4096;
/// None begins later.
const WITHIN: Duration = Duration::from_secs(1);

/// The median latency of small reads spread over the first `size` bytes of what lies at `path`. It is opened for that, and not
/// locked: another descriptor of this process may hold it.
///
/// Blocks: on a disk that responds for about a second at most.
///
/// # Errors
/// It cannot be opened, or a read fails.
pub fn read_latency(path: &Path, size: Bytes, how: Io) -> io::Result<Duration> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC;
    flags.set(OFlags::DIRECT, how == Io::Direct);
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let (begun, blocks) = (Instant::now(), (size.0 / BLOCK).max(1));
    let mut buffer = Buffer::zeroed(BLOCK as usize);
    let mut times = Vec::new();
    for place in 0..READS {
        if begun.elapsed() >= WITHIN {
            break;
        }
        let at = Instant::now();
        pread(&file, &mut buffer[..], blocks * place / READS * BLOCK)?;
        times.push(at.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
