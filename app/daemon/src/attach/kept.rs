// SPDX-License-Identifier: Apache-2.0
//! Devices the kernel keeps while there is no daemon: who uses one waits, and the next daemon finds it by its mark and
//! goes on with it, if nobody else wrote the volume in between: if it is of the tenure that this node has as primary,
//! which the group's metadata names. What a file system remembers of a volume that others changed would destroy it.

use super::device::{Places, Shown, told};
use super::mark::Mark;
use super::record::Record;
use super::{Attaches, Name};
use crate::platform::Platform;
use crate::shard::{Ask, DeviceAsk};
use helio_api::{ApiError, Via};
use helio_attach::{AttachError, Kernel, ThisKernel, nbd, node, ublk};
use std::path::{Path, PathBuf};

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

    /// Those an earlier daemon left of a volume, of whatever tenure.
    pub(super) fn left_behind(via: Via, mark: Mark) -> Result<Vec<Self>, AttachError> {
        let is_ours = |other: u64| mark.is_of_volume(other);
        Ok(match via {
            Via::Ublk => ublk::Disk::left_behind(is_ours)?.into_iter().map(Self::Ublk).collect(),
            Via::Nbd => {
                let is_ours = |name: &str| Mark::of_backend(name).is_some_and(is_ours);
                nbd::Disk::left_behind(is_ours).into_iter().map(Self::Nbd).collect()
            }
            Via::Auto | Via::Fuse => Vec::new(),
        })
    }

    /// Whether it is of the tenure that a mark names.
    fn is_of(&self, mark: Mark) -> bool {
        match self {
            Self::Ublk(disk) => disk.mark() == mark.0,
            Self::Nbd(disk) => disk.name().as_deref().and_then(Mark::of_backend) == Some(mark.0),
        }
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
            // Only this kernel keeps devices.
            platform: Platform::this(),
        }
    }

    /// As [`super::front::Front::give_free`] says.
    pub(super) fn give_free(self) -> Result<(), (Self, String)> {
        match told(&self.clone_for_show().in_the_way()) {
            Some(why) => Err((self, why)),
            None => {
                self.abandon();
                Ok(())
            }
        }
    }

    pub(super) fn abandon(&self) {
        ThisKernel.remove_name(&self.link, self.node.path());
        self.node.remove();
    }
}

impl Attaches {
    /// A volume cannot be attached now: who waits for it since before is told so, if that is for good.
    pub(super) async fn let_wait_or_fail(&self, record: &Record) {
        let group = record.group.clone();
        let ask = |reply| Ask::Device(DeviceAsk::Overtaken { group, reply });
        let asked = self.shard.answer(ask).await;
        // Another node can only overtake a device that writes the volume, not a read-only one or a branch.
        if record.writes_volume() && matches!(asked, Ok(true)) {
            let mark = self.mark(record, 0);
            for node in self.left(record, mark).await.unwrap_or_default() {
                self.forsake(record, node, "another node may write the volume").await;
            }
        }
    }

    /// What an earlier daemon left of a volume and may be gone on with, in this tenure. What is of another is ended.
    pub(super) async fn inherited(
        &self,
        record: &Record,
        mark: Mark,
    ) -> Result<Vec<Node>, AttachError> {
        let (ours, strange): (Vec<Node>, Vec<Node>) =
            self.left(record, mark).await?.into_iter().partition(|node| node.is_of(mark));
        for node in strange {
            self.forsake(record, node, "this node was not primary all the time since then").await;
        }
        Ok(ours)
    }

    /// The mark of a device in a tenure. Devices that do not write the volume have the same mark in every tenure.
    pub(super) fn mark(&self, record: &Record, tenure: u64) -> Mark {
        let tenure = if record.writes_volume() { tenure } else { 0 };
        Mark::new(&self.places, &record.name(), tenure)
    }

    async fn left(&self, record: &Record, mark: Mark) -> Result<Vec<Node>, AttachError> {
        let via = record.via;
        self.places.blocking(move || Node::left_behind(via, mark)).await
    }

    /// Takes away what an earlier daemon left of a volume that is to be attached no more.
    ///
    /// # Errors
    /// Who uses it.
    pub(super) async fn clear_left(&self, record: &Record, force: bool) -> Result<(), ApiError> {
        let name = record.name();
        for node in self.left(record, self.mark(record, 0)).await.map_err(super::refused)? {
            let kept = Kept { node, link: self.places.link(&name) };
            // Nobody serves it: who looks at it now, as udev does, waits as well, and to wait for him never helps.
            let shown = kept.clone_for_show();
            let why =
                if force { None } else { self.places.blocking(move || told(&shown.users())).await };
            if let Some(why) = why {
                let text = format!("{} is in use, and waits: {why}", record.title());
                let hint = "unmount it when the volume is served again, or use --force: processes that use it get I/O \
                            errors";
                return Err(ApiError::new("in-use", text, hint));
            }
            self.places.blocking(move || kept.abandon()).await;
        }
        Ok(())
    }

    /// Takes a device of an earlier daemon away, and says who uses it.
    pub(super) async fn forsake(&self, record: &Record, node: Node, why: &str) {
        forsake(&self.places, &record.name(), node, why).await;
    }
}

/// Takes a device of an earlier daemon away, and says who uses it.
async fn forsake(places: &Places, name: &Name, node: Node, why: &str) {
    let kept = Kept { node, link: places.link(name) };
    let why = why.to_owned();
    places
        .blocking(move || {
            let path = kept.node.path();
            let used = ThisKernel.users(&[path], node::numbers(path).ok().as_deref());
            let used: Vec<String> = used.iter().map(ToString::to_string).collect();
            tracing::warn!(
                device = %path.display(), used = used.join(", "),
                "a device of the previous daemon only returns errors, and is removed: {why}"
            );
            kept.abandon();
        })
        .await;
}
