// SPDX-License-Identifier: Apache-2.0
//! How long small reads of a store take.

use crate::open::Io;
use helio_driver::{Buffer, Host, Mode, OFlags};
use helio_units::Bytes;
use std::io;
use std::path::Path;
use std::time::Duration;

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
/// It cannot be opened, or a read fails or reads nothing.
pub fn read_latency(host: &Host, path: &Path, size: Bytes, how: Io) -> io::Result<Duration> {
    let mut flags = OFlags::RDONLY;
    flags.set(OFlags::DIRECT, how == Io::Direct);
    let file = host.open(path, flags, Mode::empty())?;
    let mut buffer = Buffer::zeroed(BLOCK as usize);
    let (begun, mut times) = (host.since_boot(), Vec::new());
    for place in places(size) {
        let at = host.since_boot();
        if file.body().read_at(&mut buffer[..], place)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = host.since_boot();
        times.push(now - at);
        if now - begun >= WITHIN {
            break;
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Where is read.
fn places(size: Bytes) -> impl Iterator<Item = u64> {
    let blocks = (size.0 / BLOCK).max(1);
    (0..READS).map(move |read| blocks * read / READS * BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_spread_evenly_over_a_store() {
        let of = |size: u64| places(Bytes(size)).collect::<Vec<_>>();
        assert_eq!(of(512), [0; READS as usize]);
        let found = of(READS * 10 * BLOCK);
        assert_eq!(found, (0..READS).map(|n| n * 10 * BLOCK).collect::<Vec<_>>());
    }
}
