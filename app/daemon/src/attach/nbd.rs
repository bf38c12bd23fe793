// SPDX-License-Identifier: Apache-2.0
//! Attaching through the kernel's NBD client: the daemon connects to its own NBD socket, agrees on the export, and gives
//! the connection to the kernel. For the shard it is an NBD client as others are.

use super::device::make_link;
use super::front::Front;
use super::kept::{Kept, Node, backend, mark};
use super::record::Record;
use super::{Attaches, blocking, refused};
use crate::shard::Ask;
use helio_api::ApiError;
use helio_attach::nbd::Disk;
use helio_attach::{AttachError, Shape};
use helio_nbd::{Client, ClientError, ClientOptions, Contexts, Form};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::sync::oneshot;

/// Our handle on the connection the kernel has, to see when it is cut.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    gone: Option<oneshot::Sender<String>>,
}

impl Connection {
    /// Tells once, if the shard let go of it.
    pub(super) fn look(&mut self) {
        let mut set = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let cut = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
        let looked = poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if looked.is_ok()
            && set[0].revents().intersects(cut)
            && let Some(gone) = self.gone.take()
        {
            let _nobody_listens = gone.send(String::from("the volume is not served here any more"));
        }
    }
}

impl Attaches {
    /// Attaches through the NBD client, or gives a device an earlier daemon left a new connection.
    pub(super) async fn bring_up_nbd(
        &self,
        record: &Record,
        shape: Shape,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        if self.overtaken(record).await? {
            self.forsake_all(record, "the volume was written elsewhere meanwhile").await;
        }
        let name = record.name();
        let (link, backend) = (self.places.link(&name), backend(mark(&self.places, &name)));
        let (socket, export) = (self.places.nbd_socket(), export(record));
        let at = link.clone();
        let made = blocking(move || connect(&socket, &export, shape, &backend, &at)).await;
        let (disk, stream) = made.map_err(refused)?;
        if !record.read_only {
            let (group, volume) = name;
            let title = link.display().to_string();
            self.shard.answer(|reply| Ask::Hold { group, volume, title, reply }).await?;
        }
        let connection = Connection { stream, gone: Some(gone) };
        Ok((Front::Connected(Kept { node: Node::Nbd(disk), link }, connection), shape))
    }
}

/// What the volume is called among exports.
fn export(record: &Record) -> String {
    let suffix = if record.read_only { ":ro" } else { "" };
    format!("{}{suffix}", record.title())
}

fn connect(
    socket: &Path,
    export: &str,
    shape: Shape,
    backend: &str,
    link: &Path,
) -> Result<(Disk, UnixStream), AttachError> {
    let at = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |error: io::Error| AttachError::Io { path, error }
    };
    let stream = UnixStream::connect(socket).map_err(at(socket))?;
    let twin = stream.try_clone().map_err(at(socket))?;
    let simple = ClientOptions { form: Form::Simple, contexts: Contexts::NONE };
    let client = Client::over_unix_with(twin, export, simple);
    let client = client.map_err(|error: ClientError| at(socket)(io::Error::other(error)))?;
    let flags = client.flags().0;
    // Every answer of the handshake was read, and nothing is asked yet: the connection is as the kernel wants it.
    drop(client);
    let mut disk = None;
    for left in Disk::left_behind(backend) {
        match left.reconnect(shape, stream.as_fd(), backend) {
            Ok(()) => {
                disk = Some(left);
                break;
            }
            // It was given up, and goes with its last user.
            Err(error) => {
                tracing::debug!(device = %left.path().display(), %error, "cannot be gone on with");
                left.remove();
            }
        }
    }
    let disk = match disk {
        Some(disk) => disk,
        None => Disk::connect(shape, flags, stream.as_fd(), backend)?,
    };
    match make_link(link, disk.path()) {
        Ok(()) => Ok((disk, stream)),
        Err(error) => {
            disk.remove();
            Err(AttachError::Io { path: link.to_owned(), error })
        }
    }
}
