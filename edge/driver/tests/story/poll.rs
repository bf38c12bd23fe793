// SPDX-License-Identifier: Apache-2.0
//! Every story with the driver of threads and ppoll.

use crate::common::Desk;
use helio_driver::{DriverOptions, PollDriver};

pub(crate) fn desk(options: DriverOptions) -> Desk {
    Desk::over(PollDriver::new(options).expect("a driver starts"))
}

#[path = "files.rs"]
mod files;
#[path = "sockets.rs"]
mod sockets;
