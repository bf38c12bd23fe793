// SPDX-License-Identifier: Apache-2.0
//! The command lines of `helio lab relay` and `helio lab wan`.

use super::number::{address, whole};
use super::{bytes, duration, some_rate};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use helio_netmodel::Preset;
use helio_units::{Bytes, Rate};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// An emulated link for TCP connections.
#[derive(Clone, Debug, Args)]
pub struct Relay {
    /// Address to listen on.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub listen: SocketAddr,
    /// Target address of the connections.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub to: SocketAddr,
    /// Properties of the link.
    #[command(flatten)]
    pub line: Line,
    /// Changes of the link over time.
    #[command(flatten)]
    pub course: Course,
}

/// Properties of an emulated link.
#[derive(Clone, Debug, Args)]
pub struct Line {
    /// Preset link with a rate and, for some, a round trip.
    ///
    /// --rtt and --rate override the preset.
    #[arg(long, value_name = "NAME", value_parser = preset())]
    pub link: Option<Preset>,
    /// Round-trip time, for example 32ms; default: that of --link, otherwise 0.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub rtt: Option<Duration>,
    /// Rate in each direction, for example 100Mbit/s; default: that of --link, or none.
    #[arg(long, value_name = "RATE", value_parser = some_rate)]
    pub rate: Option<Rate>,
    /// Maximum random delay added in each direction; the order is preserved.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms")]
    pub jitter: Duration,
    /// Queue limit in each direction; default: rate x round trip, at least 256KiB.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub queue: Option<Bytes>,
}

/// Changes of the link over time.
#[derive(Clone, Debug, Args)]
pub struct Course {
    /// Run the commands of this file, one `TIME COMMAND` per row, at their time.
    ///
    /// Times count from the start of the link. The row `repeat every TIME` repeats the schedule.
    #[arg(long, value_name = "FILE")]
    pub schedule: Option<PathBuf>,
    /// Run one scheduled command, for example "10s cut"; may be repeated.
    #[arg(long, value_name = "LINE")]
    pub at: Vec<String>,
    /// Replay a recording of `helio lab record`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["link", "rtt", "rate", "jitter"])]
    pub recording: Option<PathBuf>,
    /// Repeat the recording at its end; default: keep its last values.
    #[arg(long, requires = "recording")]
    pub repeat: bool,
}

/// An emulated link for IP packets.
#[derive(Clone, Debug, Args)]
pub struct Wan {
    /// Properties of the link.
    #[command(flatten)]
    pub line: Line,
    /// Packet loss in each direction, for example 0.1%.
    #[arg(long, value_name = "PERCENT", default_value = "0%", conflicts_with = "recording")]
    pub loss: helio_wan::Ppm,
    /// Changes of the link over time.
    #[command(flatten)]
    pub course: Course,
    /// Maximum packet size (MTU) in bytes, 576 to 65535.
    #[arg(long, value_name = "BYTES", default_value_t = 1500,
          value_parser = whole::<u16>(u64::from(helio_wan::Emulator::LEAST_MTU), u64::from(u16::MAX)))]
    pub mtu: u16,
    /// Network namespace of the left end; default: a new one.
    #[arg(long, value_name = "NAME")]
    pub left: Option<String>,
    /// Network namespace of the right end; default: a new one.
    #[arg(long, value_name = "NAME")]
    pub right: Option<String>,
    /// Seed of the random numbers for loss and jitter.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

/// The preset links, each with its rate and the source of the rate.
fn preset() -> impl TypedValueParser<Value = Preset> {
    let known = Preset::ALL.map(|preset| PossibleValue::new(preset.name).help(preset.source));
    PossibleValuesParser::new(known).try_map(|name| name.parse::<Preset>())
}
