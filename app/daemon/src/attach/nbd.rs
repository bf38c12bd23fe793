// SPDX-License-Identifier: Apache-2.0
//! Attaching through the kernel's NBD client: the daemon connects to its own NBD socket, agrees on the export, and gives
//! the connection to the kernel. For the shard it is an NBD client as others are.

use super::front::Front;
use super::kept::{Kept, Node};
use super::record::Record;
use super::{Attaches, refused};
use crate::backend::of_refusal;
use crate::shard::{Ask, DeviceAsk, Hold, Offer};
use helio_api::ApiError;
use helio_attach::nbd::Disk;
use helio_attach::node::announce;
use helio_attach::{AttachError, Kernel, Shape, ThisKernel};
use helio_nbd::{Client, ClientError, ClientOptions, Contexts, Form};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;

/// How often the connection is given once more, at every look: the kernel sees the end of the one before within moments.
const AGAIN: u8 = 60;

/// Our handle on the connection the kernel has: to see when it is cut, and to give it once more.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    disk: Disk,
    shape: Shape,
    /// How often it is given once more.
    again: u8,
    gone: Option<oneshot::Sender<String>>,
}

impl Connection {
    fn new(stream: UnixStream, disk: Disk, shape: Shape, gone: oneshot::Sender<String>) -> Self {
        Self { stream, disk, shape, again: AGAIN, gone: Some(gone) }
    }

    /// Tells once, if the shard let go of it. Gives it to the kernel again otherwise, which may have had another one
    /// still when it was given it first, and does nothing where it has this one.
    pub(super) fn look(&mut self) {
        let mut set = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let cut = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        let looked = poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if looked.is_ok() && set[0].revents().intersects(cut) {
            self.end("the volume is no longer served on this node");
        } else if let Some(name) = self.disk.name() {
            let Some(left) = self.again.checked_sub(1) else { return };
            self.again = left;
            let again = self.disk.reconnect(self.shape, self.stream.as_fd(), &name);
            if let Err(error) = again {
                tracing::debug!(device = %self.disk.path().display(), %error, "cannot be reconnected");
            }
        } else {
            self.end("the kernel has removed the device");
        }
    }

    fn end(&mut self, why: &str) {
        if let Some(gone) = self.gone.take() {
            let _nobody_listens = gone.send(String::from(why));
        }
    }
}

impl Attaches {
    /// Attaches through the NBD client, or gives a device an earlier daemon left a new connection.
    pub(super) async fn bring_up_nbd(
        &self,
        record: &Record,
        offer: Offer,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        let (name, shape) = (record.name(), offer.shape);
        let mark = self.mark(record, offer.tenure);
        let left = self.inherited(record, mark).await.map_err(refused)?;
        let (socket, named, link) =
            (self.places.nbd_socket(), record.export(), self.places.link(&name));
        let agreed = self.places.blocking(move || agree(&socket, &named)).await;
        let (stream, flags) = agreed.map_err(refused)?;
        // Behind the handshake: where the role changes from here on, the shard cuts the connection.
        if record.writes_volume() {
            self.hold(record, offer.tenure, &link).await?;
        }
        let at = link.clone();
        let made = self.places.blocking(move || {
            let disk = give(left, shape, flags, &stream, &mark.backend(), &at)?;
            Ok((disk, stream))
        });
        match made.await {
            Ok((disk, stream)) => {
                let connection = Connection::new(stream, disk.clone(), shape, gone);
                Ok((Front::Connected(Kept { node: Node::Nbd(disk), link }, connection), shape))
            }
            Err(error) => {
                self.unplug(&name).await;
                Err(refused(error))
            }
        }
    }

    async fn hold(&self, record: &Record, tenure: u64, link: &Path) -> Result<(), ApiError> {
        let (group, volume) = record.name();
        let hold = Hold { group, volume, tenure, title: link.display().to_string() };
        let ask = |reply| Ask::Device(DeviceAsk::Hold { hold, reply });
        self.shard.answer(ask).await?.map_err(of_refusal)
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> AttachError {
    let path: PathBuf = path.to_owned();
    move |error: io::Error| AttachError::Io { path, error }
}

/// A connection on which the export was agreed on, and what the server offers.
fn agree(socket: &Path, export: &str) -> Result<(UnixStream, u16), AttachError> {
    let stream = UnixStream::connect(socket).map_err(at(socket))?;
    let twin = stream.try_clone().map_err(at(socket))?;
    let simple = ClientOptions { form: Form::Simple, contexts: Contexts::NONE };
    let client = Client::over_unix_with(twin, export, simple);
    let client = client.map_err(|error: ClientError| at(socket)(io::Error::other(error)))?;
    // Every answer of the handshake was read, and nothing is asked yet: the connection is as the kernel wants it.
    Ok((stream, client.flags().0))
}

/// Gives the connection to a device that was left, or to a new one.
fn give(
    left: Vec<Node>,
    shape: Shape,
    flags: u16,
    stream: &UnixStream,
    name: &str,
    link: &Path,
) -> Result<Disk, AttachError> {
    let mut disk = None;
    for node in left {
        let Node::Nbd(left) = node else { continue };
        match left.reconnect(shape, stream.as_fd(), name) {
            Ok(()) => {
                disk = Some(left);
                break;
            }
            // It was given up, and goes with its last user.
            Err(error) => {
                tracing::debug!(device = %left.path().display(), %error, "cannot be continued");
                left.remove();
            }
        }
    }
    let disk = match disk {
        Some(disk) => disk,
        None => Disk::connect(shape, flags, stream.as_fd(), name)?,
    };
    match ThisKernel.make_name(link, disk.path()) {
        Ok(()) => {
            announce(disk.path());
            Ok(disk)
        }
        Err(error) => {
            disk.remove();
            Err(AttachError::Io { path: link.to_owned(), error })
        }
    }
}
