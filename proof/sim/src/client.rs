// SPDX-License-Identifier: Apache-2.0
//! The client: a fixed number of requests under way, on whichever node serves, with a taste for the same places.

use crate::scenario::Scenario;
use core::time::Duration;
use helio_engine::{Denial, Operation};
use helio_netmodel::Dice;
use helio_twin::{BLOCK, Cluster, Happening, Replied, Side};
use helio_units::{Bytes, Extent, Moment, Payload, RequestId, VolumeIndex};

/// How long a client waits where nobody serves.
const NOBODY_SERVES: Duration = Duration::from_millis(150);
/// Most blocks one request touches.
const BLOCKS_MAX: u64 = 20;

#[derive(Clone, Copy, Debug)]
enum Slot {
    Idle { until: Moment },
    Waiting { id: RequestId, side: Side, visit: u64 },
}

/// The client of one story.
#[derive(Debug)]
pub(crate) struct Client {
    slots: Vec<Slot>,
    volumes: Vec<Bytes>,
    thinks: Duration,
    next: u64,
    left: u64,
    /// Requests that change data, for the figures.
    pub(crate) writes: u64,
    /// What each node told of its volumes' blocks when the client connected, while it is; and how often it did.
    told: [Option<Vec<u64>>; 2],
    visits: u64,
    /// A request that kept to them and was refused all the same.
    pub(crate) misled: Option<RequestId>,
    dice: Dice,
}

/// A request the client wants to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) side: Side,
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeIndex,
    pub(crate) operation: Operation,
}

impl Client {
    pub(crate) fn new(scenario: &Scenario, dice: &Dice) -> Self {
        Self {
            slots: vec![Slot::Idle { until: Moment::ZERO }; scenario.depth],
            volumes: scenario.volumes.clone(),
            thinks: scenario.thinks,
            next: 1,
            left: scenario.requests,
            writes: 0,
            told: [None, None],
            visits: 0,
            misled: None,
            dice: dice.split("client"),
        }
    }

    /// Whether it has made all its requests.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Makes no more requests, and is connected to nobody.
    pub(crate) fn retire(&mut self, cluster: &mut Cluster) {
        self.left = 0;
        Side::BOTH.into_iter().for_each(|side| self.leave(side, cluster));
    }

    /// Looks what blocks a node has. Returns false where it cannot be asked now.
    fn connect(&mut self, side: Side, cluster: &mut Cluster) -> bool {
        let told = &mut self.told[side.index()];
        if told.is_some() {
            return true;
        }
        let node = cluster.node(side);
        let Some(engine) = node.engine.as_ref().filter(|_| !node.hangs(cluster.now())) else {
            return false;
        };
        let volumes = (0..self.volumes.len() as u16).map(VolumeIndex);
        *told = Some(volumes.map(|volume| engine.view().block(volume).0).collect());
        self.visits += 1;
        cluster.use_volumes(side, (1 << self.volumes.len()) - 1)
    }

    fn leave(&mut self, side: Side, cluster: &mut Cluster) {
        if self.told[side.index()].take().is_some() {
            self.visits += 1;
            cluster.use_volumes(side, 0);
        }
    }

    /// When it next wants something.
    pub(crate) fn next_at(&self) -> Moment {
        if self.left == 0 {
            return Moment::NEVER;
        }
        let idle = self.slots.iter().map(|slot| match slot {
            Slot::Idle { until } => *until,
            Slot::Waiting { .. } => Moment::NEVER,
        });
        idle.min().unwrap_or(Moment::NEVER)
    }

    /// A request, if one is due and somebody serves.
    pub(crate) fn ask(&mut self, cluster: &mut Cluster) -> Option<Ask> {
        let now = cluster.now();
        let due = |slot: &Slot| matches!(slot, Slot::Idle { until } if *until <= now);
        let at = self.slots.iter().position(due)?;
        // Where nobody serves any more it is sent away, and now and then it goes by itself.
        for side in Side::BOTH {
            if !cluster.node(side).serves() || self.dice.chance(1, 60) {
                self.leave(side, cluster);
            }
        }
        let serving: Vec<Side> =
            Side::BOTH.into_iter().filter(|side| cluster.node(*side).serves()).collect();
        let Some(side) = serving.get(self.dice.below(serving.len() as u64) as usize).copied()
        else {
            for slot in self.slots.iter_mut().filter(|slot| due(slot)) {
                *slot = Slot::Idle { until: now + NOBODY_SERVES };
            }
            return None;
        };
        if !self.connect(side, cluster) {
            self.slots[at] = Slot::Idle { until: now + NOBODY_SERVES };
            return None;
        }
        let id = RequestId(self.next);
        self.next += 1;
        self.left -= 1;
        self.slots[at] = Slot::Waiting { id, side, visit: self.visits };
        let volume = VolumeIndex(self.dice.below(self.volumes.len() as u64) as u16);
        let told = self.told[side.index()].as_ref();
        let block = told.map_or(BLOCK.0, |told| told[usize::from(volume.0)]);
        let operation = self.operation(volume, block);
        self.writes += u64::from(!matches!(operation, Operation::Read(_) | Operation::Flush));
        Some(Ask { side, id, volume, operation })
    }

    fn operation(&mut self, volume: VolumeIndex, block: u64) -> Operation {
        let dice = &mut self.dice;
        let blocks = self.volumes[usize::from(volume.0)].0 / BLOCK.0;
        let most = if dice.chance(1, 8) { BLOCKS_MAX } else { 4 };
        let length = 1 + dice.below(most);
        // Half of all requests meet in a few places.
        let room = if dice.chance(1, 2) { (length + 6).min(blocks) } else { blocks };
        let first = dice.below(room - length + 1);
        let whole = Extent::new(first * BLOCK.0, length * BLOCK.0);
        // Of the last block a part is enough, where smaller ones were told; reads are of whole ones.
        let short = if dice.chance(1, 3) { dice.below(BLOCK.0 / block) * block } else { 0 };
        let extent = Extent::new(whole.offset, whole.length - short);
        let (fua, punch) = (dice.chance(1, 12), dice.chance(1, 2));
        match dice.below(100) {
            0..70 => Operation::Write { extent, payload: Payload::default(), fua },
            70..76 => Operation::Zero { extent, punch, fua },
            76..82 => Operation::Discard { extent, fua },
            82..90 => Operation::Flush,
            _ => Operation::Read(whole),
        }
    }

    /// Hears answers, and of the death of the node it waits for.
    pub(crate) fn notice(&mut self, now: Moment, journal: &[Happening]) {
        for happening in journal {
            match happening {
                Happening::Replied { request, answer, .. } => {
                    let refused = matches!(answer, Replied::Denied(Denial::Unaligned));
                    let kept = |slot: &Slot| matches!(slot, Slot::Waiting { id, visit, .. } if id == request && *visit == self.visits);
                    if refused && self.slots.iter().any(kept) {
                        self.misled = Some(*request);
                    }
                    let until = now + self.thought();
                    self.free(|id, _| id == *request, until);
                }
                Happening::Died { side, .. } => {
                    self.told[side.index()] = None;
                    self.visits += 1;
                    self.free(|_, at| at == *side, now + NOBODY_SERVES);
                }
                _ => {}
            }
        }
    }

    /// Requests come in bursts with pauses between them.
    fn thought(&mut self) -> Duration {
        let most = if self.dice.chance(1, 4) { self.thinks } else { self.thinks / 50 };
        Duration::from_nanos(self.dice.below(most.as_nanos() as u64))
    }

    fn free(&mut self, whose: impl Fn(RequestId, Side) -> bool, until: Moment) {
        for slot in &mut self.slots {
            if matches!(slot, Slot::Waiting { id, side, .. } if whose(*id, *side)) {
                *slot = Slot::Idle { until };
            }
        }
    }
}
