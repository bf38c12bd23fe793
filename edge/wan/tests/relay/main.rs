// SPDX-License-Identifier: Apache-2.0
//! Stories of real connections through the relay, and its quality in numbers.

mod common;
mod link;
mod quality;
