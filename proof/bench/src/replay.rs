// SPDX-License-Identifier: Apache-2.0
//! Replays a workload on an NBD export: each request at its moment, so many under way at most.
//!
//! What is late is asked as soon as it may be, as the forecast's application does: one thread asks, another hears.

use crate::handshake;
use anyhow::{Context, Result, bail};
use helio_nbd::codec::{Cookie, RequestHeader, SimpleReply, command, magic};
use helio_twin::Spread;
use helio_workload::{Kind, Request, Workload};
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The longest wait for an answer: longer than any outage of a scenario.
const PATIENCE: Duration = Duration::from_secs(120);
/// NBD's flag for FUA.
const FUA: u16 = 1;

/// What the clients saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// From a write's request to its answer, in nanoseconds.
    pub writes: Spread,
    /// Flushes.
    pub flushes: Spread,
    /// Bytes of writes answered.
    pub answered: u64,
    /// From the beginning to the last answer.
    pub took: Duration,
}

/// When each slot was asked, and which are free.
struct Table {
    free: Vec<usize>,
    asked: Vec<(Instant, Request)>,
}

/// Returns at that moment: a workload's requests come by the clock, and a schedule's outages too.
pub fn wait_until(due: Instant) {
    // A thread may be woken for no reason.
    while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
}

/// Replays it on `export` behind a Unix socket.
///
/// # Errors
/// The server refuses, hangs up, or answers with an error.
pub fn replay(socket: &Path, export: &str, workload: &Workload, depth: usize) -> Result<Seen> {
    let mut stream = UnixStream::connect(socket).context("no server listens")?;
    handshake::connect(&mut stream, export)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let hears = stream.try_clone()?;
    let Some(first) = workload.requests().first() else { bail!("nothing is asked") };
    let began = Instant::now();
    let table = Table { free: (0..depth).collect(), asked: vec![(began, *first); depth] };
    let shared = (Mutex::new(table), Condvar::new());
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| ask(stream, workload, began, &shared));
        let seen = hear(hears, workload.requests().len(), began, &shared);
        asker.join().expect("the asker does not panic")?;
        seen
    })
}

fn ask(
    mut stream: UnixStream,
    workload: &Workload,
    began: Instant,
    shared: &(Mutex<Table>, Condvar),
) -> Result<()> {
    let longest = workload.requests().iter().map(|request| request.extent.length).max();
    let payload: Vec<u8> = (0..longest.unwrap_or(0)).map(|at| ((at * 31) >> 3) as u8 | 1).collect();
    for request in workload.requests() {
        let due = began + Duration::from_nanos(request.at.0);
        wait_until(due);
        let (table, freed) = shared;
        let mut table = freed
            .wait_while(table.lock().expect("nobody panics"), |table| table.free.is_empty())
            .expect("nobody panics");
        let Some(slot) = table.free.pop() else { bail!("a slot was free and is not") };
        table.asked[slot] = (Instant::now(), *request);
        drop(table);
        let (command, length) = match request.kind {
            Kind::Read => (command::READ, request.extent.length),
            Kind::Write => (command::WRITE, request.extent.length),
            Kind::Flush => (command::FLUSH, 0),
            Kind::Zero | Kind::Discard => bail!("only reads, writes and flushes are replayed"),
        };
        let flags = if request.fua { FUA } else { 0 };
        let header = RequestHeader {
            flags,
            command,
            cookie: Cookie(slot as u64),
            offset: request.extent.offset,
            length,
        };
        stream.write_all(&header.encode())?;
        if request.kind == Kind::Write {
            stream.write_all(&payload[..length as usize])?;
        }
    }
    Ok(())
}

fn hear(
    stream: UnixStream,
    count: usize,
    began: Instant,
    shared: &(Mutex<Table>, Condvar),
) -> Result<Seen> {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let mut seen = Seen::default();
    let mut data = Vec::new();
    for _ in 0..count {
        let mut reply = [0; SimpleReply::LENGTH];
        stream.read_exact(&mut reply).context("no answer comes")?;
        let now = Instant::now();
        let (word, rest) = reply.split_first_chunk::<4>().context("a reply cut short")?;
        if u32::from_be_bytes(*word) != magic::SIMPLE_REPLY {
            bail!("the server sent something else than a simple reply");
        }
        let reply = SimpleReply::decode_after_magic(rest.try_into()?);
        if reply.error != 0 {
            bail!("the server answered with error {}", reply.error);
        }
        let slot = reply.cookie.0 as usize;
        let mut table = shared.0.lock().expect("nobody panics");
        let (asked, request) = table.asked[slot];
        table.free.push(slot);
        drop(table);
        shared.1.notify_one();
        let took = now - asked;
        match request.kind {
            Kind::Flush => seen.flushes.add_time(took),
            Kind::Read => {
                data.resize(request.extent.length as usize, 0);
                stream.read_exact(&mut data)?;
            }
            Kind::Write | Kind::Zero | Kind::Discard => {
                seen.writes.add_time(took);
                seen.answered += request.extent.length;
            }
        }
        seen.took = now - began;
    }
    Ok(seen)
}
