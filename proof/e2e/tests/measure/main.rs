// SPDX-License-Identifier: Apache-2.0
//! What is measured over an emulated WAN: how fast a backlog drains, and what a write waits for in each mode.
//! One at a time, or they would measure each other.

mod drain;
mod modes;
mod periodic;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by whoever measures.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
