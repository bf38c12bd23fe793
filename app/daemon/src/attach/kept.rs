// SPDX-License-Identifier: Apache-2.0
//! Devices the kernel keeps while there is no daemon: who uses one waits, and the next daemon finds it by its mark and
//! goes on with it, if nobody else wrote the volume in between. What a file system remembers of a volume that others
//! changed would destroy it.

use super::device::{Places, Shown, remove_link};
use super::record::Record;
use super::{Attaches, Name, blocking};
use crate::shard::Ask;
use helio_api::{ApiError, Via};
use helio_attach::{AttachError, nbd, node, ublk, users};
use std::io;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// A device of one kind or the other.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Ublk(ublk::Disk),
    Nbd(nbd::Disk),
}

impl Node {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Ublk(disk) => disk.path(),
            Self::Nbd(disk) => disk.path(),
        }
    }

    pub(super) fn remove(&self) {
        match self {
            Self::Ublk(disk) => disk.remove(),
            Self::Nbd(disk) => disk.remove(),
        }
    }

    /// Those an earlier daemon left of a volume.
    fn left_behind(via: Via, mark: u64) -> Result<Vec<Self>, AttachError> {
        Ok(match via {
            Via::Ublk => ublk::Disk::left_behind(mark)?.into_iter().map(Self::Ublk).collect(),
            Via::Nbd => nbd::Disk::left_behind(&backend(mark)).into_iter().map(Self::Nbd).collect(),
            Via::Auto | Via::Fuse => Vec::new(),
        })
    }
}

/// A device that works, and its stable name.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) node: Node,
    pub(super) link: PathBuf,
}

impl Kept {
    pub(super) fn clone_for_show(&self) -> Shown {
        Shown {
            path: self.link.clone(),
            node: Some(self.node.path().to_owned()),
            file: None,
            numbers: node::numbers(self.node.path()).ok(),
            note: None,
        }
    }

    /// As [`super::front::Front::give_free`] says.
    pub(super) fn give_free(self) -> Result<(), (Self, String)> {
        let why = self.users().or_else(|| match node::settle(self.node.path()) {
            Ok(()) => self.users(),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                Some(String::from("claimed by somebody this daemon cannot see"))
            }
            Err(error) => {
                Some(format!("{} cannot be flushed: {error}", self.node.path().display()))
            }
        });
        match why {
            Some(why) => Err((self, why)),
            None => {
                self.abandon();
                Ok(())
            }
        }
    }

    fn users(&self) -> Option<String> {
        let users: Vec<String> =
            self.clone_for_show().users().iter().map(ToString::to_string).collect();
        if users.is_empty() { None } else { Some(users.join(", ")) }
    }

    pub(super) fn abandon(&self) {
        remove_link(&self.link);
        self.node.remove();
    }
}

impl Attaches {
    /// Whether what waits for a volume must not go on with it.
    pub(super) async fn overtaken(&self, record: &Record) -> Result<bool, ApiError> {
        let group = record.group.clone();
        let asked = self.shard.answer(|reply| Ask::Overtaken { group, reply }).await;
        // Who only reads takes what there is, as on a secondary.
        Ok(asked? && !record.read_only)
    }

    /// A volume cannot be attached now: who waits for it since before is told so, if that is for good.
    pub(super) async fn let_wait_or_fail(&self, record: &Record) {
        if let Ok(true) = self.overtaken(record).await {
            self.forsake_all(record, "another node took the volume over").await;
        }
    }

    pub(super) async fn forsake_all(&self, record: &Record, why: &str) {
        let (name, via) = (record.name(), record.via);
        let mark = mark(&self.places, &name);
        for node in blocking(move || Node::left_behind(via, mark)).await.unwrap_or_default() {
            forsake(&self.places, &name, node, why).await;
        }
    }

    /// Takes away what an earlier daemon left of a volume that is to be attached no more.
    ///
    /// # Errors
    /// Who uses it.
    pub(super) async fn clear_left(&self, record: &Record, force: bool) -> Result<(), ApiError> {
        let (name, via) = (record.name(), record.via);
        let mark = mark(&self.places, &name);
        let left = blocking(move || Node::left_behind(via, mark)).await.map_err(super::refused)?;
        for node in left {
            let kept = Kept { node, link: self.places.link(&name) };
            let used = kept.clone();
            if let Some(why) = blocking(move || used.users()).await.filter(|_| !force) {
                let text = format!("{} is in use, and waits: {why}", record.title());
                let remedy = "unmount it once the volume is served again, or use --force: who uses it has errors then";
                return Err(ApiError { retry: true, ..ApiError::new("in-use", text, remedy) });
            }
            blocking(move || kept.abandon()).await;
        }
        Ok(())
    }
}

/// Takes a device of an earlier daemon away, and says who uses it.
pub(super) async fn forsake(places: &Places, name: &Name, node: Node, why: &str) {
    let kept = Kept { node, link: places.link(name) };
    let why = why.to_owned();
    blocking(move || {
        let path = kept.node.path();
        let used = users(&[path], node::numbers(path).ok().as_deref());
        let used: Vec<String> = used.iter().map(ToString::to_string).collect();
        tracing::warn!(
            device = %path.display(), used = used.join(", "),
            "a device of the daemon before gives errors only, and goes: {why}"
        );
        kept.abandon();
    })
    .await;
}

/// What the kernel keeps with a device to know it by: the same for a volume as long as the state directory is there, and
/// another one for whoever else runs on this kernel.
pub(super) fn mark(places: &Places, (group, volume): &Name) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let folder = places.files.parent().unwrap_or(&places.files);
    let place = folder.metadata().map(|found| (found.dev(), found.ino()));
    let place = place.unwrap_or_else(|error: io::Error| {
        tracing::warn!(folder = %folder.display(), %error, "cannot be looked at");
        (0, 0)
    });
    XxHash3_128::oneshot(format!("{place:?} {group}/{volume}").as_bytes()) as u64
}

/// A mark as the NBD client keeps it.
pub(super) fn backend(mark: u64) -> String {
    format!("helio-{mark:016x}")
}
