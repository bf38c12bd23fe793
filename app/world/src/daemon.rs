// SPDX-License-Identifier: Apache-2.0
//! One run of the daemon on a simulated machine: its shard, and its control plane in a runtime whose clock is the world's.

use crate::{Held, Process, SimDriver};
use helio_daemon::Options;
use helio_daemon::stepped::{Census, Control, Next, Serving, Stepped};
use helio_driver::Driver;
use helio_units::Moment;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};

/// How often the control plane runs while it has something to answer, and while it has not.
const BUSY: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_millis(50);
/// How often its tasks may wake each other before it waits for the next time.
const ROUNDS: usize = 24;
const SECOND: Duration = Duration::from_secs(1);
/// A shard that goes on so often within a second of virtual time does not wait for anything.
const TURNS_MAX: u32 = 1_000_000;
/// The same without time that passes.
const SPINS_MAX: u32 = 20_000;

/// A response of the control plane.
#[derive(Clone, Debug)]
pub struct Response {
    /// Names the request.
    request: u64,
    /// The status of HTTP; 0 if there is none.
    status: u16,
    body: Vec<u8>,
}

impl Response {
    /// The number of the request.
    #[must_use]
    pub const fn request(&self) -> u64 {
        self.request
    }

    /// The status of HTTP; 0 if there is no response that can be read.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

/// How far the daemon is.
enum Stage {
    Serving(Box<Stepped<SimDriver>>),
    /// The shard ended, with this error if not cleanly; what is left is written.
    Closing(Arc<AtomicBool>, Option<String>),
    Ended(Option<String>),
}

/// A runtime whose time stands still, for the control plane of one run of a daemon. It reads a real clock once, when it is made.
#[derive(Debug)]
pub struct PausedRuntime {
    runtime: Runtime,
    around: fn(&mut dyn FnMut()),
}

impl PausedRuntime {
    /// Makes one.
    ///
    /// # Errors
    /// The runtime cannot be made.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build()?;
        Ok(Self { runtime, around: |tasks| tasks() })
    }

    /// Each time that its tasks run, `around` is called, and runs them.
    #[must_use]
    pub fn around(self, around: fn(&mut dyn FnMut())) -> Self {
        Self { around, ..self }
    }
}

/// How often a shard went on: since a moment.
struct Turns {
    without_time: (Moment, u32),
    in_a_second: (Moment, u32),
}

impl Turns {
    /// Counts one.
    ///
    /// # Errors
    /// They are too many: the shard waits for nothing.
    fn count(&mut self, now: Moment) -> Result<(), String> {
        let Self { without_time, in_a_second } = self;
        if without_time.0 == now {
            without_time.1 += 1;
        } else {
            *without_time = (now, 0);
        }
        if now >= in_a_second.0 + SECOND {
            *in_a_second = (now, 0);
        }
        in_a_second.1 += 1;
        let detail = if in_a_second.1 > TURNS_MAX {
            format!("the shard went on {TURNS_MAX} times in a second")
        } else if without_time.1 > SPINS_MAX {
            format!("the shard went on {SPINS_MAX} times while no time passed")
        } else {
            return Ok(());
        };
        Err(detail)
    }
}

/// The daemon of the product in one process of a simulated machine. Its owner steps it.
pub struct SimDaemon {
    process: Process,
    // Dropped before the runtime, which its tasks live in.
    stage: Stage,
    control: Control,
    responses: Arc<Mutex<Vec<Response>>>,
    open_requests: u64,
    runtime: Runtime,
    around: fn(&mut dyn FnMut()),
    /// The time of the runtime.
    polled: Moment,
    /// When the shard goes on if nothing completes.
    due: Moment,
    turns: Turns,
    /// How it serves groups since its last turn, as far as that was computed.
    serving: BTreeMap<String, Option<Serving>>,
    /// What a second signal is sent with, once a first one came.
    again: Option<Arc<Notify>>,
    /// When the operations on files began that had not ended when the shard did.
    left: Vec<Moment>,
}

impl SimDaemon {
    /// Starts it, as `helio daemon` does.
    ///
    /// # Errors
    /// Why it does not serve.
    pub fn start(
        process: Process,
        options: &Options,
        runtime: PausedRuntime,
        now: Moment,
    ) -> Result<Self, String> {
        let PausedRuntime { runtime, around } = runtime;
        let entered = runtime.enter();
        let stepped = Stepped::start(options, &process.platform(), process.driver());
        drop(entered);
        let stepped = match stepped {
            Ok(stepped) => stepped,
            Err(error) => {
                process.kill();
                return Err(format!("{error:#}"));
            }
        };
        Ok(Self {
            control: stepped.control(),
            stage: Stage::Serving(Box::new(stepped)),
            process,
            responses: Arc::default(),
            open_requests: 0,
            runtime,
            around,
            polled: now,
            due: now,
            turns: Turns { without_time: (now, 0), in_a_second: (now, 0) },
            serving: BTreeMap::new(),
            again: None,
            left: Vec::new(),
        })
    }

    /// Sends a request to the control plane.
    pub fn request(&mut self, request: u64, method: &str, path: String, body: Vec<u8>) {
        let (control, responses) = (self.control.clone(), Arc::clone(&self.responses));
        let method = method.to_owned();
        self.open_requests += 1;
        self.runtime.spawn(async move {
            let response = match control.request(&method, &path, body).await {
                Ok((status, body)) => Response { request, status, body },
                Err(error) => Response { request, status: 0, body: error.to_string().into_bytes() },
            };
            responses.lock().unwrap_or_else(PoisonError::into_inner).push(response);
        });
    }

    /// Sends the parts of a response on as they come, of the stream of events for example, until the receiver or the daemon is gone.
    pub fn stream(&self, path: String, parts: mpsc::Sender<Vec<u8>>) {
        let control = self.control.clone();
        self.runtime.spawn(async move { control.stream(&path, parts).await });
    }

    /// What SIGTERM does, the first time.
    pub fn stop(&mut self) {
        if self.again.is_none() {
            let (control, again) = (self.control.clone(), Arc::new(Notify::new()));
            self.again = Some(Arc::clone(&again));
            self.runtime.spawn(async move { control.stop(again.notified()).await });
        }
    }

    /// What SIGTERM does, once it stops.
    pub fn insist(&self) {
        if let Some(again) = &self.again {
            again.notify_one();
        }
    }

    /// What its shard holds, while it serves.
    pub fn census(&self) -> Option<Census> {
        match &self.stage {
            Stage::Serving(stepped) => Some(stepped.census()),
            Stage::Closing(..) | Stage::Ended(_) => None,
        }
    }

    /// How many tasks its control plane has.
    pub fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }

    /// Responses since the last call.
    pub fn responses(&mut self) -> Vec<Response> {
        let all =
            std::mem::take(&mut *self.responses.lock().unwrap_or_else(PoisonError::into_inner));
        self.open_requests -= all.len() as u64;
        all
    }

    /// Whether it has ended, and with which error if it did not end cleanly.
    pub const fn ended(&self) -> Option<&Option<String>> {
        match &self.stage {
            Stage::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Whether it stops.
    pub const fn is_stopping(&self) -> bool {
        self.again.is_some()
    }

    /// How it serves a group as primary now; none if it does not. Only a turn of its shard changes that.
    pub fn serving(&mut self, group: &str) -> Option<Serving> {
        let Stage::Serving(stepped) = &self.stage else { return None };
        if let Some(known) = self.serving.get(group) {
            return *known;
        }
        let serving = stepped.serving(group);
        self.serving.insert(group.to_owned(), serving);
        serving
    }

    /// Whether it is primary for a group now.
    pub fn is_primary(&self, group: &str) -> bool {
        matches!(&self.stage, Stage::Serving(stepped) if stepped.is_primary(group))
    }

    /// Its process.
    pub const fn process(&self) -> &Process {
        &self.process
    }

    /// It is gone. Returns what its process still has open, and when the operations on files began that had not ended when its shard did.
    pub fn bury(self) -> (Held, Vec<Moment>) {
        let Self { process, stage, control, runtime, left, .. } = self;
        drop((stage, control, runtime));
        (process.held(), left)
    }

    /// Goes on as far as it can now. Returns whether it did anything.
    ///
    /// # Errors
    /// It went on for ever.
    pub fn step(&mut self, now: Moment) -> Result<bool, String> {
        let mut did = false;
        if let Stage::Serving(stepped) = &mut self.stage {
            while stepped.driver().is_ready() || now >= self.due {
                did = true;
                self.turns.count(now)?;
                self.serving.clear();
                let mut completions = Vec::new();
                let waited = stepped.driver().wait(Some(Duration::ZERO), &mut completions);
                waited.map_err(|error| error.to_string())?;
                match self.process.on_shard(|| stepped.turn(&mut completions)) {
                    Next::Waits(timeout) => {
                        self.due = timeout.map_or(Moment::NEVER, |timeout| now + timeout);
                    }
                    Next::Ended(result) => {
                        self.left = stepped.driver().files_under_way();
                        self.close(result.err().map(|error| format!("{error:#}")));
                        break;
                    }
                }
            }
        }
        let every = if self.open_requests > 0 || self.is_stopping() { BUSY } else { IDLE };
        if now >= self.polled + every {
            did = true;
            self.poll(now);
        }
        if let Stage::Closing(closed, error) = &mut self.stage
            && closed.load(SeqCst)
        {
            self.stage = Stage::Ended(error.take());
            did = true;
        }
        Ok(did)
    }

    /// As [`SimDaemon::step`], and the control plane runs although its time has not come: requests that need no time are answered.
    ///
    /// # Errors
    /// It went on for ever.
    pub fn settle(&mut self, now: Moment) -> Result<bool, String> {
        self.poll(now);
        self.step(now)
    }

    /// When it goes on by itself.
    pub fn next(&self) -> Moment {
        if matches!(self.stage, Stage::Ended(_)) {
            return Moment::NEVER;
        }
        let every = if self.open_requests > 0 || self.is_stopping() { BUSY } else { IDLE };
        self.due.min(self.polled + every)
    }

    fn close(&mut self, error: Option<String>) {
        let (control, closed) = (self.control.clone(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&closed);
        self.runtime.spawn(async move {
            control.close().await;
            told.store(true, SeqCst);
        });
        self.stage = Stage::Closing(closed, error);
        self.due = Moment::NEVER;
    }

    fn poll(&mut self, now: Moment) {
        let behind = now.since(self.polled);
        self.polled = now;
        (self.around)(&mut || {
            self.runtime.block_on(async {
                tokio::time::advance(behind).await;
                for _ in 0..ROUNDS {
                    tokio::task::yield_now().await;
                }
            });
        });
    }
}
