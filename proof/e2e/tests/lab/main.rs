// SPDX-License-Identifier: Apache-2.0
//! `helio lab link`, `helio simhadr`, `helio lab search`, `helio lab record` and `helio lab disk`, as their users start
//! them.

mod common;
mod course;
mod disk;
mod link;
mod measure;
mod search;
mod simhadr;
