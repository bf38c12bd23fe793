// SPDX-License-Identifier: Apache-2.0
//! An operator discards what a stopped node holds of a group: new metadata says so, and the node joins as new.

use super::accept::older_file;
use crate::confirm::Consent;
use crate::verbs::done;
use anyhow::Result;
use helio_daemon::{Created, Creation, Platform};
use std::process::ExitCode;

/// Shows what is discarded, asks, and writes the file.
pub(crate) fn create(wish: Creation, consent: Consent) -> Result<ExitCode> {
    let Creation { group, node, restore, .. } = &wish;
    let finishes = restore.as_ref().map(|file| older_file(file));
    let stake = format!(
        "all of {group} on {node}, with every acknowledged write that exists only there: a peer overwrites it. \
         If {node} was primary last, restore its state directory instead, or keep its copy: `helio promote {group} --force` \
         on {node} after this command and before the nodes connect{}",
        finishes.unwrap_or_default()
    );
    consent.get(&stake, &format!("discard the copy of {group} on {node}?"))?;
    let Created { path, kept, untold } = helio_daemon::create(&Platform::this().host, &wish)?;
    let mut text = format!("created {}: {group} joins as a new node on {node}", path.display());
    for (volume, member) in untold {
        let member = member.display();
        text += &format!(
            "\n  no member of {group}/{volume} has a stamp that shows whether it is complete. The daemon uses {member}, the first one, and \
             overwrites the others: if another one is newer, name that one first in the configuration file before the daemon starts"
        );
    }
    for kept in kept {
        text += &format!("\n  the unusable file is kept as {}", kept.display());
    }
    done(text, Vec::new(), consent.json)
}
