// SPDX-License-Identifier: Apache-2.0
//! The command lines of `helio lab link`, `search`, `disk`, `record` and `answer`.

use super::number::{address, more_than_nothing, size, whole};
use super::{bytes, duration, group_name, some_time};
use clap::{Args, Subcommand};
use helio_lab::{LEAST_FLUSH, MOST_BUFFER, MOST_FLUSH, MOST_STREAMS, Mode, RATIOS};
use helio_tls::PublicKey;
use helio_units::{Bytes, Rate};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The ends of a link measurement, and the disk tests.
#[derive(Clone, Debug, Subcommand)]
pub enum Link {
    /// Run the sending end: wait for the standbys and measure.
    ///
    /// The primary sends the settings of the run to its standbys.
    Primary(Primary),
    /// Run the receiving end: connect to the primary and serve its run.
    ///
    /// Also serves all runs of a `helio lab search`.
    Standby(Standby),
    /// Measure the write rate of a disk with a file (the file is truncated first).
    ///
    /// Each write is durable before the next one starts. The test does not remove the file.
    Write(Trial),
    /// Measure the read rate of a disk with a file.
    ///
    /// The test stops at the end of the file.
    Read(Trial),
}

/// The sending end.
#[derive(Clone, Debug, Args)]
pub struct Primary {
    /// Address to listen on.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub local: SocketAddr,
    /// Accept only this standby; the port is ignored; may be repeated.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub remote: Vec<SocketAddr>,
    /// Number of standbys, 1 to 16; default: the number of --remote, at least 1.
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u16>(1, helio_lab::MOST_STANDBYS as u64))]
    pub standbys: Option<u16>,
    /// Mode: sync, nearsync, async or superasync.
    ///
    /// The mode defines when a flush is complete.
    #[arg(long, value_name = "MODE", value_parser = helio_lab::show::mode, default_value = "nearsync")]
    pub mode: Mode,
    /// Size of a flush, 64B to 64MiB.
    #[arg(long, value_name = "SIZE", value_parser = size(LEAST_FLUSH, MOST_FLUSH), default_value = "64KiB")]
    pub flush: Bytes,
    /// Length of the run; default: 4s, or until --flushes are sent.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// Stop after this number of flushes.
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1, u64::MAX))]
    pub flushes: Option<u64>,
    /// Maximum send rate, for example 10MiB/s; default: no limit.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub target: Option<Rate>,
    /// Connections to each standby, 1 to 64; each sends its own flushes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u16>(1, u64::from(MOST_STREAMS)))]
    pub streams: u16,
    /// Compress flushes by this ratio, 1 to 20, for example 2.5.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub compress: Option<f64>,
    /// Maximum unacknowledged bytes per connection; at least one flush.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub window: Option<Bytes>,
    /// Options of both ends.
    #[command(flatten)]
    pub common: Common,
}

/// The receiving end.
#[derive(Clone, Debug, Args)]
pub struct Standby {
    /// Address of the primary.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub remote: SocketAddr,
    /// Address of this end, for --bind.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub local: Option<SocketAddr>,
    /// Connect from the IP address of --local; default: the host chooses.
    #[arg(long, requires = "local")]
    pub bind: bool,
    /// Rate at which received data is applied; default: no limit.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub apply: Option<Rate>,
    /// Buffer per connection for data not yet applied, up to 1GiB; default: 4 flushes.
    #[arg(long, value_name = "SIZE", value_parser = size(1, MOST_BUFFER))]
    pub room: Option<Bytes>,
    /// Options of both ends.
    #[command(flatten)]
    pub common: Common,
}

/// Options of both ends.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Socket send buffer to request; default: tuned by the kernel.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub send_buffer: Option<Bytes>,
    /// Socket receive buffer to request; default: tuned by the kernel.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub receive_buffer: Option<Bytes>,
    /// Rate of a simulated disk for the flushes; default: writes take no time.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub disk: Option<Rate>,
    /// Overhead of each write to the simulated disk, at most 10s.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms", requires = "disk")]
    pub disk_overhead: Duration,
    /// Enable Nagle's algorithm, which delays small segments.
    #[arg(long)]
    pub nagle: bool,
    /// Use blocking send and receive calls.
    #[arg(long)]
    pub blocking: bool,
    /// Busy-wait time at the end of each pause; default: the measured wake-up time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub spin: Option<Duration>,
    /// Log each send, receive and congestion to standard error (slows the run down).
    #[arg(long)]
    pub verbose: bool,
    /// Connection between the two ends.
    #[command(flatten)]
    pub meeting: Meeting,
}

/// Connection between the two ends.
#[derive(Clone, Debug, Args)]
pub struct Meeting {
    /// TCP congestion control, for example cubic or bbr; default: the host's.
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Use TLS with the key in this file; `helio key new` creates one.
    #[arg(long, value_name = "FILE", requires = "peer_key")]
    pub own_key: Option<PathBuf>,
    /// Public key of the other end; may be repeated for several standbys.
    #[arg(long, value_name = "KEY", requires = "own_key")]
    pub peer_key: Vec<PublicKey>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// A disk test.
#[derive(Clone, Debug, Args)]
pub struct Trial {
    /// File on the disk.
    pub file: PathBuf,
    /// Size of each operation, 1B to 64MiB.
    #[arg(long, value_name = "SIZE", value_parser = size(1, MOST_FLUSH), default_value = "64KiB")]
    pub flush: Bytes,
    /// Length of the test; default: 4s, or until --flushes are done.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub time: Option<Duration>,
    /// Stop after this number of operations.
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1, u64::MAX))]
    pub flushes: Option<u64>,
    /// Use the page cache; default: direct I/O.
    #[arg(long)]
    pub cached: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A disk measurement.
#[derive(Clone, Debug, Args)]
pub struct DiskOf {
    /// Directory on the disk; temporary files are removed at the end.
    pub folder: PathBuf,
    /// Size of the measured area, 16MiB to 1TiB.
    ///
    /// Disks are faster on a small area. Use the amount of data that the workload writes in the time of interest.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = disk_span)]
    pub size: Bytes,
    /// Members that share the disk, 1 to 64; results are for one member.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = whole::<u32>(1, 64))]
    pub members: u32,
    /// Measure a mirror instead.
    #[command(flatten)]
    pub mirror: MirrorOf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A measurement of a mirror of two disks.
#[derive(Clone, Debug, Args)]
pub struct MirrorOf {
    /// Measure small durable writes on this disk, on a remote disk, and mirrored on both.
    #[arg(long, conflicts_with = "members")]
    pub mirror: bool,
    /// Directory on the disk that is remote; default: FOLDER.
    #[arg(long, value_name = "FOLDER", requires = "mirror")]
    pub remote: Option<PathBuf>,
    /// Round trip of the emulated link to the remote disk.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration, requires = "mirror")]
    pub rtt: Duration,
    /// Rate of the link in each direction, for example 100Mbit/s.
    #[arg(long, value_name = "RATE", default_value = "1Gbit/s", value_parser = more_than_nothing, requires = "mirror")]
    pub rate: Rate,
    /// Writes of each kind, 1 to 1000000.
    #[arg(long, value_name = "NUMBER", default_value = "2000", value_parser = whole::<u64>(1, 1_000_000), requires = "mirror")]
    pub writes: u64,
}

fn disk_span(text: &str) -> Result<Bytes, String> {
    let (least, most) = (helio_lab::LEAST_SPAN, Bytes::gib(1024));
    match bytes(text)? {
        size if size < least || size > most => Err(format!("must be from {least} to {most}")),
        size => Ok(size),
    }
}

/// A search for the socket buffer size.
#[derive(Clone, Debug, Args)]
pub struct Search {
    /// Address to listen on.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub local: SocketAddr,
    /// Accept only this standby; the port is ignored.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub remote: Option<SocketAddr>,
    /// First size of the search, at least 1KiB.
    #[arg(long, value_name = "SIZE", value_parser = size(1024, u64::MAX), default_value = "64KiB")]
    pub from: Bytes,
    /// Last size of the search.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "32MiB")]
    pub most: Bytes,
    /// Length of each run; 60s is more exact.
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    pub time: Duration,
    /// Size of a flush, 64B to 64MiB.
    #[arg(long, value_name = "SIZE", value_parser = size(LEAST_FLUSH, MOST_FLUSH), default_value = "64KiB")]
    pub flush: Bytes,
    /// Number of connections, 1 to 64; each has its own buffers.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u16>(1, u64::from(MOST_STREAMS)))]
    pub streams: u16,
    /// Search for an exact window instead of a socket buffer.
    ///
    /// Linux grants twice the requested buffer, so a buffer is not an exact window.
    #[arg(long)]
    pub exact: bool,
    /// Length of a link stall that the buffer must absorb, for example 10s.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "workload")]
    pub hiccup: Option<Duration>,
    /// Write rate during the link stall, for example 3MiB/s.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing, requires = "hiccup")]
    pub workload: Option<Rate>,
    /// Write the configuration for --group to a new file.
    #[arg(long, value_name = "FILE", requires = "group")]
    pub write_config: Option<PathBuf>,
    /// Group name for --write-config.
    #[arg(long, value_name = "NAME", value_parser = group_name)]
    pub group: Option<String>,
    /// Write a file for /etc/sysctl.d that permits the recommended buffers.
    #[arg(long, value_name = "FILE")]
    pub write_sysctl: Option<PathBuf>,
    /// Connection between the two ends.
    #[command(flatten)]
    pub meeting: Meeting,
}

/// A recording of a link.
#[derive(Clone, Debug, Args)]
pub struct Record {
    /// New file for the recording; an existing file is not replaced.
    pub file: PathBuf,
    /// Address of `helio lab answer` on the other host.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub remote: SocketAddr,
    /// Send from this address; default: the host chooses.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub local: Option<SocketAddr>,
    /// Length of the recording; Ctrl-C ends it earlier with a complete file.
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "1min")]
    pub time: Duration,
    /// Time per row, 100ms to 1min.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub every: Duration,
    /// Time between two probes, 1ms to 1s; more probes per row measure loss better.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    pub probe: Duration,
    /// Time between two rate measurements (bursts of at most 720 kB).
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub rate_every: Duration,
    /// Do not measure the rate; the replay then has no rate limit.
    #[arg(long, conflicts_with = "rate_every")]
    pub no_rate: bool,
}

/// The end that serves recordings.
#[derive(Clone, Debug, Args)]
pub struct Answer {
    /// Address to listen on.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub local: SocketAddr,
    /// Accept only this address; required unless --local is a loopback address.
    #[arg(long, value_name = "IP")]
    pub remote: Option<IpAddr>,
}

/// A compression ratio.
fn ratio(text: &str) -> Result<f64, String> {
    let (least, most) = (RATIOS.start(), RATIOS.end());
    let found = text.parse().ok().filter(|ratio| RATIOS.contains(ratio));
    found.ok_or_else(|| format!("must be a number from {least} to {most}"))
}
