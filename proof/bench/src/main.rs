// SPDX-License-Identifier: Apache-2.0
//! What the engine itself costs per write: time and allocations, on a primary and on its follower.
//!
//! `cargo run --release -p helio-bench` prints the figures; the budget is 2 µs of engine time per write on the primary
//! and no allocation in steady state. Two engines talk to each other in memory; stores answer at once; so everything
//! that is measured is the engine.
#![allow(unsafe_code)]

use helio_engine::{
    Command, CommandId, Config, Durable, Effect, Engine, Event, Operation, ReadAs, Request, Run,
    StoreOutcome, digest_piece,
};
use helio_format::message::Message;
use helio_format::superblock::Superblock;
use helio_units::{Bytes, Extent, Mode, Moment, Payload, PayloadId, RequestId, State, VolumeIndex};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts allocations; everything else is the system's.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system's.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VOLUME: Bytes = Bytes::gib(1);
const BLOCK: u64 = 4096;

/// One node: its engine, and what it cost so far.
struct Node {
    engine: Engine,
    effects: Vec<Effect>,
    spent: Duration,
    allocations: u64,
}

impl Node {
    fn new(name: &str, peer: &str, mode: Mode) -> Self {
        let config = Config {
            mode,
            peer_timeout: Duration::from_secs(60),
            safe_copy: helio_engine::SafeCopy::Off,
            on_error: helio_engine::OnError::Pass,
            ..Config::new("db", name, peer, vec![VOLUME])
        };
        let superblock = Superblock::new("db", name, vec![VOLUME.0]);
        let durable = Durable::new(superblock);
        let engine = Engine::new(config, durable, name.len() as u64, 7, Moment::ZERO);
        Self { engine, effects: Vec::with_capacity(1024), spent: Duration::ZERO, allocations: 0 }
    }

    /// Runs the engine, counting.
    fn run(&mut self, now: Moment, event: Option<Event>) {
        let (start, before) = (Instant::now(), ALLOCATIONS.load(Ordering::Relaxed));
        match event {
            Some(event) => self.engine.handle(now, event, &mut self.effects),
            None => self.engine.settle(now, &mut self.effects),
        }
        self.spent += start.elapsed();
        self.allocations += ALLOCATIONS.load(Ordering::Relaxed) - before;
    }
}

/// A pair that talks in memory.
struct Pair {
    nodes: [Node; 2],
    now: Moment,
    answered: u64,
    next_payload: u64,
    moved: Vec<(usize, Event)>,
}

impl Pair {
    fn new(mode: Mode) -> Self {
        let nodes = [Node::new("lyon", "paris", mode), Node::new("paris", "lyon", mode)];
        Self {
            nodes,
            now: Moment::ZERO,
            answered: 0,
            next_payload: 0,
            moved: Vec::with_capacity(4096),
        }
    }

    /// Settles both and performs every effect, until nothing is left to do now.
    fn quiesce(&mut self) {
        loop {
            for n in 0..2 {
                self.nodes[n].run(self.now, None);
                let mut effects = std::mem::take(&mut self.nodes[n].effects);
                for effect in effects.drain(..) {
                    self.perform(n, effect);
                }
                self.nodes[n].effects = effects;
            }
            if self.moved.is_empty() {
                return;
            }
            let mut moved = std::mem::take(&mut self.moved);
            for (to, event) in moved.drain(..) {
                self.nodes[to].run(self.now, Some(event));
            }
            if self.moved.is_empty() {
                self.moved = moved;
            }
        }
    }

    fn perform(&mut self, n: usize, effect: Effect) {
        match effect {
            Effect::Store { io, op, read_as, .. } => {
                let outcome =
                    op.reads().map_or(StoreOutcome::Done, |extent| self.read(extent, &read_as));
                self.moved.push((n, Event::StoreDone { io, outcome }));
            }
            Effect::Send(message) => {
                let bytes = 68 + u64::from(message.payload_length());
                self.moved.push((n, Event::LinkTook { bytes }));
                self.moved.push((1 - n, Event::Message(message)));
            }
            Effect::SaveSuperblock(_) => {
                self.moved.push((n, Event::SuperblockSaved { ok: true, sequence: 1 }));
            }
            Effect::Keep(keep) => {
                let kept = keep.kept();
                self.moved.push((n, Event::Kept { kept, ok: true, sequence: 1 }));
            }
            Effect::Hangup { why, .. } => {
                self.moved.retain(|(_, e)| !matches!(e, Event::Message(Message::Hello(_))));
                self.moved.push((1 - n, Event::Disconnected { why }));
            }
            Effect::Reply { .. } => self.answered += 1,
            // Payloads are only names here, no operator sends commands, and no layer preserves an older image.
            Effect::Release(_)
            | Effect::PauseReceiving(_)
            | Effect::Pool(_)
            | Effect::Record(_)
            | Effect::Compare { .. }
            | Effect::Look { .. }
            | Effect::AskHook(_)
            | Effect::DismissClients
            | Effect::CommandDone { .. }
            | Effect::Note(_)
            | Effect::Stopped => {}
        }
    }

    /// What is reported of a read: all zeros.
    fn read(&mut self, extent: Extent, read_as: &ReadAs) -> StoreOutcome {
        match *read_as {
            ReadAs::Bytes | ReadAs::BytesOrZero => {
                self.next_payload += 1;
                let id = PayloadId(self.next_payload);
                let payload = Payload { id, length: extent.length as u32 };
                StoreOutcome::Read { payload, zero: true }
            }
            ReadAs::Digests { coarse } => {
                let count = extent.length.div_ceil(digest_piece(coarse).0) as usize;
                StoreOutcome::Digests(vec![[0; 16]; count])
            }
            ReadAs::Runs { .. } | ReadAs::Differing { .. } => {
                StoreOutcome::Differing(vec![Run { extent, payload: None }])
            }
            ReadAs::DigestPayload | ReadAs::Unequal { .. } => StoreOutcome::Done,
        }
    }

    fn connect(&mut self) {
        for node in &mut self.nodes {
            node.run(self.now, Some(Event::Connected));
        }
        self.quiesce();
    }

    /// Two new nodes, one promoted, everything copied.
    fn level(mode: Mode) -> Self {
        let mut pair = Self::new(mode);
        pair.connect();
        let promote =
            Event::Command { id: CommandId(1), command: Command::Promote { force: false } };
        pair.nodes[0].run(pair.now, Some(promote));
        pair.quiesce();
        pair.connect();
        while pair.nodes[0].engine.view().state() != State::Replicating {
            pair.now = pair.now + Duration::from_millis(10);
            pair.quiesce();
        }
        pair
    }

    /// One batch of `depth` writes, all answered.
    fn batch(&mut self, depth: u64, first: u64) {
        for n in 0..depth {
            self.next_payload += 1;
            let block = (first + n).wrapping_mul(0x9E37_79B9) % (VOLUME.0 / BLOCK);
            let operation = Operation::Write {
                extent: Extent::new(block * BLOCK, BLOCK),
                payload: Payload { id: PayloadId(self.next_payload), length: BLOCK as u32 },
                fua: false,
            };
            let request = Request { id: RequestId(first + n), volume: VolumeIndex(0), operation };
            self.nodes[0].run(self.now, Some(Event::Request(request)));
        }
        self.now = self.now + Duration::from_micros(50);
        self.quiesce();
    }
}

fn measure(mode: Mode, depth: u64) {
    const WRITES: u64 = 400_000;
    let mut pair = Pair::level(mode);
    for n in 0..WRITES / 4 / depth {
        pair.batch(depth, n * depth);
    }
    for node in &mut pair.nodes {
        node.spent = Duration::ZERO;
        node.allocations = 0;
    }
    pair.answered = 0;
    for n in 0..WRITES / depth {
        pair.batch(depth, n * depth);
    }
    let per = |d: Duration| d.as_nanos() as f64 / WRITES as f64;
    println!(
        "{mode:<9} depth {depth:>3}: primary {:>6.0} ns/write, follower {:>6.0} ns/write, allocations per write {:.4} and {:.4}, answered {}",
        per(pair.nodes[0].spent),
        per(pair.nodes[1].spent),
        pair.nodes[0].allocations as f64 / WRITES as f64,
        pair.nodes[1].allocations as f64 / WRITES as f64,
        pair.answered,
    );
    assert!(pair.answered >= WRITES, "{} of {WRITES} writes were answered", pair.answered);
}

fn main() {
    println!("engine time includes two clock readings per event (about 25 ns each)");
    for mode in Mode::ALL {
        for depth in [1, 16, 128] {
            measure(mode, depth);
        }
    }
}
