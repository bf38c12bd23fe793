// SPDX-License-Identifier: Apache-2.0
//! Stories of the simulated world: what its disks, sockets and drivers do to a daemon.

mod common;
mod disks;
mod durability;
mod processes;
mod sockets;
mod streams;
