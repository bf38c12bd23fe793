// SPDX-License-Identifier: Apache-2.0
//! What `helio lab link`, `search`, `record` and `answer` are told.

use super::number::{address, more_than_nothing, size, whole};
use super::{bytes, duration, group_name, some_time};
use clap::{Args, Subcommand};
use helio_lab::{LEAST_FLUSH, MOST_BUFFER, MOST_FLUSH, MOST_STREAMS, Mode, RATIOS};
use helio_tls::PublicKey;
use helio_units::{Bytes, Rate};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Which end of a measurement, or which test of a disk.
#[derive(Clone, Debug, Subcommand)]
pub enum Link {
    /// The end that sends: waits for the standbys, tells them the terms, and measures.
    Primary(Primary),
    /// The end that receives: calls the primary and serves its run, or all runs of its search.
    Standby(Standby),
    /// Test how fast this file can be written, each write on the disk before the next; it is emptied first, and stays.
    Write(Trial),
    /// Test how fast this file can be read, to its end.
    Read(Trial),
}

/// The end that sends.
#[derive(Clone, Debug, Args)]
pub struct Primary {
    /// Where to listen.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub local: SocketAddr,
    /// A standby's address, of which only the IP counts: nobody else is let in; repeat it for several standbys.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub remote: Vec<SocketAddr>,
    /// How many standbys; without it, as many as there are --remote, at least one.
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u16>(1, helio_lab::MOST_STANDBYS as u64))]
    pub standbys: Option<u16>,
    /// When a flush is over: sync, nearsync, async or superasync.
    #[arg(long, value_name = "MODE", value_parser = helio_lab::show::mode, default_value = "nearsync")]
    pub mode: Mode,
    /// Size of a flush.
    #[arg(long, value_name = "SIZE", value_parser = size(LEAST_FLUSH, MOST_FLUSH), default_value = "64KiB")]
    pub flush: Bytes,
    /// Length of the run; without it, 4s, or until --flushes are sent.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// End after so many flushes.
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1, u64::MAX))]
    pub flushes: Option<u64>,
    /// Most that is sent a second.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub target: Option<Rate>,
    /// Connections to each standby, each with flushes of its own.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u16>(1, u64::from(MOST_STREAMS)))]
    pub streams: u16,
    /// Make flushes that can be compressed so many times, and compress them.
    #[arg(long, value_name = "TIMES", value_parser = ratio)]
    pub compress: Option<f64>,
    /// Most bytes of a stream that may be sent and not acknowledged: an exact window, in any mode.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub window: Option<Bytes>,
    /// What both ends have in common.
    #[command(flatten)]
    pub common: Common,
}

/// The end that receives.
#[derive(Clone, Debug, Args)]
pub struct Standby {
    /// The primary's address.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub remote: SocketAddr,
    /// This end's own address, for --bind.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub local: Option<SocketAddr>,
    /// Call from the IP of --local, not from the one the host would choose.
    #[arg(long, requires = "local")]
    pub bind: bool,
    /// How fast what was received is applied; without it, at once.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub apply: Option<Rate>,
    /// Most a stream holds that was received and not applied, and takes at once; without it, four flushes.
    #[arg(long, value_name = "SIZE", value_parser = size(1, MOST_BUFFER))]
    pub room: Option<Bytes>,
    /// What both ends have in common.
    #[command(flatten)]
    pub common: Common,
}

/// What both ends have in common.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Socket send buffer to ask for; without it, the kernel tunes it.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub send_buffer: Option<Bytes>,
    /// Socket receive buffer to ask for; without it, the kernel tunes it.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub receive_buffer: Option<Bytes>,
    /// Rate of a disk that is thought up, which every flush is written to; without it, writing takes no time.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub disk: Option<Rate>,
    /// What every write to it takes besides.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms", requires = "disk")]
    pub disk_overhead: Duration,
    /// Let small segments wait for more.
    #[arg(long)]
    pub nagle: bool,
    /// Let the kernel wait in send and receive calls.
    #[arg(long)]
    pub blocking: bool,
    /// How much of each pause is spent looking at the clock; without it, as much as waking costs, which is measured.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub spin: Option<Duration>,
    /// Tell every send, receive and congestion on standard error; slows it down.
    #[arg(long)]
    pub verbose: bool,
    /// How to reach each other.
    #[command(flatten)]
    pub meeting: Meeting,
}

/// How two ends reach each other.
#[derive(Clone, Debug, Args)]
pub struct Meeting {
    /// Congestion control by the kernel's name; without it, the host's.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Speak TLS with the key in this file: see `helio key new`.
    #[arg(long, value_name = "FILE", requires = "peer_key")]
    pub key: Option<PathBuf>,
    /// The other end's key; repeat it for several standbys.
    #[arg(long, value_name = "KEY", requires = "key")]
    pub peer_key: Vec<PublicKey>,
    /// How long the other end may take to come.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min")]
    pub wait: Duration,
    /// As JSON, on standard output alone.
    #[arg(long)]
    pub json: bool,
}

/// A test of a disk.
#[derive(Clone, Debug, Args)]
pub struct Trial {
    /// A file on it.
    pub file: PathBuf,
    /// Bytes of each operation.
    #[arg(long, value_name = "SIZE", value_parser = size(1, MOST_FLUSH), default_value = "64KiB")]
    pub flush: Bytes,
    /// How long; without it, 4s, or until there were as many as --flushes says.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// End after so many operations.
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1, u64::MAX))]
    pub flushes: Option<u64>,
    /// Through the page cache; otherwise direct.
    #[arg(long)]
    pub cached: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// A measurement of a disk.
#[derive(Clone, Debug, Args)]
pub struct DiskOf {
    /// A folder on it; what is measured lies there meanwhile, and nothing stays.
    pub folder: PathBuf,
    /// How much of it is measured: as much as is written in the time that counts, since disks are quicker over little.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = disk_span)]
    pub size: Bytes,
    /// How many members lie on it and are written at once: what is told is one's share.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = whole::<u32>(1, 64))]
    pub members: u32,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

fn disk_span(text: &str) -> Result<Bytes, String> {
    let (least, most) = (helio_lab::LEAST_SPAN, Bytes::gib(1024));
    match bytes(text)? {
        size if size < least || size > most => Err(format!("from {least} to {most}")),
        size => Ok(size),
    }
}

/// A search for the socket buffer.
#[derive(Clone, Debug, Args)]
pub struct Search {
    /// Where to listen; at the other end runs `helio lab link standby`.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub local: SocketAddr,
    /// The standby's address, of which only the IP counts: nobody else is let in.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub remote: Option<SocketAddr>,
    /// The first size.
    #[arg(long, value_name = "SIZE", value_parser = size(1024, u64::MAX), default_value = "64KiB")]
    pub from: Bytes,
    /// The last one at most.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "32MiB")]
    pub most: Bytes,
    /// How long each run is; 60s is more exact.
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    pub time: Duration,
    /// Size of a flush.
    #[arg(long, value_name = "SIZE", value_parser = size(LEAST_FLUSH, MOST_FLUSH), default_value = "64KiB")]
    pub flush: Bytes,
    /// Connections, each with buffers of its own.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u16>(1, u64::from(MOST_STREAMS)))]
    pub streams: u16,
    /// Double an exact window in place of the buffers, of which Linux grants twice what is asked for.
    #[arg(long)]
    pub exact: bool,
    /// Leave room for so long a standstill of the link...
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "workload")]
    pub hiccup: Option<Duration>,
    /// ... while so much is written a second.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing, requires = "hiccup")]
    pub workload: Option<Rate>,
    /// Write what a configuration needs into a new file.
    #[arg(long, value_name = "FILE", requires = "group")]
    pub write_config: Option<PathBuf>,
    /// For which group that is.
    #[arg(long, value_name = "NAME", value_parser = group_name)]
    pub group: Option<String>,
    /// Write a file for /etc/sysctl.d that lets sockets have the recommended buffers, also after a restart.
    #[arg(long, value_name = "FILE")]
    pub write_sysctl: Option<PathBuf>,
    /// How to reach each other.
    #[command(flatten)]
    pub meeting: Meeting,
}

/// A recording of a link.
#[derive(Clone, Debug, Args)]
pub struct Record {
    /// The file to write; one that exists is never replaced.
    pub file: PathBuf,
    /// The other end, where `helio lab answer` runs.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub remote: SocketAddr,
    /// Call from this address; without it, from the one the host chooses.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub local: Option<SocketAddr>,
    /// How long; Ctrl-C ends it earlier, with a whole file.
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "1min")]
    pub time: Duration,
    /// Write a row so often: 100ms to 1min.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub every: Duration,
    /// Time between two probes: 1ms to 1s; loss is told as exactly as there are probes in a row.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    pub probe: Duration,
    /// Measure the rate so often, by bursts of at most 720 kB; in between it holds.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub rate_every: Duration,
    /// Send no bursts: the file tells no rates, and its replay has no limit.
    #[arg(long, conflicts_with = "rate_every")]
    pub no_rate: bool,
    /// How long the other end may take to come.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min")]
    pub wait: Duration,
}

/// The end that answers.
#[derive(Clone, Debug, Args)]
pub struct Answer {
    /// Where to listen.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub local: SocketAddr,
    /// Who may ask: nobody else is heard; without it, --local is on loopback.
    #[arg(long, value_name = "IP")]
    pub remote: Option<IpAddr>,
}

/// How many times smaller compression makes a flush.
fn ratio(text: &str) -> Result<f64, String> {
    let (least, most) = (RATIOS.start(), RATIOS.end());
    let found = text.parse().ok().filter(|ratio| RATIOS.contains(ratio));
    found.ok_or_else(|| format!("write a number from {least} to {most}"))
}
