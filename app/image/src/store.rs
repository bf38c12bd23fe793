// SPDX-License-Identifier: Apache-2.0
//! The two ends of a copy.

use crate::image::Image;
use anyhow::{Result, anyhow};
use helio_nbd::{Client, ClientError};
use helio_units::{Bytes, Extent};
use std::sync::Arc;

/// What a volume is read from, or written to.
pub trait Store {
    /// Reads from there on.
    ///
    /// # Errors
    /// It fails.
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<()>;

    /// Writes from there on.
    ///
    /// # Errors
    /// It fails.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Makes an extent read as zero.
    ///
    /// # Errors
    /// It fails.
    fn zero(&mut self, extent: Extent) -> Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// It fails: some of it may be lost.
    fn flush(&mut self) -> Result<()>;
}

impl Store for Arc<Image> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<()> {
        Image::read(self, at, buffer).map_err(self.failed("read"))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        Image::write(self, at, bytes).map_err(self.failed("write"))
    }

    fn zero(&mut self, extent: Extent) -> Result<()> {
        Image::zero(self, extent, true).map_err(self.failed("write"))
    }

    fn flush(&mut self) -> Result<()> {
        Image::flush(self).map_err(self.failed("flush"))
    }
}

impl Store for Client {
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<()> {
        Self::read(self, at, buffer).map_err(refused)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        Self::write(self, at, bytes, false).map_err(refused)
    }

    fn zero(&mut self, extent: Extent) -> Result<()> {
        self.write_zeroes(extent.offset, Bytes(extent.length), false, false).map_err(refused)
    }

    fn flush(&mut self) -> Result<()> {
        Self::flush(self).map_err(refused)
    }
}

fn refused(why: ClientError) -> anyhow::Error {
    anyhow!(
        "an NBD request to the daemon failed: {why}\n  hint: `helio status` and `helio snapshot list` show whether the group is served and still has the snapshot"
    )
}
