// SPDX-License-Identifier: Apache-2.0
//! How a device goes: when it is detached, and when the daemon stops.

use super::device::told;
use super::front::Front;
use super::refusal::{failed, in_use, is_arriving, is_leaving, not_flushed, not_settled};
use super::{Attaches, Busy, Live, Name, ended};
use crate::shard::{Ask, DeviceAsk};
use helio_api::{ApiError, DetachRequest};
use helio_attach::{Kernel, Settling, apart};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::{Notify, oneshot};

/// A device that is being flushed is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Whoever knows whether the machine stops says so within this.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

impl Attaches {
    pub(crate) async fn detach(
        &self,
        group: &str,
        wish: &DetachRequest,
    ) -> Result<String, ApiError> {
        let name = (group.to_owned(), wish.volume.clone());
        let title = format!("{group}/{}", wish.volume);
        let (mut desk, overtook) = self.desk_for(&name, wish.force).await?;
        let Some(entry) = desk.entries.get_mut(&name) else {
            if overtook {
                return Ok(format!("{title} is detached"));
            }
            let text = format!("{title} is not attached on this node");
            return Err(ApiError::new(
                "not-attached",
                text,
                "`helio attach --list` shows the attached volumes",
            ));
        };
        if let Some(live) = entry.live.take() {
            let insists = Arc::new(Notify::new());
            entry.busy = Some(Busy::Leaving { insists: Arc::clone(&insists) });
            drop(desk);
            let freed = self.give_free(&name, live, wish.force, &insists).await;
            desk = self.desk.lock().await;
            self.freed.notify_waiters();
            // Nobody else touches what is leaving.
            if let Some(entry) = desk.entries.get_mut(&name) {
                entry.busy = None;
                if let Err((live, error)) = freed {
                    entry.live = live;
                    return Err(error);
                }
            }
        } else {
            self.clear_left(&entry.record, wish.force).await?;
        }
        desk.entries.remove(&name);
        desk.save().map_err(|error| failed(&error))?;
        Ok(format!("{title} is detached"))
    }

    /// The daemon is to stop: gives free what nobody uses, and says who uses the rest. Nothing is attached any more
    /// from here on; what was is again after the next start.
    pub(crate) async fn leave(&self) -> Vec<String> {
        let mut desk = self.desk.lock().await;
        desk.stopping = true;
        let (mut used, mut kept) = (Vec::new(), Vec::new());
        for (name, entry) in &mut desk.entries {
            match &entry.busy {
                Some(Busy::Leaving { .. }) => used.push(is_leaving(name).error),
                Some(Busy::Arriving | Busy::Ending) => used.push(is_arriving(name).error),
                None => {}
            }
            let Some(live) = entry.live.take() else { continue };
            // `helio detach --force` cannot end this wait, since the desk is locked; a second signal ends the daemon.
            let freed = self.give_free(name, live, false, &Notify::new()).await;
            let Err((live, error)) = freed else { continue };
            match &live {
                Some(live) if live.device.outlives_us() => kept.push(error.error),
                Some(_) => used.push(error.error),
                None => tracing::warn!("{}", error.error),
            }
            entry.live = live;
        }
        if !kept.is_empty() {
            if machine_stops().await {
                // Nobody comes after this daemon, and who unmounts what it serves would wait for ever.
                used.extend(kept);
            } else {
                tracing::info!(
                    "processes that use it wait for the next daemon: {}",
                    kept.join("; ")
                );
            }
        }
        used
    }

    /// The shard is gone: whoever still uses a device has errors from now on, unless the kernel lets him wait.
    pub(crate) async fn abandon(&self) {
        let mut desk = loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let mut desk = self.desk.lock().await;
            desk.stopping = true;
            if desk.entries.values().all(|entry| entry.busy.is_none()) {
                break desk;
            }
            drop(desk);
            // Whoever has one in his hands sees that nobody serves it any more.
            freed.await;
        };
        for entry in desk.entries.values_mut() {
            if let Some(Live { device, .. }) = entry.live.take()
                && !device.outlives_us()
            {
                self.places.blocking(move || device.abandon()).await;
            }
        }
    }

    pub(super) async fn unplug(&self, name: &Name) {
        let (group, volume) = name.clone();
        let ask = |reply| Ask::Device(DeviceAsk::Unplug { group, volume, reply });
        let unplugged = self.shard.answer(ask).await;
        if let Err(error) = unplugged {
            tracing::debug!(%error, "the shard lets go of devices by itself when it ends");
        }
    }

    /// Takes a device away that nobody uses, or whoever uses it. It is given back where it is still there.
    async fn give_free(
        &self,
        name: &Name,
        live: Live,
        force: bool,
        insists: &Notify,
    ) -> Result<(), (Option<Live>, ApiError)> {
        let Live { mut device, shape, mut gone } = live;
        // One that nobody serves any more is of no use to anybody, and a flush of it would not end.
        if force || ended(&mut gone).is_some() {
            self.tear_down(name, device).await;
            return Ok(());
        }
        // Nor may one be flushed and cleared whose number is somebody else's by now.
        if let Some(why) = device.lost() {
            self.tear_down(name, device).await;
            return Err((None, not_settled(name, &io::Error::other(why))));
        }
        let (shown, path) = (device.clone_for_show(), device.path().to_owned());
        let node = shown.node.clone();
        let mut why = self.places.blocking(move || told(&shown.in_the_way())).await;
        if why.is_none()
            && let Some(node) = node
        {
            let kernel = &*self.places.platform.kernel;
            match settled(kernel, &node, &mut device, (&mut gone, insists)).await {
                Settled::Done => {}
                Settled::Refused(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    why = Some(String::from("used by a process that this daemon cannot see"));
                }
                Settled::Refused(error) => {
                    let refusal = not_flushed(name, &path, &error);
                    return Err((Some(Live { device, shape, gone }), refusal));
                }
                Settled::Unserved(error) => {
                    self.tear_down(name, device).await;
                    let lost = !shape.read_only;
                    return if lost { Err((None, not_settled(name, &error))) } else { Ok(()) };
                }
            }
        }
        let freed = match why {
            Some(why) => Err((device, why)),
            None => self.places.blocking(move || device.give_free()).await,
        };
        match freed {
            Ok(()) => {
                self.unplug(name).await;
                Ok(())
            }
            Err((device, why)) => {
                Err((Some(Live { device, shape, gone }), in_use(name, &path, &why)))
            }
        }
    }

    pub(super) async fn tear_down(&self, name: &Name, device: Front) {
        self.unplug(name).await;
        self.places.blocking(move || device.abandon()).await;
    }
}

/// What came of making a device durable.
enum Settled {
    Done,
    /// It is claimed, or cannot be written.
    Refused(io::Error),
    /// The wait was given up: nobody serves the device any more, or a command with `--force` ended the wait.
    Unserved(io::Error),
}

/// The device is looked at meanwhile: a kernel that would wait long for somebody to serve it is told that nobody does.
async fn settled(
    kernel: &dyn Kernel,
    node: &Path,
    device: &mut Front,
    (gone, insists): (&mut oneshot::Receiver<String>, &Notify),
) -> Settled {
    let (settling, insisted) = (settle(kernel, node), insists.notified());
    tokio::pin!(settling, insisted);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            biased;
            why = &mut *gone => {
                let why = why.unwrap_or_else(|_| String::from("the daemon no longer serves it"));
                return Settled::Unserved(io::Error::other(why));
            }
            () = &mut insisted => {
                let why = "another command detached it with --force";
                return Settled::Unserved(io::Error::other(why));
            }
            ended = &mut settling => return match ended {
                Ok(()) => Settled::Done,
                Err(error) => Settled::Refused(error),
            },
            _ = looks.tick() => device.look(),
        }
    }
}

/// Makes a device durable. What is dropped is given up.
async fn settle(kernel: &dyn Kernel, node: &Path) -> io::Result<()> {
    match kernel.settle(node) {
        Settling::Process(command) => {
            let mut child = Command::from(command).kill_on_drop(true).spawn()?;
            child.wait().await.and_then(apart::settled)
        }
        Settling::Elsewhere(ends) => ends.await,
    }
}

/// Whether the machine is being stopped, as far as systemd is there to say so.
async fn machine_stops() -> bool {
    let mut asked = Command::new("systemctl");
    asked.arg("is-system-running").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(KNOWN_WITHIN, asked.output()).await {
        Ok(Ok(told)) => told.stdout.trim_ascii() == b"stopping",
        _ => false,
    }
}
