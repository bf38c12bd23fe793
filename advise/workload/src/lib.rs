// SPDX-License-Identifier: Apache-2.0
//! Workloads: what applications ask of volumes, and when; the input of every forecast.
//!
//! A [`Workload`] comes from a trace that was recorded, from a file of another tool, or from [`Synthetic`], which
//! draws one from a description and a seed where nothing was recorded yet.
//!
//! Absent on purpose: clocks, I/O, and what becomes of a request: that is the twin's business, or the daemon's.
#![no_std]

extern crate alloc;

mod distribution;
mod read;
mod summary;
mod synthetic;
mod workload;

pub use distribution::{Bucket, Distribution};
pub use helio_format::trace::{Kind, Request, Volume};
pub use read::{
    Format, LineError, ReadError, Reading, TextError, TextReader, read_recorded, write_csv,
    write_recorded,
};
pub use summary::{
    MOST_STEPS, OfKind, Overwriting, Peak, REGION, Step, Summary, Tally, Transactions, WINDOWS,
};
pub use synthetic::{Arrivals, Burst, Hot, RequestRate, SizeShare, Synthetic, SyntheticError};
pub use workload::{Fault, Workload, WorkloadError};
