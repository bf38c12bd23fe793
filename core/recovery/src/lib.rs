// SPDX-License-Identifier: Apache-2.0
//! Who is source when two nodes connect, and what must be sent: the table, and its rows in words.
//!
//! Pure: facts of two hellos and of the source's memory in, a labelled row out. It changes nothing and keeps no state.
//! The label is the same in logs, in `helio explain` and in docs/reference/recovery.md.
#![no_std]

extern crate alloc;

mod table;
mod words;

pub use table::{
    Decision, Facts, Kinship, METADATA_LOST, Verdict, decide, facts_of, has_lost_metadata, is_lost,
    is_older, labels, of_promotion, only_followed,
};
pub use words::{LastDecision, Meaning, facts_in_words, meaning};
