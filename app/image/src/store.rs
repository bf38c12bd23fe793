// SPDX-License-Identifier: Apache-2.0
//! The two ends of a copy.

use crate::image::Image;
use anyhow::Result;
use helio_nbd::Client;
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
}

impl Store for Client {
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(Self::read(self, at, buffer)?)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        Ok(Self::write(self, at, bytes, false)?)
    }

    fn zero(&mut self, extent: Extent) -> Result<()> {
        Ok(self.write_zeroes(extent.offset, Bytes(extent.length), false, false)?)
    }
}
