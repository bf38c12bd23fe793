// SPDX-License-Identifier: Apache-2.0
//! The book of an application's writes, and the judge who holds an image against it.
//!
//! A write is booked before it is sent, its answer after it was received, each with a tick of one clock. So what the
//! book says is in order was in order: an answer with an earlier tick than a submission came before it.

use crate::image::Image;
use crate::stamp;
use helio_nbd::ServerError;
use helio_testkit::eventually_from;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One write.
#[derive(Clone, Debug)]
struct Write {
    first: u64,
    blocks: u64,
    submitted: u64,
    answered: Option<u64>,
}

#[derive(Debug, Default)]
struct Pages {
    writes: Vec<Write>,
    tick: u64,
    answered: u64,
    failed: Vec<ServerError>,
}

impl Pages {
    fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }
}

/// All writes of a test, numbered from 1.
#[derive(Debug)]
pub struct Book {
    run: u64,
    pages: Mutex<Pages>,
}

/// Which writes must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Every one that was answered.
    Everything,
    /// Every one that was answered before another that is there was submitted.
    Closed,
    /// Every one that was answered before that moment of the book, and the others as `Closed`.
    Until(u64),
}

/// What the judge found, where nothing was broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Writes answered since the image before.
    pub answered: usize,
    /// Writes of which something is seen.
    pub visible: usize,
    /// Answered writes that are neither seen nor superseded. None under `Promise::Everything`.
    pub lost: usize,
}

impl Book {
    /// An empty book; `run` marks its blocks.
    #[must_use]
    pub fn new(run: u64) -> Self {
        Self { run, pages: Mutex::default() }
    }

    /// What marks its blocks.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Books a write of so many blocks and gives its number and its data. To be called before it is sent.
    #[must_use]
    pub fn submit(&self, first: u64, blocks: u64) -> (u64, Vec<u8>) {
        let mut pages = self.pages();
        let submitted = pages.tick();
        pages.writes.push(Write { first, blocks, submitted, answered: None });
        let number = pages.writes.len() as u64;
        drop(pages);
        let mut data = vec![0; blocks as usize * stamp::BLOCK];
        for (place, block) in (first..).zip(data.chunks_exact_mut(stamp::BLOCK)) {
            stamp::fill(self.run, number, place, block);
        }
        (number, data)
    }

    /// Books an answer. To be called after it was received.
    pub fn answered(&self, number: u64, result: Result<(), ServerError>) {
        let mut pages = self.pages();
        let tick = pages.tick();
        match result {
            Ok(()) => {
                pages.writes[number as usize - 1].answered = Some(tick);
                pages.answered += 1;
            }
            Err(why) => pages.failed.push(why),
        }
    }

    /// How many writes were submitted: the mark behind which the next ones are.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.pages().writes.len() as u64
    }

    /// The moment, for `Promise::Until`.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.pages().tick()
    }

    /// How many writes were answered well.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.pages().answered
    }

    /// The writes that failed, and how.
    #[must_use]
    pub fn failures(&self) -> Vec<ServerError> {
        self.pages().failed.clone()
    }

    /// Waits until so many more writes were answered well.
    ///
    /// # Panics
    /// As SLOW if that takes longer than `limit`.
    #[track_caller]
    pub fn wait_for(&self, more: u64, limit: Duration) {
        let goal = self.count() + more;
        eventually_from(limit, "answers", || {
            let pages = self.pages();
            let Pages { answered, failed, .. } = &*pages;
            let seen = || format!("{answered} of {goal} came, failed: {failed:?}");
            if *answered < goal { Err(seen()) } else { Ok(()) }
        });
    }

    /// Holds an image against the writes behind the mark, `before` being the image at the mark.
    ///
    /// # Errors
    /// Which promise is broken, and by which write.
    pub fn judge(
        &self,
        mark: u64,
        before: &Image,
        after: &Image,
        promise: Promise,
    ) -> Result<Verdict, String> {
        let pages = self.pages();
        let known =
            |number: u64| (number > mark).then(|| pages.writes.get(number as usize - 1)).flatten();
        let mut visible = BTreeSet::new();
        for (place, was, is) in before.beside(after) {
            match known(is) {
                Some(write) if (write.first..write.first + write.blocks).contains(&place) => {
                    visible.insert(is);
                }
                _ if was == is => {}
                _ => return Err(format!("block {place} shows {is}, and it was {was} before")),
            }
        }
        let closed = || {
            let seen = visible.iter().filter_map(|number| known(*number));
            seen.map(|write| write.submitted).max().unwrap_or(0)
        };
        let horizon = match promise {
            Promise::Everything => u64::MAX,
            Promise::Closed => closed(),
            Promise::Until(moment) => closed().max(moment),
        };
        let mut verdict = Verdict { visible: visible.len(), ..Verdict::default() };
        for (number, write) in (1..).zip(&pages.writes).skip(mark as usize) {
            let Some(answered) = write.answered else { continue };
            verdict.answered += 1;
            let missing = (write.first..write.first + write.blocks).find(|place| {
                let shown = after.at(*place);
                let stands = |other: &Write| other.answered.is_none_or(|at| at > write.submitted);
                shown != number && !known(shown).is_some_and(stands)
            });
            let Some(place) = missing else { continue };
            verdict.lost += 1;
            if answered < horizon {
                return Err(format!(
                    "write {number} was answered at tick {answered}, before {horizon}, and block {place} shows \
                     write {} instead; {promise:?}, writes behind {mark}",
                    after.at(place)
                ));
            }
        }
        Ok(verdict)
    }

    /// Says that an image that held nothing before the first write holds what is promised of all of them. `name`: whose image it is.
    ///
    /// # Panics
    /// Where a promise is broken, with the write.
    #[track_caller]
    pub fn assert_holds(&self, name: &str, image: &Image, promise: Promise) -> Verdict {
        let judged = self.judge(0, &image.emptied(), image, promise);
        judged.unwrap_or_else(|why| panic!("{name}: {why}"))
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes one block each, in a row, every one answered before the next.
    fn row(places: &[u64]) -> Book {
        let book = Book::new(1);
        for place in places {
            let (number, _) = book.submit(*place, 1);
            book.answered(number, Ok(()));
        }
        book
    }

    fn judged(book: &Book, shown: &[u64], promise: Promise) -> Result<Verdict, String> {
        let blank = Image::of_numbers(vec![0; shown.len()]);
        book.judge(0, &blank, &Image::of_numbers(shown.to_vec()), promise)
    }

    #[test]
    fn what_was_answered_must_be_there_or_superseded() {
        let book = row(&[0, 1, 0]);
        assert_eq!(
            judged(&book, &[3, 2], Promise::Everything),
            Ok(Verdict { answered: 3, visible: 2, lost: 0 })
        );
        assert!(judged(&book, &[1, 2], Promise::Everything).is_err(), "the later one is missing");
        assert!(judged(&book, &[3, 0], Promise::Everything).is_err());
        assert!(judged(&book, &[3, 4], Promise::Everything).is_err(), "nobody wrote that");
        assert!(judged(&book, &[2, 3], Promise::Everything).is_err(), "in each other's place");
    }

    #[test]
    fn a_prefix_is_closed_and_a_gap_is_not() {
        let book = row(&[0, 1, 2]);
        assert_eq!(
            judged(&book, &[1, 0, 0], Promise::Closed),
            Ok(Verdict { answered: 3, visible: 1, lost: 2 })
        );
        assert_eq!(judged(&book, &[0, 0, 0], Promise::Closed).map(|v| v.lost), Ok(3));
        assert!(judged(&book, &[1, 0, 3], Promise::Closed).is_err());
    }

    #[test]
    fn what_was_answered_until_a_moment_must_be_there_and_behind_it_nothing_has_a_gap() {
        let book = row(&[0, 1]);
        let moment = book.now();
        for place in [2, 3] {
            let (number, _) = book.submit(place, 1);
            book.answered(number, Ok(()));
        }
        let judged = |shown: &[u64]| judged(&book, shown, Promise::Until(moment));
        assert_eq!(judged(&[1, 2, 0, 0]).map(|v| v.lost), Ok(2));
        assert!(judged(&[1, 0, 0, 0]).is_err(), "the second was promised");
        assert!(judged(&[1, 2, 0, 4]).is_err(), "the fourth without the third");
    }

    #[test]
    fn writes_side_by_side_have_no_order() {
        let book = Book::new(1);
        let numbers = [0, 1, 0].map(|place| book.submit(place, 1).0);
        numbers.into_iter().for_each(|number| book.answered(number, Ok(())));
        assert!(judged(&book, &[1, 2], Promise::Everything).is_ok(), "either of the first block");
        assert!(judged(&book, &[3, 2], Promise::Everything).is_ok());
        assert!(judged(&book, &[0, 2], Promise::Closed).is_ok(), "the second without the first");
    }
}
