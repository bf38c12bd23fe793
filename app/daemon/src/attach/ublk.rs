// SPDX-License-Identifier: Apache-2.0
//! Attaching through ublk. The kernel keeps such a device while there is no daemon, and who uses it waits; the next
//! daemon finds it by its mark and goes on with it, if nobody else wrote the volume in between: what a file system
//! remembers of a volume that others changed would destroy it.

use super::device::{Places, Shown, make_link, remove_link};
use super::front::Front;
use super::record::Record;
use super::{Attaches, Name, blocking, refused};
use crate::shard::{Ask, End};
use helio_api::ApiError;
use helio_attach::ublk::{Disk, Server};
use helio_attach::{AttachError, Shape, users};
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;
use twox_hash::XxHash3_128;

/// A device that works, and its stable name.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    disk: Disk,
    link: PathBuf,
}

impl Direct {
    pub(super) fn path(&self) -> &Path {
        &self.link
    }

    pub(super) fn clone_for_show(&self) -> Shown {
        Shown {
            path: self.link.clone(),
            node: Some(self.disk.path().to_owned()),
            file: None,
            numbers: self.disk.numbers().ok(),
            note: None,
        }
    }

    /// As [`Front::give_free`] says.
    pub(super) fn give_free(self) -> Result<(), (Self, String)> {
        let why = self.users().or_else(|| match self.disk.settle() {
            Ok(()) => self.users(),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                Some(String::from("claimed by somebody this daemon cannot see"))
            }
            Err(error) => {
                Some(format!("{} cannot be flushed: {error}", self.disk.path().display()))
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
        self.disk.remove();
    }
}

impl Attaches {
    /// Attaches through ublk, or goes on with a device an earlier daemon left.
    pub(super) async fn bring_up_ublk(
        &self,
        record: &Record,
        shape: Shape,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        let name = record.name();
        let mark = mark(&self.places, &name);
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
        let direct = Direct { disk, link: self.places.link(&name) };
        let shape = match self.plug(record, End::Ublk(Box::new(server)), gone).await {
            Ok(shape) => shape,
            Err(error) => {
                // Who waits for one that was left goes on waiting.
                if !resumes {
                    blocking(move || direct.disk.remove()).await;
                }
                return Err(error);
            }
        };
        let begun = direct.clone();
        match blocking(move || begin(&begun, resumes)).await {
            Ok(()) => Ok((Front::Ublk(direct), shape)),
            Err(error) => {
                self.unplug(&name).await;
                blocking(move || direct.abandon()).await;
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
        forsake(&self.places, &record.name(), disk, &why).await;
        Ok(None)
    }

    /// Whether what waits for a volume must not go on with it.
    async fn overtaken(&self, record: &Record) -> Result<bool, ApiError> {
        let group = record.group.clone();
        let asked = self.shard.answer(|reply| Ask::Overtaken { group, reply }).await;
        // Who only reads takes what there is, as on a secondary.
        Ok(asked? && !record.read_only)
    }

    /// A volume cannot be attached now: who waits for it since before is told so, if that is for good.
    pub(super) async fn let_wait_or_fail(&self, record: &Record) {
        let mark = mark(&self.places, &record.name());
        if let Ok(true) = self.overtaken(record).await
            && let Ok(Some(disk)) = blocking(move || Disk::left_behind(mark)).await
        {
            forsake(&self.places, &record.name(), disk, "another node took the volume over").await;
        }
    }

    /// Takes away what an earlier daemon left of a volume that is to be attached no more.
    ///
    /// # Errors
    /// Who uses it.
    pub(super) async fn clear_left(&self, name: &Name, force: bool) -> Result<(), ApiError> {
        let mark = mark(&self.places, name);
        let Some(disk) = blocking(move || Disk::left_behind(mark)).await.map_err(refused)? else {
            return Ok(());
        };
        let direct = Direct { disk, link: self.places.link(name) };
        let used = direct.clone();
        match blocking(move || used.users()).await {
            Some(why) if !force => {
                let text = format!("{}/{} is in use, and waits: {why}", name.0, name.1);
                let remedy = "unmount it once the volume is served again, or use --force: who uses it has errors then";
                Err(ApiError { retry: true, ..ApiError::new("in-use", text, remedy) })
            }
            _ => {
                blocking(move || direct.abandon()).await;
                Ok(())
            }
        }
    }
}

/// Gives the device its node, or what waits for it its way, and its name.
fn begin(direct: &Direct, resumes: bool) -> Result<(), AttachError> {
    let Direct { disk, link } = direct;
    let begun = if resumes { disk.resume() } else { disk.start() };
    begun.map_err(|error| AttachError::Io { path: disk.path().to_owned(), error })?;
    make_link(link, disk.path()).map_err(|error| AttachError::Io { path: link.clone(), error })
}

async fn forsake(places: &Places, name: &Name, disk: Disk, why: &str) {
    let used = users(&[disk.path()], disk.numbers().ok().as_deref());
    let used: Vec<String> = used.iter().map(ToString::to_string).collect();
    tracing::warn!(
        device = %disk.path().display(), used = used.join(", "),
        "a device of the daemon before gives errors only, and goes: {why}"
    );
    let direct = Direct { disk, link: places.link(name) };
    blocking(move || direct.abandon()).await;
}

/// What the kernel keeps with a device to know it by: the same for a volume as long as the state directory is there, and
/// another one for whoever else runs on this kernel.
fn mark(places: &Places, (group, volume): &Name) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let folder = places.files.parent().unwrap_or(&places.files);
    let place = folder.metadata().map(|found| (found.dev(), found.ino()));
    let place = place.unwrap_or_else(|error: io::Error| {
        tracing::warn!(folder = %folder.display(), %error, "cannot be looked at");
        (0, 0)
    });
    XxHash3_128::oneshot(format!("{place:?} {group}/{volume}").as_bytes()) as u64
}
