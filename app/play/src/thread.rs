// SPDX-License-Identifier: Apache-2.0
//! The thread that owns the pair, and paces its time; and the way to it.

use crate::pair::{Answer, Asked, Changed, Pair};
use crate::simulation::{Change, Simulation};
use helio_api::{ApiError, code};
use helio_units::Moment;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Time passes in slices of this length.
const SLICE: Duration = Duration::from_millis(20);
/// How much of a slice may be spent on it. If that is not enough, virtual time is slower.
const BUSY_MAX: Duration = Duration::from_millis(15);
/// Messages that wait for the thread.
const MESSAGES_MAX: usize = 256;
/// The reached speed is the mean of so much time.
const REACHED_OVER: Duration = Duration::from_secs(1);
/// Parts of the stream of events that wait for their receiver.
const EVENTS_MAX: usize = 256;

enum Message {
    Request(Asked),
    Look(oneshot::Sender<Simulation>),
    Events(usize, mpsc::Sender<Vec<u8>>),
    Change(Change, oneshot::Sender<Changed>),
    Watched(bool),
}

/// A simulated pair that runs in a thread of its own. The thread ends with the last handle.
#[derive(Clone, Debug)]
pub struct Play {
    messages: SyncSender<Message>,
}

impl Play {
    /// Starts a pair, which is in sync when this returns. Its time passes at speed 1 while it is watched, as it is at first.
    ///
    /// # Errors
    /// The thread cannot be started, or the pair did not begin.
    pub fn start(seed: u64) -> io::Result<Self> {
        let (messages, received) = sync_channel(MESSAGES_MAX);
        let (begun, begins) = sync_channel(1);
        Builder::new().name("helio-play".to_owned()).spawn(move || match Pair::new(seed, 1.0) {
            Ok(pair) => {
                // The caller waits for it.
                let _ = begun.send(Ok(()));
                run(pair, &received);
            }
            Err(why) => drop(begun.send(Err(io::Error::other(why)))),
        })?;
        let ended = |_| io::Error::other("the thread of the simulation ended");
        begins.recv().map_err(ended)??;
        Ok(Self { messages })
    }

    /// Sends a request to the daemon of a node. Returns the status and the body of its response.
    ///
    /// # Errors
    /// No daemon runs there, or the simulation does not respond.
    pub async fn request(&self, node: usize, method: &str, path: &str, body: Vec<u8>) -> Answer {
        check(node)?;
        let (reply, answer) = oneshot::channel();
        let request = (method.to_owned(), path.to_owned(), body);
        self.send(Message::Request(Asked::call(node, request, reply)))?;
        answer.await.map_err(|_| begun_again())?
    }

    /// The events of the daemon of a node, as its stream `GET /v2/events` has them: a row each. It goes on with those of each later daemon.
    ///
    /// # Errors
    /// There is no such node, or the simulation does not respond.
    pub fn events(&self, node: usize) -> Result<mpsc::Receiver<Vec<u8>>, ApiError> {
        check(node)?;
        let (events, received) = mpsc::channel(EVENTS_MAX);
        self.send(Message::Events(node, events))?;
        Ok(received)
    }

    /// The state of the simulation now.
    ///
    /// # Errors
    /// The simulation does not respond.
    pub async fn simulation(&self) -> Result<Simulation, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Look(reply))?;
        answer.await.map_err(|_| begun_again())
    }

    /// Carries out a change, and waits for its end. Returns a message, which is empty if the state of the simulation shows what was done.
    ///
    /// # Errors
    /// A value is out of range, the change does not fit the state of the pair, or a daemon refuses it.
    pub async fn change(&self, change: Change) -> Changed {
        change.check()?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Change(change, reply))?;
        answer.await.map_err(|_| begun_again())?
    }

    /// Lets time pass only while the pair is watched.
    ///
    /// # Errors
    /// The simulation does not respond.
    pub fn watched(&self, watched: bool) -> Result<(), ApiError> {
        self.send(Message::Watched(watched))
    }

    fn send(&self, message: Message) -> Result<(), ApiError> {
        self.messages.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => {
                let text = format!("{MESSAGES_MAX} requests to the simulation wait already");
                ApiError { retry: true, ..ApiError::new("busy", text, "wait a moment") }
            }
            TrySendError::Disconnected(_) => {
                let text = "the simulation has ended by a failure of its own";
                ApiError::new(code::INTERNAL, text, "start it again, and report this as a bug")
            }
        })
    }
}

fn check(node: usize) -> Result<(), ApiError> {
    if node < crate::NODES.len() {
        return Ok(());
    }
    let text = format!("there is no node number {node}");
    Err(ApiError::new(code::BAD_REQUEST, text, "the nodes are 0 and 1"))
}

/// The answer to a request that its pair did not live to give.
fn begun_again() -> ApiError {
    let text = "the simulation began again before the request was answered";
    ApiError { retry: true, ..ApiError::new("lost", text, "look at the new pair") }
}

/// Lets time pass, and takes messages between two slices, until nothing can send one.
fn run(mut pair: Pair, messages: &Receiver<Message>) {
    let mut watched = true;
    // The end of the last slice; none while time is paused.
    let mut last = Some(Instant::now());
    // Real and virtual time at the begin of the measurement of the reached speed.
    let mut measured = None;
    loop {
        let message = match last {
            Some(last) => {
                messages.recv_timeout((last + SLICE).saturating_duration_since(Instant::now()))
            }
            None => messages.recv().map_err(RecvTimeoutError::from),
        };
        match message {
            Ok(message) => take(&mut pair, &mut watched, message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if !watched || pair.speed == 0.0 {
            (last, measured, pair.reached) = (None, None, None);
            pair.answer();
            continue;
        }
        let now = Instant::now();
        let since = now.duration_since(*last.get_or_insert(now));
        if since >= SLICE {
            last = Some(now);
            // What a slice came too late for does not pass.
            pair.pass(since.min(2 * SLICE).mul_f64(pair.speed), || now.elapsed() < BUSY_MAX);
            measure(&mut pair, &mut measured);
        }
    }
}

/// Measures the reached speed. It begins again with a new pair and with another speed.
fn measure(pair: &mut Pair, began: &mut Option<(Instant, Moment, f64)>) {
    let (real, time, speed) = (Instant::now(), pair.world.now(), pair.speed);
    match began.filter(|(_, then, chosen)| *then <= time && *chosen == speed) {
        None => (*began, pair.reached) = (Some((real, time, speed)), None),
        Some((since, then, _)) if real - since >= REACHED_OVER => {
            pair.reached = Some((time - then).as_secs_f64() / (real - since).as_secs_f64());
            *began = Some((real, time, speed));
        }
        Some(_) => {}
    }
}

fn take(pair: &mut Pair, watched: &mut bool, message: Message) {
    match message {
        Message::Request(asked) => pair.ask(asked),
        Message::Look(reply) => pair.look(reply),
        Message::Events(node, events) => pair.nodes[node].follow(events),
        Message::Change(change, reply) => pair.change(&change, reply),
        Message::Watched(now) => *watched = now,
    }
}
