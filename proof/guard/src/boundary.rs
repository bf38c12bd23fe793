// SPDX-License-Identifier: Apache-2.0
//! Where measured code begins and ends.
//!
//! Callgrind begins or ends to count where a function of this room begins, and again where it ends (`--toggle-collect`). So only functions
//! that may not be inlined stand here, and [`simulate`] is called only in a measured [`turn`]. `xtask` names the room by its path.

use crate::allocations::counting;
use crate::daemon::Counted;
use helio_daemon::stepped::{Next, Stepped};
use helio_driver::{Completion, Driver, Op, Token};
use std::io;

/// A turn of a daemon, measured.
#[inline(never)]
pub(crate) fn turn(daemon: &mut Stepped<Counted>, completions: &mut Vec<Completion>) -> Next {
    counting(true, || daemon.turn(completions))
}

/// The simulated driver, which is not measured, takes an operation of a daemon.
#[inline(never)]
pub(crate) fn simulate(simulated: &mut impl Driver, token: Token, op: Op) {
    counting(false, || simulated.submit(token, op));
}

/// A driver of the product takes an operation, measured.
#[inline(never)]
pub(crate) fn submit(driver: &mut dyn Driver, token: Token, op: Op) {
    counting(true, || driver.submit(token, op));
}

/// A driver of the product waits for a completion, measured.
///
/// # Errors
/// As of [`Driver::wait`].
#[inline(never)]
pub(crate) fn wait(driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> io::Result<()> {
    counting(true, || driver.wait(None, completions))
}
