// SPDX-License-Identifier: Apache-2.0
//! Volumes as devices of this machine: what is attached, what is to be, and how one becomes the other.
//!
//! What is to be attached is kept in `attach.json` of the state directory. A volume that cannot be served now (this
//! node is not primary, say) waits there, and is attached when it can be. The shard does the work of a device's
//! requests; here files are mounted, devices made, and cleared away. Under one lock, but for what may wait for the peer:
//! a detach flushes the device, and others need not wait for that.

mod device;
mod front;
mod kept;
mod nbd;
mod record;
mod ublk;

use crate::backend::{ShardHandle, of_refusal};
use crate::shard::{Ask, End, Plug};
use anyhow::{Context, Result};
use device::{Device, Places, clear};
use front::Front;
use helio_api::{
    ApiError, AttachRequest, AttachState, Attachment, Attachments, DetachRequest, Via, code,
};
use helio_attach::Shape;
use helio_units::Bytes;
use record::{Book, Record};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::task::spawn_blocking;

/// How often what waits is tried again, and what works is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Volumes of this node that may be attached at once.
const ATTACHED_MOST: usize = 256;

/// A group and a volume of it.
type Name = (String, String);

/// What one daemon attaches.
pub(crate) struct Attaches {
    places: Places,
    shard: ShardHandle,
    desk: Mutex<Desk>,
    /// A detach has ended, one way or the other.
    detached: Notify,
}

struct Desk {
    book: Book,
    entries: BTreeMap<Name, Entry>,
    /// The daemon stops: nothing is attached any more.
    stopping: bool,
}

/// A volume that is to be attached.
struct Entry {
    record: Record,
    live: Option<Live>,
    /// A detach has the device in its hands.
    leaving: bool,
    /// Why it is not attached, as it was told last.
    why: Option<String>,
}

/// One that is.
struct Live {
    device: Front,
    shape: Shape,
    /// The shard says here why it serves it no more.
    gone: oneshot::Receiver<String>,
}

impl Attaches {
    /// Clears away what a daemon that died left behind, and reads what is to be attached.
    pub(crate) fn new(state: &Path, links: &Path, shard: ShardHandle) -> Result<Self> {
        let state = state.canonicalize().with_context(|| state.display().to_string())?;
        let places = Places { files: state.join("attach"), links: links.to_owned() };
        let (book, records) = Book::open(&state.join("attach.json"))?;
        clear(&places, records.iter().map(Record::name));
        let entry = |record: Record| {
            (record.name(), Entry { record, live: None, leaving: false, why: None })
        };
        let entries = records.into_iter().map(entry).collect();
        let desk = Mutex::new(Desk { book, entries, stopping: false });
        Ok(Self { places, shard, desk, detached: Notify::new() })
    }

    pub(crate) async fn attach(
        &self,
        group: String,
        wish: AttachRequest,
    ) -> Result<Attachment, ApiError> {
        let AttachRequest { volume, read_only, via: wanted } = wish;
        let via = if wanted == Via::Auto { Via::Fuse } else { wanted };
        let record = Record { group, volume, read_only, via };
        let name = record.name();
        let mut desk = self.desk.lock().await;
        if desk.stopping {
            return Err(ApiError::new("stopping", "the daemon is stopping", "start it again"));
        }
        if let Some(entry) = desk.entries.get(&name) {
            if entry.leaving {
                return Err(is_leaving(&name));
            }
            let other_way = wanted != Via::Auto && entry.record.via != via;
            if entry.record.read_only != read_only || other_way {
                let text =
                    format!("{} is attached already, {}", record.title(), manner(&entry.record));
                return Err(ApiError::new("attached", text, "`helio detach` it first"));
            }
            if entry.live.is_some() {
                return Ok(self.show(entry).await);
            }
        } else if desk.entries.len() >= ATTACHED_MOST {
            let text = format!("{ATTACHED_MOST} volumes are attached already");
            return Err(ApiError::new("attach-failed", text, "detach one first"));
        }
        let record = desk.entries.get(&name).map_or(record, |entry| entry.record.clone());
        let live = self.bring_up(&record).await?;
        let entry = Entry { record, live: Some(live), leaving: false, why: None };
        let shown = self.show(&entry).await;
        desk.entries.insert(name.clone(), entry);
        if let Err(error) = desk.save() {
            let entry = desk.entries.remove(&name);
            if let Some(Live { device, .. }) = entry.and_then(|entry| entry.live) {
                self.tear_down(&name, device).await;
            }
            return Err(failed(&error));
        }
        Ok(shown)
    }

    pub(crate) async fn detach(
        &self,
        group: &str,
        wish: &DetachRequest,
    ) -> Result<String, ApiError> {
        let name = (group.to_owned(), wish.volume.clone());
        let title = format!("{group}/{}", wish.volume);
        let mut desk = self.desk.lock().await;
        let Some(entry) = desk.entries.get_mut(&name) else {
            let text = format!("{title} is not attached on this node");
            return Err(ApiError::new("not-attached", text, "`helio attach --list` shows what is"));
        };
        if entry.leaving {
            return Err(is_leaving(&name));
        }
        if let Some(live) = entry.live.take() {
            entry.leaving = true;
            drop(desk);
            let Live { device, shape, gone } = live;
            let freed = self.give_free(&name, device, wish.force).await;
            desk = self.desk.lock().await;
            self.detached.notify_waiters();
            // Nobody else touches what is leaving.
            if let Some(entry) = desk.entries.get_mut(&name) {
                entry.leaving = false;
                if let Err((device, error)) = freed {
                    entry.live = Some(Live { device, shape, gone });
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

    /// Ends a group's devices, whoever uses them; they are to be attached still.
    pub(crate) async fn end_of_group(&self, group: &str) {
        let desk = self.desk.lock().await;
        for (name, _) in
            desk.entries.iter().filter(|((of, _), entry)| of == group && entry.live.is_some())
        {
            self.unplug(name).await;
        }
    }

    /// What of a group is attached, or is to be.
    pub(crate) async fn of_group(&self, group: &str) -> Vec<String> {
        let desk = self.desk.lock().await;
        let names = desk.entries.keys().filter(|(of, _)| of == group);
        names.map(|(group, volume)| format!("{group}/{volume}")).collect()
    }

    pub(crate) async fn list(&self) -> Attachments {
        let desk = self.desk.lock().await;
        let mut attachments = Vec::new();
        for entry in desk.entries.values() {
            attachments.push(self.show(entry).await);
        }
        Attachments { attachments }
    }

    /// Attaches what waits and can be, and clears away what the shard serves no more.
    async fn look_after(&self) {
        let mut desk = self.desk.lock().await;
        if desk.stopping {
            return;
        }
        for (name, entry) in desk.entries.iter_mut().filter(|(_, entry)| !entry.leaving) {
            if let Some(live) = &mut entry.live {
                live.device.look();
                let Some(why) = ended(&mut live.gone) else { continue };
                tracing::warn!(attached = %entry.record.title(), "the device is of no more use: {why}");
                if let Some(Live { device, .. }) = entry.live.take() {
                    self.tear_down(name, device).await;
                }
            }
            match self.bring_up(&entry.record).await {
                Ok(live) => {
                    tracing::info!(attached = %entry.record.title(), path = %live.device.path().display(), "attached");
                    (entry.live, entry.why) = (Some(live), None);
                }
                Err(error) => {
                    if entry.why.as_ref() != Some(&error.error) {
                        tracing::info!(attached = %entry.record.title(), "to be attached, but not yet: {}", error.error);
                    }
                    entry.why = Some(error.error);
                    self.let_wait_or_fail(&entry.record).await;
                }
            }
        }
    }

    /// The daemon is to stop: gives free what nobody uses, and says who uses the rest. Nothing is attached any more
    /// from here on; what was is again after the next start.
    pub(crate) async fn leave(&self) -> Vec<String> {
        let mut desk = self.desk.lock().await;
        desk.stopping = true;
        let mut used = Vec::new();
        for (name, entry) in &mut desk.entries {
            if entry.leaving {
                used.push(is_leaving(name).error);
            }
            let Some(Live { device, shape, gone }) = entry.live.take() else { continue };
            if let Err((device, error)) = self.give_free(name, device, false).await {
                if device.outlives_us() {
                    tracing::info!("whoever uses it waits for the next daemon: {}", error.error);
                } else {
                    used.push(error.error);
                }
                entry.live = Some(Live { device, shape, gone });
            }
        }
        used
    }

    /// The shard is gone: whoever still uses a device has errors from now on, unless the kernel lets him wait.
    pub(crate) async fn abandon(&self) {
        let mut desk = loop {
            let ended = self.detached.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let mut desk = self.desk.lock().await;
            desk.stopping = true;
            if desk.entries.values().all(|entry| !entry.leaving) {
                break desk;
            }
            drop(desk);
            // Its flush ends too, now that nobody serves the device.
            ended.await;
        };
        for entry in desk.entries.values_mut() {
            if let Some(Live { device, .. }) = entry.live.take()
                && !device.outlives_us()
            {
                blocking(move || device.abandon()).await;
            }
        }
    }

    async fn bring_up(&self, record: &Record) -> Result<Live, ApiError> {
        let Record { group, volume, read_only, .. } = record.clone();
        let offer = |reply| Ask::Offer { group, volume, read_only, reply };
        let shape = self.shard.answer(offer).await?.map_err(of_refusal)?;
        let (gone, gone_told) = oneshot::channel();
        let (device, shape) = match record.via {
            Via::Ublk => self.bring_up_ublk(record, shape, gone).await?,
            Via::Nbd => self.bring_up_nbd(record, shape, gone).await?,
            Via::Auto | Via::Fuse => self.bring_up_fuse(record, gone).await?,
        };
        Ok(Live { device, shape, gone: gone_told })
    }

    async fn bring_up_fuse(
        &self,
        record: &Record,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        let places = self.places.clone();
        let (group, volume) = record.name();
        let mounted = blocking(move || device::mount(&places, &group, &volume)).await;
        let (mount, channel) = mounted.map_err(refused)?;
        let shape = match self.plug(record, End::Fuse(channel), gone).await {
            Ok(shape) => shape,
            Err(error) => {
                blocking(move || device::unmount(mount)).await;
                return Err(error);
            }
        };
        let (places, name) = (self.places.clone(), record.name());
        let made = blocking(move || Device::new(&places, &name, mount, shape)).await;
        match made {
            Ok(device) => Ok((Front::Fuse(device), shape)),
            Err((mount, error)) => {
                self.unplug(&record.name()).await;
                blocking(move || device::unmount(mount)).await;
                Err(refused(error))
            }
        }
    }

    async fn plug(
        &self,
        record: &Record,
        end: End,
        gone: oneshot::Sender<String>,
    ) -> Result<Shape, ApiError> {
        let (group, volume) = record.name();
        let name = self.places.link(&record.name()).display().to_string();
        let plug = Plug { group, volume, read_only: record.read_only, name, end, gone };
        let plug = Box::new(plug);
        self.shard.answer(|reply| Ask::Plug { plug, reply }).await?.map_err(of_refusal)
    }

    async fn unplug(&self, name: &Name) {
        let (group, volume) = name.clone();
        let unplugged = self.shard.answer(|reply| Ask::Unplug { group, volume, reply }).await;
        if let Err(error) = unplugged {
            tracing::debug!(%error, "the shard lets go of devices by itself when it ends");
        }
    }

    /// Takes a device away that nobody uses, or whoever uses it.
    async fn give_free(
        &self,
        name: &Name,
        device: Front,
        force: bool,
    ) -> Result<(), (Front, ApiError)> {
        if force {
            self.tear_down(name, device).await;
            return Ok(());
        }
        let title = format!("{}/{}", name.0, name.1);
        let freed = blocking(move || device.give_free()).await;
        match freed {
            Ok(()) => {
                self.unplug(name).await;
                Ok(())
            }
            Err((device, why)) => {
                let path = device.path().display().to_string();
                let text = format!("{title}, attached as {path}, is in use: {why}");
                let remedy = "unmount it and close what has it open, or use --force: who uses it has errors then";
                let error = ApiError { retry: true, ..ApiError::new("in-use", text, remedy) };
                Err((device, error))
            }
        }
    }

    async fn tear_down(&self, name: &Name, device: Front) {
        self.unplug(name).await;
        blocking(move || device.abandon()).await;
    }

    async fn show(&self, entry: &Entry) -> Attachment {
        let Entry { record, live, leaving, why } = entry;
        let name = record.name();
        let live = live.as_ref().map(|live| (live.device.clone_for_show(), live.shape));
        let used_by = match live.clone() {
            Some((device, _)) => blocking(move || device.users()).await,
            None => Vec::new(),
        };
        let shape = live.as_ref().map(|(_, shape)| *shape);
        let device = live.map(|(device, _)| device);
        Attachment {
            state: if device.is_some() { AttachState::Attached } else { AttachState::Waiting },
            reason: match &device {
                Some(device) => device.note.clone(),
                None if *leaving => Some(String::from("it is being detached")),
                None => why.clone(),
            },
            via: record.via,
            read_only: record.read_only,
            path: device
                .as_ref()
                .map_or_else(|| self.places.link(&name), |d| d.path.clone())
                .display()
                .to_string(),
            device: device
                .as_ref()
                .and_then(|d| d.node.as_ref())
                .map(|node| node.display().to_string()),
            file: match record.via {
                Via::Fuse | Via::Auto => Some(self.places.file(&name).display().to_string()),
                Via::Ublk | Via::Nbd => None,
            },
            size_bytes: shape.map(|shape| shape.size),
            block_bytes: shape.map(|shape| Bytes(u64::from(shape.block))),
            used_by: used_by.iter().map(ToString::to_string).collect(),
            group: name.0,
            volume: name.1,
        }
    }
}

impl Desk {
    fn save(&self) -> std::io::Result<()> {
        self.book.save(self.entries.values().map(|entry| &entry.record))
    }
}

/// Attaches what waits as soon as it can be, for as long as the daemon runs.
pub(crate) async fn keep_up(attaches: Arc<Attaches>) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        attaches.look_after().await;
    }
}

fn is_leaving((group, volume): &Name) -> ApiError {
    let text = format!("{group}/{volume} is being detached already");
    ApiError { retry: true, ..ApiError::new("busy", text, "wait for that to end") }
}

/// Why the shard serves a device no more, if it does not.
fn ended(gone: &mut oneshot::Receiver<String>) -> Option<String> {
    match gone.try_recv() {
        Ok(why) => Some(why),
        Err(oneshot::error::TryRecvError::Empty) => None,
        Err(oneshot::error::TryRecvError::Closed) => Some(String::from("the shard let it go")),
    }
}

/// What may wait for the kernel, which may wait for our own shard, runs beside everything else.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn manner(record: &Record) -> String {
    let manner = if record.read_only { "to be read only" } else { "to be read and written" };
    format!("{manner}, via {}", record.via)
}

fn failed(error: &std::io::Error) -> ApiError {
    let text = format!("what is attached cannot be kept in the state directory: {error}");
    ApiError::new(code::INTERNAL, text, "see to the state directory's file system")
}

fn refused(error: helio_attach::AttachError) -> ApiError {
    let remedy = "run the daemon as root where /dev/fuse is, or use the volume over NBD: nbd.sock of the state directory";
    match error {
        helio_attach::AttachError::NoFuse { .. } => {
            ApiError::new("no-fuse", error.to_string(), remedy)
        }
        helio_attach::AttachError::NoNbd { .. } => {
            let remedy =
                "load the module (`modprobe nbd`) and run the daemon as root, or use --via fuse";
            ApiError::new("no-nbd", error.to_string(), remedy)
        }
        helio_attach::AttachError::NoUblk { .. } => {
            let remedy = "load the module (`modprobe ublk_drv`, Linux 6.5 or later) and run the daemon as root, or use --via fuse";
            ApiError::new("no-ublk", error.to_string(), remedy)
        }
        other => {
            let remedy = "see to what is named and attach again";
            ApiError::new("attach-failed", other.to_string(), remedy)
        }
    }
}
