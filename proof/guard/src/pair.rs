// SPDX-License-Identifier: Apache-2.0
//! What a write costs a group: one or two daemons in the simulated world, and a client of the primary.

use crate::allocations;
use crate::client::{BLOCK, Client};
use crate::daemon::{MEMBER, Node};
use crate::figures::Figures;
use helio_api::paths;
use helio_netmodel::Profile;
use helio_units::{Bytes, Moment, State};
use helio_world::World;
use serde_json::json;
use std::net::IpAddr;
use std::time::Duration;

const GROUP: &str = "db";
const EXPORT: &str = "db/data";
const NODES: [&str; 2] = ["paris", "lyon"];
const ADDRESSES: [[u8; 4]; 2] = [[127, 0, 0, 1], [127, 0, 0, 2]];
const SIZE: Bytes = Bytes::mib(64);
/// Everything that is left to chance comes from these seeds. There are several, because another order of the same operations changes a
/// figure of one of them by up to three percent.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// Writes before the measured ones, so that tables and pools have the size that they keep.
const WARM_UP: u64 = 250;
/// A group serves, or writes have ended, within this time.
const WITHIN: Duration = Duration::from_secs(600);
/// What follows the last acknowledgement within this time belongs to the writes.
const TAIL: Duration = Duration::from_secs(1);

/// How writes of a group are replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sync,
    Async,
    /// The group has one node.
    Local,
}

struct Pair {
    world: World,
    nodes: Vec<Node>,
    client: Option<Client>,
}

/// Measures so many writes for each seed, of which up to `depth` are under way at once.
///
/// # Errors
/// A daemon or the client ended, or the group does not serve.
pub(crate) fn measure(kind: Kind, depth: u64, writes: u64) -> Result<Figures, String> {
    let (mut calls, before) = (0, allocations::counted());
    for seed in SEEDS {
        calls += measure_seed(seed, kind, depth, writes)?;
    }
    Ok(Figures {
        operations: writes * SEEDS.len() as u64,
        allocations: allocations::counted() - before,
        calls: Some(calls),
    })
}

/// Returns how many operations the daemons gave to their drivers.
fn measure_seed(seed: u64, kind: Kind, depth: u64, writes: u64) -> Result<u64, String> {
    let mut pair = Pair::start(seed, kind)?;
    let node = &pair.nodes[0];
    let stream = pair.world.connect(&node.machine, &node.door());
    pair.client = Some(Client::new(stream, EXPORT, SIZE.0 / BLOCK, depth));
    pair.write(WARM_UP)?;
    let before = pair.operations();
    pair.nodes.iter_mut().for_each(Node::measure);
    pair.write(writes)?;
    Ok(pair.operations() - before)
}

impl Pair {
    /// A group that serves, in sync if it has two nodes.
    fn start(seed: u64, kind: Kind) -> Result<Self, String> {
        let world = World::new(seed, false).untold();
        let count = if kind == Kind::Local { 1 } else { NODES.len() };
        let config = config(kind, count);
        let start =
            |n: usize| Node::start(&world, (NODES[n], IpAddr::from(ADDRESSES[n])), &config, SIZE);
        let nodes = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
        if let [one, other] = &nodes[..] {
            world.set_link(&one.machine, &other.machine, &Profile::lan());
        }
        let mut pair = Self { world, nodes, client: None };
        if kind == Kind::Local {
            pair.pass_until(|pair| pair.nodes[0].state(GROUP).is_some())?;
            return Ok(pair);
        }
        pair.pass(TAIL)?;
        let body = json!({ "force": false, "confirmed": false });
        pair.nodes[0].post(paths::of_group(paths::PROMOTE, GROUP), &body);
        pair.pass_until(|pair| pair.nodes[0].state(GROUP) == Some(State::Replicating))?;
        Ok(pair)
    }

    /// The client makes so many writes, and what they caused ends.
    fn write(&mut self, writes: u64) -> Result<(), String> {
        if let Some(client) = &mut self.client {
            client.write(writes);
        }
        self.pass_until(|pair| pair.client.as_ref().is_none_or(Client::is_done))?;
        self.pass(TAIL)
    }

    fn pass_until(&mut self, is_there: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = self.world.now() + WITHIN;
        while !is_there(self) {
            if self.world.now() >= end {
                return Err(format!("the group does not go on within {WITHIN:?}"));
            }
            self.advance(end)?;
        }
        Ok(())
    }

    fn pass(&mut self, span: Duration) -> Result<(), String> {
        let end = self.world.now() + span;
        while self.world.now() < end {
            self.advance(end)?;
        }
        Ok(())
    }

    /// To the next event, at most to `end`, and everything that can go on does.
    fn advance(&mut self, end: Moment) -> Result<(), String> {
        let next = self.nodes.iter().map(Node::next).min().unwrap_or(end);
        self.world.advance_until(next.min(end));
        let now = self.world.now();
        loop {
            let mut did = false;
            for node in &mut self.nodes {
                did |= node.step(now)?;
            }
            if let Some(client) = &mut self.client {
                client.step()?;
            }
            if !did {
                return Ok(());
            }
        }
    }

    fn operations(&mut self) -> u64 {
        self.nodes.iter_mut().map(Node::operations).sum()
    }
}

/// The configuration file of the nodes.
fn config(kind: Kind, count: usize) -> String {
    let nodes = || NODES.iter().take(count);
    let mut out = String::new();
    for (name, [a, b, c, d]) in nodes().zip(ADDRESSES) {
        out += &format!("[node.{name}]\naddress = \"{a}.{b}.{c}.{d}:7121\"\n\n");
    }
    let names: Vec<String> = nodes().map(|name| format!("{name:?}")).collect();
    out += &format!("[group.{GROUP}]\nnodes = [{}]\n", names.join(", "));
    out += match kind {
        Kind::Sync => "mode = \"sync\"\n",
        Kind::Async => "mode = \"async\"\n",
        Kind::Local => "",
    };
    out +=
        &format!("\n[group.{GROUP}.volume.data]\nsize = \"{}MiB\"\nblank = true\n", SIZE.0 >> 20);
    nodes().for_each(|name| out += &format!("members.{name} = [\"{MEMBER}\"]\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_writes_give_the_same_operations_to_the_drivers() {
        for kind in [Kind::Sync, Kind::Async, Kind::Local] {
            let calls = || measure_seed(7, kind, 4, 20).expect("the group serves");
            let first = calls();
            assert!(first >= 20 * 3, "{kind:?}: {first}");
            assert_eq!(calls(), first, "{kind:?}");
        }
    }
}
