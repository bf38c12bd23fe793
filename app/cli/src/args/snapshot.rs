// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio snapshot`.

use clap::Subcommand;

/// A snapshot of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotName {
    /// Name of the group, if one is given.
    pub group: Option<String>,
    /// Name of the snapshot.
    pub name: String,
}

fn snapshot_name(text: &str) -> Result<SnapshotName, String> {
    let (group, name) = match text.split_once('@') {
        Some((group, name)) => (Some(group), name),
        None => (None, text),
    };
    if name.is_empty() || group.is_some_and(str::is_empty) {
        return Err("expected GROUP@NAME, for example db@before-upgrade, or NAME".to_owned());
    }
    Ok(SnapshotName { group: group.map(str::to_owned), name: name.to_owned() })
}

/// Commands for snapshots.
#[derive(Clone, Debug, Subcommand)]
pub enum Snapshot {
    /// Create a snapshot of all volumes of a group.
    ///
    /// Run it on the primary. Both nodes create the snapshot at the same write. A node that cannot create it lists it as missing, with the reason. With --here, run it on the secondary: only this node creates the snapshot, and the primary does nothing for it.
    Create {
        /// Snapshot, for example db@before-upgrade; the group may be omitted if there is only one.
        #[arg(value_name = "[GROUP@]NAME", value_parser = snapshot_name)]
        snapshot: SnapshotName,
        /// Create the snapshot on this secondary only.
        #[arg(long)]
        here: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Replace a snapshot by a new one of the same name.
    ///
    /// The old snapshot, and what was written to it, is deleted when the new one is durable. Run it on the primary: the peer replaces its snapshot at the same write. With --here, run it on the secondary: only this node replaces it.
    Refresh {
        /// Snapshot, for example db@before-upgrade; the group may be omitted if there is only one.
        #[arg(value_name = "[GROUP@]NAME", value_parser = snapshot_name)]
        snapshot: SnapshotName,
        /// Refresh the snapshot on this secondary only.
        #[arg(long)]
        here: bool,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the snapshots of a group on this node, with time, position, changed data and space.
    List {
        /// Group name; may be omitted if the daemon has only one group.
        group: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Restore all volumes of a group from a snapshot.
    ///
    /// Run it on the primary. Everything that was written since the snapshot is lost; to keep it, create another snapshot first. Stop all clients of the volumes before. They can start again as soon as the command has ended: the data is then written in the background, and a resync copies it to the peer.
    Restore {
        /// Snapshot, for example db@before-upgrade; the group may be omitted if there is only one.
        #[arg(value_name = "[GROUP@]NAME", value_parser = snapshot_name)]
        snapshot: SnapshotName,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete a snapshot.
    ///
    /// On the primary, the peer deletes it too if the queue keeps the order of writes.
    Delete {
        /// Snapshot, for example db@before-upgrade; the group may be omitted if there is only one.
        #[arg(value_name = "[GROUP@]NAME", value_parser = snapshot_name)]
        snapshot: SnapshotName,
        /// Delete the snapshot on this node only.
        #[arg(long)]
        here: bool,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_with_its_group_or_alone() {
        let of = |group: Option<&str>, name: &str| SnapshotName {
            group: group.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(snapshot_name("db@now"), Ok(of(Some("db"), "now")));
        assert_eq!(snapshot_name("now"), Ok(of(None, "now")));
        assert!(snapshot_name("db@").is_err() && snapshot_name("@now").is_err());
    }
}
