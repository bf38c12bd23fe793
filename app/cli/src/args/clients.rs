// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio client`.

use super::{Named, named};
use clap::{ArgGroup, Subcommand};

/// NBD clients of a node.
#[derive(Clone, Debug, Subcommand)]
pub enum Clients {
    /// List NBD clients: number, export, address or process, time, requests in progress.
    List {
        /// List only clients of this group.
        group: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Disconnect NBD clients, after replies to their requests in progress.
    ///
    /// A program gets I/O errors if its NBD client does not connect again. No acknowledged write is lost.
    #[command(group(ArgGroup::new("which").required(true).args(["number", "all"])))]
    Close {
        /// Number of the connection, as `helio client list` shows it.
        number: Option<u32>,
        /// Disconnect all clients of a group, or of one volume of it.
        #[arg(long, value_name = "GROUP[/VOLUME]", value_parser = named)]
        all: Option<Named>,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}
