// SPDX-License-Identifier: Apache-2.0
//! As many as may be, and one more.

use crate::stage::{PATIENCE, amend, prepared, socket, start, wait_clients};
use helio_e2e::{assert_members_equal, wait_level};
use helio_nbd::{Client, Cookie};
use helio_testkit::{Daemon, Pair, TempDir, eventually, free_port, helio, in_time};
use helio_units::Bytes;
use std::fmt::Write;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// How many times longer a write may take beside 99 quiet groups.
const BESIDE_MOST: u32 = 5;

/// Every one of so many clients writes and reads, all of them with requests under way at once.
fn busy(pair: &Pair, count: u64) -> Vec<Client> {
    let path = socket(pair, "paris");
    let connect = |_| Client::connect_unix(&path, "db/data").expect("connects");
    let mut clients: Vec<Client> = (0..count).map(connect).collect();
    let block = |n: u64, round: u64| {
        let mut bytes = vec![(n * 7 + round) as u8; BLOCK];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        bytes
    };
    for round in 0..3 {
        let mut halves = Vec::new();
        for (n, client) in (0..).zip(clients.drain(..)) {
            let (mut sender, receiver) = client.split();
            sender.send_write(Cookie(1), n * BLOCK as u64, &block(n, round), false).expect("sends");
            halves.push((sender, receiver));
        }
        for (_, receiver) in &mut halves {
            assert!(receiver.receive().expect("is answered").result.is_ok());
        }
        drop(halves);
        wait_clients(pair, 0);
        clients.extend((0..count).map(connect));
        for (n, client) in (0..).zip(&mut clients) {
            // Each reads what its neighbour wrote.
            let of = (n + 1) % count;
            let mut bytes = vec![0; BLOCK];
            client.read(of * BLOCK as u64, &mut bytes).expect("reads");
            assert_eq!(bytes, block(of, round), "what {of} wrote in round {round}");
        }
    }
    clients
}

fn fill_up(pair: &mut Pair, most: u64) {
    let path = socket(pair, "paris");
    let mut clients = busy(pair, most - 1);
    let last = Client::connect_unix(&path, "db/data").expect("there is room for one more");
    let refused = Client::connect_unix(&path, "db/data").err().expect("one too many");
    assert!(refused.to_string().contains("raise `clients` of the node"), "{refused}");
    for client in &mut clients {
        let mut bytes = [0; 512];
        client.read(0, &mut bytes).expect("the others go on");
    }
    let log = pair.daemon("paris").log();
    let said = "too many NBD clients; raise `clients` of the node, or disconnect some";
    assert!(log.contains(said), "{log}");
    last.disconnect().expect("leaves");
    eventually(PATIENCE, "a place", || Client::connect_unix(&path, "db/data").ok());
    drop(clients);
    wait_level(pair, "paris");
}

#[test]
fn a_thousand_connections_are_served_and_one_too_many_is_logged() {
    let mut pair = start(prepared());
    fill_up(&mut pair, 1024);
    for node in ["lyon", "paris"] {
        pair.daemon(node).terminate();
    }
    assert_members_equal(&pair, "data");
}

#[test]
fn the_bound_on_clients_is_the_files() {
    let pair = prepared();
    amend(&pair, "[node.paris]\n", "[node.paris]\nclients = 3\n");
    fill_up(&mut start(pair), 3);
}

/// Many groups between two nodes.
struct Crowd {
    daemons: Vec<Daemon>,
    scratch: TempDir,
}

const NODES: [&str; 2] = ["lyon", "paris"];
const SMALL: Bytes = Bytes::mib(1);

impl Crowd {
    fn start(groups: usize, volumes: usize) -> Self {
        let scratch = TempDir::new();
        let mut text = String::new();
        for node in NODES {
            writeln!(text, "[node.{node}]\naddress = \"{}\"", free_port()).expect("a string");
        }
        for g in 0..groups {
            writeln!(text, "[group.g{g}]\nnodes = {NODES:?}\nmode = \"async\"").expect("a string");
            for v in 0..volumes {
                writeln!(text, "[group.g{g}.volume.v{v}]\nsize = \"1MiB\"\nsparse = true")
                    .expect("a string");
                for node in NODES {
                    let member = scratch.file(&format!("{node}-{g}-{v}"), SMALL);
                    writeln!(text, "members.{node} = [{member:?}]").expect("a string");
                }
            }
        }
        let config = scratch.write("heliograph.toml", &text);
        let daemons = NODES.map(|node| Daemon::start(node, &config, &scratch.join(node)));
        let mut crowd = Self { daemons: daemons.into(), scratch };
        crowd.daemons.iter_mut().for_each(Daemon::wait_ready);
        crowd
    }

    fn verb(&self, node: &str, verb: &[&str]) -> helio_testkit::Told {
        helio(&[verb, &["--state", &self.scratch.join(node).to_string_lossy()]].concat())
    }

    fn status(&self) -> serde_json::Value {
        self.verb("paris", &["status", "--json"]).json()
    }

    /// Paris becomes primary of these groups, and they replicate.
    fn promote(&self, groups: impl Iterator<Item = usize>) {
        let groups: Vec<usize> = groups.collect();
        eventually(PATIENCE, "the peers", || {
            let status = self.status();
            let all = status["groups"].as_array().expect("a list");
            all.iter().all(|g| g["peer"]["connection"] == "connected").then_some(())
        });
        for g in &groups {
            self.verb("paris", &["promote", &format!("g{g}")]).expect_success();
        }
        eventually(PATIENCE, "replication", || {
            let status = self.status();
            let all = status["groups"].as_array().expect("a list").iter();
            let level = all.filter(|g| {
                g["state"] == "replicating"
                    && g["role"] == "primary"
                    && g["cursors"]["accepted"] == g["cursors"]["peer_durable"]
            });
            (level.count() == groups.len()).then_some(())
        });
    }

    fn open(&self, export: &str) -> Client {
        Client::connect_unix(self.scratch.join("paris").join("nbd.sock"), export).expect("opens")
    }

    /// Writes to an export and waits until the other node's member has it.
    fn write(&self, group: usize, volume: usize) {
        let mut client = self.open(&format!("g{group}/v{volume}"));
        let bytes = vec![(group * 31 + volume) as u8 | 1; BLOCK];
        client.write(8192, &bytes, true).expect("writes");
        let member = self.scratch.join(&format!("lyon-{group}-{volume}"));
        eventually(PATIENCE, "the copy", || {
            (std::fs::read(&member).ok()?[8192..8192 + BLOCK] == bytes).then_some(())
        });
    }
}

#[test]
fn a_thousand_exports_are_listed_opened_and_mirrored() {
    const GROUPS: usize = 16;
    const VOLUMES: usize = 63;
    let crowd = Crowd::start(GROUPS, VOLUMES);
    crowd.promote(0..GROUPS);
    let list = Client::list(crowd.scratch.join("paris").join("nbd.sock")).expect("lists");
    assert_eq!(list.len(), 2 * GROUPS * VOLUMES);
    crowd.write(GROUPS - 1, VOLUMES - 1);
    crowd.write(0, 0);
    let asked = Instant::now();
    let status = crowd.status();
    assert_eq!(status["groups"].as_array().map(Vec::len), Some(GROUPS));
    in_time(asked.elapsed(), Duration::from_secs(5), "the status of 1008 volumes");
}

#[test]
fn a_hundred_groups_are_mirrored_and_quiet_ones_cost_a_busy_one_little() {
    const GROUPS: usize = 100;
    let (crowd, single) = (Crowd::start(GROUPS, 1), Crowd::start(1, 1));
    crowd.promote(0..GROUPS);
    single.promote(0..1);
    crowd.write(GROUPS - 1, 0);
    let mut clients = [single.open("g0/v0"), crowd.open("g7/v0")];
    let mut spans = [const { Vec::new() }; 2];
    // In turn, so that a busy machine delays both.
    for n in 0..500_u64 {
        for (client, spans) in clients.iter_mut().zip(&mut spans) {
            let begun = Instant::now();
            client.write(n % 200 * 4096, &[n as u8; BLOCK], false).expect("writes");
            spans.push(begun.elapsed());
        }
    }
    let [alone, beside] = spans.map(|mut spans| {
        spans.sort_unstable();
        spans[250]
    });
    println!("median of a write: {alone:?} in a group alone, {beside:?} beside 99 quiet ones");
    // If every turn settled every group this would be a multiple.
    assert!(beside < alone * BESIDE_MOST, "{alone:?} alone, {beside:?} beside {GROUPS} groups");
}
