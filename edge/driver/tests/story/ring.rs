// SPDX-License-Identifier: Apache-2.0
//! Every story with the driver on io_uring.

use crate::common::Desk;
use helio_driver::{DriverOptions, RingDriver};

pub(crate) fn desk(options: DriverOptions) -> Desk {
    match RingDriver::new(options) {
        Ok(driver) => Desk::over(driver),
        Err(error) => {
            crate::common::say_skipped(&format!("io_uring, tested with the other driver: {error}"));
            super::poll::desk(options)
        }
    }
}

#[path = "files.rs"]
mod files;
#[path = "sockets.rs"]
mod sockets;
