// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio saved`.

use clap::{ArgGroup, Subcommand};

/// Data that was saved before it was discarded or overwritten.
#[derive(Clone, Debug, Subcommand)]
pub enum Saved {
    /// List saved data: name, time, size, reason and the image of each volume.
    List {
        /// List only saved data of this group.
        group: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete saved data. It exists nowhere else.
    #[command(group(ArgGroup::new("which").required(true).args(["name", "all"])))]
    Delete {
        /// Name of the saved data, as `helio saved list` shows it.
        name: Option<String>,
        /// Delete all saved data of the node.
        #[arg(long)]
        all: bool,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
