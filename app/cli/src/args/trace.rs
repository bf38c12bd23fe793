// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio trace`.

use super::{OfGroup, bytes, duration};
use clap::{Subcommand, ValueEnum};
use helio_units::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Commands for traces.
#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Record the requests of applications to a group's volumes, without their data.
    ///
    /// Writes the trace to a file on the node.
    Start {
        /// Group and output.
        #[command(flatten)]
        of: OfGroup,
        /// New trace file on the node; default: in `traces` of the state directory.
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Stop at this file size; default: 1GiB.
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        limit: Option<Bytes>,
        /// Stop after this time, for example 1h; default: until `helio trace stop`.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        lasting: Option<Duration>,
    },
    /// Stop the trace of a group and show its size.
    Stop(OfGroup),
    /// Show rates over time, peaks, sizes, transactions and overwrites of a trace.
    Show {
        /// Trace file; - is standard input.
        file: PathBuf,
        /// Format of the file; default: detected from its content.
        #[arg(long, value_enum)]
        format: Option<TraceFormat>,
        /// Interval of the rates over time; default: about 20 intervals.
        #[arg(long, value_name = "TIME", value_parser = duration)]
        every: Option<Duration>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Convert a trace to CSV or to the helio format.
    ///
    /// Writes CSV if the name of the new file ends in .csv, otherwise the helio format.
    Convert {
        /// Trace file; - is standard input.
        file: PathBuf,
        /// New file.
        to: PathBuf,
        /// Format of the input file; default: detected from its content.
        #[arg(long, value_enum)]
        format: Option<TraceFormat>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Formats of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// Recording of `helio trace start`.
    Helio,
    /// Output of `blkparse` for a `blktrace` recording.
    Blkparse,
    /// Output of fio's `write_iolog`.
    Fio,
    /// Comma-separated values with a header.
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
