// SPDX-License-Identifier: Apache-2.0
//! How a volume that is to be attached becomes a device.

use super::device::{self, Device};
use super::front::Front;
use super::record::Record;
use super::{Attaches, Busy, Live, Name, ended, refused};
use crate::backend::of_refusal;
use crate::shard::{Ask, DeviceAsk, End, Plug};
use helio_api::{ApiError, Via};
use helio_attach::{AttachError, Kernel, Mount, Shape};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The best way this machine has.
pub(super) fn best(kernel: &dyn Kernel) -> Via {
    match kernel.has_ublk() {
        Ok(()) => Via::Ublk,
        Err(why) => {
            tracing::debug!(%why, "attaching through FUSE");
            Via::Fuse
        }
    }
}

/// Whether this machine has a way.
fn has(kernel: &dyn Kernel, via: Via) -> Result<(), AttachError> {
    match via {
        Via::Ublk => kernel.has_ublk(),
        Via::Nbd => kernel.has_nbd(),
        Via::Auto | Via::Fuse => Ok(()),
    }
}

impl Attaches {
    /// Attaches what waits and can be, and clears away what the shard serves no more: each volume by itself, since the
    /// kernel may take its time.
    pub(super) async fn look_after(self: &Arc<Self>) {
        let mut desk = self.desk.lock().await;
        if desk.stopping {
            return;
        }
        for (name, entry) in desk.entries.iter_mut().filter(|(_, entry)| entry.busy.is_none()) {
            if let Some(live) = &mut entry.live {
                live.device.look();
                let why = ended(&mut live.gone).or_else(|| live.device.lost());
                let Some(why) = why else { continue };
                tracing::warn!(attached = %entry.record.title(), "the device cannot be used any longer: {why}");
            }
            let over = entry.live.take().map(|live| live.device);
            entry.busy = Some(if over.is_some() { Busy::Ending } else { Busy::Arriving });
            let (me, name, record) = (Arc::clone(self), name.clone(), entry.record.clone());
            tokio::spawn(async move { me.come_again(name, record, over).await });
        }
    }

    /// Clears away what was, and attaches the volume if that can be.
    async fn come_again(&self, name: Name, record: Record, over: Option<Front>) {
        if let Some(device) = over {
            self.tear_down(&name, device).await;
            if let Some(entry) = self.desk.lock().await.entries.get_mut(&name) {
                entry.busy = Some(Busy::Arriving);
            }
        }
        let brought = self.bring_up(&record).await;
        if brought.is_err() {
            self.let_wait_or_fail(&record).await;
        }
        let mut desk = self.desk.lock().await;
        self.freed.notify_waiters();
        let Some(entry) = desk.entries.get_mut(&name) else { return };
        entry.busy = None;
        match brought {
            Ok(live) => {
                tracing::info!(attached = %record.title(), path = %live.device.path().display(), "attached");
                (entry.live, entry.why) = (Some(live), None);
            }
            Err(error) => {
                if entry.why.as_ref() != Some(&error.error) {
                    tracing::info!(attached = %record.title(), "not attached yet: {}", error.error);
                }
                entry.why = Some(error.error);
            }
        }
    }

    pub(super) async fn bring_up(&self, record: &Record) -> Result<Live, ApiError> {
        let Record { group, volume, read_only, via } = record.clone();
        let ask = |reply| Ask::Device(DeviceAsk::Offer { group, volume, read_only, reply });
        let offer = self.shard.answer(ask).await?.map_err(of_refusal)?;
        let kernel = Arc::clone(&self.places.platform.kernel);
        self.places.blocking(move || has(&*kernel, via)).await.map_err(refused)?;
        let (gone, gone_told) = oneshot::channel();
        let (device, shape) = match record.via {
            Via::Ublk => self.bring_up_ublk(record, offer, gone).await?,
            Via::Nbd => self.bring_up_nbd(record, offer, gone).await?,
            Via::Auto | Via::Fuse => self.bring_up_fuse(record, offer.tenure, gone).await?,
        };
        Ok(Live { device, shape, gone: gone_told })
    }

    async fn bring_up_fuse(
        &self,
        record: &Record,
        tenure: u64,
        gone: oneshot::Sender<String>,
    ) -> Result<(Front, Shape), ApiError> {
        let places = self.places.clone();
        let (group, volume) = record.name();
        let mounted = self.places.blocking(move || device::mount(&places, &group, &volume)).await;
        let (mount, channel) = mounted.map_err(refused)?;
        let shape = match self.plug(record, tenure, End::Fuse(channel), gone).await {
            Ok(shape) => shape,
            Err(error) => {
                self.unmount(mount).await;
                return Err(error);
            }
        };
        let (places, name) = (self.places.clone(), record.name());
        let all: Vec<Name> = self.desk.lock().await.entries.keys().cloned().collect();
        let make = move || Device::new(&places, (&name, &all), mount, shape);
        let made = self.places.blocking(make).await;
        match made {
            Ok(device) => Ok((Front::Fuse(device), shape)),
            Err((mount, error)) => {
                self.unplug(&record.name()).await;
                self.unmount(mount).await;
                Err(refused(error))
            }
        }
    }

    async fn unmount(&self, mount: Mount) {
        let places = self.places.clone();
        self.places.blocking(move || device::unmount(&places, mount)).await;
    }

    pub(super) async fn plug(
        &self,
        record: &Record,
        tenure: u64,
        end: End,
        gone: oneshot::Sender<String>,
    ) -> Result<Shape, ApiError> {
        let (group, volume) = record.name();
        let name = self.places.link(&record.name()).display().to_string();
        let plug = Plug { group, volume, read_only: record.read_only, tenure, name, end, gone };
        let plug = Box::new(plug);
        let ask = |reply| Ask::Device(DeviceAsk::Plug { plug, reply });
        self.shard.answer(ask).await?.map_err(of_refusal)
    }
}
