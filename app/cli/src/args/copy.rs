// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio lab copy`.

use super::number::{more_than_nothing, size, whole};
use super::{bytes, duration, some_time};
use clap::Args;
use helio_shadow::TRANSFER_MAX;
use helio_units::{Bytes, Rate};
use std::path::PathBuf;
use std::time::Duration;

/// A measurement of copies from one member to another.
#[derive(Clone, Debug, Args)]
pub struct CopyOf {
    /// Directory on the disk of the source; temporary files are removed at the end.
    pub folder: PathBuf,
    /// Directory on the disk of the target; default: the same.
    pub target: Option<PathBuf>,
    /// Size of the copied volume, 1MiB to 1TiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size(1 << 20, 1 << 40))]
    pub size: Bytes,
    /// Fixed transfer size, a power of two from 512B to 1MiB; may be repeated.
    ///
    /// Default: 1, 32, 128 and 2048 blocks of 512 bytes. The automatic transfer size is always measured.
    #[arg(long, value_name = "SIZE", value_parser = transfer, default_values = ["512B", "16KiB", "64KiB", "1MiB"])]
    pub transfer: Vec<Bytes>,
    /// Runs of each kind, 1 to 99; the result is the median.
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = whole::<usize>(1, 99))]
    pub rounds: usize,
    /// Rate of a slow disk, at least 1B/s; for example 50MiB/s.
    #[arg(long, value_name = "RATE", default_value = "100MiB/s", value_parser = more_than_nothing)]
    pub slow: Rate,
    /// Additional time of each operation of a slow disk.
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = duration)]
    pub slow_overhead: Duration,
    /// Maximum length of a run; its rate is that of the part that was copied.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub time: Duration,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

fn transfer(text: &str) -> Result<Bytes, String> {
    match bytes(text)? {
        size if size.0.is_power_of_two() && (helio_lab::BLOCK..=TRANSFER_MAX).contains(&size) => {
            Ok(size)
        }
        _ => Err("must be a power of two from 512 B to 1 MiB".to_owned()),
    }
}
