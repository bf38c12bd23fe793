// SPDX-License-Identifier: Apache-2.0
//! The disk under the members, as `helio lab disk` measures it.

use anyhow::Result;
use core::sync::atomic::AtomicBool;
use helio_forecast::disk;
use helio_lab::{Stage, gauge};
use helio_testkit::TempDir;
use helio_twin::DiskModel;

/// Measures it; as `--disk` takes it, and as the twin does. Both nodes' members lie on it, and one has all of it: bursts
/// come to the primary's, and to the peer's what the link lets through.
pub(crate) fn measure() -> Result<(String, DiskModel)> {
    let scratch = TempDir::new();
    let stop = AtomicBool::new(false);
    let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
    let told = gauge(scratch.path(), crate::run::VOLUME, &stage)?.to_string();
    let model = disk(&told)?;
    Ok((told, model))
}
