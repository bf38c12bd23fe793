// SPDX-License-Identifier: Apache-2.0
//! What `helio lab relay` and `helio lab wan` are told.

use super::number::{address, whole};
use super::{bytes, duration, some_rate};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use helio_netmodel::Preset;
use helio_units::{Bytes, Rate};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A line for TCP connections.
#[derive(Clone, Debug, Args)]
pub struct Relay {
    /// Where to listen.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub listen: SocketAddr,
    /// Where connections go.
    #[arg(long, value_name = "IP:PORT", value_parser = address)]
    pub to: SocketAddr,
    /// What the link is like.
    #[command(flatten)]
    pub line: Line,
    /// And how that changes.
    #[command(flatten)]
    pub course: Course,
}

/// What an emulated link is like.
#[derive(Clone, Debug, Args)]
pub struct Line {
    /// A line with a name: its rate, and its round trip where it has one; what is said besides goes before.
    #[arg(long, value_name = "NAME", value_parser = preset())]
    pub link: Option<Preset>,
    /// Round trip; without it, the named line's, or none.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub rtt: Option<Duration>,
    /// Rate each way; without it, the named line's, or no limit.
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    pub rate: Option<Rate>,
    /// The most that is added to the delay, each way, by chance; order is kept.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms")]
    pub jitter: Duration,
    /// What waits at most for a limited rate, each way; without it, rate times round trip, at least 256 KiB.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub queue: Option<Bytes>,
}

/// How a line changes by itself.
#[derive(Clone, Debug, Args)]
pub struct Course {
    /// Carry out the commands of this file when their time comes: lines of `TIME COMMAND`, counted from when the line
    /// is there, and `repeat every TIME`.
    #[arg(long, value_name = "FILE")]
    pub schedule: Option<PathBuf>,
    /// One such line, as `10s cut`; several times for several.
    #[arg(long, value_name = "LINE")]
    pub at: Vec<String>,
    /// Be as this file says, at its pace: what `helio lab record` wrote.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["link", "rtt", "rate", "jitter"])]
    pub weather: Option<PathBuf>,
    /// Begin the weather again when it is over; without it, the line stays as it was at last.
    #[arg(long, requires = "weather")]
    pub repeat: bool,
}

/// A line below TCP.
#[derive(Clone, Debug, Args)]
pub struct Wan {
    /// What it is like.
    #[command(flatten)]
    pub line: Line,
    /// Share of the packets that are lost, each way.
    #[arg(long, value_name = "PERCENT", default_value = "0%", conflicts_with = "weather")]
    pub loss: helio_wan::Ppm,
    /// And how that changes.
    #[command(flatten)]
    pub course: Course,
    /// Largest packet, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = whole::<u16>(u64::from(helio_wan::Emulator::LEAST_MTU), u64::from(u16::MAX)))]
    pub mtu: u16,
    /// Network namespace of the left end; without it, a new one.
    #[arg(long, value_name = "NAME")]
    pub left: Option<String>,
    /// Network namespace of the right end; without it, a new one.
    #[arg(long, value_name = "NAME")]
    pub right: Option<String>,
    /// Decides loss and jitter.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// The lines with a name, each with its figure and where that is from.
fn preset() -> impl TypedValueParser<Value = Preset> {
    let known = Preset::ALL.map(|preset| PossibleValue::new(preset.name).help(preset.source));
    PossibleValuesParser::new(known).try_map(|name| name.parse::<Preset>())
}
