// SPDX-License-Identifier: Apache-2.0
//! `helio lab link`, `helio simhadr` and `helio lab search`: both ends as their users start them.

mod common;
mod link;
mod measure;
mod search;
mod simhadr;
