// SPDX-License-Identifier: Apache-2.0
//! How the two ends find each other: the primary listens, standbys call again and again until it is there. Either may
//! be started first.

use crate::channel::{Channel, wait_any};
use crate::error::LabError;
use crate::pause::Waking;
use crate::socket::{Ask, Properties, SLICE};
use crate::watch::{Event, Watch};
use crate::wire::{Hello, Plan, WireError};
use helio_driver::Socket;
use helio_tls::{NodeKey, PeerTls, PublicKey, Purpose};
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long an end that has called or was called may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long one call may take before the next.
const CALL: Duration = Duration::from_secs(5);
/// The longest pause before an end that was sent away calls again; the first is as long as where nobody is there yet.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What is under way while nobody may be there yet.
const CONNECTING: &str = "connecting";

/// Where an end is, and how it talks.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its own address: the primary listens there, a standby binds to it if `bind` says so.
    pub local: SocketAddr,
    /// The primary's address, where this is a standby.
    pub remote: SocketAddr,
    /// Whom a primary lets in; none lets in anybody.
    pub callers: Option<Vec<IpAddr>>,
    /// Whether a standby binds its own end.
    pub bind: bool,
    /// How long the other end may take to come.
    pub patience: Duration,
    /// What is asked of the sockets.
    pub ask: Ask,
    /// Keys; none talks in plain.
    pub keys: Option<Keys>,
}

/// Who this is, and who the other may be.
#[derive(Clone, Debug)]
pub struct Keys {
    /// This end's key.
    pub own: NodeKey,
    /// Those of the other end, or ends.
    pub trusted: Vec<PublicKey>,
}

/// What goes on around a measurement.
#[derive(Clone, Copy)]
pub struct Stage<'w> {
    /// Hears what happens.
    pub watch: Watch<'w>,
    /// Set by a signal: end in good order.
    pub stop: &'w AtomicBool,
    /// Whether every call is told.
    pub verbose: bool,
}

impl<'w> Stage<'w> {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// # Errors
    /// A signal asked for the end.
    pub(crate) fn go_on(&self) -> Result<(), LabError> {
        if self.stopped() { Err(LabError::Stopped) } else { Ok(()) }
    }

    fn channel(&self, socket: Socket, peer: SocketAddr, ask: &Ask) -> Channel<'w> {
        Channel::new(socket, peer, ask.blocking, self.verbose.then_some(self.watch))
    }
}

/// A socket that got its buffers, with the first two of the three looks at it.
fn prepared(place: &Place, stage: &Stage<'_>, tell: bool) -> Result<socket2::Socket, LabError> {
    let failed = |doing: &'static str| LabError::system(doing, "read the error of the kernel");
    let socket = Ask::create(place.remote).map_err(failed("make a socket"))?;
    let look = || Properties::of(&socket).map_err(failed("look at a socket"));
    if tell {
        (stage.watch)(&Event::Created(look()?));
    }
    let refused = LabError::system(
        "set up the socket",
        "a congestion control this kernel has (sysctl net.ipv4.tcp_available_congestion_control)",
    );
    place.ask.resize(&socket).map_err(refused)?;
    if tell {
        let asked = [place.ask.send.is_some(), place.ask.receive.is_some()];
        (stage.watch)(&Event::Resized(asked, look()?));
    }
    Ok(socket)
}

/// A connection as it will be used, with the last look.
fn connected<'w>(
    place: &Place,
    stage: &Stage<'w>,
    (socket, peer): (socket2::Socket, SocketAddr),
) -> Result<(Channel<'w>, Properties), LabError> {
    let failed = |why| LabError::Lost { peer, doing: CONNECTING, why: io::Error::to_string(&why) };
    place.ask.settle(&socket).map_err(failed)?;
    let properties = Properties::of(&socket).map_err(failed)?;
    let socket = Socket::new(std::os::fd::OwnedFd::from(socket));
    Ok((stage.channel(socket, peer, &place.ask), properties))
}

/// The connections of a primary: for each standby, its streams in order, with what each standby said of its buffers.
pub(crate) type Lines<'w> = Vec<Vec<(Channel<'w>, Hello)>>;

/// Tells of callers that are sent away, each once while the reason stays: they call again and again.
struct Refusals<'w> {
    watch: Watch<'w>,
    last: Option<(IpAddr, String)>,
}

impl Refusals<'_> {
    fn tell(&mut self, peer: SocketAddr, why: &str) {
        // Every call comes from a port of its own.
        let this = (peer.ip(), why.replace(&peer.to_string(), &peer.ip().to_string()));
        if self.last.as_ref() != Some(&this) {
            (self.watch)(&Event::Refused(format!("{peer} was refused: {why}")));
            self.last = Some(this);
        }
    }
}

/// Whether somebody may call. An end that listens on IPv6 sees callers of IPv4 by mapped addresses.
fn may_call(known: &[IpAddr], peer: IpAddr) -> bool {
    known.iter().any(|ip| ip.to_canonical() == peer.to_canonical())
}

/// Waits for all streams of so many standbys. Strangers are told of and sent away.
pub(crate) fn gather<'w>(
    place: &Place,
    stage: &Stage<'w>,
    plan: &Plan,
    standbys: usize,
) -> Result<Lines<'w>, LabError> {
    let socket = prepared(&Place { remote: place.local, ..place.clone() }, stage, true)?;
    (stage.watch)(&Event::Binding);
    place.ask.listen(&socket, place.local)?;
    let local = socket.local_addr().ok().and_then(|a| a.as_socket()).unwrap_or(place.local);
    (stage.watch)(&Event::Listening(local));
    let streams = usize::from(plan.streams);
    let mut lines: Vec<Vec<Option<(Channel<'w>, Hello)>>> = Vec::new();
    let (deadline, mut plan) = (Instant::now() + place.patience, *plan);
    let mut refusals = Refusals { watch: stage.watch, last: None };
    while lines.len() < standbys || lines.iter().flatten().any(Option::is_none) {
        let there = lines.iter().flatten().flatten().count();
        let Some((caller, peer)) = accept(&socket, stage, deadline)? else {
            let all = standbys * streams;
            let whom = format!("{there} of {all} connections arrived at {local}");
            return Err(LabError::Nobody { whom, limit: place.patience, last: String::new() });
        };
        if place.callers.as_ref().is_some_and(|known| !may_call(known, peer.ip())) {
            refusals.tell(peer, "not one of the --remote addresses");
            continue;
        }
        if there == 0 {
            let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            plan.began_ms = since_1970.unwrap_or_default().as_millis() as u64;
        }
        let welcomed = welcome(place, stage, (caller, peer), &plan, |hello| {
            let number = hello.run.wrapping_sub(plan.run);
            match hello.run {
                0 if lines.len() < standbys => Ok(lines.len()),
                _ => (usize::try_from(number).ok())
                    .filter(|n| {
                        lines.get(*n).is_some_and(|line| {
                            line.get(hello.stream as usize).is_some_and(Option::is_none)
                        })
                    })
                    .ok_or(WireError::OtherRun),
            }
        });
        match welcomed {
            Ok((standby, hello, channel, properties)) => {
                if there == 0 {
                    (stage.watch)(&Event::Connected(peer));
                    (stage.watch)(&Event::Ready(properties));
                }
                if standby == lines.len() {
                    lines.push((0..streams).map(|_| None).collect());
                }
                let stream = if hello.run == 0 { 0 } else { hello.stream as usize };
                lines[standby][stream] = Some((channel, hello));
            }
            Err(_) if stage.stopped() => return Err(LabError::Interrupted),
            Err(why) => refusals.tell(peer, &why.to_string()),
        }
    }
    let Plan { mode, flush, began_ms, .. } = plan;
    (stage.watch)(&Event::Terms { sent: true, mode, flush, began_ms });
    Ok(lines.into_iter().map(|line| line.into_iter().flatten().collect()).collect())
}

/// The next caller; none where nobody came in time.
fn accept(
    socket: &socket2::Socket,
    stage: &Stage<'_>,
    deadline: Instant,
) -> Result<Option<(socket2::Socket, SocketAddr)>, LabError> {
    loop {
        match socket.accept() {
            Ok((caller, address)) => match address.as_socket() {
                Some(peer) => return Ok(Some((caller, peer))),
                None => continue,
            },
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            // Somebody who hung up before he was heard.
            Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(why) => {
                return Err(LabError::system("accept a call", "look at the limits of this host")(
                    why,
                ));
            }
        }
        if stage.stopped() {
            return Err(LabError::Interrupted);
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        let _ =
            poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&crate::pause::timespec(SLICE)));
    }
}

/// Shakes hands with a caller: which standby it is, by `judge`.
fn welcome<'w>(
    place: &Place,
    stage: &Stage<'w>,
    caller: (socket2::Socket, SocketAddr),
    plan: &Plan,
    judge: impl FnOnce(&Hello) -> Result<usize, WireError>,
) -> Result<(usize, Hello, Channel<'w>, Properties), LabError> {
    let peer = caller.1;
    let (mut channel, properties) = connected(place, stage, caller)?;
    if let Some(keys) = &place.keys {
        let session = PeerTls::new(keys.own.clone()).accept(&keys.trusted, Purpose::Lab);
        channel.secure(session, HANDSHAKE, stage.stop)?;
    }
    let wrong = |why| LabError::WrongPeer { peer, why };
    let hello = Hello::decode(&channel.greeting(HANDSHAKE, stage.stop)?).map_err(wrong)?;
    let standby = judge(&hello).map_err(wrong)?;
    let run = plan.run.wrapping_add(standby as u64);
    channel.queue(&Plan { run, ..*plan }.encode());
    drain(&mut channel, stage)?;
    Ok((standby, hello, channel, properties))
}

/// Sends what is to be sent.
fn drain(channel: &mut Channel<'_>, stage: &Stage<'_>) -> Result<(), LabError> {
    let deadline = Instant::now() + HANDSHAKE;
    while !channel.push()? {
        if Instant::now() >= deadline || stage.stopped() {
            return Err(channel.stalled("shaking hands", HANDSHAKE));
        }
        wait_any(std::slice::from_ref(channel), true, SLICE);
    }
    Ok(())
}

/// Calls the primary until it answers: the first connection, or stream `stream` of the run `run`.
pub(crate) fn call<'w>(
    place: &Place,
    stage: &Stage<'w>,
    (run, stream): (u64, u32),
) -> Result<(Channel<'w>, Plan), LabError> {
    let deadline = Instant::now() + place.patience;
    let mut tell = run == 0;
    let (mut told, mut pause) = (String::new(), SLICE);
    loop {
        let why = match try_call(place, stage, (run, stream), tell) {
            Ok((channel, plan, properties)) => {
                if run == 0 {
                    (stage.watch)(&Event::Connected(place.remote));
                    (stage.watch)(&Event::Ready(properties));
                }
                return Ok((channel, plan));
            }
            // Nobody there yet; or, behind a relay, nobody behind it yet.
            Err(why @ (LabError::Lost { .. } | LabError::Stalled { .. })) => why,
            Err(why) => return Err(why),
        };
        tell = false;
        if stage.stopped() {
            return Err(LabError::Interrupted);
        }
        if Instant::now() >= deadline {
            let whom = format!("no primary responded at {}", place.remote);
            // The hint of the whole comes behind it.
            let why = why.to_string();
            let why = why.split("; hint: ").next().unwrap_or_default();
            let last = format!(" (the last attempt: {why})");
            return Err(LabError::Nobody { whom, limit: place.patience, last });
        }
        if matches!(why, LabError::Lost { doing: CONNECTING, .. }) {
            pause = SLICE;
        } else {
            let text = why.to_string();
            if told != text {
                (stage.watch)(&Event::Refused(format!(
                    "trying again until it accepts this end: {text}"
                )));
                told = text;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let next = (Instant::now() + pause).min(deadline);
        Waking::told(Duration::ZERO).until(next, || stage.stopped());
    }
}

fn try_call<'w>(
    place: &Place,
    stage: &Stage<'w>,
    (run, stream): (u64, u32),
    tell: bool,
) -> Result<(Channel<'w>, Plan, Properties), LabError> {
    let peer = place.remote;
    let socket = prepared(place, stage, tell)?;
    if place.bind {
        if tell {
            (stage.watch)(&Event::Binding);
        }
        // Any port: the one that is named may linger from the last run.
        let bound = socket.bind(&SocketAddr::new(place.local.ip(), 0).into());
        let doing = format!("bind to {}", place.local.ip());
        bound.map_err(LabError::system(doing, "an address of this host"))?;
    }
    if tell {
        (stage.watch)(&Event::Calling(peer));
    }
    let connect = socket.connect_timeout(&peer.into(), CALL);
    connect.map_err(|why| LabError::Lost { peer, doing: CONNECTING, why: why.to_string() })?;
    let (mut channel, properties) = connected(place, stage, (socket, peer))?;
    if let Some(keys) = &place.keys {
        let session = PeerTls::new(keys.own.clone()).dial(&keys.trusted, Purpose::Lab);
        channel.secure(session, HANDSHAKE, stage.stop)?;
    }
    let [send, receive] = place.ask.granted(&properties);
    channel.queue(&Hello { stream, run, send, receive }.encode());
    drain(&mut channel, stage)?;
    let wrong = |why| LabError::WrongPeer { peer, why };
    let plan = Plan::decode(&channel.greeting(HANDSHAKE, stage.stop)?).map_err(wrong)?;
    if run != 0 && plan.run != run {
        return Err(wrong(WireError::OtherRun));
    }
    Ok((channel, plan, properties))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::Mutex;

    /// Hears refusals.
    fn heard(into: &Mutex<Vec<String>>) -> impl Fn(&Event) + Sync {
        move |event| {
            if let Event::Refused(text) = event {
                into.lock().expect("nobody panicked").push(text.clone());
            }
        }
    }

    #[test]
    fn a_caller_is_told_of_once_for_each_reason() {
        let all = Mutex::new(Vec::new());
        let watch = heard(&all);
        let mut refusals = Refusals { watch: &watch, last: None };
        let from = |last, port| SocketAddr::from(([192, 0, 2, last], port));
        for port in 5000..5100 {
            let peer = from(1, port);
            refusals.tell(peer, &format!("{peer} is no other end"));
        }
        refusals.tell(from(2, 5000), "unknown");
        refusals.tell(from(2, 5001), "damaged");
        let all = all.lock().expect("nobody panicked");
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(all[0], "192.0.2.1:5000 was refused: 192.0.2.1:5000 is no other end");
    }

    #[test]
    fn an_address_is_known_in_both_its_forms() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("it is an address");
        assert!(may_call(&[ip("192.0.2.1")], ip("::ffff:192.0.2.1")));
        assert!(may_call(&[ip("::1"), ip("::ffff:192.0.2.1")], ip("192.0.2.1")));
        assert!(!may_call(&[ip("192.0.2.1")], ip("::ffff:192.0.2.2")));
        assert!(!may_call(&[], ip("::1")));
    }

    #[test]
    fn a_standby_that_is_sent_away_says_why_once_and_calls_again() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("its address");
        let patience = Duration::from_secs(600);
        let (callers, ask) = (None, Ask::default());
        let place =
            Place { local: at, remote: at, callers, bind: false, patience, ask, keys: None };
        let (all, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..4 {
                    let (mut caller, _) = listener.accept().expect("it calls again");
                    // Heard to the end, so that hanging up is all it notices.
                    caller.read_exact(&mut [0; crate::wire::GREETING]).expect("a hello");
                }
                stop.store(true, Ordering::Relaxed);
            });
            let watch = heard(&all);
            let stage = Stage { watch: &watch, stop: &stop, verbose: false };
            let why = call(&place, &stage, (0, 0)).err();
            assert!(matches!(why, Some(LabError::Interrupted)), "{why:?}");
        });
        let all = all.lock().expect("nobody panicked");
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("closed"), "{all:?}");
    }
}
