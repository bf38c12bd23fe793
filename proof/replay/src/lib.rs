// SPDX-License-Identifier: Apache-2.0
//! A script: what the flight recorders of one or both nodes kept of a fault in the field. Both simulators tell it again.
//!
//! Steps keep their moments. The places that requests touch are moved together, region by region, so that what overlapped
//! still does and a volume of terabytes fits. What a recorder does not keep is not in a script: each simulator draws it from
//! its seed.

mod line;

use helio_api::RecorderDump;
use helio_engine::{Command, Operation, REGION};
use helio_units::{Bytes, Extent, VolumeIndex};
use std::collections::BTreeSet;
use std::fmt;
use std::iter::Peekable;
use std::time::Duration;

/// A script has at most one file of each node.
const FILES_MAX: usize = 2;
/// A recorder keeps a few thousand events: a longer script comes from files or clocks that do not belong together.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// What a file has to be.
const HINT: &str =
    "hint: pass the output of `helio debug events GROUP --json`, of one node or of both";

/// What a step of a script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client makes a request.
    Request {
        /// The volume that it is for.
        volume: VolumeIndex,
        /// What it asks for, in whole blocks of 4 KiB.
        operation: Operation,
    },
    /// The node got a command of the operator.
    Command(Command),
    /// The node lost the connection to its peer.
    LinkLost,
    /// The nodes were connected.
    LinkBack,
    /// An operation on a member of the node failed.
    StoreFails,
}

/// See the crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    files: Vec<String>,
    volumes: Vec<Bytes>,
    steps: Vec<(Duration, usize, Step)>,
}

/// Takes the names of files that follow `--replay`.
pub fn files(arguments: &mut Peekable<impl Iterator<Item = String>>) -> Vec<String> {
    std::iter::from_fn(|| arguments.next_if(|next| !next.starts_with("--"))).collect()
}

impl Script {
    /// Reads files that `helio debug events GROUP --json` printed: of one node, or of both, the one that served first.
    ///
    /// # Errors
    /// A file cannot be read, or see [`Script::read`].
    pub fn load(files: &[String]) -> Result<Self, String> {
        let text = |file: &String| {
            let text = std::fs::read_to_string(file);
            text.map(|text| (file.clone(), text)).map_err(|why| format!("{file}: {why}\n{HINT}"))
        };
        Self::read(&files.iter().map(text).collect::<Result<Vec<_>, _>>()?)
    }

    /// Reads the texts of such files, each behind its name.
    ///
    /// # Errors
    /// There is no file, or are too many; one is not such a dump; or nothing in them can be told again.
    pub fn read(dumps: &[(String, String)]) -> Result<Self, String> {
        if dumps.is_empty() || dumps.len() > FILES_MAX {
            let count = dumps.len();
            return Err(format!("{count} files are given: a script has one or two\n{HINT}"));
        }
        let mut steps = Vec::new();
        for (node, (name, text)) in dumps.iter().enumerate() {
            let dump: RecorderDump = serde_json::from_str(text)
                .map_err(|why| format!("{name} is not the dump of a recorder: {why}\n{HINT}"))?;
            steps.extend(moments(&dump, node));
        }
        let files: Vec<String> = dumps.iter().map(|(name, _)| name.clone()).collect();
        steps.sort_by_key(|(at, ..)| *at);
        let (Some((first, ..)), Some((last, ..))) = (steps.first(), steps.last()) else {
            let names = files.join(" and ");
            return Err(format!(
                "no request, connection or command is in {names}\nhint: a recorder keeps the last events of a daemon that \
                 runs: take the dump soon after the fault, and before the daemon is started again"
            ));
        };
        let (first, lasts) = (*first, *last - *first);
        if lasts > LONGEST {
            let hours = lasts.as_secs() / 3600;
            return Err(format!(
                "the first and the last event are {hours} h apart: a script has at most {} h\nhint: take the dumps of both \
                 nodes at the same time, and compare their clocks",
                LONGEST.as_secs() / 3600
            ));
        }
        steps.iter_mut().for_each(|(at, ..)| *at -= first);
        let volumes = move_together(&mut steps);
        Ok(Self { files, volumes, steps })
    }

    /// How large the volumes have to be, a multiple of [`REGION`] each.
    #[must_use]
    pub fn volumes(&self) -> &[Bytes] {
        &self.volumes
    }

    /// The steps in their order, each with the time since the first one, and with the number of its node: 0 for the first
    /// file.
    #[must_use]
    pub fn steps(&self) -> &[(Duration, usize, Step)] {
        &self.steps
    }

    /// The time between the first and the last step.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        self.steps.last().map_or(Duration::ZERO, |(at, ..)| *at)
    }
}

/// The arguments that ask for it, with a space before.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " --replay {}", self.files.join(" "))
    }
}

/// What can be told again, in order, with its moment; events of one millisecond share it out among them.
fn moments(dump: &RecorderDump, node: usize) -> Vec<(Duration, usize, Step)> {
    let mut moments = Vec::new();
    for together in dump.events.chunk_by(|a, b| a.at_ms == b.at_ms) {
        let share = Duration::from_millis(1) / together.len() as u32;
        for (n, event) in (0u32..).zip(together) {
            if let Some(step) = line::step_of(&event.what) {
                moments.push((Duration::from_millis(event.at_ms.0) + share * n, node, step));
            }
        }
    }
    moments
}

fn extent_of(step: &mut Step) -> Option<(VolumeIndex, &mut Extent)> {
    let Step::Request { volume, operation } = step else { return None };
    match operation {
        Operation::Read(extent)
        | Operation::Write { extent, .. }
        | Operation::Zero { extent, .. }
        | Operation::Discard { extent, .. } => Some((*volume, extent)),
        Operation::Flush => None,
    }
}

/// Moves the regions that are touched together; returns how large the volumes have to be. There is always one.
fn move_together(steps: &mut [(Duration, usize, Step)]) -> Vec<Bytes> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(dumps: &[&str]) -> String {
        let named = |text: &&str| ("paris.json".to_owned(), (*text).to_owned());
        Script::read(&dumps.iter().map(named).collect::<Vec<_>>()).expect_err("it is refused")
    }

    #[test]
    fn far_apart_places_are_moved_together_and_overlaps_stay() {
        let ask = |offset, length| {
            let operation = Operation::Read(Extent::new(offset, length));
            (Duration::ZERO, 0, Step::Request { volume: VolumeIndex(0), operation })
        };
        let far = REGION.0 << 24;
        let mut steps = [ask(far, 8192), ask(0, 4096), ask(far + 4096, REGION.0), ask(4096, 4096)];
        let volumes = move_together(&mut steps);
        assert_eq!(volumes, [Bytes(3 * REGION.0)]);
        let offsets = steps.map(|(.., mut step)| extent_of(&mut step).expect("a read").1.offset);
        assert_eq!(offsets, [REGION.0, 0, REGION.0 + 4096, 4096]);
    }

    #[test]
    fn steps_of_both_nodes_are_in_the_order_of_their_moments() {
        let of = |at: [u64; 2], what: &str| {
            let event = |at: &u64| format!(r#"{{"at_ms":{at},"what":"{what}"}}"#);
            let events: Vec<String> = at.iter().map(event).collect();
            format!(r#"{{"events":[{}]}}"#, events.join(","))
        };
        let dumps = [("a", of([1000, 1500], "pause 1 0")), ("b", of([1200, 1200], "resume 1 0"))];
        let script =
            Script::read(&dumps.map(|(name, text)| (name.to_owned(), text))).expect("two dumps");
        let micros: Vec<(u128, usize)> =
            script.steps().iter().map(|(at, node, _)| (at.as_micros(), *node)).collect();
        assert_eq!(micros, [(0, 0), (200_000, 1), (200_500, 1), (500_000, 0)]);
        assert_eq!(script.lasts(), Duration::from_millis(500));
        assert_eq!(script.volumes(), [REGION]);
        assert_eq!(script.to_string(), " --replay a b");
    }

    #[test]
    fn what_cannot_be_told_is_refused_with_the_file_and_a_hint() {
        let empty = r#"{"events":[{"at_ms":5,"what":"tick 0 0"}]}"#;
        let years = r#"{"events":[{"at_ms":5,"what":"pause 1 0"},{"at_ms":950000000005,"what":"resume 2 0"}]}"#;
        for (dumps, why) in [
            (&["{}"][..], "paris.json is not the dump of a recorder"),
            (&["no JSON"], "paris.json is not the dump of a recorder"),
            (&[r#"{"events":[]}"#], "no request, connection or command is in paris.json"),
            (&[empty], "no request, connection or command is in paris.json"),
            (&[years], "263888 h apart"),
            (&[empty, empty, empty], "3 files are given"),
            (&[], "0 files are given"),
        ] {
            let text = refused(dumps);
            assert!(text.contains(why) && text.contains("\nhint: "), "{text}");
        }
        let missing = Script::load(&["/there/is/no/such/file".to_owned()]).expect_err("no file");
        assert!(missing.contains("such/file: ") && missing.contains("\nhint: "), "{missing}");
    }

    #[test]
    fn files_end_at_the_next_option() {
        let words = ["paris.json", "lyon.json", "--story"].map(str::to_owned);
        let mut arguments = words.into_iter().peekable();
        assert_eq!(files(&mut arguments), ["paris.json", "lyon.json"]);
        assert_eq!(arguments.next().as_deref(), Some("--story"));
    }
}
