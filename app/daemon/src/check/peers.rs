// SPDX-License-Identifier: Apache-2.0
//! The peers: can they be reached now, do they hold their keys, do they accept this node's.

use super::Finding;
use crate::config::{NodeView, PeerAddress, PeerView};
use crate::names::{self, Unresolved};
use crate::sealed::{Sealed, tls_error};
use helio_tls::{PeerTls, Purpose, Session};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection or a handshake takes no longer.
const PATIENCE: Duration = Duration::from_secs(3);
/// A peer that refuses this node's key says so within this and two round trips.
const REFUSAL_WITHIN: Duration = Duration::from_millis(200);

/// Each peer of this node, once it has answered or not.
pub(super) fn check<'a>(
    view: &NodeView<'a>,
    node: &'a str,
    own: Option<&'a PeerTls>,
) -> impl Iterator<Item = Finding> + use<'a> {
    let peers = view.groups.iter().filter_map(|group| group.peer);
    let peers: BTreeMap<&str, PeerView<'_>> = peers.map(|peer| (peer.name, peer)).collect();
    peers.into_values().map(move |view| peer(view, node, own))
}

fn peer(view: PeerView<'_>, node: &str, own: Option<&PeerTls>) -> Finding {
    let PeerView { name, node: peer } = view;
    let what = format!("peer {name}");
    if own.is_none() && !peer.keys.is_empty() {
        let why = format!("{} was not tried: this node's own key cannot be used", peer.address);
        return Finding::warn(what, why, "repair the key, and check again");
    }
    let session = || own.map(|own| own.dial(&peer.keys, Purpose::Peer));
    let reached = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Unreached::Connect(error.to_string()))
        .and_then(|runtime| runtime.block_on(reach_any(&peer.address, own.is_some(), &session)));
    match reached {
        Ok((at, round_trip)) => {
            let keys = if own.is_some() {
                "; it proved its key and accepts the key of this node"
            } else {
                ""
            };
            let time = round_trip.as_secs_f64() * 1000.0;
            Finding::ok(what, format!("{at} responds in {time:.1} ms{keys}"))
        }
        Err(Unreached::Resolve(name)) => Finding::warn(what, name.why, name.hint),
        Err(Unreached::Connect(why)) => {
            let dials = node < name;
            let who = if dials {
                format!("{node} connects to {name}")
            } else {
                format!("{name} opens the connection to {node}, so this may be no problem")
            };
            Finding::warn(
                what,
                format!("{} cannot be reached now: {why}", peer.address),
                format!(
                    "{who}; start `helio daemon --node {name}` on {name}, or check its `address` and the firewalls"
                ),
            )
        }
        Err(Unreached::Tls(why)) => Finding::warn(
            what,
            format!("{} responds, but {why}", peer.address),
            format!(
                "compare `helio key show` on each node with the `key` of [node.{node}] and [node.{name}] in the file"
            ),
        ),
    }
}

/// What a peer did not do.
enum Unreached {
    Resolve(Unresolved),
    Connect(String),
    Tls(String),
}

/// Tries every address of the peer, as the daemon does. Returns which one was reached, and how long that took.
async fn reach_any(
    peer: &PeerAddress,
    keyed: bool,
    session: &dyn Fn() -> Option<Session>,
) -> Result<(String, Duration), Unreached> {
    let addresses = match peer {
        PeerAddress::Fixed(address) => vec![*address],
        PeerAddress::Name { host, port } => {
            let found = names::resolve(host, *port).await;
            let to_try = |found| names::to_try(found, keyed);
            found.and_then(to_try).map_err(Unreached::Resolve)?
        }
    };
    let shown = |address: &SocketAddr| match peer {
        PeerAddress::Fixed(_) => address.to_string(),
        PeerAddress::Name { .. } => format!("{peer} ({address})"),
    };
    let mut failed = Vec::new();
    for address in &addresses {
        match reach(*address, session()).await {
            Ok(round_trip) => return Ok((shown(address), round_trip)),
            Err(why) => failed.push((*address, why)),
        }
    }
    Err(all_of(failed))
}

/// One reason for all addresses of a name, each named. Some node responded if one of them did.
fn all_of(mut failed: Vec<(SocketAddr, Unreached)>) -> Unreached {
    if failed.len() == 1 {
        return failed.remove(0).1;
    }
    let responded = failed.iter().any(|(_, why)| matches!(why, Unreached::Tls(_)));
    let each = |(address, why)| {
        let (Unreached::Resolve(Unresolved { why, .. })
        | Unreached::Connect(why)
        | Unreached::Tls(why)) = why;
        format!("{address}: {why}")
    };
    let all = failed.into_iter().map(each).collect::<Vec<_>>().join("; ");
    if responded { Unreached::Tls(all) } else { Unreached::Connect(all) }
}

/// Connects, shakes hands if there are keys, and returns how long the connection took.
async fn reach(address: SocketAddr, session: Option<Session>) -> Result<Duration, Unreached> {
    let begun = Instant::now();
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let connected = timeout(PATIENCE, TcpStream::connect(address)).await;
    let connected = connected.map_err(late).flatten();
    let stream = connected.map_err(|error| Unreached::Connect(error.to_string()))?;
    let round_trip = begun.elapsed();
    let Some(session) = session else { return Ok(round_trip) };
    let refused = |error: io::Error| {
        Unreached::Tls(tls_error(&error).map_or_else(|| error.to_string(), ToString::to_string))
    };
    let shaken = timeout(PATIENCE, Sealed::connect(stream, session)).await;
    let mut sealed = shaken.map_err(late).flatten().map_err(refused)?;
    // A peer that accepts the key waits for what this node says; one that does not says so.
    let mut byte = [0];
    match timeout(REFUSAL_WITHIN + 2 * round_trip, sealed.read(&mut byte)).await {
        Err(_silent) => Ok(round_trip),
        Ok(Ok(_)) => Err(Unreached::Tls(String::from("it ends the connection"))),
        Ok(Err(error)) => Err(refused(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_failed_is_reported() {
        let [v6, v4] = ["[::1]:7122", "127.0.0.1:7122"].map(|text| text.parse().expect(text));
        let refused = || Unreached::Connect(String::from("refused"));
        let other_key = || Unreached::Tls(String::from("it has another key"));
        let Unreached::Connect(why) = all_of(vec![(v6, refused()), (v4, refused())]) else {
            panic!("none responded");
        };
        assert_eq!(why, "[::1]:7122: refused; 127.0.0.1:7122: refused");
        let Unreached::Tls(why) = all_of(vec![(v6, other_key()), (v4, refused())]) else {
            panic!("one responded");
        };
        assert_eq!(why, "[::1]:7122: it has another key; 127.0.0.1:7122: refused");
        assert!(
            matches!(all_of(vec![(v4, refused())]), Unreached::Connect(why) if why == "refused")
        );
    }
}
