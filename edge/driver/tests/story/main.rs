// SPDX-License-Identifier: Apache-2.0
//! The stories of helio-driver, on real files, sockets and devices: every one with either driver.

mod common;
mod poll;
mod ring;
