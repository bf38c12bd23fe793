// SPDX-License-Identifier: Apache-2.0
//! `helio lab wan`: the line is what was ordered, TCP over it behaves as over a real one, and nothing is left behind.
//! One at a time, or they would measure each other.

mod common;
mod ends;
mod line;
mod quality;
mod tcp;
mod weather;
