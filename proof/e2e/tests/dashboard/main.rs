// SPDX-License-Identifier: Apache-2.0
//! `helio dashboard`: who gets in, and what a person sees and does in a browser.

mod door;
mod page;
mod stage;
