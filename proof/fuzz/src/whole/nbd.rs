// SPDX-License-Identifier: Apache-2.0
//! NBD clients that break rules beside sound ones, faults of a disk, and the power of the machine.
//!
//! What a stranger sends could be a valid write, so strangers never name the volume that is judged: such a piece is not sent.

use super::schedule::Schedule;
use super::{Judged, Stage, follow};
use crate::nbd::{compact, go, hello, queries, sent};
use helio_nbd::Cookie;
use helio_nbd::codec::{RequestHeader, command, command_flag, option};
use helio_whole::stream::Stream;
use helio_whole::{Door, FileFault, Shape, SimStream, Single};
use std::time::Duration;

/// The volume that is judged, and the one that is not.
const JUDGED: &[u8] = b"db/data";
const OTHER: &str = "db/junk";
const COMMANDS: [u16; 8] = [
    command::READ,
    command::WRITE,
    command::WRITE_ZEROES,
    command::TRIM,
    command::FLUSH,
    command::BLOCK_STATUS,
    command::CACHE,
    command::DISC,
];

/// A connection that is not judged.
struct Stranger {
    stream: SimStream,
    /// The end of what it sent.
    tail: Vec<u8>,
    extended: bool,
    cookies: u64,
}

impl Stranger {
    fn say(&mut self, bytes: &[u8]) {
        let mut tail = [&self.tail[..], bytes].concat();
        if tail.windows(JUDGED.len()).any(|window| window == JUDGED) {
            return;
        }
        // What the socket has no room for is lost, and the stream is damaged.
        let taken = self.stream.send(bytes).unwrap_or_default();
        tail.truncate(self.tail.len() + taken);
        self.tail = tail.split_off(tail.len().saturating_sub(JUDGED.len()));
    }

    fn shake_hands(&mut self, how: u8) {
        self.extended = how & 1 != 0;
        self.say(&hello());
        if self.extended {
            self.say(&sent(option::EXTENDED_HEADERS, b""));
        } else if how & 2 != 0 {
            self.say(&sent(option::STRUCTURED_REPLY, b""));
        }
        if how & 4 != 0 {
            let queries =
                queries(OTHER, &["base:allocation", "heliograph:marks", "heliograph:changed"]);
            self.say(&sent(option::SET_META_CONTEXT, &queries));
        }
        self.say(&sent(option::GO, &go(OTHER, &[3])));
    }

    /// A request about a block or more, of which a byte may be damaged, and of which only the front may be sent.
    fn ask(&mut self, schedule: &mut Schedule<'_>) {
        let (command, how) = (COMMANDS[usize::from(schedule.below(8))], schedule.number() as u16);
        let (first, count) = (schedule.number(), schedule.below(16));
        self.cookies += u64::from(how & 0x80 == 0);
        let mut flags = how & (command_flag::FUA | command_flag::NO_HOLE | command_flag::REQ_ONE);
        if self.extended && command == command::WRITE {
            flags |= command_flag::PAYLOAD_LEN;
        }
        let (offset, length) = (u64::from(first) * 512, u64::from(count) * 512);
        let cookie = Cookie(self.cookies);
        let header = RequestHeader { flags, command, cookie, offset, length };
        let mut bytes = if self.extended {
            header.encode_extended().to_vec()
        } else {
            header.encode().to_vec()
        };
        if command == command::WRITE {
            bytes.resize(bytes.len() + length as usize, 0xee);
        }
        let (damaged, share) = (schedule.number() as usize, schedule.number() as usize);
        if damaged & 0x80 != 0 {
            let at = damaged % 32 % bytes.len();
            bytes[at] ^= schedule.number() as u8;
        }
        let front = if share == 0 { bytes.len() } else { bytes.len() * share / 256 };
        self.say(&bytes[..front]);
    }
}

/// Two connections at most.
#[derive(Default)]
pub(super) struct Strangers([Option<Stranger>; 2]);

impl Stage for Strangers {
    fn act(&mut self, what: u8, schedule: &mut Schedule<'_>, single: &mut Single) -> Judged {
        let slot = &mut self.0[usize::from(schedule.below(2))];
        match (what % 10, slot.as_mut()) {
            (0, _) => {
                let how = schedule.below(16);
                let stream = single.open(Door::Nbd);
                let mut stranger =
                    Stranger { stream, tail: Vec::new(), extended: false, cookies: 0 };
                if how & 8 == 0 {
                    stranger.shake_hands(how);
                }
                *slot = Some(stranger);
            }
            (1, Some(stranger)) => stranger.say(schedule.bytes()),
            (2, Some(stranger)) => stranger.ask(schedule),
            (3, Some(stranger)) => {
                let most = schedule.word() as usize;
                stranger.stream.receive(&mut Vec::new(), most);
            }
            (4, Some(stranger)) => stranger.stream.close(),
            (5, Some(stranger)) => stranger.stream.reset(),
            (6, _) => {
                let faults = [FileFault::Read, FileFault::Write, FileFault::Flush];
                let fault = faults[usize::from(schedule.below(3))];
                single.fail(fault, u64::from(schedule.below(16)) + 1);
            }
            (7, _) => single.hang(),
            (8, _) => single.resume(),
            (9, _) => {
                single.cut_power()?;
                single.pass(Duration::from_millis(1) * schedule.number())?;
                return single.start();
            }
            _ => {}
        }
        Ok(())
    }
}

pub(crate) fn run(data: &[u8]) {
    follow(Shape::Alone, data, &mut Strangers::default());
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let sound = [
        3, 0, 0, 0, 9, 2, 0, 7, 12, 3, 0, 9, 12, 3, 0, 9, 0, 90, 2, 0, 3, 1, 3, 0, 9, 12, 3, 0, 9,
        1, 2,
    ];
    let mut raw = vec![10, 0, 8, 11, 0, 200];
    raw.extend(compact(0));
    let stranger =
        [10, 0, 1, 0, 9, 12, 0, 1, 1, 4, 2, 0, 0, 0, 9, 12, 0, 0, 0, 4, 2, 0, 0, 13, 0, 0, 1];
    let damaged = [10, 1, 2, 0, 9, 12, 1, 1, 0, 4, 2, 0x84, 0, 9, 0, 9, 14, 1];
    let piece = [10, 0, 0, 0, 9, 12, 0, 1, 0, 4, 4, 0, 128, 15, 0];
    let fault = [3, 0, 0, 0, 9, 16, 0, 1, 3, 2, 0, 7, 12, 3, 0, 9, 1, 2, 0, 9, 1, 200];
    let kill = [
        3, 0, 0, 0, 9, 2, 0, 7, 12, 3, 0, 9, 1, 3, 0, 9, 0, 90, 7, 20, 1, 250, 3, 0, 0, 1, 9, 2, 0,
        3, 1, 2, 0, 9, 1, 2, 0, 9, 1, 2,
    ];
    let power = [
        3, 1, 1, 0, 9, 2, 1, 7, 12, 3, 0, 9, 1, 2, 0, 9, 0, 9, 19, 0, 20, 3, 1, 0, 0, 9, 2, 1, 3, 1,
    ];
    let hang =
        [3, 0, 0, 0, 9, 17, 0, 2, 0, 7, 12, 3, 0, 9, 1, 2, 0, 9, 1, 50, 18, 0, 9, 0, 4, 0, 9, 8, 3];
    vec![
        ("sound", sound.to_vec()),
        ("raw", raw),
        ("stranger", stranger.to_vec()),
        ("damaged", damaged.to_vec()),
        ("piece", piece.to_vec()),
        ("fault", fault.to_vec()),
        ("kill", kill.to_vec()),
        ("power", power.to_vec()),
        ("hang", hang.to_vec()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_whole::model::Promise;

    #[test]
    fn a_write_to_the_judged_volume_that_no_client_made_is_found() {
        let mut single = Single::new(Shape::Alone).expect("a primary");
        let mut stream = single.open(Door::Nbd);
        let header = RequestHeader {
            flags: 0,
            command: command::WRITE,
            cookie: Cookie(1),
            offset: 0,
            length: 4096,
        };
        let write = [&header.encode()[..], &[0xee; 4096]].concat();
        for bytes in [hello(), sent(option::GO, &go("db/data", &[3])), write] {
            assert_eq!(stream.send(&bytes).expect("room"), bytes.len());
            single.pass(Duration::from_millis(1)).expect("kept");
        }
        let broken = single.finish(|_| Ok(())).expect_err("a broken promise");
        assert_eq!(broken.promise, Promise::KnownBytes, "{broken}");
    }
}
