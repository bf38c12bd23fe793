// SPDX-License-Identifier: Apache-2.0
//! The session with a disk behind it: spoken to by our own client, then by everybody else's.

mod features;
mod interop;
mod loopback;
mod memory;
mod noise;
