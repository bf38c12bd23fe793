// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio dashboard`.

use super::global::{At, Remote};
use super::{host, interval};
use crate::init::shell_word;
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The addresses by whose names a browser may ask for the page.
const LOCAL_4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const LOCAL_6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// What is shown, and where.
#[derive(Clone, Debug, Args)]
pub struct Dashboard {
    /// Also show this daemon; may be repeated.
    ///
    /// A state directory; or HOST:PORT,SERVER-KEY,KEY-FILE for a remote daemon, as for --host, --server-key and --key.
    #[arg(long, value_name = "NODE", value_parser = other_daemon)]
    pub with: Vec<OtherDaemon>,
    /// Loopback address and port, of IPv4 or IPv6; port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", value_parser = loopback)]
    pub listen: SocketAddr,
    /// Time between two requests of the status, 100ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Show the values of this forecast beside the measured ones; from `helio plan forecast --json`.
    #[arg(long, value_name = "FILE")]
    pub forecast: Option<PathBuf>,
    /// Show a simulated pair, with controls for link, load and faults; no daemon is needed.
    #[arg(long, conflicts_with_all = ["with", "forecast"])]
    pub simulate: bool,
    /// Seed of the simulation's random numbers; default 1.
    #[arg(long, value_name = "NUMBER", requires = "simulate")]
    pub seed: Option<u64>,
}

/// A daemon beside the one of the global options.
#[derive(Clone, Debug)]
pub enum OtherDaemon {
    /// On this host.
    State(PathBuf),
    /// On another host.
    Remote(Remote),
}

impl OtherDaemon {
    /// The global options that name this daemon.
    #[must_use]
    pub fn options(&self) -> String {
        match self {
            Self::State(state) => format!(" --state {}", shell_word(state)),
            Self::Remote(Remote { host, key, server_key }) => {
                format!(" --host {host} --key {} --server-key {server_key}", shell_word(key))
            }
        }
    }

    /// The daemon, with the `--timeout` of the command line.
    #[must_use]
    pub fn at(&self, at: &At) -> At {
        match self {
            Self::State(state) => At { state: state.clone(), remote: None, ..at.clone() },
            Self::Remote(remote) => At { remote: Some(remote.clone()), ..at.clone() },
        }
    }
}

fn other_daemon(text: &str) -> Result<OtherDaemon, String> {
    let parts: Vec<&str> = text.split(',').collect();
    match parts[..] {
        [state] if !state.is_empty() => Ok(OtherDaemon::State(state.into())),
        [address, server_key, key] if !key.is_empty() => {
            let invalid = |error| format!("the public key of the node is invalid: {error}");
            let server_key = server_key.parse().map_err(invalid)?;
            Ok(OtherDaemon::Remote(Remote { host: host(address)?, key: key.into(), server_key }))
        }
        _ => Err("expected a state directory, or HOST:PORT,SERVER-KEY,KEY-FILE as for --host, --server-key and --key"
            .to_owned()),
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected 127.0.0.1:PORT or [::1]:PORT, for example 127.0.0.1:7180; to use the dashboard from another host, \
                    forward the port with ssh -L";
    text.parse()
        .ok()
        .filter(|address: &SocketAddr| [LOCAL_4, LOCAL_6].contains(&address.ip()))
        .ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn it_listens_on_this_host_alone() {
        for text in ["127.0.0.1:7180", "[::1]:0", "127.0.0.1:0"] {
            assert!(loopback(text).is_ok(), "{text}");
        }
        for text in
            ["0.0.0.0:7180", "127.0.0.2:7180", "192.0.2.1:80", "localhost", "[::]:1", "127.0.0.1"]
        {
            assert!(loopback(text).is_err_and(|why| why.contains("ssh -L")), "{text}");
        }
    }

    #[test]
    fn a_node_is_a_directory_or_an_address_with_a_key() {
        assert!(
            matches!(other_daemon("/var/lib/lyon"), Ok(OtherDaemon::State(dir)) if dir == Path::new("/var/lib/lyon"))
        );
        assert!(other_daemon("lyon:7131,nonsense,k").is_err_and(|why| why.contains("public key")));
        for text in ["lyon:7131,nonsense", "", "a,b,", "a,b,c,d"] {
            assert!(other_daemon(text).is_err_and(|why| why.contains("KEY-FILE")), "{text}");
        }
    }
}
