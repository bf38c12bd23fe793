// SPDX-License-Identifier: Apache-2.0
//! The stories of helio-driver, on real files, sockets and devices.

mod common;
mod files;
mod sockets;
