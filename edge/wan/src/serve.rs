// SPDX-License-Identifier: Apache-2.0
//! The relay's thread: obey, move what can be moved, sleep until something can again.

use crate::connection::{BACK, Connection, Side, THERE};
use crate::control::{Cut, Duty, Order, RelayStats, WayStats};
use crate::flow::Parcel;
use crate::lane::{LARGEST_CHUNK, Lane};
use crate::relay::RelayConfig;
use crate::socket;
use helio_netmodel::{Dice, Profile};
use helio_units::{Bytes, Items, Moment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long to leave callers waiting when the kernel has no descriptor for them.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a watched descriptor is.
#[derive(Clone, Copy)]
enum Token {
    Bell,
    Listener,
    Socket(usize, Side),
}

/// Everything the thread owns.
pub(crate) struct Server {
    listener: TcpListener,
    target: SocketAddr,
    lanes: [Lane; 2],
    connections: Vec<Connection>,
    cut: Option<Cut>,
    duty: Duty,
    accepted: Items,
    /// Callers wait, as far as is known.
    callers: bool,
    /// No accepting before then: the kernel had no descriptor left.
    accept_after: Moment,
    started: Instant,
    scratch: Vec<u8>,
}

impl Server {
    pub(crate) fn new(listener: TcpListener, config: RelayConfig, duty: Duty) -> Self {
        let dice = Dice::new(config.seed);
        let lanes = [
            Lane::new(config.there, dice.split("there")),
            Lane::new(config.back, dice.split("back")),
        ];
        Self {
            listener,
            target: config.target,
            lanes,
            connections: Vec::new(),
            cut: None,
            duty,
            accepted: Items(0),
            callers: true,
            accept_after: Moment::ZERO,
            started: Instant::now(),
            scratch: vec![0; LARGEST_CHUNK.0 as usize],
        }
    }

    /// Relays until told to stop.
    pub(crate) fn run(mut self) {
        // The kernel may wake a sleeper 50 µs late to save power, half of what a fast link takes. Where it does not
        // let us ask for less, the relay is that much less exact.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        loop {
            if self.obey().is_break() {
                return;
            }
            let now = self.now();
            self.accept(now);
            let moved = self.carries() && self.advance(now);
            self.duty.publish(self.stats());
            let wake = if moved { now } else { self.wakes_at(now) };
            if self.sleep(wake).is_err() {
                // Only a kernel without memory refuses to poll: close everything rather than spin.
                return;
            }
        }
    }

    fn now(&self) -> Moment {
        Moment::ZERO + self.started.elapsed()
    }

    /// Carries out every order given.
    fn obey(&mut self) -> ControlFlow<()> {
        while let Ok(told) = self.duty.orders.try_recv() {
            match told.order {
                Order::Profile(profiles) => self.set_profiles(*profiles),
                Order::Cut(cut) => self.set_cut(cut),
                Order::Stop => return ControlFlow::Break(()),
            }
            self.duty.publish(self.stats());
            // The caller may have given up waiting; the order stands all the same.
            let _ = told.done.send(());
        }
        ControlFlow::Continue(())
    }

    fn set_profiles(&mut self, profiles: [Profile; 2]) {
        let now = self.now();
        for (way, profile) in [THERE, BACK].into_iter().zip(profiles) {
            let mut parcels: Vec<&mut Parcel> =
                self.connections.iter_mut().flat_map(|c| c.parcels_mut(way)).collect();
            parcels.sort_by_key(|parcel| parcel.at);
            self.lanes[way].set_profile(profile, now, parcels);
        }
    }

    /// Something passes.
    const fn carries(&self) -> bool {
        matches!(self.cut, None | Some(Cut::After(_)))
    }

    /// Bytes that a connection carries in each direction.
    const fn most(&self) -> Bytes {
        match self.cut {
            Some(Cut::After(most)) => most,
            _ => Bytes(u64::MAX),
        }
    }

    fn set_cut(&mut self, cut: Option<Cut>) {
        self.cut = cut;
        let most = self.most();
        self.connections.iter_mut().for_each(|connection| connection.set_most(most));
        if cut == Some(Cut::Reset) {
            for connection in self.connections.drain(..) {
                connection.close(true);
            }
        }
    }

    /// Accepts every caller there is.
    fn accept(&mut self, now: Moment) {
        while self.callers && now >= self.accept_after {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.accepted.0 += 1;
                    if self.cut == Some(Cut::Reset) {
                        socket::reset_on_close(&stream);
                    } else if socket::adopt(&stream).is_ok() {
                        self.connections.push(Connection::new(stream, self.most()));
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.callers = false,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => self.accept_after = now + ACCEPT_PAUSE,
            }
        }
    }

    /// Moves everything one step, in both directions. True when something moved, so that more may.
    fn advance(&mut self, now: Moment) -> bool {
        let mut moved = false;
        for connection in &mut self.connections {
            moved |= connection.dial(&mut self.lanes[THERE], self.target, now);
        }
        for (way, lane) in self.lanes.iter_mut().enumerate() {
            // One chunk each and in turn: who was served last comes last, or the first connection would have a full
            // line to itself.
            let (count, first) = (self.connections.len(), lane.turn);
            for index in (0..count).map(|n| (first + n) % count) {
                if self.connections[index].take_in(way, lane, now, &mut self.scratch) {
                    lane.turn = index + 1;
                    moved = true;
                }
            }
            for connection in &mut self.connections {
                moved |= connection.hand_out(way, lane, now);
            }
        }
        for connection in self.connections.extract_if(.., |connection| connection.over()) {
            connection.close(false);
        }
        moved
    }

    fn wakes_at(&self, now: Moment) -> Moment {
        let accept = if self.callers { self.accept_after } else { Moment::NEVER };
        if !self.carries() {
            return accept;
        }
        self.connections.iter().map(|c| c.wakes_at(&self.lanes, now)).fold(accept, Moment::min)
    }

    /// Sleeps until `wake` or until a descriptor has something to say, and takes note of that.
    fn sleep(&mut self, wake: Moment) -> rustix::io::Result<()> {
        let mut tokens = vec![Token::Bell];
        let mut fds = vec![PollFd::new(&*self.duty.bell, PollFlags::IN)];
        if !self.callers {
            tokens.push(Token::Listener);
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        // A cut link watches no connection: what they have to say waits in their sockets.
        let connections = if self.carries() { &self.connections[..] } else { &[] };
        for (index, connection) in connections.iter().enumerate() {
            for (side, stream, wish) in connection.watched(&self.lanes) {
                tokens.push(Token::Socket(index, side));
                fds.push(PollFd::from_borrowed_fd(stream.as_fd(), wish));
            }
        }
        let span = wake.since(self.now());
        let timeout = (wake != Moment::NEVER).then(|| Timespec {
            // A moment is a count of nanoseconds in a u64, so its seconds fit.
            tv_sec: span.as_secs() as i64,
            tv_nsec: span.subsec_nanos().into(),
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(e),
        }
        let heard: Vec<(Token, PollFlags)> = tokens
            .into_iter()
            .zip(fds.iter().map(PollFd::revents))
            .filter(|(_, flags)| !flags.is_empty())
            .collect();
        for (token, flags) in heard {
            match token {
                Token::Bell => self.duty.silence(),
                Token::Listener => self.callers = true,
                Token::Socket(index, side) => self.connections[index].heard(side, flags),
            }
        }
        Ok(())
    }

    fn stats(&self) -> RelayStats {
        let way = |way: usize| WayStats {
            delivered: self.lanes[way].delivered,
            queued: self.connections.iter().fold(Bytes::ZERO, |sum, c| sum + c.held(way)),
        };
        RelayStats {
            there: way(THERE),
            back: way(BACK),
            connections: Items(self.connections.len() as u64),
            accepted: self.accepted,
            cut: self.cut,
        }
    }
}
