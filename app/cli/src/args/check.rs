// SPDX-License-Identifier: Apache-2.0
//! `helio check`.

use clap::Args;
use std::path::PathBuf;

/// What to check.
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// Name of this node in the configuration file.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// Configuration file, the same on every node.
    #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
    pub config: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
