// SPDX-License-Identifier: Apache-2.0
//! An operator discards what a stopped node holds of a group: new metadata says so, and the node joins as new.

use crate::verbs::{UNCONFIRMED, print};
use anyhow::Result;
use helio_daemon::{Created, Creation};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Says what is discarded, asks, and writes the file.
pub(crate) fn create(wish: Creation, yes: bool) -> Result<ExitCode> {
    let Creation { group, node, .. } = &wish;
    if !yes {
        eprintln!(
            "at stake: all of {group} on {node}, with every acknowledged write that exists only there: its peer overwrites it. \
             If {node} was primary last, restore its state directory instead, or keep its copy: `helio promote {group} --force` \
             on {node} after this command and before the nodes connect"
        );
        if !std::io::stdin().is_terminal() {
            eprintln!("nothing was changed; confirm with --yes");
            return Ok(ExitCode::from(UNCONFIRMED));
        }
        eprint!("discard the copy of {group} on {node}? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(ExitCode::from(UNCONFIRMED));
        }
    }
    let Created { path, kept } = helio_daemon::create(&wish)?;
    let mut text = format!("created {}: {group} joins as new on {node}\n", path.display());
    if let Some(kept) = kept {
        text += &format!("  the file that could not be used is kept as {}\n", kept.display());
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
