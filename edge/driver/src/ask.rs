// SPDX-License-Identifier: Apache-2.0
//! Questions to file systems that may never answer: a thread asks each one, and the caller waits for a limited time.
//!
//! A question changes nothing. A change that was given up could still happen later, behind a newer one, and the error of a flush would
//! be lost.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Questions that may be without an answer at once, in one process. Further ones fail at once.
const OPEN_MAX: usize = 256;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// What is at a path.
    Path(PathBuf),
    /// An open file, by where its descriptor is kept.
    File(usize),
}

/// Questions without an answer, and whether each has been given up.
#[derive(Debug)]
struct Open {
    next: u64,
    questions: BTreeMap<u64, (Subject, bool)>,
}

static OPEN: Mutex<Open> = Mutex::new(Open { next: 0, questions: BTreeMap::new() });

impl Open {
    /// `TIMEDOUT` if a caller has waited in vain for another one about the same, which has no answer yet; `AGAIN` if there are too many.
    fn ask(&mut self, about: Subject) -> Result<u64, Errno> {
        let mut all = self.questions.values();
        if all.any(|(other, given_up)| *given_up && *other == about) {
            return Err(Errno::TIMEDOUT);
        }
        if self.questions.len() >= OPEN_MAX {
            return Err(Errno::AGAIN);
        }
        self.next += 1;
        self.questions.insert(self.next, (about, false));
        Ok(self.next)
    }

    fn give_up(&mut self, question: u64) {
        if let Some((_, given_up)) = self.questions.get_mut(&question) {
            *given_up = true;
        }
    }
}

/// A question that is closed when this is dropped, also by a panic.
struct Closed(u64);

impl Drop for Closed {
    fn drop(&mut self) {
        open().questions.remove(&self.0);
    }
}

fn open() -> MutexGuard<'static, Open> {
    locked(&OPEN)
}

/// Nothing under these locks panics halfway through a change.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks a question, and waits that long for its answer. An answer that comes later is dropped.
///
/// # Errors
/// As of the question; `TIMEDOUT` if there is no answer, or there was none to an earlier one; `AGAIN` if too many others have none.
pub(crate) fn ask<T, E, Q>(patience: Duration, about: Subject, question: Q) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Errno> + Send + 'static,
    Q: FnOnce() -> Result<T, E> + Send + 'static,
{
    let number = open().ask(about)?;
    let question = Arc::new(Mutex::new(Some(question)));
    let taken = Arc::clone(&question);
    let (tell, told) = sync_channel(1);
    let thread = thread::Builder::new().name("helio-ask".to_owned()).spawn(move || {
        let question = locked(&taken).take();
        let closed = Closed(number);
        let answer = question.map(|question| question());
        drop(closed);
        // A late answer is dropped.
        let _late = answer.map(|answer| tell.send(answer));
    });
    if thread.is_err()
        && let Some(question) = { locked(&question).take() }
    {
        // A process that may have no more threads has to wait.
        open().questions.remove(&number);
        return question();
    }
    told.recv_timeout(patience).unwrap_or_else(|_| {
        open().give_up(number);
        Err(Errno::TIMEDOUT.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_an_answer_is_given_up_and_another_one_about_the_same_at_once() {
        let minute = Duration::from_secs(60);
        let about = |path: &str| Subject::Path(path.into());
        assert_eq!(ask(minute, about("here"), || Ok::<_, Errno>(7)), Ok(7));
        let refused = ask::<(), _, _>(minute, about("here"), || Err(Errno::NOENT));
        assert_eq!(refused, Err(Errno::NOENT));
        let (answer, silence) = sync_channel::<()>(0);
        let hangs = ask(Duration::from_millis(10), about("hung"), move || {
            let _answered = silence.recv();
            Ok::<_, Errno>(())
        });
        assert_eq!(hangs, Err(Errno::TIMEDOUT));
        assert_eq!(ask(minute, about("hung"), || Ok::<_, Errno>(8)), Err(Errno::TIMEDOUT));
        assert_eq!(ask(minute, about("here"), || Ok::<_, Errno>(9)), Ok(9), "others are answered");
        drop(answer);
        while ask(minute, about("hung"), || Ok::<_, Errno>(10)) != Ok(10) {
            thread::yield_now();
        }
    }
}
