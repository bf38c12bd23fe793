// SPDX-License-Identifier: Apache-2.0
//! The whole program in the simulator: what its clients send, and what they may be answered.

pub mod client;
pub mod model;
pub mod stream;

#[cfg(test)]
mod tests;
