// SPDX-License-Identifier: Apache-2.0
//! What a daemon runs on: a machine, and the kernel that makes devices of volumes there.

use helio_attach::{Kernel, ThisKernel};
use helio_driver::{Host, Linux};
use std::sync::Arc;

/// A machine and its kernel.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The machine.
    pub host: Host,
    /// Its kernel, as far as attached volumes go.
    pub kernel: Arc<dyn Kernel>,
}

impl Platform {
    /// What this process runs on.
    #[must_use]
    pub fn this() -> Self {
        Self { host: Linux::host(), kernel: Arc::new(ThisKernel) }
    }
}
