// SPDX-License-Identifier: Apache-2.0
//! Everything a stranger's bytes can reach, as functions from bytes to nothing that panic where a promise is broken.
//!
//! Each target knows one door: what comes in by it, and what holds whatever comes. The functions are plain, so that
//! the stable tests (`tests/replay.rs`) and the coverage-guided fuzzer (`fuzz/`) run the very same checks. Absent on
//! purpose: sockets, files that the bytes name, and chance, which the callers bring.

mod before;
mod config;
mod control;
mod formats;
mod fuse;
mod kept;
mod lab;
mod link;
mod mutate;
mod nbd;
mod pieces;
mod sets;
mod tls;
mod traces;
mod whole;

pub use kept::{Kept, Sort, kept};
pub use mutate::mutate;

/// One door.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its folders in `corpus/` and `regress/`.
    pub name: &'static str,
    /// Feeds it some bytes.
    ///
    /// # Panics
    /// Where the code behind the door breaks a promise.
    pub run: fn(&[u8]),
    /// Inputs as honest callers would make them, each with a name.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

/// Every door, and the whole program behind four of them.
pub const TARGETS: [Target; 15] = [
    Target { name: "nbd", run: nbd::run, seeds: nbd::seeds },
    Target { name: "link", run: link::run, seeds: link::seeds },
    Target { name: "formats", run: formats::run, seeds: formats::seeds },
    Target { name: "before", run: before::run, seeds: before::seeds },
    Target { name: "config", run: config::run, seeds: config::seeds },
    Target { name: "control", run: control::run, seeds: control::seeds },
    Target { name: "fuse", run: fuse::run, seeds: fuse::seeds },
    Target { name: "sets", run: sets::run, seeds: sets::seeds },
    Target { name: "tls", run: tls::run, seeds: tls::seeds },
    Target { name: "traces", run: traces::run, seeds: traces::seeds },
    Target { name: "lab", run: lab::run, seeds: lab::seeds },
    Target { name: "whole-nbd", run: whole::nbd::run, seeds: whole::nbd::seeds },
    Target { name: "whole-peer", run: whole::peer::run, seeds: whole::peer::seeds },
    Target { name: "whole-control", run: whole::control::run, seeds: whole::control::seeds },
    Target { name: "whole-attach", run: whole::attach::run, seeds: whole::attach::seeds },
];

/// The target of that name.
///
/// # Panics
/// Where there is none.
#[must_use]
pub fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target is called {name}"))
}
