// SPDX-License-Identifier: Apache-2.0
//! Where a node is reached: an address, or the name of a host. A name is not resolved here, since its addresses may change.

use std::fmt;
use std::net::SocketAddr;

/// Longest name of a host.
const HOST_BYTES_MAX: usize = 253;

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// At an address.
    Fixed(SocketAddr),
    /// At the addresses that a name has at each connection attempt.
    Name {
        /// The host, in lower case.
        host: String,
        /// The port, not 0.
        port: u16,
    },
}

impl PeerAddress {
    /// Reads `IP:PORT` or `HOST:PORT`; none if it is neither.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self::Fixed(address));
        }
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|_| is_host(host))?;
        Some(Self::Name { host: host.to_ascii_lowercase(), port })
    }

    /// The address or the name, without the port.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::Fixed(address) => address.ip().to_string(),
            Self::Name { host, .. } => host.clone(),
        }
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        match self {
            Self::Fixed(address) => address.port(),
            Self::Name { port, .. } => *port,
        }
    }

    /// The address, unless it is a name.
    #[must_use]
    pub const fn fixed(&self) -> Option<SocketAddr> {
        match self {
            Self::Fixed(address) => Some(*address),
            Self::Name { .. } => None,
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A name whose last label is a number would be an address that is misspelt.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        !label.is_empty() && label.bytes().all(allowed) && !label.starts_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_number = |label: &str| label.bytes().all(|c| c.is_ascii_digit());
    text.len() <= HOST_BYTES_MAX
        && name.split('.').all(is_label)
        && name.rsplit('.').next().is_some_and(|label| !is_number(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_read_and_misspelt_addresses_are_not() {
        for text in ["192.0.2.7:7121", "[2001:db8::7]:7121", "lyon:7121", "a-1.lyon.example.:7121"]
        {
            assert_eq!(PeerAddress::parse(text).expect(text).to_string(), text);
        }
        let name = PeerAddress::Name { host: "lyon".into(), port: 7121 };
        assert_eq!(PeerAddress::parse("LYON:7121"), Some(name));
        for text in [
            "lyon",
            ":7121",
            "lyon:",
            "lyon:70000",
            "192.0.2:7121",
            "1.2.3.256:1",
            "::1:x",
            "a b:1",
        ] {
            assert_eq!(PeerAddress::parse(text), None, "{text}");
        }
    }
}
