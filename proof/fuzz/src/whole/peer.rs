// SPDX-License-Identifier: Apache-2.0
//! A peer that the input plays: sound messages, damaged ones, bytes, silence.
//!
//! Input: a byte that says which node connects, then the steps. The peer can be sound for a while: then it answers what the
//! daemon sends, so that what lies behind a handshake and a resync is reached too.

use super::schedule::Schedule;
use super::{Judged, Stage, follow, pass};
use crate::link::{framed, make_valid, messages};
use helio_driver::Pool;
use helio_format::copying::{Copying, DIGESTS_MAX};
use helio_format::message::{Ack, Blocks, Hello, Message};
use helio_link::Incoming;
use helio_units::{Bytes, Role, Sequence};
use helio_whole::stream::{Received, Stream};
use helio_whole::{Door, Shape, SimListener, SimStream, Single};
use std::time::Duration;

/// Connections that the peer has at once.
const AT_ONCE: usize = 2;
/// Bytes that the peer receives at once.
const GULP: usize = 1 << 20;
/// Bytes of a region, and of a block, for each of which there is a digest.
const BLOCK: u64 = 4096;
/// The names of the nodes: the first one connects to the second one.
const NODES: [&str; 2] = ["lyon", "paris"];

/// A connection, and what the daemon said on it.
struct Link {
    stream: SimStream,
    incoming: Incoming,
    input: Vec<u8>,
    /// What the stream has not taken yet.
    output: Vec<u8>,
    /// The peer said hello on it.
    greeted: bool,
    heard: Ack,
    /// What a sound peer responds with.
    owed: Vec<Message>,
}

/// What is played.
pub(super) struct Peer {
    shape: Shape,
    listener: Option<SimListener>,
    links: Vec<Link>,
    /// The last hello of the daemon.
    theirs: Option<Hello>,
    /// It answers as a sound peer does.
    sound: bool,
    pool: Pool,
}

impl Peer {
    pub(super) fn new(shape: Shape) -> Self {
        let (listener, links, theirs, sound) = (None, Vec::new(), None, true);
        Self { shape, listener, links, theirs, sound, pool: Pool::new(Bytes::mib(1)) }
    }

    /// A hello like the daemon's, as bits say.
    fn hello(&self, how: u32) -> Message {
        let bit = |n: u32| how >> n & 1 != 0;
        let mut hello = self.theirs.clone().unwrap_or_else(|| Hello {
            group: "db".to_owned(),
            sizes: vec![64 << 10; 2],
            blocks: vec![Blocks { member: 512, volume: 4096 }; 2],
            granularity: 4096,
            ..plain()
        });
        hello.node = NODES[usize::from(self.shape == Shape::Dials)].to_owned();
        hello.role = if bit(0) { Role::Primary } else { Role::Secondary };
        (hello.serving, hello.wrote, hello.alone) = (bit(1), bit(2), bit(3));
        (hello.clean, hello.consistent, hello.trusted) = (!bit(4), !bit(5), !bit(6));
        (hello.sure, hello.doubts, hello.discarded) = (bit(7), bit(8), bit(9));
        (hello.suspect, hello.keeps) = (bit(10), bit(4));
        hello.incarnation ^= u64::from(how) | 1 << 20;
        if !bit(11) {
            // A node that never had a part in the group.
            (hello.lineage, hello.remembers, hello.metadata) = <_>::default();
            (hello.head, hello.received, hello.durable) = <_>::default();
        }
        if bit(12) {
            hello.head = Sequence(hello.head.0 + u64::from(how >> 13));
        }
        Message::Hello(hello)
    }

    /// Receives on every connection, and answers if the peer is sound.
    fn hear(&mut self) {
        if let Some(stream) = self.listener.as_ref().and_then(SimListener::accept) {
            self.add(stream);
        }
        let mut links = std::mem::take(&mut self.links);
        for link in &mut links {
            let taken = link.stream.send(&link.output).unwrap_or(link.output.len());
            link.output.drain(..taken);
            let end = link.stream.receive(&mut link.input, GULP);
            self.read(link);
            if self.sound {
                self.answer(link);
            }
            if matches!(end, Received::End | Received::Reset) {
                link.stream.close();
            }
        }
        self.links = links;
    }

    fn read(&mut self, link: &mut Link) {
        let mut at = 0;
        // What the daemon sends can be read, and a peer that cannot read it goes on without.
        while let Ok((taken, arrived)) = link.incoming.consume(&link.input[at..], &self.pool) {
            at += taken;
            let Some(arrived) = arrived else { break };
            match arrived.message {
                Message::Hello(hello) => self.theirs = Some(hello),
                Message::Start(start) => {
                    let before = Sequence(start.from.0.saturating_sub(1));
                    link.heard = Ack {
                        stream: start.stream,
                        received: before,
                        completed: before,
                        durable: before,
                        ..Ack::default()
                    };
                }
                Message::Item(item) => {
                    (link.heard.received, link.heard.completed) = (item.sequence, item.sequence);
                    link.heard.durable = item.sequence;
                }
                Message::Ping(ping) => {
                    let (token, flushing, waits, short) = (ping.token, false, false, false);
                    link.owed.push(Message::Pong { token, flushing, waits, short, metadata: 1 });
                }
                Message::Copying(asked) => {
                    link.owed.extend(copied(&asked).map(Message::Copying));
                }
                _ => {}
            }
        }
        link.input.drain(..at);
    }

    fn answer(&self, link: &mut Link) {
        // Who connects speaks first.
        let greets = self.shape == Shape::Accepts || self.theirs.is_some();
        if greets && !std::mem::replace(&mut link.greeted, true) {
            say(link, &self.hello(0));
        }
        for message in std::mem::take(&mut link.owed) {
            say(link, &message);
        }
        if link.heard.stream > 0 {
            say(link, &Message::Ack(link.heard));
        }
    }

    fn add(&mut self, stream: SimStream) {
        if self.links.len() == AT_ONCE {
            self.links.remove(0);
        }
        let (incoming, input, output, heard, owed) = <_>::default();
        let greeted = false;
        self.links.push(Link { stream, incoming, input, output, greeted, heard, owed });
    }

    /// A message as the daemon would send one, of which bytes may be changed; its checksums are right.
    fn message(&self, schedule: &mut Schedule<'_>) -> Vec<u8> {
        let all = messages();
        let mut bytes = framed(&all[usize::from(schedule.below(all.len() as u8))]);
        for _ in 0..schedule.below(4) {
            let (at, value) = (schedule.word() as usize, schedule.number() as u8);
            let length = bytes.len();
            bytes[at % length] = value;
        }
        make_valid(&mut bytes);
        bytes
    }
}

/// What a peer responds whose copy differs everywhere.
fn copied(asked: &Copying) -> Option<Copying> {
    Some(match asked {
        Copying::MarksWanted => Copying::MarksEnd { trusted: true },
        Copying::EmptyWanted { volume, extent } => {
            Copying::Empty { volume: *volume, extent: *extent, empty: false }
        }
        Copying::DigestsWanted { volume, extent, coarse } => {
            let count = extent.length.div_ceil(BLOCK).min(DIGESTS_MAX as u64);
            let list = vec![[0; 16]; count as usize];
            Copying::Digests { volume: *volume, extent: *extent, coarse: *coarse, list }
        }
        _ => return None,
    })
}

/// A message of any kind with any body, and checksums that are right.
fn any(schedule: &mut Schedule<'_>) -> Vec<u8> {
    let kind = schedule.below(40);
    let (body, payload) = (schedule.bytes(), schedule.bytes());
    let mut bytes = vec![0; 32];
    bytes[6] = kind;
    bytes[8] = body.len() as u8;
    bytes[12] = payload.len() as u8;
    bytes.extend(body);
    bytes.extend(payload);
    make_valid(&mut bytes);
    bytes
}

/// The first message of the list, for the fields that nothing depends on.
fn plain() -> Hello {
    match messages().into_iter().next() {
        Some(Message::Hello(hello)) => hello,
        _ => panic!("a hello comes first"),
    }
}

fn say(link: &mut Link, message: &Message) {
    link.output.extend(framed(message));
}

impl Stage for Peer {
    fn begin(&mut self, single: &mut Single) -> Judged {
        if self.shape == Shape::Dials {
            self.listener = Some(single.listen()?);
        }
        Ok(())
    }

    fn act(&mut self, what: u8, schedule: &mut Schedule<'_>, single: &mut Single) -> Judged {
        let at = usize::from(schedule.below(AT_ONCE as u8));
        match what % 10 {
            0 => self.add(single.open(Door::Peer)),
            1 => self.sound = schedule.below(2) == 0,
            2 => return pass(Duration::from_millis(40) * schedule.number(), single, self),
            what => {
                let (hello, how) = (what == 3, schedule.word());
                let hello = hello.then(|| framed(&self.hello(how)));
                let Some(at) = self.links.len().checked_sub(1).map(|last| at.min(last)) else {
                    return Ok(());
                };
                let bytes = match (what, hello) {
                    (_, Some(hello)) => hello,
                    (4 | 5, _) => self.message(schedule),
                    (6, _) => any(schedule),
                    (7, _) => schedule.bytes().to_vec(),
                    (8, _) => {
                        self.links[at].stream.close();
                        return Ok(());
                    }
                    _ => {
                        self.links[at].stream.reset();
                        return Ok(());
                    }
                };
                self.links[at].greeted = true;
                self.links[at].output.extend(bytes);
            }
        }
        Ok(())
    }

    fn look(&mut self, single: &mut Single) -> Judged {
        self.hear();
        if let Some(census) = single.census() {
            for pool in [census.written, census.received] {
                assert!(pool.high_water <= pool.bound, "a pool lent more than its bound: {pool:?}");
            }
        }
        Ok(())
    }
}

pub(crate) fn run(data: &[u8]) {
    let (shape, data) = match data.split_first() {
        Some((first, rest)) if first & 1 != 0 => (Shape::Accepts, rest),
        Some((_, rest)) => (Shape::Dials, rest),
        None => (Shape::Dials, data),
    };
    follow(shape, data, &mut Peer::new(shape));
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    // Time passes in small steps, since the peer answers after each.
    let time = |steps: usize| [0_u8, 60].repeat(steps);
    let clients = [3, 0, 0, 0, 20, 2, 0, 7, 12, 3, 0, 9, 1, 3, 0, 9];
    let with = |first: u8, steps: &[&[u8]]| [&[first][..], &steps.concat()].concat();
    let (wait, busy) = ([1, 250], [time(12), clients.to_vec(), time(12)].concat());
    vec![
        ("accepted", with(0, &[&wait, &busy, &busy])),
        ("dialled", with(1, &[&[10, 0], &wait, &busy, &busy])),
        ("hello", with(1, &[&[10, 0, 13, 0, 1, 0], &time(6), &[13, 0, 7, 8], &time(6)])),
        (
            "messages",
            with(0, &[&wait, &busy, &[14, 0, 0, 0, 2, 0], &time(2), &[14, 0, 0, 0, 5, 0]]),
        ),
        ("any", with(1, &[&[10, 0], &busy, &[16, 0, 0, 0, 10, 0, 0], &time(4)])),
        ("raw", with(1, &[&[10, 0, 17, 0, 0, 0, 3, 1, 2, 3], &time(4), &[18, 0, 0, 0]])),
        ("silence", with(0, &[&wait, &busy, &[11, 0, 1], &clients, &[12, 0, 250]])),
        ("reset", with(1, &[&[10, 0], &busy, &[19, 0, 0, 0, 10, 0], &busy])),
    ]
}
