// SPDX-License-Identifier: Apache-2.0
//! Resolves names of hosts. A name server may keep the caller waiting, so this runs on the control plane, never on a shard.

use crate::backend::ShardHandle;
use crate::shard::Ask;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::lookup_host;
use tokio::sync::watch;
use tokio::time::timeout;

/// A name is given up after this; the next connection attempt asks again. The system's resolver asks the next name server
/// after 5 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A name is tried at no more addresses than these.
pub(crate) const ADDRESSES_MAX: usize = 4;

/// Why a name leads to no address that may be tried, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub(crate) why: String,
    pub(crate) hint: String,
}

/// The addresses that a name has now, at least one.
pub(crate) async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Unresolved> {
    let found = timeout(PATIENCE, lookup_host((host, port)));
    let why = match found.await {
        Ok(Ok(addresses)) => {
            let addresses: Vec<SocketAddr> = addresses.collect();
            if !addresses.is_empty() {
                return Ok(addresses);
            }
            String::from("it has no address")
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {PATIENCE:?}"),
    };
    let why = why.strip_prefix("failed to lookup address information: ").unwrap_or(&why);
    Err(Unresolved {
        why: format!("cannot resolve {host}: {why}"),
        hint: format!(
            "add {host} to the name server or to /etc/hosts; `getent hosts {host}` shows its addresses"
        ),
    })
}

/// The addresses to try, of those that a name has, on a node with or without keys.
pub(crate) fn to_try(found: Vec<SocketAddr>, keyed: bool) -> Result<Vec<SocketAddr>, Unresolved> {
    let mut found = if keyed { found } else { of_this_host(found)? };
    found.truncate(ADDRESSES_MAX);
    Ok(found)
}

/// The addresses that nodes without keys may try: nothing but loopback proves what answers there.
fn of_this_host(mut found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Unresolved> {
    let other = found.iter().find(|address| !address.ip().is_loopback()).map(SocketAddr::ip);
    found.retain(|address| address.ip().is_loopback());
    match other {
        Some(ip) if found.is_empty() => Err(Unresolved {
            why: format!("{ip} is not a loopback address, and the nodes have no keys"),
            hint: String::from(
                "`helio key new` on each node makes its key; put both into the file and restart the daemons",
            ),
        }),
        _ => Ok(found),
    }
}

/// Resolves the name of a group's peer whenever the shard asks.
pub(crate) async fn answer(
    shard: ShardHandle,
    group: String,
    (host, port): (String, u16),
    mut lookups: watch::Receiver<u64>,
) {
    while lookups.changed().await.is_ok() {
        let (group, found) = (group.clone(), resolve(&host, port).await);
        if shard.ask_patiently(Ask::Resolved { group, found }).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_keys_only_loopback_addresses_are_tried() {
        let [away, local] = ["192.0.2.7:7122", "[::1]:7122"].map(|text| text.parse().expect(text));
        let mut found = vec![away; ADDRESSES_MAX];
        found.push(local);
        assert_eq!(to_try(found.clone(), false), Ok(vec![local]), "the others do not count");
        assert_eq!(to_try(found, true), Ok(vec![away; ADDRESSES_MAX]));
        let why = to_try(vec![away], false).expect_err("no other is left").why;
        assert_eq!(why, "192.0.2.7 is not a loopback address, and the nodes have no keys");
    }
}
