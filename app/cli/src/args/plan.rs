// SPDX-License-Identifier: Apache-2.0
//! What `helio plan` is told.

use super::Forecast;
use clap::{Args, Subcommand};
use helio_plan::Work;
use helio_units::{Bytes, Rate};
use std::path::PathBuf;
use std::time::Duration;

/// What can be planned. Nothing here asks a daemon.
#[derive(Debug, Subcommand)]
pub enum PlanVerb {
    /// Print every number of the sources: its formula, what is stated, what it comes to, and whether they agree.
    Examples {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a workload in virtual time under every mode, queue, buffer and link asked for, and say which to take.
    Forecast(Box<Forecast>),
    /// Tell what log rate each mode allows, as the HADR calculator does, with its question marks.
    Calculator(Calculator),
    /// Tell what windows and socket buffers a link needs, and what smaller ones let through.
    Window(Window),
    /// Tell how fast a queue fills and drains, when it is full, and which mode suits.
    Queue(QueuePlan),
    /// Tell what the map of changed regions takes, by volume and granularity.
    Marks(MarksPlan),
}

/// A link, a disk and a log.
#[derive(Clone, Debug, Args)]
pub struct Calculator {
    /// What the link carries each way.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub network: Rate,
    /// Its round trip.
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    pub rtt: Duration,
    /// What a log disk transfers, the same on both nodes.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub disk: Rate,
    /// What each write to it takes besides.
    #[arg(long, value_name = "TIME", value_parser = overhead)]
    pub disk_overhead: Duration,
    /// What the log writer writes at a time.
    #[arg(long, value_name = "SIZE", value_parser = piece, default_value = "64KiB")]
    pub flush: Bytes,
    /// What the log comes to; without it, only what each mode reaches with such flushes is told.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub log_rate: Option<Rate>,
    /// What a transaction writes to the log; otherwise a flush.
    #[arg(long, value_name = "SIZE", value_parser = piece, requires = "log_rate")]
    pub transaction: Option<Bytes>,
    /// How many transactions are open at a time, on average.
    #[arg(long, value_name = "NUMBER", value_parser = number, default_value = "1", requires = "log_rate")]
    pub open_transactions: f64,
    /// Take the log's figures from what DB2's log scanner printed; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flush", "log_rate", "transaction", "open_transactions"])]
    pub scan: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// A link, and windows on it.
#[derive(Clone, Debug, Args)]
pub struct Window {
    /// What the link carries each way.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub rate: Rate,
    /// Its round trip.
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    pub rtt: Duration,
    /// A window to show in the table; may be repeated. Otherwise 24 KiB, 256 KiB and the one that is advised.
    #[arg(long = "window", value_name = "SIZE", value_parser = piece)]
    pub windows: Vec<Bytes>,
    /// How long the link may stand still without anybody noticing.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub hiccup: Option<Duration>,
    /// What is written meanwhile; otherwise what the link carries.
    #[arg(long, value_name = "RATE", value_parser = carried, requires = "hiccup")]
    pub load: Option<Rate>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Writes, a link, and a queue between.
#[derive(Clone, Debug, Args)]
pub struct QueuePlan {
    /// Writes a second.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub writes: f64,
    /// What each writes.
    #[arg(long, value_name = "SIZE", value_parser = piece)]
    pub write_size: Bytes,
    /// What the link carries each way.
    #[arg(long, value_name = "RATE", value_parser = carried)]
    pub rate: Rate,
    /// Its round trip.
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    pub rtt: Duration,
    /// The window of the connection, where it is fixed.
    #[arg(long, value_name = "SIZE", value_parser = piece)]
    pub window: Option<Bytes>,
    /// The queue's bound; otherwise 8 MiB for Sun's, and what an automatic queue grows to for ours.
    #[arg(long, value_name = "SIZE", value_parser = queued)]
    pub bound: Option<Bytes>,
    /// How many threads of Sun's remote mirror drain a queue: one in 3.1, two in 4.0.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = super::number::whole::<u64>(1, 16))]
    pub flushers: u64,
    /// How long the link is away.
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub outage: Option<Duration>,
    /// A high-water mark to judge.
    #[arg(long, value_name = "SIZE", value_parser = queued)]
    pub high_water: Option<Bytes>,
    /// What writes: oltp, redo-logs, loading, read-only, few-writes or restore.
    #[arg(long, value_name = "WORD", value_parser = work, default_value = "oltp")]
    pub work: Work,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Volumes, and the map of one peer.
#[derive(Clone, Debug, Args)]
pub struct MarksPlan {
    /// Size of a volume.
    #[arg(long, value_name = "SIZE", value_parser = volume)]
    pub volume: Bytes,
    /// How many such volumes there are.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = super::number::whole::<u64>(1, 1_000_000))]
    pub volumes: u64,
    /// Bytes one mark covers, a power of two from 4KiB to 1MiB; otherwise the usual ones are compared.
    #[arg(long, value_name = "SIZE", value_parser = granularity)]
    pub granularity: Option<Bytes>,
    /// How many scattered writes a link misses.
    #[arg(long, value_name = "NUMBER", value_parser = super::number::whole::<u64>(1, u64::MAX))]
    pub writes: Option<u64>,
    /// What the link carries, to tell how long their copy takes.
    #[arg(long, value_name = "RATE", value_parser = carried, requires = "writes")]
    pub rate: Option<Rate>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Nothing carries more.
const MOST_RATE: Rate = Rate(1_000_000_000_000);
/// Longer than to the moon and back, by far.
const MOST_ROUND_TRIP: Duration = Duration::from_secs(60);
const MOST_SPAN: Duration = Duration::from_secs(366 * 24 * 3600);
/// The largest flush, write or window that is planned for.
const MOST_PIECE: Bytes = Bytes::gib(1);
/// The largest queue.
const MOST_QUEUE: Bytes = Bytes::gib(1024);
const MOST_VOLUME: Bytes = Bytes(1 << 60);

fn carried(text: &str) -> Result<Rate, String> {
    match super::rate(text)? {
        Rate(0) => Err("is nothing; say what is carried, such as 100Mbit/s or 12.5MB/s".to_owned()),
        rate if rate > MOST_RATE => Err(format!(
            "is more than anything carries; check the unit (Mbit/s are bits, MB/s bytes), at most {MOST_RATE}"
        )),
        rate => Ok(rate),
    }
}

fn round_trip(text: &str) -> Result<Duration, String> {
    match super::duration(text)? {
        Duration::ZERO => Err("is no round trip; one in a hall takes 100us".to_owned()),
        rtt if rtt > MOST_ROUND_TRIP => {
            Err("is no round trip of a link; check the unit (us, ms), at most 60s".to_owned())
        }
        rtt => Ok(rtt),
    }
}

fn overhead(text: &str) -> Result<Duration, String> {
    let overhead = super::duration(text)?;
    let told = "is no time a write takes; check the unit (us, ms), at most 60s";
    if overhead > MOST_ROUND_TRIP { Err(told.to_owned()) } else { Ok(overhead) }
}

fn span(text: &str) -> Result<Duration, String> {
    match super::duration(text)? {
        Duration::ZERO => Err("is no time at all; give it as 10s or 5min".to_owned()),
        span if span > MOST_SPAN => {
            Err("is more than a year; check the unit (s, min, h)".to_owned())
        }
        span => Ok(span),
    }
}

fn size_to(text: &str, most: Bytes) -> Result<Bytes, String> {
    match super::bytes(text)? {
        Bytes::ZERO => Err("is nothing; give a size such as 64KiB".to_owned()),
        size if size > most => Err(format!("is absurd here; check the unit, at most {most}")),
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
    if fits {
        Ok(grain)
    } else {
        Err("is no granularity; a power of two from 4KiB to 1MiB".to_owned())
    }
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.parse().map_err(|_| "is no number; such as 50 or 22.7, without a unit")?;
    let fits = number > 0.0 && number <= 1e9;
    if fits {
        Ok(number)
    } else {
        Err("is absurd here; more than 0, at most 1000000000".to_owned())
    }
}

pub(super) fn work(word: &str) -> Result<Work, String> {
    let known = || Work::ALL.map(Work::word).join(", ");
    Work::ALL
        .into_iter()
        .find(|work| work.word() == word)
        .ok_or_else(|| format!("one of {}", known()))
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    fn refusal(line: &str) -> String {
        Cli::try_parse_from(line.split(' ')).expect_err(line).to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_option_with_a_remedy() {
        let window = "helio plan window --rate 100Mbit/s";
        let queue = "helio plan queue --write-size 8KiB --rate 1MB/s --rtt 50ms";
        for (line, option, remedy) in [
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
            (format!("{queue} --writes 0"), "--writes", "more than 0"),
            (format!("{queue} --writes NaN"), "--writes", "more than 0"),
            (format!("{queue} --writes 50/s"), "--writes", "without a unit"),
            (format!("{queue} --writes 50 --work tpcc"), "--work", "one of oltp, redo-logs"),
            ("helio plan marks --volume 5EB".to_owned(), "--volume", "TiB"),
            (
                "helio plan marks --volume 5GB --granularity 65000B".to_owned(),
                "--granularity",
                "power of two",
            ),
        ] {
            let told = refusal(&line);
            let says = told.contains(option) || told.contains("'-1'");
            assert!(says && told.contains(remedy), "{line}: {told}");
        }
    }
}
