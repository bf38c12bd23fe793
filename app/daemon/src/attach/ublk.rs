// SPDX-License-Identifier: Apache-2.0
//! Attaching through ublk.

use super::device::make_link;
use super::front::Front;
use super::kept::{Kept, Node, forsake, mark};
use super::record::Record;
use super::{Attaches, blocking, refused};
use crate::shard::End;
use helio_api::ApiError;
use helio_attach::ublk::{Disk, Server};
use helio_attach::{AttachError, Shape};
use std::path::Path;
use tokio::sync::oneshot;

impl Attaches {
    /// Attaches through ublk, or goes on with a device an earlier daemon left.
    pub(super) async fn bring_up_ublk(
        &self,
        record: &Record,
        shape: Shape,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        let name = record.name();
        let (mark, link) = (mark(&self.places, &name), self.places.link(&name));
        let left = blocking(move || Disk::left_behind(mark)).await.map_err(refused)?;
        let kept = match left {
            Some(disk) => self.retake(record, disk, shape).await?,
            None => None,
        };
        let resumes = kept.is_some();
        let (disk, server) = match kept {
            Some(kept) => kept,
            None => blocking(move || Disk::add(shape, mark)).await.map_err(refused)?,
        };
        let kept = Kept { node: Node::Ublk(disk.clone()), link: link.clone() };
        let shape = match self.plug(record, End::Ublk(Box::new(server)), gone).await {
            Ok(shape) => shape,
            Err(error) => {
                // Who waits for one that was left goes on waiting.
                if !resumes {
                    blocking(move || disk.remove()).await;
                }
                return Err(error);
            }
        };
        match blocking(move || begin(&disk, &link, resumes)).await {
            Ok(()) => Ok((Front::Kept(kept), shape)),
            Err(error) => {
                self.unplug(&name).await;
                blocking(move || kept.abandon()).await;
                Err(refused(error))
            }
        }
    }

    /// What serves a device that was left, if it may go on; takes it away otherwise.
    async fn retake(
        &self,
        record: &Record,
        disk: Disk,
        shape: Shape,
    ) -> Result<Option<(Disk, Server)>, ApiError> {
        let why = if self.overtaken(record).await? {
            String::from("the volume was written elsewhere meanwhile")
        } else {
            let left = disk.clone();
            match blocking(move || left.retake(shape)).await {
                Ok(server) => return Ok(Some((disk, server))),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    let text =
                        format!("{} is still held by a daemon that ends", disk.path().display());
                    let error = ApiError::new("attach-failed", text, "wait a moment");
                    return Err(ApiError { retry: true, ..error });
                }
                Err(error) => error.to_string(),
            }
        };
        forsake(&self.places, &record.name(), Node::Ublk(disk), &why).await;
        Ok(None)
    }
}

/// Gives the device its node, or what waits for it its way, and its name.
fn begin(disk: &Disk, link: &Path, resumes: bool) -> Result<(), AttachError> {
    let begun = if resumes { disk.resume() } else { disk.start() };
    begun.map_err(|error| AttachError::Io { path: disk.path().to_owned(), error })?;
    make_link(link, disk.path()).map_err(|error| AttachError::Io { path: link.to_owned(), error })
}
