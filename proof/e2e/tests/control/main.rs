// SPDX-License-Identifier: Apache-2.0
//! The control API as operators and their programs meet it: what is told, what can be set, and how it fails.

mod advise;
mod alerts;
mod common;
mod events;
mod failures;
mod queue;
mod top;
mod trace;
