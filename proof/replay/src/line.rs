// SPDX-License-Identifier: Apache-2.0
//! One line of a recorder: a word, two numbers, and of requests length and volume.

use crate::Step;
use helio_engine::{Command, Operation, REGION};
use helio_format::message::VOLUMES_MAX;
use helio_units::{Extent, Mode, Payload, VolumeIndex};

/// Requests begin and end at multiples of this.
const BLOCK: u64 = 4096;
/// A request is cut to this: the more it touches, the longer a simulator judges.
const LONGEST: u64 = 16 * REGION.0;

/// The step behind a line. None if it cannot be told again.
pub(crate) fn step_of(line: &str) -> Option<Step> {
    let mut words = line.split_whitespace();
    let word = words.next()?;
    let mut number = || words.next().and_then(|word| word.trim_start_matches('@').parse().ok());
    let (_, offset): (u64, u64) = (number()?, number()?);
    let (length, volume): (u64, u64) = (number().unwrap_or(BLOCK), number().unwrap_or(0));
    let first = offset / BLOCK * BLOCK;
    let end = offset.checked_add(length.clamp(1, LONGEST))?.checked_next_multiple_of(BLOCK)?;
    let extent = Extent::new(first, end - first);
    let operation = match word {
        "read" => Operation::Read(extent),
        "write" => Operation::Write { extent, payload: Payload::default(), fua: false },
        "zero" => Operation::Zero { extent, punch: true, fua: false },
        "discard" => Operation::Discard { extent, fua: false },
        "flush" => Operation::Flush,
        other => return other_step(other, offset),
    };
    let volume = u16::try_from(volume).ok().filter(|it| usize::from(*it) < VOLUMES_MAX)?;
    Some(Step::Request { volume: VolumeIndex(volume), operation })
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use helio_engine::{Config, Engine, Event, Request};
    use helio_format::superblock::Superblock;
    use helio_units::{Bytes, Moment, RequestId};

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
            assert_eq!(step_of(&line), Some(Step::Request { volume, operation }), "{line}");
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
    fn a_request_beyond_every_bound_is_left_out() {
        assert_eq!(step_of(&format!("write 1 {} 4096 @0", u64::MAX)), None);
        assert_eq!(step_of("write 1 0 4096 @64"), None);
        assert_eq!(step_of("write 1 0 4096 @70000"), None);
        let Some(Step::Request { operation: Operation::Read(extent), .. }) =
            step_of(&format!("read 1 4096 {} @0", u64::MAX))
        else {
            panic!("a read that is too long is cut");
        };
        assert_eq!(extent, Extent::new(4096, LONGEST));
    }
}
