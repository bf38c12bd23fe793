// SPDX-License-Identifier: Apache-2.0
//! One way of the connection: what the sender's socket takes, what the window lets go, and when it arrives.
//!
//! ```text
//!   send ─> backlog ─(less than the low-water mark unsent: took)─> unsent ─(window, line)─> flight ─> arrives
//! ```

use super::course::Course;
use core::time::Duration;
use helio_format::message::Message;
use helio_netmodel::{Dice, Direction, DropReason, Ppm, Profile, Verdict};
use helio_units::{Bytes, Moment, Rate};
use std::collections::VecDeque;

/// Bytes a socket holds unsent before it is not writable: what the daemon asks of the kernel (`edge/link`).
const NOT_SENT: u64 = 256 << 10;
/// The most that goes out at once: what segmentation offload takes.
const CHUNK: u64 = 64 << 10;
/// Payload of a segment, and the headers of TCP and IP with timestamps, for an MTU of 1500.
const SEGMENT: u64 = 1448;
const HEADERS: u64 = 52;
/// The first window of a connection, in segments (RFC 6928).
const FIRST_WINDOW: u64 = 10;
/// Before a segment is sent again for want of an answer (Linux's least); doubled each time, up to the longest.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
const AGAIN_LONGEST: Duration = Duration::from_secs(120);
/// What is left of the window after a loss (CUBIC's factor, RFC 9438).
const AFTER_LOSS: (u64, u64) = (7, 10);

/// How bytes get from one node to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// From the primary to its peer.
    pub forth: Profile,
    /// From the peer to the primary.
    pub back: Profile,
    /// What repairs loss, and bounds what is unacknowledged.
    pub transport: Transport,
    /// What becomes of it; none stays as it is.
    pub course: Option<Course>,
}

/// What repairs loss, and bounds what is unacknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The kernels' TCP, from end to end: slow start, one window at most, loss repaired after a round trip or more.
    Tcp {
        /// The most that is unacknowledged; what the smaller of the two buffers allows.
        window: Bytes,
    },
    /// A relay that ends TCP on both sides, as `helio lab relay` does: no window, no loss, no headers.
    Relay,
}

#[derive(Debug)]
struct Parcel {
    message: Message,
    size: u64,
    /// What of it has not left yet.
    left: u64,
}

#[derive(Debug)]
struct Flying {
    at: Moment,
    bytes: u64,
    /// A message, whole with these bytes.
    whole: Option<Message>,
}

/// One way.
#[derive(Debug)]
pub(super) struct Way {
    direction: Direction,
    transport: Transport,
    loss: Ppm,
    /// How long an acknowledgement takes back.
    echo: Duration,
    backlog: VecDeque<Parcel>,
    unsent: VecDeque<Parcel>,
    unsent_bytes: u64,
    flight: VecDeque<Flying>,
    acks: VecDeque<(Moment, u64)>,
    in_flight: u64,
    /// What may be in flight by congestion control.
    window: u64,
    threshold: u64,
    /// No second loss shrinks the window before.
    recovered: Moment,
    last_sent: Moment,
    last_arrival: Moment,
    /// The line takes nothing before.
    resume: Moment,
    tries: u32,
    dice: Dice,
    /// Bytes of messages that left, over all connections; headers are not in them.
    pub(super) carried: Bytes,
}

impl Way {
    pub(super) fn new(there: &Profile, back: &Profile, transport: Transport, dice: Dice) -> Self {
        let mut way = Self {
            direction: Direction::new(Profile::ideal()),
            transport,
            loss: there.loss,
            echo: back.delay,
            backlog: VecDeque::new(),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            flight: VecDeque::new(),
            acks: VecDeque::new(),
            in_flight: 0,
            window: FIRST_WINDOW * SEGMENT,
            threshold: u64::MAX,
            recovered: Moment::ZERO,
            last_sent: Moment::ZERO,
            last_arrival: Moment::ZERO,
            resume: Moment::ZERO,
            tries: 0,
            dice,
            carried: Bytes::ZERO,
        };
        way.set_profile(there, back.delay, Moment::ZERO);
        way
    }

    /// Gives the line another profile. Loss is rolled here, by segments, and not by the line. What is under way arrives as
    /// the new line says or as was promised, whichever is earlier, as in the relay and the emulator.
    pub(super) fn set_profile(&mut self, profile: &Profile, echo: Duration, now: Moment) {
        (self.loss, self.echo) = (profile.loss, echo);
        let line = Profile { loss: Ppm::NONE, ..profile.clone() };
        let was = self.direction.profile();
        if (was.delay, was.jitter, was.rate, was.queue)
            == (line.delay, line.jitter, line.rate, line.queue)
        {
            self.direction.set_profile(line);
            return;
        }
        let transport = self.transport;
        let promised = self.flight.iter_mut().map(|flying| {
            let bytes = flying.bytes + headers(transport, flying.bytes);
            (&mut flying.at, Bytes(bytes))
        });
        self.direction = Direction::changed(line, now, &mut self.dice, promised);
        self.last_arrival = self.flight.back().map_or(self.last_arrival, |last| last.at);
        // Who waits for room sees the line as it is now; TCP that met silence tries again when its own time has come.
        if self.resume > self.last_sent && (self.tries == 0 || transport == Transport::Relay) {
            let soon = now.max(self.last_sent + Duration::from_nanos(1));
            self.resume = self.resume.min(soon);
        }
    }

    /// A new connection: nothing of the one before arrives any more.
    pub(super) fn reset(&mut self) {
        self.backlog.clear();
        self.unsent.clear();
        self.flight.clear();
        self.acks.clear();
        (self.unsent_bytes, self.in_flight, self.tries) = (0, 0, 0);
        (self.window, self.threshold) = (FIRST_WINDOW * SEGMENT, u64::MAX);
        self.resume = Moment::ZERO;
    }

    /// Whether anything gets through at that moment.
    pub(super) fn is_up(&self, now: Moment) -> bool {
        self.up_at(now) == now
    }

    /// From when on anything gets through.
    pub(super) fn up_at(&self, now: Moment) -> Moment {
        self.direction.profile().next_up(now)
    }

    /// From here to there, without waiting.
    pub(super) fn delay(&self) -> Duration {
        self.direction.profile().delay
    }

    /// What the kernel would tell of the connection: the smoothed round trip, and the rate of delivery.
    pub(super) fn measured(&self, now: Moment) -> (Duration, Rate) {
        let line = self.direction.profile().rate;
        let waits = line.map_or(Duration::ZERO, |rate| rate.time_for(self.direction.waiting(now)));
        let round_trip = self.delay() + self.echo + waits;
        let by_window = match self.transport {
            Transport::Relay => None,
            Transport::Tcp { window } => per_second(window.0.min(self.window), round_trip),
        };
        let rate = [line, by_window].into_iter().flatten().min();
        (round_trip, rate.unwrap_or(Rate(u64::from(u32::MAX))))
    }

    pub(super) fn send(&mut self, message: Message, size: u64) {
        self.backlog.push_back(Parcel { message, size, left: size });
    }

    /// Nothing waits for the socket.
    pub(super) fn is_idle(&self) -> bool {
        self.backlog.is_empty()
    }

    /// When something arrives there.
    pub(super) fn next_arrival(&self) -> Moment {
        self.flight.front().map_or(Moment::NEVER, |flying| flying.at)
    }

    /// When what waits may go on.
    pub(super) fn next_pump(&self) -> Moment {
        if self.unsent.is_empty() {
            return Moment::NEVER;
        }
        let window = self.acks.front().map_or(Moment::NEVER, |(at, _)| *at);
        if self.resume > self.last_sent { self.resume.min(window) } else { window }
    }

    /// What arrives first; its bytes are acknowledged unless `unread`.
    pub(super) fn arrive(&mut self, unread: bool) -> Option<(Option<Message>, u64)> {
        let Flying { at, bytes, whole } = self.flight.pop_front()?;
        if !unread {
            self.was_read(at, bytes);
        }
        Some((whole, bytes))
    }

    /// The receiving process has read bytes.
    pub(super) fn was_read(&mut self, now: Moment, bytes: u64) {
        if self.transport != Transport::Relay {
            self.acks.push_back((now + self.echo, bytes));
        }
    }

    /// Lets the socket and the line take what they have room for. Returns what the socket took.
    pub(super) fn pump(&mut self, now: Moment) -> u64 {
        // A turn sends when it ends; what falls due meanwhile leaves behind it.
        let now = now.max(self.last_sent);
        self.hear(now);
        let mut took = 0;
        loop {
            while self.unsent_bytes < NOT_SENT
                && let Some(parcel) = self.backlog.pop_front()
            {
                took += parcel.size;
                self.unsent_bytes += parcel.size;
                self.unsent.push_back(parcel);
            }
            if !self.transmit(now) {
                return took;
            }
        }
    }

    /// Acknowledgements that have come by now.
    fn hear(&mut self, now: Moment) {
        while let Some((_, bytes)) = self.acks.pop_front_if(|(at, _)| *at <= now) {
            let limited = self.window < 2 * self.in_flight;
            self.in_flight = self.in_flight.saturating_sub(bytes);
            if limited && self.window < self.threshold {
                self.window += bytes;
            } else if limited {
                // A segment per window, as Reno: slower than CUBIC on long lines.
                self.window += SEGMENT * bytes / self.window.max(1);
            }
        }
    }

    /// What may leave of what is first in the socket, if anything.
    fn chunk(&mut self, now: Moment) -> Option<u64> {
        let left = self.unsent.front()?.left.min(CHUNK);
        let Transport::Tcp { window } = self.transport else { return Some(left) };
        let again = self.delay() + self.echo + AGAIN_AFTER;
        if self.in_flight == 0 && now - self.last_sent > again {
            // A sender that was quiet begins anew, halved for every time-out that passed.
            let halved = ((now - self.last_sent).as_nanos() / again.as_nanos()).min(63);
            self.window = (self.window >> halved).max(FIRST_WINDOW * SEGMENT);
        }
        let room = self.window.min(window.0).saturating_sub(self.in_flight);
        let chunk = left.min(room);
        (chunk >= left.min(SEGMENT) || self.in_flight == 0).then_some(chunk.max(1))
    }

    /// Puts a chunk on the line. Returns whether there was one and it went.
    fn transmit(&mut self, now: Moment) -> bool {
        if now < self.resume {
            return false;
        }
        let Some(chunk) = self.chunk(now) else { return false };
        let segments = chunk.div_ceil(SEGMENT);
        let size = Bytes(chunk + headers(self.transport, chunk));
        let at = match self.direction.offer(now, size, &mut self.dice) {
            Verdict::Deliver { at } => at,
            Verdict::Drop(DropReason::Down) => {
                self.resume = self.after_silence(now);
                return false;
            }
            Verdict::Drop(_) => {
                self.resume = self.direction.room_at(now, size);
                return false;
            }
        };
        self.tries = 0;
        let at = at + self.repair(now, segments);
        self.last_arrival = self.last_arrival.max(at);
        self.last_sent = now;
        self.carried += Bytes(chunk);
        self.unsent_bytes -= chunk;
        if self.transport != Transport::Relay {
            self.in_flight += chunk;
        }
        let whole = match self.unsent.front_mut() {
            Some(parcel) if parcel.left > chunk => {
                parcel.left -= chunk;
                None
            }
            _ => self.unsent.pop_front().map(|parcel| parcel.message),
        };
        self.flight.push_back(Flying { at: self.last_arrival, bytes: chunk, whole });
        true
    }

    /// When a sender tries again whose line is silent: a relay knows when it is back, TCP waits ever longer.
    fn after_silence(&mut self, now: Moment) -> Moment {
        if self.transport == Transport::Relay {
            return self.direction.profile().next_up(now);
        }
        let pause = (AGAIN_AFTER + self.delay() + self.echo) * (1 << self.tries.min(10));
        self.tries += 1;
        now + pause.min(AGAIN_LONGEST)
    }

    /// How much later a chunk arrives because segments of it were lost, each time it is sent: a round trip where what
    /// follows tells the sender, two (its probe) where nothing does.
    fn repair(&mut self, now: Moment, segments: u64) -> Duration {
        let Transport::Tcp { .. } = self.transport else { return Duration::ZERO };
        let round_trip = self.delay() + self.echo;
        let mut wait = Duration::ZERO;
        let mut left = segments;
        while self.loss > Ppm::NONE && left > 0 {
            let rolls = (0..left).filter(|_| self.dice.chance(self.loss.0.into(), 1_000_000));
            left = rolls.count() as u64;
            if left == 0 {
                break;
            }
            let told = segments > 3 || self.unsent_bytes > 3 * SEGMENT;
            wait += if told { round_trip } else { round_trip * 2 };
            if now >= self.recovered {
                self.window = (self.window * AFTER_LOSS.0 / AFTER_LOSS.1).max(2 * SEGMENT);
                self.threshold = self.window;
                self.recovered = now + round_trip;
            }
            if wait > AGAIN_LONGEST {
                break;
            }
        }
        wait
    }
}

/// What TCP adds to a chunk; a relay's line carries bytes alone.
fn headers(transport: Transport, chunk: u64) -> u64 {
    if transport == Transport::Relay { 0 } else { chunk.div_ceil(SEGMENT) * HEADERS }
}

fn per_second(window: u64, round_trip: Duration) -> Option<Rate> {
    let nanos = round_trip.as_nanos();
    (nanos > 0).then(|| Rate((u128::from(window) * 1_000_000_000 / nanos) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::message::Ack;

    fn way(rate: Option<Rate>, transport: Transport) -> Way {
        let line = Profile { delay: Duration::from_millis(10), rate, ..Profile::ideal() };
        Way::new(&line, &line, transport, Dice::new(3))
    }

    /// How long `count` messages of `size` bytes take.
    fn carry(way: &mut Way, count: u64, size: u64) -> Duration {
        for _ in 0..count {
            way.send(Message::Ack(Ack::default()), size);
        }
        let (mut now, mut arrived) = (Moment::ZERO, 0);
        way.pump(now);
        while arrived < count {
            now = way.next_arrival().min(way.next_pump());
            assert_ne!(now, Moment::NEVER, "{arrived} of {count} arrived");
            while way.next_arrival() <= now {
                arrived += u64::from(way.arrive(false).is_some_and(|(whole, _)| whole.is_some()));
            }
            way.pump(now);
        }
        assert_eq!(way.carried, Bytes(count * size), "bytes in are bytes through");
        now.since(Moment::ZERO)
    }

    #[test]
    fn a_window_lets_one_window_through_per_round_trip() {
        let window = Bytes::kib(256);
        let mut way = way(None, Transport::Tcp { window });
        let (small, large) = (carry(&mut way, 1, 1), Duration::from_millis(20));
        assert_eq!(small, Duration::from_millis(10));
        // 64 MiB are 256 windows; slow start costs a few round trips at the beginning.
        let took = carry(&mut way_of(window), 1024, 64 << 10);
        let ideal = large * 256;
        assert!(took >= ideal - large && took < ideal + large * 8, "{took:?} against {ideal:?}");
    }

    fn way_of(window: Bytes) -> Way {
        way(None, Transport::Tcp { window })
    }

    #[test]
    fn a_relay_fills_the_line_whatever_the_round_trip() {
        let rate = Rate(1_000_000);
        let took = carry(&mut way(Some(rate), Transport::Relay), 100, 100_000);
        let ideal = Duration::from_secs(10) + Duration::from_millis(10);
        assert!(took.abs_diff(ideal) < Duration::from_millis(1), "{took:?}");
    }

    #[test]
    fn what_a_slow_moment_promised_does_not_outlast_it() {
        for transport in [Transport::Relay, Transport::Tcp { window: Bytes::mib(4) }] {
            let mut way = way(Some(Rate(1000)), transport);
            for _ in 0..400 {
                way.send(Message::Ack(Ack::default()), 4096);
            }
            way.pump(Moment::ZERO);
            let second = Moment::ZERO + Duration::from_secs(1);
            assert!(way.next_arrival() > second, "1000 bytes a second");
            let fast = Profile { rate: Some(Rate::mbit(100)), ..way.direction.profile().clone() };
            way.set_profile(&fast, fast.delay, second);
            let (mut now, mut arrived) = (second, 0);
            while arrived < 400 {
                way.pump(now);
                now = way.next_arrival().min(way.next_pump()).max(now);
                assert_ne!(now, Moment::NEVER, "{transport:?}: {arrived} arrived");
                while way.next_arrival() <= now {
                    arrived += u32::from(way.arrive(false).is_some_and(|(m, _)| m.is_some()));
                }
            }
            let took = now.since(second);
            assert!(took < Duration::from_secs(1), "{transport:?}: {took:?} for 1.6 MB");
        }
    }

    #[test]
    fn loss_makes_it_slower_and_loses_nothing() {
        let transport = Transport::Tcp { window: Bytes::mib(4) };
        let clean = carry(&mut way(Some(Rate::mbit(100)), transport), 300, 40_000);
        let mut lossy = way(Some(Rate::mbit(100)), transport);
        lossy.loss = Ppm(10_000);
        let took = carry(&mut lossy, 300, 40_000);
        assert!(took > clean * 2, "{took:?} against {clean:?}");
    }
}
