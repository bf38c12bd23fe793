// SPDX-License-Identifier: Apache-2.0
//! The requests under way of a shard: one table for NBD clients and attached devices.
//!
//! ```text
//!                                 ┌─volume─> engine ──Answer──┐
//!  front end ──Operation──> submit┤                           ├complete ──Ended──> front end
//!                                 └─copy───> store ──Outcome──┘
//! ```
//! A front end reads requests and writes replies; between the two a request is here, whichever front end it came by. A
//! request of a volume ends by the engine's answer, one of a copy by the store's outcome, and never by the other's.

mod load;
mod operation;
mod place;
mod reply;
#[cfg(test)]
mod walk;

use crate::shard::census::Table;
use crate::shard::group::{Group, read_buffer};
use crate::shard::plan::MemberPlan;
use crate::shard::token::{Kind, token};
use helio_attach::Work;
use helio_disk::StoreError;
use helio_driver::{Driver, Outcome, Pool, Shared};
use helio_engine::{Answer, CopyIo, Denial, Operation as EngineOp, Request};
use helio_plant::{Plant, planted};
use helio_units::{Moment, RequestId};
pub(crate) use load::Load;
use operation::{Course, LongEffect, StoreOp};
pub(crate) use operation::{LONGEST_EFFECT, Operation};
pub(crate) use place::{Closed, Place, Target};
#[cfg(test)]
pub(crate) use reply::FAILURES;
pub(crate) use reply::{Failure, Reply};

/// Which front end a request came by: the slot of its client or device there, and what its reply needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    Client { slot: usize, request: helio_nbd::Request },
    Device { slot: usize, unique: u64, work: Work },
}

impl Asker {
    /// Its client or device.
    pub(crate) const fn origin(&self) -> Origin {
        match self {
            Self::Client { slot, .. } => Origin::Client(*slot),
            Self::Device { slot, .. } => Origin::Device(*slot),
        }
    }
}

/// A client or device, by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    Client(usize),
    Device(usize),
}

/// What proves how a request ended.
#[derive(Debug)]
pub(crate) enum Proof {
    /// The engine's answer, with the bytes of a read.
    Volume(Answer, Option<Shared>),
    /// The store's outcome.
    Store(Outcome),
}

/// A request that is under way no more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) asker: Asker,
    /// What it counted in its asker's load, in bytes.
    pub(crate) bytes: u64,
    pub(crate) reply: Reply,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The engine; then the rest of a long effect.
    Engine { rest: Option<LongEffect> },
    /// The store.
    Store(StoreOp),
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// None once its client or device is gone.
    asker: Option<Asker>,
    place: Place,
    bytes: u64,
    stage: Stage,
}

/// The requests under way of a shard.
#[derive(Default)]
pub(crate) struct Requests {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Groups whose engines got requests since the last look; some more than once.
    told: Vec<usize>,
}

/// What front ends need of the shard.
pub(crate) struct Io<'a> {
    pub(crate) requests: &'a mut Requests,
    pub(crate) groups: &'a mut [Group],
    pub(crate) driver: &'a mut dyn Driver,
    pub(crate) pool: &'a Pool,
    pub(crate) now: Moment,
}

impl Io<'_> {
    /// Begins a request. Returns its end if nothing has to be waited for.
    pub(crate) fn submit(
        &mut self,
        asker: Asker,
        place: Place,
        operation: Operation,
    ) -> Option<Ended> {
        let bytes = operation.bytes();
        let group = &mut self.groups[place.group];
        let entry = |stage| Entry { asker: Some(asker), place, bytes, stage };
        match Course::of(operation, place.target, &mut group.payloads) {
            Course::Engine(first, rest) => {
                let id = self.requests.insert(entry(Stage::Engine { rest }));
                self.requests.give(id, place, first, group, self.now);
                None
            }
            Course::OnCopy(on, op) => {
                let id = self.requests.insert(entry(Stage::Engine { rest: None }));
                self.requests.told.push(place.group);
                let (name, volume) = (id as u64, place.volume);
                group.begin_on_copy(self.now, CopyIo { name, on, volume, op });
                None
            }
            Course::MapOnCopy(on) => {
                let given = group.is_served() && group.engine.view().gives(on, place.volume);
                let reply = if given { Reply::Map(None) } else { Reply::Failed(Failure::STORE) };
                Some(Ended { asker, bytes, reply })
            }
            Course::Store(asked) => {
                let Some(member) = group.readable(place.volume).and_then(MemberPlan::store) else {
                    return Some(Ended { asker, bytes, reply: unmerged(asked) });
                };
                let begun = match asked {
                    StoreOp::Map(extent) => member.map(extent),
                    StoreOp::Read(extent) => {
                        member.read(extent, read_buffer(self.pool, extent.length as usize))
                    }
                };
                match begun {
                    Ok(op) => {
                        let id = self.requests.insert(entry(Stage::Store(asked)));
                        self.driver.submit(token(Kind::Request, id, 0), op);
                        None
                    }
                    Err(error) => Some(Ended { asker, bytes, reply: refused(&error) }),
                }
            }
            Course::Ended(reply) => Some(Ended { asker, bytes, reply }),
        }
    }

    /// Ends a request by its proof. Returns none if it goes on with the rest of a long effect, or if its client or device
    /// is gone.
    pub(crate) fn complete(&mut self, id: usize, proof: Proof) -> Option<Ended> {
        let Some(Some(entry)) = self.requests.entries.get(id).copied() else {
            tracing::error!(id, "a request ended that was not under way");
            return None;
        };
        let Entry { asker, place, bytes, stage } = entry;
        let Some(asker) = asker else {
            self.requests.remove(id);
            return None;
        };
        let group = &mut self.groups[place.group];
        let reply = match (stage, proof) {
            (Stage::Engine { rest: Some(rest) }, Proof::Volume(Answer::Done(_), _)) => {
                let (next, rest) = rest.cut();
                self.requests.entries[id] = Some(Entry { stage: Stage::Engine { rest }, ..entry });
                self.requests.give(id, place, next, group, self.now);
                return None;
            }
            (Stage::Engine { .. }, Proof::Volume(answer, data)) => reply::of_volume(answer, data),
            // If the group failed during the operation, its outcome proves nothing.
            (Stage::Store(asked), Proof::Store(outcome)) => group
                .guarded(|group| of_store(asked, outcome, group))
                .unwrap_or(Reply::Failed(Failure::STORE)),
            (Stage::Engine { .. }, Proof::Store(_)) | (Stage::Store(_), Proof::Volume(..)) => {
                panic!("the end of request {id} was proven by another target than its own")
            }
        };
        self.requests.remove(id);
        Some(Ended { asker, bytes, reply })
    }
}

impl Requests {
    /// A client or device is gone: nothing of its requests is replied to, and what was not begun is not done. They keep
    /// their numbers until they end. Returns who asked.
    pub(crate) fn forget(&mut self, origin: Origin) -> Vec<Asker> {
        let ours = |entry: &&mut Entry| entry.asker.is_some_and(|asker| asker.origin() == origin);
        let entries = self.entries.iter_mut().flatten().filter(ours);
        entries.filter_map(|entry| entry.asker.take()).collect()
    }

    /// Groups that were asked something since the last call; some more than once.
    pub(crate) fn groups_told(&mut self) -> std::vec::Drain<'_, usize> {
        self.told.drain(..)
    }

    /// The entries, in use and free.
    pub(crate) fn table(&self) -> Table {
        Table::with_free(&self.entries, &self.free)
    }

    fn insert(&mut self, entry: Entry) -> usize {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[id] = Some(entry);
        id
    }

    fn remove(&mut self, id: usize) {
        self.entries[id] = None;
        if !planted(Plant::RequestLeaked) {
            self.free.push(id);
        }
    }

    /// Gives the engine an operation under the request's number.
    fn give(
        &mut self,
        id: usize,
        place: Place,
        operation: EngineOp,
        group: &mut Group,
        now: Moment,
    ) {
        self.told.push(place.group);
        group.request(now, Request { id: RequestId(id as u64), volume: place.volume, operation });
    }
}

/// The reply that the store's outcome proves.
fn of_store(asked: StoreOp, outcome: Outcome, group: &Group) -> Reply {
    let error = outcome.error().map(|error| error.to_string());
    let view = group.engine.view();
    let reply = match asked {
        StoreOp::Read(_) => reply::of_copy(outcome, view.words().consistent),
        StoreOp::Map(_) => reply::of_map(outcome, view.lacks_regions()),
    };
    if let (Some(error), Reply::Failed(_)) = (error, &reply) {
        tracing::error!(group = %group.name, error, "store failed");
    }
    reply
}

/// The members of the volume may differ until they are compared: none of them is read.
fn unmerged(asked: StoreOp) -> Reply {
    match asked {
        StoreOp::Map(_) => Reply::Map(None),
        StoreOp::Read(_) => Reply::Failed(Failure::STORE),
    }
}

/// What a store refuses at once does not fit it.
fn refused(error: &StoreError) -> Reply {
    let denial = match error {
        StoreError::OutOfBounds { .. } => Denial::OutOfBounds,
        StoreError::Unaligned { .. } => Denial::Unaligned,
        StoreError::Eio
        | StoreError::Enospc
        | StoreError::ShortWrite(_)
        | StoreError::ShortRead(_)
        | StoreError::Other(_) => return Reply::Failed(Failure::STORE),
    };
    Reply::Failed(Failure::Denied(denial))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_nbd::{Command, Contexts, Cookie};
    use helio_units::{Extent, VolumeIndex};

    fn begun(requests: &mut Requests, asker: Asker) -> usize {
        let target = Target::Volume { read_only: false };
        let place = Place { group: 0, volume: VolumeIndex(0), target, alone: false };
        let stage = Stage::Engine { rest: None };
        requests.insert(Entry { asker: Some(asker), place, bytes: 0, stage })
    }

    #[test]
    fn what_a_device_has_under_way_is_forgotten_with_it_and_nothing_of_a_client_in_the_same_slot() {
        let request = helio_nbd::Request {
            cookie: Cookie(7),
            command: Command::Flush,
            fua: false,
            no_hole: false,
            fast: false,
            one: false,
            contexts: Contexts::NONE,
            extent: Extent::default(),
        };
        let mut requests = Requests::default();
        let client = begun(&mut requests, Asker::Client { slot: 3, request });
        let device = |unique| Asker::Device { slot: 3, unique, work: Work::Flush };
        let [first, second] = [1, 2].map(|unique| begun(&mut requests, device(unique)));
        let forgotten = requests.forget(Origin::Device(3));
        let unique = |asker: &Asker| match asker {
            Asker::Device { unique, .. } => *unique,
            Asker::Client { .. } => panic!("a client was forgotten with a device"),
        };
        assert_eq!(forgotten.iter().map(unique).collect::<Vec<_>>(), [1, 2]);
        assert!(requests.forget(Origin::Device(3)).is_empty(), "they are forgotten once");
        let asker = |id: usize| requests.entries[id].as_ref().map(|entry| entry.asker.is_some());
        // Their numbers stay taken: their operations may still end.
        assert_eq!([client, first, second].map(asker), [Some(true), Some(false), Some(false)]);
    }
}
