// SPDX-License-Identifier: Apache-2.0
//! `helio lab link`, `helio simhadr`, `helio lab search`, `helio lab record`, `helio lab disk` and `helio lab copy`, as
//! their users start them.

mod common;
mod copy;
mod course;
mod disk;
mod link;
mod measure;
mod search;
mod simhadr;
