// SPDX-License-Identifier: Apache-2.0
//! What `helio adopt` is told.

use super::STATE;
use clap::Args;
use std::path::PathBuf;

/// Stores with data, and the group they become.
#[derive(Debug, Args)]
pub struct Adoption {
    /// The disks, partitions or files; nobody may use them meanwhile.
    #[arg(value_name = "PATH", required = true)]
    pub stores: Vec<PathBuf>,
    /// The group to make of them.
    #[arg(long, value_name = "NAME")]
    pub group: String,
    /// What the volumes are called, one for each PATH in their order; otherwise as the last part of PATH.
    #[arg(long = "volume", value_name = "NAME")]
    pub volumes: Vec<String>,
    /// This node, as the configuration names it.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// The other node; may be left out where the configuration names just two.
    #[arg(long, value_name = "NAME")]
    pub peer: Option<String>,
    /// Where the copies are on the other node, one for each PATH in their order; otherwise at the same path. What is
    /// there is overwritten.
    #[arg(long = "peer-path", value_name = "PATH")]
    pub peer_paths: Vec<PathBuf>,
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
    pub config: PathBuf,
    /// Where this node's daemon keeps its state.
    #[arg(long, value_name = "DIR", default_value = STATE)]
    pub state: PathBuf,
    /// Do it, and add what is missing to the configuration file. Otherwise that is printed, and nothing is done unless
    /// the file names the group already.
    #[arg(long)]
    pub write: bool,
}
