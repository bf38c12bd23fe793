// SPDX-License-Identifier: Apache-2.0
//! Nodes and operators that know each other by key, and everybody else.

mod common;
mod operators;
mod peers;
mod private;
mod rotation;
