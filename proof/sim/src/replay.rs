// SPDX-License-Identifier: Apache-2.0
//! A flight recorder's file from the field, told again: the same requests, link cuts and commands at the same moments,
//! under the oracle.
//!
//! What a recorder does not keep is drawn from the seed: link, disks, queue, and the mode where no command set it. The
//! places that requests touch are moved together, region by region, so that what overlapped still does and a volume
//! of terabytes fits. A connection comes back a little later than it did, since the nodes dial again by their own
//! clock.

use crate::driver::{Act, Driver};
use crate::faults::Fault;
use core::time::Duration;
use helio_api::RecorderDump;
use helio_engine::{Command, Operation, REGION, StoreFault};
use helio_twin::{BLOCK, Breakage, Cluster, Side, StoreVerb};
use helio_units::{Bytes, Extent, Mode, Moment, Payload, RequestId, VolumeIndex};
use std::collections::BTreeSet;

/// The two have met by then and one serves.
const BEGINS: Duration = Duration::from_secs(6);
/// A request is cut to this: the more it touches, the longer the oracle looks.
const LONGEST: u64 = 16 * REGION.0;

/// What happens in a scripted story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ask { volume: VolumeIndex, operation: Operation },
    Command(Command),
    LinkLost,
    LinkBack,
    StoreFails,
}

/// A story from the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub(crate) volumes: Vec<Bytes>,
    pub(crate) steps: Vec<(Duration, Side, Step)>,
}

impl Script {
    /// Reads what `helio debug events GROUP --json` printed: of one node, or of both, the one that served first.
    ///
    /// # Errors
    /// A file is not such a dump, or nothing in it can be told again.
    pub fn read(dumps: &[String]) -> Result<Self, String> {
        let mut steps = Vec::new();
        for (side, text) in Side::BOTH.into_iter().zip(dumps) {
            let dump: RecorderDump = serde_json::from_str(text).map_err(|why| {
                format!("{why}; it must be what `helio debug events GROUP --json` prints")
            })?;
            steps.extend(moments(&dump, side));
        }
        steps.sort_by_key(|(at, ..)| *at);
        let Some((first, ..)) = steps.first().copied() else {
            return Err(
                "no request, connection or command is in it: nothing can be told".to_owned()
            );
        };
        for (at, ..) in &mut steps {
            *at = BEGINS + (*at - first);
        }
        let volumes = move_together(&mut steps);
        Ok(Self { volumes, steps })
    }
}

/// What can be told again, in order, with its moment; events of one millisecond share it out among them.
fn moments(dump: &RecorderDump, side: Side) -> Vec<(Duration, Side, Step)> {
    let mut moments = Vec::new();
    for together in dump.events.chunk_by(|a, b| a.at_ms == b.at_ms) {
        let share = Duration::from_millis(1) / together.len() as u32;
        for (n, event) in (0u32..).zip(together) {
            if let Some(step) = step_of(&event.what) {
                moments.push((Duration::from_millis(event.at_ms.0) + share * n, side, step));
            }
        }
    }
    moments
}

/// The step behind a line of the recorder: a word, two numbers, and of requests length and volume.
fn step_of(line: &str) -> Option<Step> {
    let mut words = line.split_whitespace();
    let word = words.next()?;
    let mut number = || words.next().and_then(|word| word.trim_start_matches('@').parse().ok());
    let (_, offset) = (number()?, number()?);
    let (length, volume): (u64, u64) = (number().unwrap_or(BLOCK.0), number().unwrap_or(0));
    let first = offset / BLOCK.0 * BLOCK.0;
    let end = (offset + length.clamp(1, LONGEST)).div_ceil(BLOCK.0) * BLOCK.0;
    let extent = Extent::new(first, end - first);
    let operation = match word {
        "read" => Operation::Read(extent),
        "write" => Operation::Write { extent, payload: Payload::default(), fua: false },
        "zero" => Operation::Zero { extent, punch: true, fua: false },
        "discard" => Operation::Discard { extent, fua: false },
        "flush" => Operation::Flush,
        other => return other_step(other, offset),
    };
    Some(Step::Ask { volume: VolumeIndex(u16::try_from(volume).ok()?), operation })
}

fn other_step(word: &str, b: u64) -> Option<Step> {
    Some(match word {
        "connected" => Step::LinkBack,
        "disconnected" => Step::LinkLost,
        "store-failed" => Step::StoreFails,
        "promote" => Step::Command(Command::Promote { force: b != 0 }),
        "demote" => Step::Command(Command::Demote),
        "pause" => Step::Command(Command::Pause),
        "resume" => Step::Command(Command::Resume),
        "resync" => Step::Command(Command::Resync),
        "full-resync" => Step::Command(Command::FullResync),
        "mode" => {
            Step::Command(Command::Mode(Mode::ALL.into_iter().find(|mode| *mode as u64 == b)?))
        }
        "stop" => Step::Command(Command::Stop),
        _ => return None,
    })
}

fn extent_of(step: &mut Step) -> Option<(VolumeIndex, &mut Extent)> {
    match step {
        Step::Ask { volume, operation } => match operation {
            Operation::Read(extent)
            | Operation::Write { extent, .. }
            | Operation::Zero { extent, .. }
            | Operation::Discard { extent, .. } => Some((*volume, extent)),
            Operation::Flush => None,
        },
        _ => None,
    }
}

/// Moves the regions that are touched together; returns how large the volumes have to be.
fn move_together(steps: &mut [(Duration, Side, Step)]) -> Vec<Bytes> {
    let mut touched: Vec<BTreeSet<u64>> = vec![BTreeSet::new()];
    for (volume, extent) in steps.iter_mut().filter_map(|(.., step)| extent_of(step)) {
        let at = usize::from(volume.0);
        touched.resize_with(touched.len().max(at + 1), BTreeSet::new);
        touched[at].extend(extent.offset / REGION.0..=(extent.end() - 1) / REGION.0);
    }
    let order: Vec<Vec<u64>> =
        touched.into_iter().map(|regions| regions.into_iter().collect()).collect();
    for (volume, extent) in steps.iter_mut().filter_map(|(.., step)| extent_of(step)) {
        let regions = &order[usize::from(volume.0)];
        let place = regions.partition_point(|region| *region < extent.offset / REGION.0);
        extent.offset = place as u64 * REGION.0 + extent.offset % REGION.0;
    }
    order.iter().map(|regions| Bytes(REGION.0 * regions.len().max(1) as u64)).collect()
}

/// Requests of a script have names of their own, far from the client's.
const SCRIPTED: u64 = 1 << 40;

impl Driver {
    /// Everything a script wants done, at its time.
    pub(crate) fn follow(&mut self, script: &Script) {
        for (n, (at, side, step)) in (0u64..).zip(&script.steps) {
            let id = RequestId(SCRIPTED + n);
            self.at(Moment::ZERO + *at, Act::Scripted { side: *side, id, step: *step });
            self.scripted += 1;
        }
    }

    pub(crate) fn scripted(
        &mut self,
        (side, id, step): (Side, RequestId, Step),
        cluster: &mut Cluster,
        oracle: &mut crate::oracle::Oracle,
    ) {
        self.scripted -= 1;
        match step {
            Step::Ask { volume, operation } => {
                if cluster.node(side).is_up() {
                    let changes = !matches!(operation, Operation::Read(_) | Operation::Flush);
                    self.tally.scripted_writes += u64::from(changes);
                    oracle.ask(cluster, side, id, volume, operation);
                    cluster.submit(side, id, volume, operation, helio_twin::Stamp(id.0));
                }
            }
            Step::Command(command) => {
                self.command(cluster, oracle, side, command);
            }
            Step::LinkLost => {
                self.strike(Fault::Cut(Breakage::Reset), cluster, oracle);
                cluster.break_link(Breakage::Silent);
            }
            Step::LinkBack => cluster.mend_link(None),
            Step::StoreFails => {
                cluster.node_mut(side).disk.fail_next(StoreVerb::Write, StoreFault::Io);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_engine::{Config, Engine, Event, Request};
    use helio_format::superblock::Superblock;

    /// What the recorder of an engine says of an event.
    fn recorded(event: Event) -> String {
        let volumes = vec![Bytes::mib(1)];
        let config = Config {
            mode: Mode::Sync,
            peer_timeout: Duration::from_secs(2),
            flush_limit: Duration::from_secs(10),
            safe_copy: helio_engine::SafeCopy::Off,
            on_error: helio_engine::OnError::Pass,
            ..Config::new("db", "paris", "lyon", volumes)
        };
        let superblock = Superblock::new("db", "paris", [1 << 20].into());
        let durable = helio_engine::Durable::new(superblock);
        let mut engine = Engine::new(config, durable, 1, 1, Moment::ZERO);
        engine.handle(Moment::ZERO, event, &mut Vec::new());
        engine.view().records()[0].to_string()
    }

    #[test]
    fn what_the_recorder_writes_is_read_back() {
        let volume = VolumeIndex(1);
        let extent = Extent::new(8192, 12_288);
        let operations = [
            Operation::Read(extent),
            Operation::Write { extent, payload: Payload::default(), fua: false },
            Operation::Zero { extent, punch: true, fua: false },
            Operation::Discard { extent, fua: false },
        ];
        for operation in operations {
            let line = recorded(Event::Request(Request { id: RequestId(7), volume, operation }));
            assert_eq!(step_of(&line), Some(Step::Ask { volume, operation }), "{line}");
        }
        for command in [
            Command::Promote { force: true },
            Command::Demote,
            Command::Pause,
            Command::Resume,
            Command::Resync,
            Command::FullResync,
            Command::Mode(Mode::NearSync),
            Command::Stop,
        ] {
            let line = recorded(Event::Command { id: helio_engine::CommandId(3), command });
            assert_eq!(step_of(&line), Some(Step::Command(command)), "{line}");
        }
        assert_eq!(step_of(&recorded(Event::Connected)), Some(Step::LinkBack));
        let lost = Event::Disconnected { why: "reset".into() };
        assert_eq!(step_of(&recorded(lost)), Some(Step::LinkLost));
    }

    #[test]
    fn far_apart_places_are_moved_together_and_overlaps_stay() {
        let ask = |offset, length| {
            let operation = Operation::Read(Extent::new(offset, length));
            (Duration::ZERO, Side::Paris, Step::Ask { volume: VolumeIndex(0), operation })
        };
        let far = REGION.0 << 24;
        let mut steps = [ask(far, 8192), ask(0, 4096), ask(far + 4096, REGION.0), ask(4096, 4096)];
        let volumes = move_together(&mut steps);
        assert_eq!(volumes, [Bytes(3 * REGION.0)]);
        let offsets = steps.map(|(.., mut step)| extent_of(&mut step).expect("a read").1.offset);
        assert_eq!(offsets, [REGION.0, 0, REGION.0 + 4096, 4096]);
    }
}
