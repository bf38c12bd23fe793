// SPDX-License-Identifier: Apache-2.0
//! Volumes as devices of this machine: what is attached, what is to be, and how one becomes the other.
//!
//! What is to be attached is kept in `attach.json` of the state directory. A volume that cannot be served now (this
//! node is not primary, say) waits there, and is attached when it can be. The shard does the work of a device's
//! requests; here files are mounted, devices made, and cleared away. Under one lock, but for what may wait for the
//! kernel or the peer: while a device is made or flushed its entry is busy, and others need not wait for that.

mod arrive;
mod device;
mod front;
mod kept;
mod leave;
mod mark;
mod nbd;
mod record;
mod refusal;
mod ublk;

use crate::backend::ShardHandle;
use crate::platform::Platform;
use anyhow::{Context, Result};
use device::{Places, Shown, clear};
use front::Front;
use helio_api::{ApiError, AttachRequest, AttachState, Attachment, Attachments, Via};
use helio_attach::{Ground, Shape};
use helio_driver::Host;
use helio_units::Bytes;
use record::{Book, Record};
use refusal::{failed, is_arriving, is_leaving, manner, refused, still_leaving};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, Notify, oneshot};
use tokio::time::Instant;

/// How often what waits is tried again, and what works is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long who wants something of a volume waits until it is attached, or that failed.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// Volumes of this node that may be attached at once.
const ATTACHED_MOST: usize = 256;

/// A group and a volume of it.
type Name = (String, String);

/// What one daemon attaches.
pub(crate) struct Attaches {
    places: Places,
    shard: ShardHandle,
    desk: Mutex<Desk>,
    /// An entry is busy no more.
    freed: Notify,
}

/// Which attached devices stand in the way of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Devices {
    /// Those that may be written.
    Writable,
    All,
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
    /// Somebody has it in his hands: nobody else touches it.
    busy: Option<Busy>,
    /// It is in the book, or is to be when that is written next.
    kept: bool,
    /// Why it is not attached, as it was told last.
    why: Option<String>,
}

/// What is done to an entry without the lock.
#[derive(Clone, Debug)]
enum Busy {
    Arriving,
    Leaving {
        /// Ends its wait for the flush, which may never complete while the device exists.
        insists: Arc<Notify>,
    },
    /// Its device is taken away, since nobody serves it any more.
    Ending,
}

/// One that is.
struct Live {
    device: Front,
    shape: Shape,
    /// The shard says here why it serves it no more.
    gone: oneshot::Receiver<String>,
}

/// The volumes of a group that a daemon of this state directory attaches when it starts.
pub(crate) fn recorded(host: &Host, state: &Path, group: &str) -> Result<Vec<String>> {
    let (_, records) = Book::open(host, &state.join("attach.json"))?;
    Ok(records.iter().filter(|record| record.group == group).map(Record::title).collect())
}

impl Attaches {
    /// Clears away what a daemon that died left behind, and reads what is to be attached.
    pub(crate) fn new(
        platform: &Platform,
        (state, links): (&Path, &Path),
        shard: ShardHandle,
    ) -> Result<Self> {
        let state = platform.host.real_path(state).with_context(|| state.display().to_string())?;
        let (files, links) = (state.join("attach"), links.to_owned());
        let places = Places { files, links, platform: platform.clone() };
        let (book, records) = Book::open(&platform.host, &state.join("attach.json"))?;
        clear(&places, records.iter().map(Record::name));
        let entry = |record: Record| (record.name(), Entry::new(record, true));
        let entries = records.into_iter().map(entry).collect();
        let desk = Mutex::new(Desk { book, entries, stopping: false });
        Ok(Self { places, shard, desk, freed: Notify::new() })
    }

    pub(crate) async fn attach(
        &self,
        group: String,
        wish: AttachRequest,
    ) -> Result<Attachment, ApiError> {
        let AttachRequest { volume, read_only, via: wanted } = wish;
        let via = if wanted == Via::Auto {
            let kernel = Arc::clone(&self.places.platform.kernel);
            self.places.blocking(move || arrive::best(&*kernel)).await
        } else {
            wanted
        };
        let record = Record { group, volume, read_only, via };
        let name = record.name();
        let (mut desk, _) = self.desk_for(&name, false).await?;
        if desk.stopping {
            return Err(ApiError::new("stopping", "the daemon is stopping", "start it again"));
        }
        if let Some(entry) = desk.entries.get(&name) {
            let other_way = wanted != Via::Auto && entry.record.via != via;
            if entry.record.read_only != read_only || other_way {
                let text =
                    format!("{} is already attached, {}", record.title(), manner(&entry.record));
                let hint = format!("detach it first: `helio detach {}`", record.title());
                return Err(ApiError::new("attached", text, hint));
            }
            if entry.live.is_some() {
                let shown = self.show(entry);
                drop(desk);
                return Ok(self.with_user(shown).await);
            }
        } else if desk.entries.len() >= ATTACHED_MOST {
            let text = format!("{ATTACHED_MOST} volumes are already attached");
            return Err(ApiError::new("attach-failed", text, "detach one first"));
        }
        let entry = desk.entries.entry(name.clone()).or_insert(Entry::new(record, false));
        entry.busy = Some(Busy::Arriving);
        let record = entry.record.clone();
        drop(desk);
        let brought = self.bring_up(&record).await;
        let mut desk = self.desk.lock().await;
        self.freed.notify_waiters();
        let mut entry = desk.entries.remove(&name).ok_or_else(|| is_leaving(&name))?;
        entry.busy = None;
        match brought {
            Ok(live) => entry.live = Some(live),
            Err(error) => {
                if entry.kept {
                    desk.entries.insert(name, entry);
                }
                return Err(error);
            }
        }
        entry.kept = true;
        let shown = self.show(&entry);
        desk.entries.insert(name.clone(), entry);
        if let Err(error) = desk.save() {
            let entry = desk.entries.remove(&name);
            if let Some(Live { device, .. }) = entry.and_then(|entry| entry.live) {
                self.tear_down(&name, device).await;
            }
            return Err(failed(&error));
        }
        drop(desk);
        Ok(self.with_user(shown).await)
    }

    /// The desk, once no other command works on that volume. `force` tells a detach that is under way to end its wait; returns whether
    /// there was one.
    async fn desk_for(
        &self,
        name: &Name,
        force: bool,
    ) -> Result<(MutexGuard<'_, Desk>, bool), ApiError> {
        let until = Instant::now() + ARRIVES_WITHIN;
        let mut overtook = false;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let desk = self.desk.lock().await;
            let busy = desk.entries.get(name).and_then(|entry| entry.busy.clone());
            let why = match &busy {
                None => return Ok((desk, overtook)),
                Some(Busy::Leaving { .. }) if !force => return Err(is_leaving(name)),
                Some(Busy::Leaving { insists }) => {
                    insists.notify_one();
                    overtook = true;
                    still_leaving(name)
                }
                Some(Busy::Arriving | Busy::Ending) => is_arriving(name),
            };
            drop(desk);
            if tokio::time::timeout_at(until, freed).await.is_err() {
                return Err(why);
            }
        }
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

    /// Why the group cannot be taken away, if its volumes are attached.
    pub(crate) async fn in_use(&self, group: &str, which: Devices) -> Option<ApiError> {
        let desk = self.desk.lock().await;
        let counts = |entry: &Entry| which == Devices::All || entry.record.writes_volume();
        let ours = desk.entries.iter().filter(|((of, _), entry)| of == group && counts(entry));
        let live = ours.filter_map(|(name, entry)| Some((name.clone(), entry.live.as_ref()?)));
        let shown: Vec<_> = live.map(|(name, live)| (name, live.device.clone_for_show())).collect();
        drop(desk);
        self.places.blocking(move || refusal::attached(&shown)).await
    }

    /// The devices there are, for who must not lie on one.
    pub(crate) async fn grounds(&self) -> Vec<Ground> {
        let desk = self.desk.lock().await;
        let live =
            desk.entries.iter().filter_map(|(name, entry)| Some((name, entry.live.as_ref()?)));
        live.map(|((group, volume), live)| {
            let shown = live.device.clone_for_show();
            Ground { name: format!("{group}/{volume}"), numbers: shown.numbers, file: shown.file }
        })
        .collect()
    }

    /// The users are looked for without the lock: that takes long on a host with many processes.
    pub(crate) async fn list(&self) -> Attachments {
        let desk = self.desk.lock().await;
        let shown = desk.entries.values().map(|entry| self.show(entry)).collect();
        drop(desk);
        Attachments { attachments: self.with_users(shown).await }
    }

    /// Adds who uses the device.
    async fn with_user(&self, (mut shown, device): (Attachment, Option<Shown>)) -> Attachment {
        if let Some(device) = device {
            let users = self.places.blocking(move || device.users()).await;
            shown.used_by = users.iter().map(ToString::to_string).collect();
        }
        shown
    }

    /// The same of several, which look at all processes once.
    async fn with_users(&self, shown: Vec<(Attachment, Option<Shown>)>) -> Vec<Attachment> {
        let (mut all, devices): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
        let kernel = Arc::clone(&self.places.platform.kernel);
        let find = move || {
            let used: Vec<_> = devices.iter().flatten().map(Shown::used).collect();
            let mut found = kernel.users_of(&used).into_iter();
            let users = devices.iter().map(|it| it.as_ref().and_then(|_| found.next()));
            users.map(Option::unwrap_or_default).collect::<Vec<_>>()
        };
        for (attachment, users) in all.iter_mut().zip(self.places.blocking(find).await) {
            attachment.used_by = users.iter().map(ToString::to_string).collect();
        }
        all
    }

    /// What is shown of an entry but for its users, and its device.
    fn show(&self, entry: &Entry) -> (Attachment, Option<Shown>) {
        let Entry { record, live, busy, why, .. } = entry;
        let name = record.name();
        let shape = live.as_ref().map(|live| live.shape);
        let device = live.as_ref().map(|live| live.device.clone_for_show());
        let attachment = Attachment {
            state: if device.is_some() || matches!(busy, Some(Busy::Ending)) {
                AttachState::Attached
            } else {
                AttachState::Waiting
            },
            reason: match &device {
                Some(device) => device.note.clone(),
                None if matches!(busy, Some(Busy::Leaving { .. })) => {
                    Some(String::from("it is being detached"))
                }
                None if matches!(busy, Some(Busy::Ending)) => Some(String::from("it ends")),
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
            used_by: Vec::new(),
            group: name.0,
            volume: name.1,
        };
        (attachment, device)
    }
}

impl Entry {
    const fn new(record: Record, kept: bool) -> Self {
        Self { record, live: None, busy: None, kept, why: None }
    }
}

impl Desk {
    fn save(&self) -> std::io::Result<()> {
        let kept = self.entries.values().filter(|entry| entry.kept);
        self.book.save(kept.map(|entry| &entry.record))
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

/// Why the shard serves a device no more, if it does not.
fn ended(gone: &mut oneshot::Receiver<String>) -> Option<String> {
    match gone.try_recv() {
        Ok(why) => Some(why),
        Err(oneshot::error::TryRecvError::Empty) => None,
        Err(oneshot::error::TryRecvError::Closed) => Some(String::from("the shard let it go")),
    }
}
