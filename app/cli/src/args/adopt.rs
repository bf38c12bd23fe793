// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio adopt`.

use clap::Args;
use std::path::PathBuf;

/// Disks with data, and the new group.
#[derive(Debug, Args)]
pub struct Adoption {
    /// Disks, partitions or files to mirror; they must not be in use.
    #[arg(value_name = "PATH", required = true)]
    pub stores: Vec<PathBuf>,
    /// Name of the new group.
    #[arg(long, value_name = "NAME")]
    pub group: String,
    /// Volume name, one per PATH in the same order; default: last part of PATH.
    #[arg(long = "volume", value_name = "NAME")]
    pub volumes: Vec<String>,
    /// Name of this node in the configuration file.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// Name of the peer; optional if the configuration file has only two nodes.
    #[arg(long, value_name = "NAME")]
    pub peer: Option<String>,
    /// Path on the peer, one per PATH in the same order; default: same path.
    ///
    /// All data at this path on the peer is overwritten.
    #[arg(long = "peer-path", value_name = "PATH")]
    pub peer_paths: Vec<PathBuf>,
    /// Configuration file.
    #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
    pub config: PathBuf,
    /// Prepare the group and add it to the configuration file.
    ///
    /// Without --write, the command prints the missing part of the configuration and changes nothing. If the file
    /// already has the group, the command prepares the group and does not change the file.
    #[arg(long)]
    pub write: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
