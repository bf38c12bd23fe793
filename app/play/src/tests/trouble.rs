// SPDX-License-Identifier: Apache-2.0
//! A link that is in trouble for long, in each way: what both nodes say of it, how often that changes, and how much they log.
//!
//! An ordinary run has five minutes of each kind. `HELIO_MINUTES=60 cargo test --release -p helio-play trouble -- --nocapture` has an hour, and
//! prints what it counted.

use super::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Three of ten packets are lost.
    Loss,
    /// Nothing arrives at lyon.
    ToLyon,
    /// Nothing arrives at paris.
    ToParis,
    /// Nothing arrives at either.
    Silence,
    /// Silent for eight seconds, then sound for four.
    Flapping,
    /// Connections are reset every four seconds.
    Resets,
    /// lyon's daemon is killed during a silence, and runs again behind it: paris hears no end of the connection.
    HalfOpen,
}

const ALL: [Trouble; 7] = [
    Trouble::Loss,
    Trouble::ToLyon,
    Trouble::ToParis,
    Trouble::Silence,
    Trouble::Flapping,
    Trouble::Resets,
    Trouble::HalfOpen,
];

/// Between two looks at both nodes.
const LOOK: Duration = Duration::from_secs(1);
/// Trouble that comes and goes repeats after so many looks.
const CYCLE: u32 = 12;

thread_local! {
    /// Lines in the logs of the daemons, which run on this thread.
    static LINES: Cell<u64> = const { Cell::new(0) };
}

/// Counts what a daemon logs as it is configured by default.
struct Counter;

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        LINES.set(LINES.get() + 1);
    }
}

/// What was seen of a pair in trouble.
#[derive(Debug, Default)]
struct Seen {
    looks: u32,
    /// How often the verdict of each node became another one.
    changes: [u32; 2],
    /// Looks at which the nodes said different things.
    apart: u32,
    /// Looks by the verdicts of paris and lyon.
    verdicts: BTreeMap<String, u32>,
    lines: u64,
}

impl Pair {
    fn break_off(&mut self) {
        let [paris, lyon] = [PARIS, LYON].map(|node| &self.nodes[node].machine);
        self.world.cut(paris, lyon);
    }

    fn mend(&mut self) {
        let [paris, lyon] = [PARIS, LYON].map(|node| &self.nodes[node].machine);
        self.world.heal(paris, lyon);
    }

    /// The trouble begins, or goes on: `look` counts them.
    fn trouble(&mut self, trouble: Trouble, look: u32) {
        let [paris, lyon] = [PARIS, LYON].map(|node| &self.nodes[node].machine);
        match (trouble, look % CYCLE) {
            (Trouble::Loss, _) if look == 0 => {
                self.settings.loss_percent = 30.0;
                self.set_link();
            }
            (Trouble::ToLyon, _) if look == 0 => self.world.cut_way(paris, lyon),
            (Trouble::ToParis, _) if look == 0 => self.world.cut_way(lyon, paris),
            (Trouble::Silence, _) if look == 0 => self.break_off(),
            (Trouble::Flapping | Trouble::HalfOpen, 0) => self.break_off(),
            (Trouble::Flapping, 8) => self.mend(),
            (Trouble::Resets, 0 | 4 | 8) => drop(self.world.reset_connections(paris, lyon)),
            (Trouble::HalfOpen, 1) => drop(self.nodes[LYON].kill("it was killed")),
            (Trouble::HalfOpen, 2) => {
                self.mend();
                let now = self.world.now();
                self.nodes[LYON].start(now).expect("it starts");
            }
            _ => {}
        }
    }

    fn end_trouble(&mut self) {
        self.mend();
        if !self.nodes[LYON].runs() {
            let now = self.world.now();
            self.nodes[LYON].start(now).expect("it starts");
        }
        self.settings.loss_percent = 0.0;
        self.set_link();
    }
}

fn minutes() -> u32 {
    std::env::var("HELIO_MINUTES").ok().and_then(|it| it.parse().ok()).unwrap_or(5)
}

/// A pair in that trouble for so many minutes, of which the first one is not counted.
fn seen(trouble: Trouble) -> Seen {
    let mut pair = pair(7);
    pair.make(set(NewSettings { writes_per_second: Some(5.0), ..NewSettings::default() }))
        .expect("set");
    pair.wait_in_sync(PARIS);
    let mut seen = Seen::default();
    let mut before: Option<[Verdict; 2]> = None;
    for look in 0..minutes() * 60 {
        pair.trouble(trouble, look);
        pair.pass(LOOK, || true);
        let said = [PARIS, LYON].map(|node| pair.try_status(node).map(|it| it.verdict.word));
        let [Some(paris), Some(lyon)] = said else { continue };
        if look < 60 {
            LINES.set(0);
            continue;
        }
        seen.looks += 1;
        seen.apart += u32::from(paris != lyon);
        *seen.verdicts.entry(format!("{paris} {lyon}")).or_default() += 1;
        if let Some(before) = before {
            seen.changes[PARIS] += u32::from(paris != before[PARIS]);
            seen.changes[LYON] += u32::from(lyon != before[LYON]);
        }
        before = Some([paris, lyon]);
    }
    seen.lines = LINES.get();
    pair.end_trouble();
    pair.wait_in_sync(PARIS);
    seen
}

/// What a trouble may cause.
struct Bounds {
    /// Lines in both logs a minute.
    lines: u64,
    /// Changes of a verdict in ten minutes.
    changes: u32,
    /// Of 100 looks, those at which the nodes said different things.
    apart: u32,
}

const fn bounds(trouble: Trouble) -> Bounds {
    match trouble {
        // Each loss and each return is real, and is said. The other node hears of it late.
        Trouble::Loss => Bounds { lines: 15, changes: 30, apart: 5 },
        // A daemon that starts says so, and does not know that earlier connections ended.
        Trouble::HalfOpen => Bounds { lines: 25, changes: 0, apart: 100 },
        Trouble::ToLyon
        | Trouble::ToParis
        | Trouble::Silence
        | Trouble::Flapping
        | Trouble::Resets => Bounds { lines: 2, changes: 0, apart: 0 },
    }
}

#[test]
fn nodes_on_a_link_in_trouble_say_the_same_and_log_seldom() {
    tracing::subscriber::with_default(Counter, || {
        for trouble in ALL {
            let seen = seen(trouble);
            println!("{trouble:?}: {seen:?}");
            let (bounds, minutes) = (bounds(trouble), minutes() - 1);
            assert!(seen.looks > 30 * minutes, "{trouble:?}: {seen:?}");
            assert!(seen.lines <= 3 + bounds.lines * u64::from(minutes), "{trouble:?}: {seen:?}");
            assert!(seen.apart <= bounds.apart * seen.looks / 100, "{trouble:?}: {seen:?}");
            for changes in seen.changes {
                assert!(changes <= bounds.changes * minutes.div_ceil(10), "{trouble:?}: {seen:?}");
            }
        }
    });
}
