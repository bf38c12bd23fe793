// SPDX-License-Identifier: Apache-2.0
//! The stories of helio-driver, on real files, sockets and devices: every one with either driver.
// On purpose: a story is told once and read twice.
#![allow(clippy::duplicate_mod)]

mod common;
mod poll;
mod ring;
