// SPDX-License-Identifier: Apache-2.0
//! What falls due, in the order of its moments.
//!
//! What falls due at one moment comes in passes. Within a pass it comes by rank, and within a rank in the order in which it was asked
//! for. What is asked for at the moment itself comes in the same pass if its rank is still ahead, else in the next one. If
//! everything has one rank, that is the order in which it was asked for.

use helio_units::Moment;
use std::collections::BTreeMap;

/// Moment, pass, rank, and the number of those asked for before: 64, 16, 8 and 40 bits of one number, which compares fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    const NEVER: Self = Self(u128::MAX);

    fn new(at: Moment, pass: u16, rank: u8, tie: u64) -> Self {
        let order = u64::from(pass) << 48 | u64::from(rank) << 40 | tie;
        Self(u128::from(at.0) << 64 | u128::from(order))
    }

    const fn at(self) -> Moment {
        Moment((self.0 >> 64) as u64)
    }

    const fn pass(self) -> u16 {
        (self.0 >> 48) as u16
    }

    const fn rank(self) -> u8 {
        (self.0 >> 40) as u8
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
    once: BTreeMap<Key, D>,
    /// Timers, by number: each has one moment, which can be changed. And the number of the one that falls due first.
    timers: Vec<Key>,
    first: usize,
    ties: u64,
    /// What was taken last.
    last: Option<Key>,
}

impl<D> Queue<D> {
    /// An empty queue with so many timers, none of which is set.
    pub(crate) fn new(timers: usize) -> Self {
        let timers = vec![Key::NEVER; timers];
        Self { once: BTreeMap::new(), timers, first: 0, ties: 0, last: None }
    }

    fn key(&mut self, now: Moment, at: Moment, rank: u8) -> Key {
        self.ties += 1;
        let at = at.max(now);
        let pass = match self.last.filter(|last| last.at() == at) {
            Some(last) if rank > last.rank() => last.pass(),
            Some(last) => last.pass().saturating_add(1),
            None => 0,
        };
        Key::new(at, pass, rank, self.ties)
    }

    /// This falls due at `at`, or now if that has passed.
    pub(crate) fn push(&mut self, now: Moment, at: Moment, rank: u8, due: D) {
        let key = self.key(now, at, rank);
        self.once.insert(key, due);
    }

    /// Sets a timer to `at`, or to now if that has passed; [`Moment::NEVER`] stops it.
    pub(crate) fn set(&mut self, timer: usize, now: Moment, at: Moment, rank: u8) {
        if self.timers[timer].at() != at {
            let key = if at == Moment::NEVER { Key::NEVER } else { self.key(now, at, rank) };
            self.put(timer, key);
        }
    }

    fn put(&mut self, timer: usize, key: Key) {
        self.timers[timer] = key;
        if timer == self.first {
            let first = (0..self.timers.len()).min_by_key(|timer| self.timers[*timer]);
            self.first = first.unwrap_or_default();
        } else if key < self.timers[self.first] {
            self.first = timer;
        }
    }

    /// When a timer falls due.
    pub(crate) fn timer(&self, timer: usize) -> Moment {
        self.timers[timer].at()
    }

    fn first_timer(&self) -> Option<Key> {
        self.timers.get(self.first).copied().filter(|key| *key < Key::NEVER)
    }

    /// When the next falls due.
    pub(crate) fn next_at(&self) -> Option<Moment> {
        let once = self.once.first_key_value().map(|(key, _)| *key);
        once.into_iter().chain(self.first_timer()).min().map(Key::at)
    }

    /// Takes what falls due next. Returns the time at which that is.
    pub(crate) fn take(&mut self, now: Moment) -> Option<(Moment, Next<D>)> {
        let once = self.once.first_key_value().map(|(key, _)| *key);
        let (key, next) = match self.first_timer() {
            Some(key) if once.is_none_or(|once| key < once) => {
                let timer = self.first;
                self.put(timer, Key::NEVER);
                (key, Next::Timer(timer))
            }
            _ => {
                let (key, due) = self.once.pop_first()?;
                (key, Next::Once(due))
            }
        };
        self.last = Some(key);
        Some((key.at().max(now), next))
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
