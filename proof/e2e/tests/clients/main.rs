// SPDX-License-Identifier: Apache-2.0
//! Programs of others against real daemons: what an administrator would point at an export on the first day.
//! Every story ends with both members equal, byte by byte, once the queue has drained.

mod closing;
mod common;
mod copying;
mod fio;
mod libnbd;
mod listing;
mod qemu;
mod several;
