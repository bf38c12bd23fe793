// SPDX-License-Identifier: Apache-2.0
//! `helio lab link`, `helio simhadr`, `helio lab search` and `helio lab record`: both ends as their users start them.

mod common;
mod course;
mod link;
mod measure;
mod search;
mod simhadr;
