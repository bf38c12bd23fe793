// SPDX-License-Identifier: Apache-2.0
//! Bad input of every kind: refused with the culprit and the hint, and nothing lost by it.

mod check;
mod clock;
mod clones;
mod common;
mod configuration;
mod forms;
mod init;
mod members;
mod names;
mod ring;
mod state;
mod strangers;
mod verbs;
mod walk;
