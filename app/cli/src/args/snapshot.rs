// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio snapshot`.

use super::number::more_than_nothing;
use clap::{Args, Subcommand};
use helio_units::Rate;
use std::path::PathBuf;

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

/// Where an image is kept: `VOLUME=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageAt {
    /// Name of the volume.
    pub volume: String,
    /// A device, or a file.
    pub path: PathBuf,
}

fn image_at(text: &str) -> Result<ImageAt, String> {
    match text.split_once('=') {
        Some((volume, path)) if !volume.is_empty() && !path.is_empty() => {
            Ok(ImageAt { volume: volume.to_owned(), path: PathBuf::from(path) })
        }
        _ => Err("expected VOLUME=PATH, for example data=/dev/vg0/data-copy".to_owned()),
    }
}

/// What `helio snapshot export` is asked for.
#[derive(Clone, Debug, Args)]
pub struct Export {
    /// Snapshot, for example db@nightly; the group may be omitted if there is only one.
    #[arg(value_name = "[GROUP@]NAME", value_parser = snapshot_name)]
    pub snapshot: SnapshotName,
    /// Directory of the images; created if it does not exist.
    pub dir: PathBuf,
    /// Keep the image of a volume on this device, or in this file; default: VOLUME.img in DIR.
    ///
    /// DIR gets a symbolic link to this path. A file must have the size of the volume; a device may be larger.
    #[arg(long = "image", value_name = "VOLUME=PATH", value_parser = image_at)]
    pub images: Vec<ImageAt>,
    /// Compare all chunks, also those recorded as unchanged.
    #[arg(long)]
    pub compare: bool,
    /// Maximum read rate, for example 50MiB/s; default: no limit.
    #[arg(long, value_name = "RATE", value_parser = more_than_nothing)]
    pub limit: Option<Rate>,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    pub yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
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
        /// Directory of exported images to restore from, which must hold this snapshot.
        ///
        /// For a snapshot that the group no longer has. The command writes the differences as an NBD client does, so the volumes hold parts of both until it has ended.
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Wait until everything is written to the volumes of this node, at most --timeout.
        #[arg(long, conflicts_with = "from")]
        wait: bool,
        /// Do not ask for confirmation.
        #[arg(long, short)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Copy a snapshot to image files, or update them to it.
    ///
    /// DIR gets an image of each volume, and a record. The command writes only the chunks that differ. If DIR has an older snapshot that the group still has, it reads only the chunks that changed since. The images need neither the volumes nor the snapshot. After an interruption, repeat the command.
    Export(Export),
    /// Serve exported images to NBD clients, and record what changes.
    ///
    /// Any host can do this, without a daemon. The images can be read and written until the command is stopped with Ctrl-C or SIGTERM. The next export to them copies what changed there, and what changed in the volumes.
    Import {
        /// Directory of the images.
        dir: PathBuf,
        /// Unix socket of the server; default: nbd.sock in DIR.
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add the changes that another host recorded to the record of exported images.
    ///
    /// Use it after another host served these images, or a copy of them, with its own copy of the record.
    Join {
        /// Directory of the images.
        dir: PathBuf,
        /// The record of the other host, a copy of its snapshot.helio.
        record: PathBuf,
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
    fn an_image_is_kept_at_a_path() {
        let (volume, path) = ("data".to_owned(), PathBuf::from("/dev/vg0/a=b"));
        assert_eq!(image_at("data=/dev/vg0/a=b"), Ok(ImageAt { volume, path }));
        assert!(["data", "=x", "data="].into_iter().all(|text| image_at(text).is_err()));
    }

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
