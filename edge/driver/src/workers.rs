// SPDX-License-Identifier: Apache-2.0
//! The threads on which operations on files block.

use crate::file::Job;
use crate::op::{Completion, Token};
use crate::signal::Signal;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A fixed set of threads, the queue before them and the list behind them.
pub(crate) struct Workers {
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

struct Desk {
    todo: Mutex<Todo>,
    bell: Condvar,
    done: Mutex<Vec<Completion>>,
    /// Whether `done` holds anything, so that the reactor takes the lock only where it pays.
    any_done: AtomicBool,
    signal: Arc<Signal>,
}

struct Todo {
    jobs: VecDeque<(Token, Job)>,
    /// Threads that wait and have not been called.
    idle: usize,
    closing: bool,
}

impl Workers {
    /// Starts `count` threads (at least one). They inherit the caller's CPU affinity.
    pub(crate) fn start(count: usize, signal: &Arc<Signal>) -> io::Result<Self> {
        let desk = Arc::new(Desk {
            todo: Mutex::new(Todo { jobs: VecDeque::new(), idle: 0, closing: false }),
            bell: Condvar::new(),
            done: Mutex::default(),
            any_done: AtomicBool::new(false),
            signal: Arc::clone(signal),
        });
        let mut workers = Self { desk, threads: Vec::new() };
        for index in 0..count.max(1) {
            let desk = Arc::clone(&workers.desk);
            let thread = thread::Builder::new().name(format!("helio-io-{index}"));
            workers.threads.push(thread.spawn(move || desk.serve())?);
        }
        Ok(workers)
    }

    /// Queues a job and calls a thread where one is free: a busy one looks at the queue before it rests.
    pub(crate) fn submit(&self, token: Token, job: Job) {
        let mut todo = lock(&self.desk.todo);
        todo.jobs.push_back((token, job));
        let call = todo.idle > 0;
        if call {
            todo.idle -= 1;
        }
        drop(todo);
        if call {
            self.desk.bell.notify_one();
        }
    }

    /// Whether some job has ended and waits to be collected.
    pub(crate) fn any_done(&self) -> bool {
        self.desk.any_done.load(SeqCst)
    }

    /// Moves the completions of ended jobs to `out`.
    pub(crate) fn collect(&self, out: &mut Vec<Completion>) {
        if self.any_done() {
            let mut done = lock(&self.desk.done);
            out.append(&mut done);
            self.desk.any_done.store(false, SeqCst);
        }
    }
}

impl Desk {
    fn serve(&self) {
        let mut todo = lock(&self.todo);
        while !todo.closing {
            if let Some((token, job)) = todo.jobs.pop_front() {
                drop(todo);
                let outcome = job.perform();
                self.finish(Completion { token, outcome });
                todo = lock(&self.todo);
            } else {
                todo.idle += 1;
                todo = self.bell.wait(todo).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn finish(&self, completion: Completion) {
        let mut done = lock(&self.done);
        done.push(completion);
        self.any_done.store(true, SeqCst);
        drop(done);
        self.signal.ring();
    }
}

impl Drop for Workers {
    /// Waits for the jobs begun; those not begun are dropped.
    fn drop(&mut self) {
        lock(&self.desk.todo).closing = true;
        self.desk.bell.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed by its own hook; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// No code under these locks panics halfway through a change, so a poisoned one is still right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
