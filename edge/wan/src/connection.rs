// SPDX-License-Identifier: Apache-2.0
//! One connection through the relay: two sockets and a flow each way.

use crate::flow::{Ending, Flow, Handed, Parcel};
use crate::lane::Lane;
use crate::socket;
use helio_units::{Bytes, Moment};
use rustix::event::PollFlags;
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A direction, as an index: from the client to the target.
pub(crate) const THERE: usize = 0;
/// And from the target to the client.
pub(crate) const BACK: usize = 1;

/// One of the two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Target,
}

/// How far the call to the target has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Not yet on the line.
    Waits,
    /// On the line until then.
    Travels(Moment),
    /// The target's kernel was asked.
    Rings,
    /// Answered; or refused, which the flows know.
    Ended,
}

/// One connection.
pub(crate) struct Connection {
    client: TcpStream,
    target: Option<TcpStream>,
    call: Call,
    flows: [Flow; 2],
    /// A reset has arrived: both sides are to be told.
    reset: bool,
}

impl Connection {
    /// Each direction carries at most so many bytes.
    pub(crate) fn new(client: TcpStream, most: Bytes) -> Self {
        let flows = [Flow::new(most), Flow::new(most)];
        Self { client, target: None, call: Call::Waits, flows, reset: false }
    }

    /// Carries the call to the target: over the line first, then to its kernel. True when it got on.
    pub(crate) fn dial(&mut self, lane: &mut Lane, target: SocketAddr, now: Moment) -> bool {
        match self.call {
            Call::Waits => match lane.send(now, Bytes::ZERO) {
                Some(at) => self.call = Call::Travels(at),
                None => return false,
            },
            Call::Travels(at) if at <= now => match socket::dial(target) {
                Ok(stream) => {
                    self.target = Some(stream);
                    self.call = Call::Rings;
                }
                Err(_) => self.refused(),
            },
            _ => return false,
        }
        true
    }

    /// Takes at most one chunk in the direction `way` from its source.
    pub(crate) fn take_in(
        &mut self,
        way: usize,
        lane: &mut Lane,
        now: Moment,
        scratch: &mut [u8],
    ) -> bool {
        let source = if way == THERE { Some(&self.client) } else { self.target.as_ref() };
        // Refused calls have no target socket, but their end has to get on the line all the same; the flow does not
        // read any more, so any socket will do.
        let source = source.unwrap_or(&self.client);
        if way == BACK && self.call != Call::Ended {
            return false;
        }
        self.flows[way].take_in(source, lane, now, scratch)
    }

    /// Delivers what has arrived in the direction `way`. True when something moved.
    pub(crate) fn hand_out(&mut self, way: usize, lane: &mut Lane, now: Moment) -> bool {
        let sink = match (way, self.call, &self.target) {
            (BACK, _, _) => &self.client,
            (_, Call::Ended, Some(target)) => target,
            _ => return false,
        };
        match self.flows[way].hand_out(sink, now) {
            Handed::Nothing => return false,
            Handed::Some(n) => lane.delivered += n,
            // A socket that cannot be shut down is one whose reset is about to be read.
            Handed::End(Ending::Fin) => {
                let _ = sink.shutdown(Shutdown::Write);
            }
            Handed::End(Ending::Reset) => self.reset = true,
            Handed::Broken => {
                self.flows[way].abandon();
                self.flows[1 - way].source_is_gone();
            }
        }
        true
    }

    /// Whether the connection has come to its end; then it is to be [closed](Connection::close).
    pub(crate) fn over(&self) -> bool {
        self.reset || self.flows.iter().all(Flow::over)
    }

    /// Closes both sockets, with a reset where one has arrived or `reset` asks for it.
    pub(crate) fn close(self, reset: bool) {
        if reset || self.reset {
            for stream in [Some(&self.client), self.target.as_ref()].into_iter().flatten() {
                socket::reset_on_close(stream);
            }
        }
    }

    /// The sockets to watch and what for. A socket of which nothing is wanted is not watched at all: the kernel
    /// reports a hang-up whether asked or not, and a report nobody acts on would wake the relay for ever.
    pub(crate) fn watched<'a>(
        &'a self,
        lanes: &[Lane; 2],
    ) -> impl Iterator<Item = (Side, &'a TcpStream, PollFlags)> {
        let client = (Side::Client, &self.client, self.wish(THERE, BACK, lanes));
        let target = self.target.as_ref().map(|target| {
            let wish = match self.call {
                Call::Rings => PollFlags::OUT,
                _ => self.wish(BACK, THERE, lanes),
            };
            (Side::Target, target, wish)
        });
        [Some(client), target].into_iter().flatten().filter(|(_, _, wish)| !wish.is_empty())
    }

    /// Hears what the kernel reported of one socket.
    pub(crate) fn heard(&mut self, side: Side, flags: PollFlags) {
        if side == Side::Target && self.call == Call::Rings {
            let answer = self.target.as_ref().map(TcpStream::take_error);
            match answer {
                Some(Ok(None)) => self.call = Call::Ended,
                _ => self.refused(),
            }
            return;
        }
        let (from, to) = if side == Side::Client { (THERE, BACK) } else { (BACK, THERE) };
        let broken = flags.intersects(PollFlags::ERR | PollFlags::HUP);
        if broken || flags.contains(PollFlags::IN) {
            self.flows[from].readable = true;
        }
        if broken || flags.contains(PollFlags::OUT) {
            self.flows[to].blocked = false;
        }
    }

    /// When time alone lets it move on.
    pub(crate) fn wakes_at(&self, lanes: &[Lane; 2], now: Moment) -> Moment {
        let [there, back] = &self.flows;
        let enters = there.enters_at(&lanes[THERE], now);
        match self.call {
            Call::Waits => lanes[THERE].signal_at(now),
            Call::Travels(at) => at.min(enters),
            Call::Rings => enters,
            Call::Ended => {
                let back = back.enters_at(&lanes[BACK], now).min(back.arrives_at());
                enters.min(there.arrives_at()).min(back)
            }
        }
    }

    /// Each direction carries at most so many bytes, with those that it carried.
    pub(crate) fn set_most(&mut self, most: Bytes) {
        self.flows.iter_mut().for_each(|flow| flow.set_most(most));
    }

    /// What it holds in the direction `way`.
    pub(crate) fn held(&self, way: usize) -> Bytes {
        self.flows[way].held()
    }

    /// What it has on the line in the direction `way`.
    pub(crate) fn parcels_mut(&mut self, way: usize) -> impl Iterator<Item = &mut Parcel> {
        self.flows[way].parcels_mut()
    }

    fn refused(&mut self) {
        self.call = Call::Ended;
        self.flows[THERE].abandon();
        self.flows[BACK].source_refused();
    }

    /// What the socket between the flow `from` it and the flow `to` it is wanted for.
    fn wish(&self, from: usize, to: usize, lanes: &[Lane; 2]) -> PollFlags {
        let mut wish = PollFlags::empty();
        wish.set(
            PollFlags::IN,
            self.flows[from].hungry(&lanes[from]) && !self.flows[from].readable,
        );
        wish.set(PollFlags::OUT, self.flows[to].waits_for_sink());
        wish
    }
}
