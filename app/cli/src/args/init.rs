// SPDX-License-Identifier: Apache-2.0
//! `helio init`.

use clap::Args;
use helio_units::Bytes;
use std::path::PathBuf;

/// What to set up.
#[derive(Clone, Debug, Args)]
pub struct Init {
    /// Directory of the new files.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Names and addresses of the two nodes; port 7121 unless given.
    #[arg(long, value_name = "NAME=HOST[:PORT],NAME=HOST[:PORT]", value_delimiter = ',',
          default_value = "paris=127.0.0.1:7121,lyon=127.0.0.1:7122", value_parser = node)]
    pub nodes: Vec<NodeWish>,
    /// Name of the group.
    #[arg(long, value_name = "NAME", default_value = "db", value_parser = super::group_name)]
    pub group: String,
    /// Volume, its size, and its file or device on both nodes or on each; may be repeated.
    ///
    /// `data=64MiB` is a file; `data=/dev/vg0/data` is a device, of its own size if it exists here;
    /// `data=100GiB:/dev/vg0/data:/dev/sdb` is a device on the first and another on the second node.
    #[arg(long = "volume", value_name = "NAME=[SIZE][:PATH[:PATH]]", default_value = "data=64MiB",
          value_parser = volume)]
    pub volumes: Vec<VolumeWish>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// One node, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWish {
    /// Its name.
    pub name: String,
    /// Where it is: an address or a host's name.
    pub host: String,
    /// Its port, if one was given.
    pub port: Option<u16>,
}

/// One volume, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeWish {
    /// Its name.
    pub name: String,
    /// Its size, if one was given.
    pub size: Option<Bytes>,
    /// Its member on each node, on both the same, or none: a file.
    pub paths: Vec<PathBuf>,
}

fn node(text: &str) -> Result<NodeWish, String> {
    let expected = "expected NAME=HOST or NAME=HOST:PORT, for example paris=192.0.2.1";
    let (name, place) = text.split_once('=').ok_or(expected)?;
    let name = super::group_name(name).map_err(|_| expected)?;
    // [::1]:7121, ::1, host:7121 or host.
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match place.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (place, None),
        },
    };
    let port = port.map(str::parse).transpose().map_err(|_| expected)?;
    if host.is_empty() {
        return Err(expected.to_owned());
    }
    Ok(NodeWish { name, host: host.to_owned(), port })
}

fn volume(text: &str) -> Result<VolumeWish, String> {
    let expected = "expected NAME=SIZE or NAME=SIZE:/PATH, for example data=100GiB:/dev/vg0/data";
    let (name, parts) = text.split_once('=').ok_or(expected)?;
    let name = super::group_name(name).map_err(|_| expected)?;
    let (paths, sizes): (Vec<&str>, Vec<&str>) =
        parts.split(':').partition(|part| part.starts_with('/'));
    let size = match sizes[..] {
        [] => None,
        [size] => Some(super::bytes(size)?),
        _ => return Err(expected.to_owned()),
    };
    if paths.len() > 2 {
        return Err(expected.to_owned());
    }
    Ok(VolumeWish { name, size, paths: paths.into_iter().map(PathBuf::from).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_a_name_a_host_and_perhaps_a_port() {
        for (text, host, port) in [
            ("paris=192.0.2.1", "192.0.2.1", None),
            ("paris=paris.example:7000", "paris.example", Some(7000)),
            ("paris=::1", "::1", None),
            ("paris=[::1]:7000", "::1", Some(7000)),
        ] {
            let wish = NodeWish { name: "paris".into(), host: host.into(), port };
            assert_eq!(node(text), Ok(wish), "{text}");
        }
        for text in ["paris", "=192.0.2.1", "paris=", "paris=host:many", "p\u{e4}ris=192.0.2.1"] {
            assert!(node(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_volume_has_a_name_and_a_size_or_paths() {
        let read = volume("data=/dev/a:1MiB:/dev/b").expect("both");
        assert_eq!(read.size, Some(Bytes::mib(1)));
        assert_eq!(read.paths, ["/dev/a", "/dev/b"].map(PathBuf::from));
        for text in ["data", "=1MiB", "data=1 parsec", "data=1MiB:2MiB", "data=/a:/b:/c"] {
            assert!(volume(text).is_err(), "{text}");
        }
    }
}
