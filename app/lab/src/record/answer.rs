// SPDX-License-Identifier: Apache-2.0
//! The end that answers: one run at a time, and nothing to anybody who has not shown to hear what is sent to its
//! address.

use super::meter::BurstMeter;
use super::socket::{Post, When};
use super::wire::{Arrivals, Datagram, Kind};
use crate::error::LabError;
use crate::meet::Stage;
use crate::socket::SLICE;
use crate::watch::Event;
use crate::wire::WireError;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// A run that is silent for so long gives way to another.
const SILENCE: Duration = Duration::from_secs(10);
/// The least time between two bursts.
const BETWEEN: Duration = Duration::from_millis(20);
/// The most datagrams taken before a look at the signal.
const BATCH: usize = 64;

/// Where to answer, and whom.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// Where.
    pub local: SocketAddr,
    /// Who may ask; without it, whoever is on this host.
    pub remote: Option<IpAddr>,
}

/// Answers one recording after the other until a signal.
///
/// # Errors
/// It may not or cannot listen there.
pub fn run_answer(listen: Listen, stage: &Stage<'_>) -> Result<(), LabError> {
    if listen.remote.is_none() && !listen.local.ip().to_canonical().is_loopback() {
        return Err(LabError::Asked(format!(
            "{} is not a loopback address, and any host could use it; hint: give the address of the recording host \
             with --remote IP",
            listen.local
        )));
    }
    let post = Post::bind(listen.local)?;
    (stage.watch)(&Event::Listening(post.local().unwrap_or(listen.local)));
    let mut end = Answerer { post, secret: RandomState::new(), session: None, busy: None };
    while !stage.stopped() {
        for _ in 0..BATCH {
            let Some((from, when, heard)) = end.post.take() else { break };
            let known =
                listen.remote.is_none_or(|ip| ip.to_canonical() == from.ip().to_canonical());
            if known {
                end.hear(stage, from, when, heard);
            }
        }
        end.post.wait_in(SLICE);
    }
    Ok(())
}

struct Answerer {
    post: Post,
    /// Tokens are made of it.
    secret: RandomState,
    session: Option<Session>,
    /// Who was told last that another is served.
    busy: Option<IpAddr>,
}

/// The run that is served.
struct Session {
    peer: SocketAddr,
    run: u64,
    heard: Instant,
    /// The highest probe that came,
    top: u32,
    /// and the others.
    came: Arrivals,
    /// What comes of the last burst,
    meter: BurstMeter,
    /// and how many it has.
    burst: u32,
    /// When a burst was sent last.
    sent: Option<Instant>,
}

impl Answerer {
    fn hear(
        &mut self,
        stage: &Stage<'_>,
        from: SocketAddr,
        when: When,
        heard: Result<Datagram, WireError>,
    ) {
        let now = when.at;
        let heard = match heard {
            Ok(heard) => heard,
            // Another version of us may ask: it is to know which this is.
            Err(WireError::Version(_)) => {
                self.post.send(Datagram::new(Kind::Welcome, 0, 0), from);
                return;
            }
            Err(_) => return,
        };
        let token = self.secret.hash_one((from, heard.run));
        let answer = Datagram::new(Kind::Welcome, token, heard.run);
        if heard.token != token {
            // Never an answer to an answer: two of us would go on for ever.
            if matches!(heard.kind, Kind::Call | Kind::Probe) {
                self.post.send(answer, from);
            }
            return;
        }
        if heard.kind == Kind::Bye {
            let ours = |session: &Session| (session.peer, session.run) == (from, heard.run);
            self.session.take_if(|session| ours(session));
            return;
        }
        if !self.admits(stage, from, heard.run, now) {
            self.post.send(Datagram { kind: Kind::Busy, ..answer }, from);
            return;
        }
        let Some(session) = self.session.as_mut() else { return };
        session.heard = now;
        match heard.kind {
            Kind::Probe => {
                session.came.add(&mut session.top, heard.number);
                let (first, second) = (self.post.clock(now), u64::from(session.top));
                let (kind, number, map) = (Kind::Echo, heard.number, session.came);
                self.post.send(Datagram { kind, number, first, second, map, ..answer }, from);
            }
            Kind::Burst => {
                if session.meter.id != heard.first {
                    session.meter = BurstMeter::new(heard.first);
                }
                session.burst = heard.second as u32;
                session.meter.heard(heard.number, when);
            }
            Kind::Ask if session.meter.id == heard.first => {
                let (number, second) = session.meter.served(session.burst);
                let kind = Kind::Told;
                let first = heard.first;
                self.post.send(Datagram { kind, number, first, second, ..answer }, from);
            }
            Kind::Want if session.sent.is_none_or(|at| now.duration_since(at) >= BETWEEN) => {
                let (first, second) = (heard.first, heard.second);
                self.post.burst(Datagram { kind: Kind::Burst, first, second, ..answer }, from);
                session.sent = Some(Instant::now());
            }
            _ => {}
        }
    }

    /// Whether this run is the one that is served, or is from now on.
    fn admits(&mut self, stage: &Stage<'_>, peer: SocketAddr, run: u64, now: Instant) -> bool {
        let other = match &self.session {
            Some(session) if (session.peer, session.run) == (peer, run) => return true,
            Some(session) if session.peer != peer => now.duration_since(session.heard) < SILENCE,
            _ => false,
        };
        if other {
            if self.busy.replace(peer.ip()) != Some(peer.ip()) {
                (stage.watch)(&Event::Refused(format!(
                    "{peer} must wait: another host is recording"
                )));
            }
            return false;
        }
        (stage.watch)(&Event::Connected(peer));
        let (came, meter) = (Arrivals::default(), BurstMeter::default());
        self.session =
            Some(Session { peer, run, heard: now, top: 0, came, meter, burst: 0, sent: None });
        self.busy = None;
        true
    }
}
