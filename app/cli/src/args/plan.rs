// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio plan`.

use super::Forecast;
use clap::{Args, Subcommand};
use helio_plan::Work;
use helio_units::{Bytes, Rate};
use std::path::PathBuf;
use std::time::Duration;

/// The calculations. None of them needs a daemon.
#[derive(Debug, Subcommand)]
pub enum PlanVerb {
    /// Recalculate every number of the source documents.
    ///
    /// Prints the formula, the stated value, the calculated value and whether they agree.
    Examples {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Simulate a workload with each mode, queue, buffer and link.
    ///
    /// Runs in virtual time. With --goal, recommends one of the runs.
    Forecast(Box<Forecast>),
    /// Calculate the log rate of each mode, as the HADR calculator does.
    Calculator(Calculator),
    /// Calculate the windows and socket buffers for a link.
    ///
    /// Also shows the throughput of smaller windows.
    Window(Window),
    /// Calculate how fast a queue fills and drains, and recommend a mode.
    Queue(QueuePlan),
    /// Calculate the size of the bitmap of dirty regions.
    Marks(MarksPlan),
}

/// A link, a disk and a log.
#[derive(Clone, Debug, Args)]
pub struct Calculator {
    /// Bandwidth of the link in each direction, for example 100Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub network: Rate,
    /// Round-trip time of the link, for example 20ms; at most 60s.
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    pub rtt: Duration,
    /// Transfer rate of the log disks of both nodes, for example 200MiB/s.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub disk: Rate,
    /// Overhead of each write to the log disk, for example 1ms; at most 60s.
    #[arg(long, value_name = "TIME", value_parser = overhead)]
    pub disk_overhead: Duration,
    /// Size of a log flush, up to 1GiB.
    #[arg(long, value_name = "SIZE", value_parser = piece, default_value = "64KiB")]
    pub flush: Bytes,
    /// Log rate of the workload, for example 7MiB/s; default: show the maximum only.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub log_rate: Option<Rate>,
    /// Log data per transaction; default: one flush.
    #[arg(long, value_name = "SIZE", value_parser = piece, requires = "log_rate")]
    pub transaction: Option<Bytes>,
    /// Average number of open transactions, for example 22.7.
    #[arg(long, value_name = "NUMBER", value_parser = number, default_value = "1", requires = "log_rate")]
    pub open_transactions: f64,
    /// Read the log figures from the output of DB2's log scanner; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flush", "log_rate", "transaction", "open_transactions"])]
    pub scan: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A link, and windows on it.
#[derive(Clone, Debug, Args)]
pub struct Window {
    /// Bandwidth of the link in each direction, for example 100Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub rate: Rate,
    /// Round-trip time of the link, for example 20ms; at most 60s.
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    pub rtt: Duration,
    /// Window to show; may be repeated; default: 24KiB, 256KiB and the recommended one.
    #[arg(long = "window", value_name = "SIZE", value_parser = piece)]
    pub windows: Vec<Bytes>,
    /// Length of a link stall that the buffer must absorb, for example 10s.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub hiccup: Option<Duration>,
    /// Write rate during the link stall; default: --rate.
    #[arg(long, value_name = "RATE", value_parser = carried, requires = "hiccup")]
    pub load: Option<Rate>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Writes, a link, and the queue between them.
#[derive(Clone, Debug, Args)]
pub struct QueuePlan {
    /// Writes per second, for example 2000.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub writes: f64,
    /// Size of a write, for example 4KiB.
    #[arg(long, value_name = "SIZE", value_parser = piece)]
    pub write_size: Bytes,
    /// Bandwidth of the link in each direction, for example 100Mbit/s.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub rate: Rate,
    /// Round-trip time of the link, for example 20ms; at most 60s.
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    pub rtt: Duration,
    /// Window of the connection, if it is fixed.
    #[arg(long, value_name = "SIZE", value_parser = piece)]
    pub window: Option<Bytes>,
    /// Queue limit; default: 8MiB for Sun's queue, the automatic size for Heliograph's.
    #[arg(long, value_name = "SIZE", value_parser = queued)]
    pub bound: Option<Bytes>,
    /// Flusher threads of Sun's remote mirror, 1 to 16: 1 in version 3.1, 2 in 4.0.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = super::number::whole::<u64>(1, 16))]
    pub flushers: u64,
    /// Length of a link outage, for example 5min.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub outage: Option<Duration>,
    /// Measured high-water mark to assess.
    #[arg(long, value_name = "SIZE", value_parser = queued)]
    pub high_water: Option<Bytes>,
    /// Workload: oltp, redo-logs, loading, read-only, few-writes or restore.
    #[arg(long, value_name = "WORKLOAD", value_parser = work, default_value = "oltp")]
    pub work: Work,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Volumes, and the bitmap of one peer.
#[derive(Clone, Debug, Args)]
pub struct MarksPlan {
    /// Size of a volume, for example 100GiB.
    #[arg(long, value_name = "SIZE", value_parser = volume)]
    pub volume: Bytes,
    /// Number of volumes of this size, 1 to 1000000.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = super::number::whole::<u64>(1, 1_000_000))]
    pub volumes: u64,
    /// Region size, a power of two from 4KiB to 1MiB; default: compare usual sizes.
    #[arg(long, value_name = "SIZE", value_parser = granularity)]
    pub granularity: Option<Bytes>,
    /// Number of scattered writes while the link is down.
    #[arg(long, value_name = "NUMBER", value_parser = super::number::whole::<u64>(1, u64::MAX))]
    pub writes: Option<u64>,
    /// Bandwidth of the link, to calculate the resync time.
    #[arg(long, value_name = "RATE", value_parser = carried, requires = "writes")]
    pub rate: Option<Rate>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Above any real link or disk.
const MOST_RATE: Rate = Rate(1_000_000_000_000);
/// Above any real link.
const MOST_ROUND_TRIP: Duration = Duration::from_secs(60);
const MOST_SPAN: Duration = Duration::from_secs(366 * 24 * 3600);
/// The largest flush, write or window.
const MOST_PIECE: Bytes = Bytes::gib(1);
/// The largest queue.
const MOST_QUEUE: Bytes = Bytes::gib(1024);
const MOST_VOLUME: Bytes = Bytes(1 << 60);

fn carried(text: &str) -> Result<Rate, String> {
    match super::rate(text)? {
        Rate(0) => Err("must be greater than zero, for example 100Mbit/s or 12MiB/s".to_owned()),
        rate if rate > MOST_RATE => Err(format!(
            "must be at most {MOST_RATE}; check the unit (Mbit/s is bits, MiB/s is bytes)"
        )),
        rate => Ok(rate),
    }
}

fn round_trip(text: &str) -> Result<Duration, String> {
    match super::duration(text)? {
        Duration::ZERO => {
            Err("must be greater than zero, for example 100us within a data centre".to_owned())
        }
        rtt if rtt > MOST_ROUND_TRIP => {
            Err("must be at most 60 s; check the unit (us, ms)".to_owned())
        }
        rtt => Ok(rtt),
    }
}

fn overhead(text: &str) -> Result<Duration, String> {
    let overhead = super::duration(text)?;
    let error = "must be at most 60 s; check the unit (us, ms)";
    if overhead > MOST_ROUND_TRIP { Err(error.to_owned()) } else { Ok(overhead) }
}

fn span(text: &str) -> Result<Duration, String> {
    match super::duration(text)? {
        Duration::ZERO => Err("must be greater than zero, for example 10s or 5min".to_owned()),
        span if span > MOST_SPAN => {
            Err("must be at most 366 days; check the unit (s, min, h)".to_owned())
        }
        span => Ok(span),
    }
}

fn size_to(text: &str, most: Bytes) -> Result<Bytes, String> {
    match super::bytes(text)? {
        Bytes::ZERO => Err("must be greater than zero, for example 64KiB".to_owned()),
        size if size > most => Err(format!("must be at most {most}; check the unit")),
        size => Ok(size),
    }
}

fn piece(text: &str) -> Result<Bytes, String> {
    size_to(text, MOST_PIECE)
}

fn queued(text: &str) -> Result<Bytes, String> {
    size_to(text, MOST_QUEUE)
}

fn volume(text: &str) -> Result<Bytes, String> {
    size_to(text, MOST_VOLUME)
}

fn granularity(text: &str) -> Result<Bytes, String> {
    let grain = super::bytes(text)?;
    let fits = grain.0.is_power_of_two() && (Bytes::kib(4)..=Bytes::mib(1)).contains(&grain);
    if fits { Ok(grain) } else { Err("must be a power of two from 4KiB to 1MiB".to_owned()) }
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.parse().map_err(|_| "expected a number without a unit, for example 50 or 22.7")?;
    let fits = number > 0.0 && number <= 1e9;
    if fits {
        Ok(number)
    } else {
        Err("must be greater than zero and at most 1000000000".to_owned())
    }
}

pub(super) fn work(word: &str) -> Result<Work, String> {
    let known = || Work::ALL.map(Work::word).join(", ");
    Work::ALL
        .into_iter()
        .find(|work| work.word() == word)
        .ok_or_else(|| format!("expected one of {}", known()))
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    fn refusal(line: &str) -> String {
        Cli::try_parse_from(line.split(' ')).expect_err(line).to_string()
    }

    #[test]
    fn an_invalid_value_is_refused_with_its_option_and_a_hint() {
        let window = "helio plan window --rate 100Mbit/s";
        let queue = "helio plan queue --write-size 8KiB --rate 1MB/s --rtt 50ms";
        for (line, option, hint) in [
            (format!("{window} --rtt 50"), "--rtt", "needs a unit: us, ms"),
            (format!("{window} --rtt 50MB"), "--rtt", "needs a unit: us, ms"),
            (format!("{window} --rtt 0ms"), "--rtt", "100us"),
            (format!("{window} --rtt 5h"), "--rtt", "check the unit"),
            ("helio plan window --rtt 1ms --rate 0MB/s".to_owned(), "--rate", "100Mbit/s"),
            ("helio plan window --rtt 1ms --rate 9000GB/s".to_owned(), "--rate", "check the unit"),
            ("helio plan window --rtt 1ms --rate 9MB".to_owned(), "--rate", "Mbit/s"),
            (format!("{window} --rtt 1ms --window 0KiB"), "--window", "64KiB"),
            (format!("{window} --rtt 1ms --hiccup 9000h"), "--hiccup", "check the unit"),
            (format!("{queue} --writes -1"), "--writes", "unexpected argument"),
            (format!("{queue} --writes 0"), "--writes", "greater than zero"),
            (format!("{queue} --writes NaN"), "--writes", "greater than zero"),
            (format!("{queue} --writes 50/s"), "--writes", "without a unit"),
            (format!("{queue} --writes 50 --work tpcc"), "--work", "one of oltp, redo-logs"),
            ("helio plan marks --volume 5EB".to_owned(), "--volume", "TiB"),
            (
                "helio plan marks --volume 5GB --granularity 65000B".to_owned(),
                "--granularity",
                "power of two",
            ),
        ] {
            let error = refusal(&line);
            let named = error.contains(option) || error.contains("'-1'");
            assert!(named && error.contains(hint), "{line}: {error}");
        }
    }
}
