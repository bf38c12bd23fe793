// SPDX-License-Identifier: Apache-2.0
//! The application: requests at their moments, as many at once as it can have, and what became of each.

use super::figures::{Figures, Since};
use super::pair::Run;
use super::sizes::Count;
use core::time::Duration;
use helio_engine::Operation;
use helio_units::{Bytes, Items, Moment, RequestId};
use helio_workload::{Kind, Request};

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    wanted: Moment,
    issued: Moment,
    kind: Kind,
    bytes: u64,
}

/// The application of one run.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) run: &'a Run<'a>,
    /// The pair's clock when the workload's stood at the beginning of the run.
    begun: Moment,
    next: usize,
    open: Vec<Open>,
    free: Vec<u32>,
    depth: usize,
    client: Duration,
    pub(super) figures: Figures,
    pub(super) since: Since,
}

impl<'a> Work<'a> {
    pub(super) fn new(run: &'a Run<'a>, begun: Moment, depth: u32, client: Duration) -> Self {
        let since = Since { image: begun, ..Since::default() };
        Self {
            run,
            begun,
            next: 0,
            open: Vec::new(),
            free: Vec::new(),
            depth: depth as usize,
            client,
            figures: Figures::new(),
            since,
        }
    }

    /// Where a moment of the workload lies on the pair's clock.
    fn clock(&self, at: Moment) -> Moment {
        self.begun + at.since(self.run.begin)
    }

    pub(super) fn measured_from(&self) -> Moment {
        self.clock(self.run.measured)
    }

    pub(super) fn under_way(&self) -> usize {
        self.open.len() - self.free.len()
    }

    /// When the next request is made.
    pub(super) fn next(&self) -> Moment {
        if self.under_way() >= self.depth {
            return Moment::NEVER;
        }
        self.run.requests.get(self.next).map_or(Moment::NEVER, |request| self.clock(request.at))
    }

    /// Whether every request was made and answered.
    pub(super) fn is_over(&self) -> bool {
        self.next == self.run.requests.len() && self.under_way() == 0
    }

    /// Makes the next request, whose payload is named in `pool`.
    pub(super) fn make(&mut self, now: Moment, pool: &mut Count) -> Option<helio_engine::Request> {
        let request = self.run.requests.get(self.next)?;
        self.next += 1;
        let Request { at, extent, volume, kind, fua } = *request;
        let bytes = if kind.changes() { extent.length } else { 0 };
        let open = Open { wanted: self.clock(at), issued: now, kind, bytes };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.open.push(open);
            (self.open.len() - 1) as u32
        });
        self.open[slot as usize] = open;
        let operation = match kind {
            Kind::Read => Operation::Read(extent),
            Kind::Write => Operation::Write { extent, payload: pool.take(extent.length), fua },
            Kind::Zero => Operation::Zero { extent, punch: false, fua },
            Kind::Discard => Operation::Discard { extent, fua },
            Kind::Flush => Operation::Flush,
        };
        Some(helio_engine::Request { id: RequestId(u64::from(slot)), volume, operation })
    }

    /// A request is answered.
    pub(super) fn answered(&mut self, now: Moment, id: RequestId, denied: bool) {
        let open = self.open[id.0 as usize];
        self.free.push(id.0 as u32);
        if open.wanted < self.measured_from() {
            return;
        }
        self.figures.took = now.since(self.measured_from());
        if denied {
            self.figures.denied.0 += 1;
            return;
        }
        let figures = &mut self.figures;
        let took = now.since(open.issued) + self.client;
        match open.kind {
            Kind::Read => figures.reads.add_time(took),
            Kind::Flush => figures.flushes.add_time(took),
            Kind::Write | Kind::Zero | Kind::Discard => {
                figures.writes.add_time(took);
                figures.responses.add_time(now.since(open.wanted) + self.client);
                figures.answered += Bytes(open.bytes);
                self.since.writes.add_time(took);
            }
        }
    }

    /// Counts events of the engines.
    pub(super) fn count(&mut self, events: u64) {
        self.figures.events = Items(self.figures.events.0 + events);
    }
}
