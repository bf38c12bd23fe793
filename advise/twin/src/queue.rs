// SPDX-License-Identifier: Apache-2.0
//! What falls due, in the order of its moments.
//!
//! What falls due at one moment comes in passes. Within a pass it comes by rank, and within a rank in the order in which it was asked
//! for. What is asked for at the moment itself comes in the same pass if its rank is still ahead, else in the next one. If
//! everything has one rank, that is the order in which it was asked for.

use core::cmp::Reverse;
use helio_units::Moment;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    at: Moment,
    pass: u32,
    rank: u8,
    tie: u64,
}

impl Key {
    const NEVER: Self = Self { at: Moment::NEVER, pass: 0, rank: 0, tie: 0 };
}

#[derive(Debug)]
struct Entry<D> {
    key: Key,
    due: D,
}

impl<D> PartialEq for Entry<D> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<D> Eq for Entry<D> {}

impl<D> PartialOrd for Entry<D> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<D> Ord for Entry<D> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// What is taken next.
#[derive(Debug)]
pub(crate) enum Next<D> {
    /// What was asked for once.
    Once(D),
    /// The timer of that number, which is no longer set.
    Timer(usize),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue<D> {
    once: BinaryHeap<Reverse<Entry<D>>>,
    /// Timers, by number; each has one moment, which can be changed.
    timers: Vec<Key>,
    ties: u64,
    /// What was taken last; its moment is the time at which it was taken.
    last: Option<Key>,
}

impl<D> Queue<D> {
    /// An empty queue with so many timers, none of which is set.
    pub(crate) fn new(timers: usize) -> Self {
        Self { once: BinaryHeap::new(), timers: vec![Key::NEVER; timers], ties: 0, last: None }
    }

    fn key(&mut self, now: Moment, at: Moment, rank: u8) -> Key {
        self.ties += 1;
        let at = at.max(now);
        let pass = match self.last.filter(|last| last.at == at) {
            Some(last) if rank > last.rank => last.pass,
            Some(last) => last.pass + 1,
            None => 0,
        };
        Key { at, pass, rank, tie: self.ties }
    }

    /// This falls due at `at`, or now if that has passed.
    pub(crate) fn push(&mut self, now: Moment, at: Moment, rank: u8, due: D) {
        let key = self.key(now, at, rank);
        self.once.push(Reverse(Entry { key, due }));
    }

    /// Sets a timer to `at`, or to now if that has passed; [`Moment::NEVER`] stops it.
    pub(crate) fn set(&mut self, timer: usize, now: Moment, at: Moment, rank: u8) {
        if self.timers[timer].at != at {
            self.timers[timer] =
                if at == Moment::NEVER { Key::NEVER } else { self.key(now, at, rank) };
        }
    }

    /// When a timer falls due.
    pub(crate) fn timer(&self, timer: usize) -> Moment {
        self.timers[timer].at
    }

    fn first_timer(&self) -> Option<(usize, Key)> {
        let first = self.timers.iter().copied().enumerate().min_by_key(|(_, key)| *key);
        first.filter(|(_, key)| key.at < Moment::NEVER)
    }

    /// When the next falls due.
    pub(crate) fn next_at(&self) -> Option<Moment> {
        let once = self.once.peek().map(|Reverse(entry)| entry.key.at);
        let timer = self.timers.iter().map(|key| key.at).min().filter(|at| *at < Moment::NEVER);
        once.into_iter().chain(timer).min()
    }

    /// Takes what falls due next. Returns the time at which that is.
    pub(crate) fn take(&mut self, now: Moment) -> Option<(Moment, Next<D>)> {
        let once = self.once.peek().map(|Reverse(entry)| entry.key);
        let timer = self.first_timer();
        let (key, next) = match timer.filter(|(_, key)| once.is_none_or(|once| *key < once)) {
            Some((timer, key)) => {
                self.timers[timer] = Key::NEVER;
                (key, Next::Timer(timer))
            }
            None => {
                let Reverse(Entry { key, due }) = self.once.pop()?;
                (key, Next::Once(due))
            }
        };
        let at = key.at.max(now);
        self.last = Some(Key { at, ..key });
        Some((at, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut Queue<&'static str>, now: &mut Moment) -> String {
        let (at, next) = queue.take(*now).expect("something falls due");
        *now = at;
        match next {
            Next::Once(due) => due.into(),
            Next::Timer(timer) => format!("timer {timer}"),
        }
    }

    #[test]
    fn what_a_moment_brings_about_at_once_comes_in_its_pass_or_the_next() {
        let (mut queue, mut now) = (Queue::new(1), Moment::ZERO);
        let at = Moment(5);
        queue.push(now, at, 2, "b");
        queue.push(now, at, 1, "a");
        queue.set(0, now, at, 3);
        assert_eq!(taken(&mut queue, &mut now), "a");
        queue.push(now, at, 1, "again a");
        queue.push(now, Moment::ZERO, 2, "b, late");
        let order: Vec<_> = (0..4).map(|_| taken(&mut queue, &mut now)).collect();
        assert_eq!(order, ["b", "b, late", "timer 0", "again a"]);
        assert_eq!((now, queue.next_at()), (at, None));
    }

    #[test]
    fn a_timer_has_one_moment() {
        let (mut queue, mut now) = (Queue::new(2), Moment::ZERO);
        queue.set(1, now, Moment(9), 0);
        queue.set(1, now, Moment(7), 0);
        queue.push(now, Moment(8), 0, "once");
        assert_eq!((queue.timer(1), queue.next_at()), (Moment(7), Some(Moment(7))));
        assert_eq!(taken(&mut queue, &mut now), "timer 1");
        assert_eq!((queue.timer(1), queue.next_at()), (Moment::NEVER, Some(Moment(8))));
    }
}
