// SPDX-License-Identifier: Apache-2.0
//! The configuration file that `helio init` writes.

use super::{Node, Plan, Volume};
use helio_tls::PublicKey;
use helio_units::Bytes;
use std::net::IpAddr;
use std::path::Path;

const HEAD: &str = "\
# Configuration of Heliograph. Both nodes use the same file: change it on one, copy it to the other,
# then run `helio apply` on each. All settings: docs/reference/config.md

# A node is a host that runs `helio daemon --node NAME`. Nodes connect over TLS and identify each other by key.
# `key` is the public key. The private key is in the file node.key in the state directory of the node.
";

/// Settings that most operators look for, with their defaults.
const GROUP: &str = "\
# Mode: when a write is acknowledged to the client.
#   sync      after it is on the disks of both nodes; nothing is lost if one node fails
#   nearsync  after it is on one disk and in the memory of the other node
#   async     after it is on the primary's disk; for long distances, the last writes may be lost
#   periodic  the same; the other node gets the changes every 30 s, for links thinner than the write rate
mode = \"sync\"

# A peer that does not respond for this time is lost. The primary then acknowledges writes without it,
# records the changed regions, and copies them to the peer when the link returns.
#peer-timeout = \"6s\"

# Keep the last consistent content of the secondary while it is updated: \"on\", \"off\", or a maximum size.
#safe-copy = \"on\"
";

const RESYNC: &str = "\
# Limit the rate of a resync, so that clients keep their share of disks and link.
#[group.{group}.resync]
#max-rate = \"100MiB\"
";

/// The whole file.
pub(super) fn config(plan: &Plan, keys: &[PublicKey]) -> String {
    let Plan { group, nodes, volumes, .. } = plan;
    let group = &key_of(group);
    let mut text = HEAD.to_owned();
    for (Node { name, host, address, .. }, key) in nodes.iter().zip(keys) {
        // The address that a host's name had.
        let named = if host.parse::<IpAddr>().is_ok() { "" } else { &format!("  # {host}") };
        let node = key_of(name);
        text += &format!("[node.{node}]\naddress = \"{address}\"{named}\nkey = \"{key}\"\n");
        let nbd =
            "# Serve NBD over TCP too; without it, only over nbd.sock in the state directory.\n";
        text += &format!("{nbd}#nbd = \"127.0.0.1:10809\"\n\n");
    }
    text += "# A group is one or more volumes that are replicated together, in one write order.\n";
    text += &format!("[group.{group}]\nnodes = [\"{}\", \"{}\"]\n\n", nodes[0].name, nodes[1].name);
    text += GROUP;
    text += "\n# A volume, and its member on each node: a file or block device that nothing else uses.\n";
    for Volume { name, size, members } in volumes {
        let name = key_of(name);
        text += &format!("[group.{group}.volume.{name}]\nsize = \"{}\"\n", exactly(*size));
        for (node, path) in nodes.iter().zip(members) {
            text += &format!("members.{} = [{}]\n", key_of(&node.name), quoted(path));
        }
        text.push('\n');
    }
    text + &RESYNC.replace("{group}", group)
}

/// A size as the file takes it, without rounding.
fn exactly(size: Bytes) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let fits = |(_, shift): &&(&str, u32)| size.0 >> shift << shift == size.0;
    let (unit, shift) = units.iter().find(fits).unwrap_or(&("B", 0));
    format!("{}{unit}", size.0 >> shift)
}

/// A name as a key in TOML: a dot would divide it.
fn key_of(name: &str) -> String {
    if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() }
}

/// A path as a text in TOML.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{path}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_in_the_largest_unit_that_does_not_round() {
        for (bytes, text) in
            [(64 << 20, "64MiB"), (512, "512B"), (3 << 30, "3GiB"), (1536, "1536B")]
        {
            assert_eq!(exactly(Bytes(bytes)), text);
        }
    }
}
