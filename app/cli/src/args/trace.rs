// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio trace`.

use super::{At, bytes, duration};
use clap::{Subcommand, ValueEnum};
use helio_units::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// What can be done with traces.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Record what applications ask of a group's volumes, without a byte of their data, into a file of the node.
    Start {
        /// Which group.
        group: String,
        /// The file to make; without it, one below `traces` in the node's state directory.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// End when the file has that size; without it, at 1 GiB.
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        limit: Option<Bytes>,
        /// End after that time; without it, when it is stopped or the limit is reached.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        lasting: Option<Duration>,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// End the recording of a group, and say what it came to.
    Stop {
        /// Which group.
        group: String,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Say what a trace comes to: rates over time, peaks, sizes, transactions, overwriting.
    Show {
        /// The file, a hyphen for standard input.
        file: PathBuf,
        /// What it is; without it, told by how it begins.
        #[arg(long, value_enum)]
        format: Option<TraceFormat>,
        /// How long the steps of the rates over time are; without it, about twenty of them.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        every: Option<Duration>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a trace of any format as CSV, where the other file's name ends in .csv, or as one of Heliograph's own.
    Convert {
        /// The file, a hyphen for standard input.
        file: PathBuf,
        /// The file to make.
        to: PathBuf,
        /// What the first is; without it, told by how it begins.
        #[arg(long, value_enum)]
        format: Option<TraceFormat>,
    },
}

/// What a file of a workload looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// What `helio trace start` records.
    Helio,
    /// What `blkparse` prints of a recording of `blktrace`.
    Blkparse,
    /// What fio's `write_iolog` writes.
    Fio,
    /// Values between commas, under a line that names them.
    Csv,
}

impl From<TraceFormat> for helio_workload::Format {
    fn from(word: TraceFormat) -> Self {
        match word {
            TraceFormat::Helio => Self::Recorded,
            TraceFormat::Blkparse => Self::Blkparse,
            TraceFormat::Fio => Self::Fio,
            TraceFormat::Csv => Self::Csv,
        }
    }
}
