// SPDX-License-Identifier: Apache-2.0
//! What a node knows of the other node of a group, and of the connection to it.

use crate::wire;
use helio_units::{Bytes, Items, Rate, Role, State, WallTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The connection to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// Connected; the handshake is complete.
    Connected,
    /// Being tried.
    Connecting,
    /// The peer responded and refused; `reason` gives the reason.
    Refused,
    /// Not wanted now.
    #[default]
    None,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "connected",
            Self::Connecting => "connecting",
            Self::Refused => "refused",
            Self::None => "none",
        })
    }
}

/// The other node of a group. Its reports have the age `age_seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerStatus {
    /// Its node name.
    pub name: String,
    /// Address of the peer, `IP:PORT` or `HOST:PORT`.
    pub address: String,
    /// The connection to it.
    pub connection: Connection,
    /// Time of its last change, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub connection_since_ms: WallTime,
    /// The reason.
    pub reason: String,
    /// Time since its last message; absent if there was none since the daemon started.
    #[serde(default, with = "wire::seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub age_seconds: Option<Duration>,
    /// Its role when it was connected last.
    #[serde(default)]
    #[schemars(with = "Option<wire::RoleWord>")]
    pub role: Option<Role>,
    /// Its state, as it reported it.
    #[serde(default)]
    #[schemars(with = "Option<wire::StateWord>")]
    pub state: Option<State>,
    /// What failed on it, as it reported last.
    #[serde(default)]
    pub fault: Option<String>,
    /// What this node knows of the peer's copy, connected or not: `complete`, `given-up`, `suspect`, `failed`, `unheard`, `inconsistent` or
    /// `none`. If it is not complete, this node may have the last complete copy, which is given up only with `--last-copy`.
    #[serde(default)]
    pub copy: String,
    /// Data that only this node may have, as it reported at its last connection; absent if unknown.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub only_there_bytes: Option<Bytes>,
    /// When a client changed data on it last, as it reported in the last handshake, in milliseconds since 1970-01-01 UTC. Only while
    /// the handshake is refused, as in a split brain: a connected peer does not report each write. Absent also if it reported none.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub last_write_ms: Option<WallTime>,
    /// The public key that it proved to have, if the connection uses TLS.
    #[serde(default)]
    pub key: Option<String>,
    /// The last connection to this node that was refused because of its key; absent while the peer is connected, and
    /// after a minute.
    #[serde(default)]
    pub wrong_key: Option<WrongKey>,
    /// Attempts to connect that failed since the last handshake with it, and connections that ended since one lasted; absent if there were none.
    #[serde(default)]
    pub attempts: Option<AttemptsStatus>,
    /// Round trip of the last heartbeat, including its wait behind data; absent before the first one.
    #[serde(default, with = "wire::micros_or_null")]
    #[schemars(with = "Option<u64>")]
    pub heartbeat_us: Option<Duration>,
    /// The least round trip of a heartbeat on this connection.
    #[serde(default, with = "wire::micros_or_null")]
    #[schemars(with = "Option<u64>")]
    pub heartbeat_least_us: Option<Duration>,
    /// The TCP connection, while there is one.
    #[serde(default)]
    pub link: Option<LinkStatus>,
}

/// Attempts to connect to the peer that failed, and connections that ended. A connection that ends because of a change of roles does not
/// count. A connection lasts if there is progress on it after twice the `peer-timeout`, and after at least 5 s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptsStatus {
    /// How many.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub count: Items,
    /// When the first of them failed or ended, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub since_ms: WallTime,
    /// Why the last one failed or ended.
    pub reason: String,
    /// If three connections ended before one lasted, what the last ones had in common: `silent`, no data arrived after the handshake, as on a
    /// network that discards large packets; or `ends`, anything else. Otherwise absent.
    #[serde(default)]
    pub unsteady: Option<String>,
    /// Time until the next attempt; absent if one is under way, or if the peer is to connect.
    #[serde(default, with = "wire::seconds_or_null")]
    #[schemars(with = "Option<f64>")]
    pub next_seconds: Option<Duration>,
}

/// A connection that was refused because of its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongKey {
    /// The public key of the client.
    pub key: String,
    /// Source address of its connection, `IP:PORT`.
    pub address: String,
    /// How long ago.
    #[serde(with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub age_seconds: Duration,
}

/// The TCP connection to the peer, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkStatus {
    /// Smoothed round trip.
    #[serde(with = "wire::micros")]
    #[schemars(with = "u64")]
    pub rtt_us: Duration,
    /// The least recent round trip, from the kernel.
    #[serde(default, with = "wire::micros")]
    #[schemars(with = "u64")]
    pub rtt_least_us: Duration,
    /// Retransmitted segments since the start of the connection.
    pub retransmits: u64,
    /// The kernel's congestion control in use, such as `cubic`.
    pub congestion_control: String,
    /// The sending socket buffer.
    pub send_buffer: BufferStatus,
    /// The receiving socket buffer.
    pub receive_buffer: BufferStatus,
    /// Congestion window: segments times segment size.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub window_bytes: Bytes,
    /// The delivery rate measured by the kernel.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub delivery_rate_bytes_per_second: Rate,
    /// Time with data to send since the start of the connection.
    #[serde(default, with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub busy_seconds: Duration,
    /// The part of that in which the receive buffer of the peer was the limit.
    #[serde(default, with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub peer_buffer_limited_seconds: Duration,
    /// The part of it in which the send buffer of this end was the limit.
    #[serde(default, with = "wire::seconds")]
    #[schemars(with = "f64")]
    pub send_buffer_limited_seconds: Duration,
}

/// A socket buffer: requested and actual size (Linux grants twice the requested size, up to a limit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BufferStatus {
    /// The size in the configuration file; absent: the kernel decides.
    #[serde(default, with = "wire::number_or_null")]
    #[schemars(with = "Option<u64>")]
    pub requested_bytes: Option<Bytes>,
    /// The size in the kernel.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub actual_bytes: Bytes,
}
