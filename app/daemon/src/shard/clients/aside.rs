// SPDX-License-Identifier: Apache-2.0
//! Requests the shard answers without the engine: reads of a secondary's copy, and questions about stretches.
//!
//! They are on no line, since they change nothing: what they see is the member as it stands.

use crate::shard::clients::{Clients, Io, answers};
use crate::shard::group::{Group, read_buffer};
use crate::shard::token::{Kind, token};
use helio_driver::Outcome;
use helio_nbd::{Command, Context, ErrorCode, MAX_STATUS_EXTENTS, Request, StatusExtent, status};
use helio_units::{Extent, VolumeIndex};

/// Regions looked at for one question: the client asks again for the rest.
const REGIONS_MAX: u64 = 64 << 10;

impl Clients {
    /// Whether a request is answered here; then it is taken care of.
    pub(super) fn submit_aside(&mut self, slot: usize, request: &Request, io: &mut Io<'_>) -> bool {
        let Some(place) = self.slots[slot].as_ref().and_then(|client| client.place) else {
            return false;
        };
        let member = &io.groups[place.group].volumes[usize::from(place.volume.0)].member;
        let op = match request.command {
            Command::BlockStatus => member.map(request.extent),
            Command::Read if place.aside => {
                let length = request.extent.length as usize;
                member.read(request.extent, read_buffer(io.pool, length))
            }
            // Nothing here is ever dirty on behalf of this client.
            Command::Flush if place.aside => return self.done_at_once(slot, request),
            Command::Cache => return self.done_at_once(slot, request),
            _ => return false,
        };
        let bytes = if request.command == Command::Read { request.extent.length } else { 0 };
        match op {
            Ok(op) => {
                let at = self.own(slot, *request, bytes).0 as usize;
                io.driver.submit(token(Kind::Aside, at, 0), op);
            }
            Err(error) => {
                if let Some(client) = &mut self.slots[slot] {
                    answers::refuse(client, request, ErrorCode::Invalid, &error.to_string());
                }
            }
        }
        true
    }

    fn done_at_once(&mut self, slot: usize, request: &Request) -> bool {
        if let Some(client) = &mut self.slots[slot] {
            client.session.reply_done(request, super::client::plain(&mut client.out));
        }
        true
    }

    /// An operation of [`Clients::submit_aside`] ended.
    pub(crate) fn aside_done(&mut self, at: usize, outcome: Outcome, io: &mut Io<'_>) {
        let Some(owner) = self.disown(at) else { return };
        let Some(client) = self.client(owner.client, owner.epoch) else { return };
        let Some(place) = client.place else { return };
        let group = &io.groups[place.group];
        let request = &owner.request;
        match outcome {
            Outcome::Read { buffer, result: Ok(()) } if group.engine.view().words().consistent => {
                answers::read(client, request, buffer.into_shared());
            }
            Outcome::Read { result: Ok(()), .. } => {
                let text = "the copy on this node is inconsistent during the resync";
                answers::refuse(client, request, ErrorCode::Io, text);
            }
            Outcome::Map(runs) if runs.is_ok() || group.engine.view().lacks_regions() => {
                let sparse = group.volumes[usize::from(place.volume.0)].sparse;
                let marks = if request.contexts.has(Context::Marks) {
                    marks(group, place.volume, request.extent)
                } else {
                    Vec::new()
                };
                // Of what is lacking here, this node's own store tells nothing.
                let known = runs.ok().filter(|_| !group.engine.view().lacks_regions());
                answers::block_status(client, request, known.as_deref(), sparse, &marks);
            }
            outcome => {
                if let Some(error) = outcome.error() {
                    tracing::error!(group = %group.name, %error, "store failed");
                }
                answers::refuse(client, request, ErrorCode::Io, "the local disk failed");
            }
        }
        self.wake(owner.client, io);
    }
}

/// What of an extent may differ from the peer's copy, neighbours joined.
fn marks(group: &Group, volume: VolumeIndex, extent: Extent) -> Vec<StatusExtent> {
    let mut told: Vec<StatusExtent> = Vec::new();
    let (mut at, grain) = (extent.offset, group.config.granularity.0);
    let end = extent.end().min((at / grain + REGIONS_MAX) * grain);
    while at < end && told.len() < MAX_STATUS_EXTENTS {
        let next = ((at / grain + 1) * grain).min(end);
        let flags = if group.engine.view().is_marked(volume, at) { status::MARKED } else { 0 };
        match told.last_mut() {
            Some(last) if last.flags == flags => last.length += next - at,
            _ => told.push(StatusExtent { length: next - at, flags }),
        }
        at = next;
    }
    told
}
