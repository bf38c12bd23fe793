// SPDX-License-Identifier: Apache-2.0
//! The stories of helio-disk, on real files, sockets and devices.

mod common;
mod devices;
mod members;
mod refusals;
