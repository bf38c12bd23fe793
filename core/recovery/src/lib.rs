// SPDX-License-Identifier: Apache-2.0
//! Who is source when two nodes connect, and what must be sent: the table, and its rows in words.
//!
//! Pure: facts of two hellos and of the source's memory in, a labelled row out. It changes nothing and keeps no state.
//! The label is the same in logs, in `helio explain` and in docs/reference/recovery.md.
#![no_std]

extern crate alloc;

mod complete;
mod handing;
mod returning;
mod table;
mod words;

pub use complete::{Completeness, Delivered, Side, Yields, is_last, no_complete_copy, only_choice};
pub use handing::{Handing, OnHanding, on_handing};
pub use returning::{OnReturn, Returning, on_return};
pub use table::{
    Decision, Facts, Kinship, Verdict, decide, facts_of, is_equal_at_fork, is_lost, is_older,
    labels, may_lack_writes, of_promotion, of_request, only_followed,
};
pub use words::{LastDecision, Meaning, facts_in_words, meaning, meaning_of};

/// The labels that a section of the handbook's page lists, in their order.
#[cfg(test)]
fn listed(section: &str) -> alloc::vec::Vec<&'static str> {
    let page = include_str!("../../../docs/reference/recovery.md");
    let text = page.split("\n## ").find(|text| text.starts_with(section)).unwrap_or_default();
    text.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect()
}
