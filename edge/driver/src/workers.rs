// SPDX-License-Identifier: Apache-2.0
//! The threads on which operations on files block, and computations are done.
//!
//! A file whose device ends nothing must not keep the others waiting:
//! * A quarter of the threads, at least one, is left to other files, if there is more than one. Further jobs of the file wait.
//! * A file for which no thread works gets one at once: if none is free, one is started. A thread beyond the fixed number takes
//!   only jobs of such files, and ends after a second without one. So there is at most one of them for each file.

use crate::file::Job;
use crate::op::{Completion, LAST_OPERATIONS_WITHIN, Outcome, Token};
use crate::signal::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// In place of the number of a file, for what is on none.
const NO_FILE: RawFd = -1;

/// What a thread does.
pub(crate) trait Task: Send + 'static {
    /// On which file, or [`NO_FILE`].
    fn file(&self) -> RawFd;
    /// Does it.
    fn perform(self) -> Outcome;
}

impl Task for Job {
    fn file(&self) -> RawFd {
        self.on().map_or(NO_FILE, |file| file.as_fd().as_raw_fd())
    }

    fn perform(self) -> Outcome {
        Self::perform(self)
    }
}

/// The threads, the queues before them and the list behind them.
pub(crate) struct Workers<J: Task = Job> {
    desk: Arc<Desk<J>>,
    threads: Vec<JoinHandle<()>>,
}

struct Desk<J> {
    todo: Mutex<Todo<J>>,
    bell: Condvar,
    done: Mutex<Vec<(RawFd, Completion)>>,
    /// Whether `done` holds anything, so that the reactor takes the lock only where it pays.
    any_done: AtomicBool,
    signal: Arc<Signal>,
}

/// A thread beyond the fixed number waits so long for another job before it ends.
const LINGER: Duration = Duration::from_secs(1);

/// The jobs of one file.
struct Queue<J> {
    waiting: VecDeque<(Token, J)>,
    /// Threads that work for it.
    running: usize,
}

struct Todo<J> {
    /// Files with jobs, by number. A number may be used again between the end of a job and its count: then two files share
    /// their counts for that long.
    files: BTreeMap<RawFd, Queue<J>>,
    /// Files whose first job a thread may take, each once, in their turn.
    turns: VecDeque<RawFd>,
    /// The fixed number of threads.
    count: usize,
    /// Threads that there are, that work, that wait and have not been called, and that have been called and not yet woken.
    threads: usize,
    busy: usize,
    idle: usize,
    called: usize,
    closing: bool,
}

impl<J: Task> Workers<J> {
    /// Starts `count` threads (at least one). They inherit the caller's CPU affinity.
    pub(crate) fn start(count: usize, signal: &Arc<Signal>) -> io::Result<Self> {
        let count = count.max(1);
        let desk = Arc::new(Desk {
            todo: Mutex::new(Todo {
                files: BTreeMap::new(),
                turns: VecDeque::new(),
                count,
                threads: 0,
                busy: 0,
                idle: 0,
                called: 0,
                closing: false,
            }),
            bell: Condvar::new(),
            done: Mutex::default(),
            any_done: AtomicBool::new(false),
            signal: Arc::clone(signal),
        });
        let mut workers = Self { desk, threads: Vec::new() };
        for _ in 0..count {
            workers.spawn()?;
        }
        Ok(workers)
    }

    fn spawn(&mut self) -> io::Result<()> {
        let desk = Arc::clone(&self.desk);
        let thread = thread::Builder::new().name(format!("helio-io-{}", self.threads.len()));
        lock(&self.desk.todo).threads += 1;
        let spawned = thread.spawn(move || desk.serve());
        if spawned.is_err() {
            lock(&self.desk.todo).threads -= 1;
        }
        self.threads.push(spawned?);
        Ok(())
    }

    /// Queues a job and calls a thread where one is free: a busy one looks at the queue before it rests.
    pub(crate) fn submit(&mut self, token: Token, job: J) {
        let mut todo = lock(&self.desk.todo);
        let more = todo.put(token, job);
        // None is called in vain for a file that has its share: the thread that ends a job of it takes the next one.
        let call = todo.idle > 0 && todo.has_turn();
        if call {
            (todo.idle, todo.called) = (todo.idle - 1, todo.called + 1);
        }
        drop(todo);
        if call {
            self.desk.bell.notify_one();
        } else if more {
            self.threads.retain(|thread| !thread.is_finished());
            // Without one, the job waits for a thread that is free.
            let _no_thread = self.spawn();
        }
    }

    /// Whether some job has ended and waits to be collected.
    pub(crate) fn any_done(&self) -> bool {
        self.desk.any_done.load(SeqCst)
    }

    /// Moves the completions of ended jobs to `out`, and tells on which files they were.
    pub(crate) fn collect(&self, out: &mut Vec<Completion>, mut ended: impl FnMut(RawFd)) {
        if self.any_done() {
            let mut done = lock(&self.desk.done);
            out.extend(done.drain(..).map(|(file, completion)| {
                ended(file);
                completion
            }));
            self.desk.any_done.store(false, SeqCst);
        }
    }
}

impl<J: Task> Todo<J> {
    /// Threads that may work for one file: a quarter, or one, is left to the others, if there is more than one.
    fn share(&self) -> usize {
        (self.count - (self.count / 4).max(1)).max(1)
    }

    /// Whether a thread would find a job.
    fn has_turn(&self) -> bool {
        let extra = self.busy >= self.count;
        let fits = |file: &RawFd| self.files.get(file).is_some_and(|q| !extra || q.running == 0);
        self.turns.iter().any(fits)
    }

    /// Queues a job. Returns whether no thread works for its file, and none was to be called for one.
    fn put(&mut self, token: Token, job: J) -> bool {
        let (file, share) = (job.file(), self.share());
        let queue =
            self.files.entry(file).or_insert(Queue { waiting: VecDeque::new(), running: 0 });
        queue.waiting.push_back((token, job));
        let first = queue.waiting.len() == 1;
        if first && queue.running < share {
            self.turns.push_back(file);
        }
        first && queue.running == 0
    }

    /// The next job that a thread may take.
    fn take(&mut self) -> Option<(RawFd, Token, J)> {
        let extra = self.busy >= self.count;
        let share = self.share();
        let fits = |file: &RawFd| self.files.get(file).is_some_and(|q| !extra || q.running == 0);
        let at = self.turns.iter().position(fits)?;
        let file = self.turns.remove(at)?;
        let queue = self.files.get_mut(&file)?;
        let (token, job) = queue.waiting.pop_front()?;
        queue.running += 1;
        self.busy += 1;
        if !queue.waiting.is_empty() && queue.running < share {
            self.turns.push_back(file);
        }
        Some((file, token, job))
    }

    /// A job on a file ended.
    fn ended(&mut self, file: RawFd) {
        self.busy -= 1;
        let share = self.share();
        let Some(queue) = self.files.get_mut(&file) else { return };
        queue.running -= 1;
        match queue.waiting.is_empty() {
            true if queue.running == 0 => _ = self.files.remove(&file),
            // It had its share.
            false if queue.running + 1 == share => self.turns.push_back(file),
            _ => {}
        }
    }
}

impl<J: Task> Desk<J> {
    fn serve(&self) {
        let mut todo = lock(&self.todo);
        while !todo.closing {
            if let Some((file, token, job)) = todo.take() {
                drop(todo);
                let outcome = job.perform();
                self.finish(file, Completion { token, outcome });
                todo = lock(&self.todo);
                todo.ended(file);
            } else {
                todo.idle += 1;
                let sleeps = |todo: &mut Todo<J>| todo.called == 0 && !todo.closing;
                todo = if todo.threads > todo.count {
                    let waited = self.bell.wait_timeout_while(todo, LINGER, sleeps);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                } else {
                    let waited = self.bell.wait_while(todo, sleeps);
                    waited.unwrap_or_else(PoisonError::into_inner)
                };
                if todo.called == 0 && !todo.closing {
                    todo.idle -= 1;
                    if todo.threads > todo.count {
                        break;
                    }
                } else {
                    todo.called = todo.called.saturating_sub(1);
                }
            }
        }
        todo.threads -= 1;
        if todo.closing {
            self.bell.notify_all();
        }
    }

    fn finish(&self, file: RawFd, completion: Completion) {
        let mut done = lock(&self.done);
        done.push((file, completion));
        self.any_done.store(true, SeqCst);
        drop(done);
        self.signal.ring();
    }
}

impl<J: Task> Drop for Workers<J> {
    /// Waits for the jobs begun, [`LAST_OPERATIONS_WITHIN`]; those not begun are dropped. A thread whose job has not ended by
    /// then is left alone with it.
    fn drop(&mut self) {
        let mut todo = lock(&self.desk.todo);
        todo.closing = true;
        self.desk.bell.notify_all();
        let works = |todo: &mut Todo<J>| todo.threads > 0;
        let waited = self.desk.bell.wait_timeout_while(todo, LAST_OPERATIONS_WITHIN, works);
        let all = waited.is_ok_and(|(todo, _)| todo.threads == 0);
        for thread in self.threads.drain(..).filter(|thread| all || thread.is_finished()) {
            // A panic of the thread has been printed by its own hook; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// No code under these locks panics halfway through a change, so a poisoned one is still right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Instant;

    /// A job on a file that says that it began, and ends when the other end of its gate is dropped.
    struct Gated {
        file: RawFd,
        began: SyncSender<RawFd>,
        gate: Option<Receiver<()>>,
    }

    impl Task for Gated {
        fn file(&self) -> RawFd {
            self.file
        }

        fn perform(self) -> Outcome {
            self.began.send(self.file).expect("the test listens");
            if let Some(gate) = self.gate {
                let _dropped = gate.recv();
            }
            Outcome::SyncData(Ok(()))
        }
    }

    struct Stand {
        workers: Workers<Gated>,
        began: (SyncSender<RawFd>, Receiver<RawFd>),
        tokens: u64,
    }

    impl Stand {
        fn new(count: usize) -> Self {
            let signal = Arc::new(Signal::new().expect("a descriptor"));
            let workers = Workers::<Gated>::start(count, &signal).expect("threads");
            // A job that comes before they serve starts another one.
            while lock(&workers.desk.todo).idle < count {
                thread::yield_now();
            }
            Self { workers, began: sync_channel(100), tokens: 0 }
        }

        fn ask(&mut self, file: RawFd, gate: Option<Receiver<()>>) {
            self.tokens += 1;
            let job = Gated { file, began: self.began.0.clone(), gate };
            self.workers.submit(Token(self.tokens), job);
        }

        /// A job that ends when what is returned is dropped.
        fn hang(&mut self, file: RawFd) -> SyncSender<()> {
            let (open, gate) = sync_channel(1);
            self.ask(file, Some(gate));
            open
        }

        /// The file of the next job that begins.
        fn begins(&self) -> RawFd {
            self.began.1.recv().expect("a job begins")
        }
    }

    #[test]
    fn a_file_that_ends_nothing_keeps_three_quarters_of_the_threads_and_no_other_file_waits() {
        let mut stand = Stand::new(4);
        let gates: Vec<_> = (0..20).map(|_| stand.hang(1)).collect();
        assert_eq!([stand.begins(), stand.begins(), stand.begins()], [1, 1, 1]);
        for _ in 0..50 {
            stand.ask(2, None);
            assert_eq!(stand.begins(), 2, "no fourth job of the first file began");
        }
        drop(gates);
        let rest: Vec<_> = (0..17).map(|_| stand.begins()).collect();
        assert_eq!(rest, [1; 17], "all of it ends once the file answers");
    }

    #[test]
    fn what_never_ends_holds_up_the_end_no_longer_than_its_limit() {
        let mut stand = Stand::new(2);
        let gate = stand.hang(1);
        assert_eq!(stand.begins(), 1);
        let began = Instant::now();
        drop(stand);
        // It ends at all, although the operation does not.
        assert!(began.elapsed() >= LAST_OPERATIONS_WITHIN, "{:?}", began.elapsed());
        drop(gate);
    }

    #[test]
    fn a_thread_beyond_the_fixed_number_ends_once_it_has_no_job() {
        let mut stand = Stand::new(1);
        let gate = stand.hang(1);
        assert_eq!(stand.begins(), 1);
        stand.ask(2, None);
        assert_eq!(stand.begins(), 2);
        let extra = stand.workers.threads.pop().expect("one was started");
        let (end, ended) = sync_channel(1);
        thread::spawn(move || end.send(extra.join().is_ok()));
        assert_eq!(ended.recv(), Ok(true), "it ends without a panic");
        assert_eq!((stand.workers.threads.len(), lock(&stand.workers.desk.todo).threads), (1, 1));
        stand.ask(2, None);
        assert_eq!(stand.begins(), 2, "another one is started");
        drop(gate);
    }

    #[test]
    fn however_many_files_end_nothing_another_one_gets_a_thread() {
        let mut stand = Stand::new(2);
        let gates: Vec<_> = (1..=6).flat_map(|n| [stand.hang(n), stand.hang(n)]).collect();
        let mut began: Vec<_> = (0..6).map(|_| stand.begins()).collect();
        began.sort_unstable();
        assert_eq!(began, [1, 2, 3, 4, 5, 6], "each has one");
        for _ in 0..50 {
            stand.ask(7, None);
            assert_eq!(stand.begins(), 7);
        }
        drop(gates);
        let mut rest: Vec<_> = (0..6).map(|_| stand.begins()).collect();
        rest.sort_unstable();
        assert_eq!(rest, [1, 2, 3, 4, 5, 6]);
    }
}
