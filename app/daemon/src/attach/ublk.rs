// SPDX-License-Identifier: Apache-2.0
//! Attaching through ublk.

use super::front::Front;
use super::kept::{Kept, Node};
use super::mark::Mark;
use super::record::Record;
use super::{Attaches, refused};
use crate::shard::{End, Offer};
use helio_api::ApiError;
use helio_attach::node::announce;
use helio_attach::ublk::{Disk, Server};
use helio_attach::{AttachError, Kernel, Shape, ThisKernel};
use std::path::Path;
use tokio::sync::oneshot;

impl Attaches {
    /// Attaches through ublk, or goes on with a device an earlier daemon left.
    pub(super) async fn bring_up_ublk(
        &self,
        record: &Record,
        offer: Offer,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        let name = record.name();
        let (mark, link) = (self.mark(record, offer.tenure), self.places.link(&name));
        let shape = offer.shape;
        let kept = self.retake(record, mark, shape).await?;
        let resumes = kept.is_some();
        let (disk, server) = match kept {
            Some(kept) => kept,
            None => {
                self.places.blocking(move || Disk::add(shape, mark.0)).await.map_err(refused)?
            }
        };
        let kept = Kept { node: Node::Ublk(disk.clone()), link: link.clone() };
        let end = End::Ublk(Box::new(server));
        let shape = match self.plug(record, offer.tenure, end, gone).await {
            Ok(shape) => shape,
            Err(error) => {
                // Who waits for one that was left goes on waiting.
                if !resumes {
                    self.places.blocking(move || disk.remove()).await;
                }
                return Err(error);
            }
        };
        match self.places.blocking(move || begin(&disk, &link, resumes)).await {
            Ok(()) => Ok((Front::Kept(kept), shape)),
            Err(error) => {
                self.unplug(&name).await;
                self.places.blocking(move || kept.abandon()).await;
                Err(refused(error))
            }
        }
    }

    /// What serves a device that was left, if it may go on; takes others away.
    async fn retake(
        &self,
        record: &Record,
        mark: Mark,
        shape: Shape,
    ) -> Result<Option<(Disk, Server)>, ApiError> {
        for node in self.inherited(record, mark).await.map_err(refused)? {
            let Node::Ublk(disk) = &node else { continue };
            let left = disk.clone();
            match self.places.blocking(move || left.retake(shape)).await {
                Ok(server) => return Ok(Some((disk.clone(), server))),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    let text = format!(
                        "{} is still held by a daemon that is stopping",
                        disk.path().display()
                    );
                    let error = ApiError::new("attach-failed", text, "wait a moment");
                    return Err(ApiError { retry: true, ..error });
                }
                Err(error) => self.forsake(record, node, &error.to_string()).await,
            }
        }
        Ok(None)
    }
}

/// Gives the device its node, or what waits for it its way, and its name.
fn begin(disk: &Disk, link: &Path, resumes: bool) -> Result<(), AttachError> {
    let begun = if resumes { disk.resume() } else { disk.start() };
    begun.map_err(|error| AttachError::Io { path: disk.path().to_owned(), error })?;
    let linked = ThisKernel.make_name(link, disk.path());
    linked.map_err(|error| AttachError::Io { path: link.to_owned(), error })?;
    announce(disk.path());
    Ok(())
}
