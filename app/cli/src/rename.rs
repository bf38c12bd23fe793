// SPDX-License-Identifier: Apache-2.0
//! Another name for a group, a volume or a node, on a stopped node.

use crate::args::{NewName, Rename};
use crate::verbs::done;
use anyhow::{Result, bail};
use helio_daemon::{Name, Platform, Renaming};
use std::path::Path;
use std::process::ExitCode;

/// Records the name, and says what is left to do.
pub(crate) fn run(verb: Rename, state: &Path) -> Result<ExitCode> {
    let (what, NewName { old, new, node, config, json }) = match verb {
        Rename::Group(name) => (Name::Group, name),
        Rename::Volume(name) => {
            let Some((group, volume)) = name.old.split_once('/') else {
                bail!(
                    "{} names no volume of a group\n  hint: name the group, too, for example db/{0}",
                    name.old
                )
            };
            (Name::Volume(group.to_owned()), NewName { old: volume.to_owned(), ..name.clone() })
        }
        Rename::Node { old, new, config, json } => {
            (Name::Node, NewName { old, node: new.clone(), new, config, json })
        }
    };
    let (kind, then) = match &what {
        Name::Group => ("group", "start the daemon after the name was recorded on both nodes"),
        Name::Volume(_) => ("volume", "start the daemon after the name was recorded on both nodes"),
        Name::Node => (
            "node",
            "start the daemon with the new --node; restart that of the peer with the same configuration",
        ),
    };
    let state = state.to_owned();
    let wish = Renaming { what, old, new, node, config, state };
    let groups = helio_daemon::rename(&Platform::this().host, &wish)?;
    let Renaming { old, new, .. } = &wish;
    let text = match groups.as_slice() {
        [] => format!("{kind} {new} has its new name on this node"),
        groups => format!("{kind} {old} is {new} in the metadata of {}", groups.join(", ")),
    };
    done(format!("{text}; {then}"), Vec::new(), json)
}
