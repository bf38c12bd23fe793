// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio drill`.

use super::some_time;
use clap::Args;
use std::time::Duration;

/// A drill.
#[derive(Clone, Debug, Args)]
pub struct Drill {
    /// Group name; may be omitted if the daemon has only one group.
    pub group: Option<String>,
    /// Shell command that checks the copy; exit status 0 means that the drill succeeded.
    #[arg(long, value_name = "COMMAND", conflicts_with = "discard")]
    pub run: Option<String>,
    /// Maximum time for the command; helio stops a longer one, and the drill fails.
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "1h", requires = "run")]
    pub limit: Duration,
    /// Detach the devices and delete the snapshot that an interrupted drill left.
    #[arg(long)]
    pub discard: bool,
    /// Print JSON; the standard output of the command then goes to standard error.
    #[arg(long)]
    pub json: bool,
}
