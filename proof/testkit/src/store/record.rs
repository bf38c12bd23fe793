// SPDX-License-Identifier: Apache-2.0
//! What reached a store and when, and what it may hold after its power was cut at some moment.
//!
//! Everything before the last flush is there. Of what came later each sector of 512 bytes is there or not.

use super::cache::punch;
use crate::Dice;
use helio_units::Extent;
use rustix::fs::{XattrFlags, setxattr};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const SECTOR: usize = 512;

/// What reached a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes.
    Write {
        /// Where, in bytes.
        offset: u64,
        /// What.
        bytes: Box<[u8]>,
    },
    /// Zeroes.
    Zero(Extent),
    /// The file has another length.
    Length(u64),
    /// Everything before is durable.
    Flush,
}

#[derive(Debug)]
pub(super) struct Record {
    start: Option<Arc<[u8]>>,
    events: Vec<Arc<(Instant, Event)>>,
}

impl Record {
    pub(super) fn new(backing: &Path, wanted: bool) -> Self {
        let read = || std::fs::read(backing).expect("just made").into();
        Self { start: wanted.then(read), events: Vec::new() }
    }

    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if self.start.is_some() {
            self.events.push(Arc::new((Instant::now(), event())));
        }
    }

    pub(super) fn recorded(&self, attributes: Vec<(Vec<u8>, Vec<u8>)>) -> Recorded {
        let start = self.start.clone().unwrap_or_default();
        Recorded { start, events: self.events.clone(), attributes }
    }
}

/// The record of a store.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its content at first.
    start: Arc<[u8]>,
    events: Vec<Arc<(Instant, Event)>>,
    /// Its extended attributes.
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Recorded {
    /// The moments at which something reached it.
    pub fn moments(&self) -> impl Iterator<Item = Instant> + use<'_> {
        self.events.iter().map(|event| event.0)
    }

    /// The moments at which a flush ended.
    pub fn flushes(&self) -> impl Iterator<Item = Instant> + use<'_> {
        self.events.iter().filter(|event| event.1 == Event::Flush).map(|event| event.0)
    }
}

/// What is left of what no flush covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// What the dice of this seed say.
    Some(u64),
}

/// The images of one record. They are made quickest in the order of their moments.
#[derive(Debug)]
pub struct Images {
    recorded: Recorded,
    durable: PathBuf,
    base: File,
    /// Events that `base` holds.
    applied: usize,
}

impl Images {
    /// `durable` is the path of a file of this record's own, which does not exist.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(recorded: Recorded, durable: PathBuf) -> Self {
        std::fs::write(&durable, &recorded.start).expect("a folder of the test's own");
        let base = File::options().write(true).open(&durable).expect("just made");
        Self { recorded, durable, base, applied: 0 }
    }

    /// Writes what the store may hold after a power cut at `moment` to a new file.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn make(&mut self, moment: Instant, torn: Torn, image: &Path) {
        self.try_make(moment, torn, image)
            .unwrap_or_else(|why| panic!("cannot write {}: {why}", image.display()));
    }

    fn try_make(&mut self, moment: Instant, torn: Torn, image: &Path) -> io::Result<()> {
        let events = &self.recorded.events;
        let cut = events.partition_point(|event| event.0 <= moment);
        let durable = events[..cut].iter().rposition(|event| event.1 == Event::Flush).unwrap_or(0);
        if durable < self.applied {
            self.base.set_len(0)?;
            self.base.write_all_at(&self.recorded.start, 0)?;
            self.applied = 0;
        }
        for event in &events[self.applied..durable] {
            apply(&self.base, &event.1, |_| true)?;
        }
        self.applied = durable;
        std::fs::copy(&self.durable, image)?;
        let file = File::options().write(true).open(image)?;
        let mut dice = match torn {
            Torn::All => None,
            Torn::Nothing => Some((Dice::new(0), true)),
            Torn::Some(seed) => Some((Dice::new(seed), false)),
        };
        for event in &events[durable..cut] {
            match &mut dice {
                None => apply(&file, &event.1, |_| true)?,
                Some((_, true)) => {}
                Some((dice, false)) => {
                    // Whole writes are kept or lost more often than torn.
                    let odds = *dice.pick(&[0, 0, 100, 100, 50]);
                    apply(&file, &event.1, |_| dice.chance(odds))?;
                }
            }
        }
        for (name, value) in &self.recorded.attributes {
            setxattr(image, name.as_slice(), value, XattrFlags::empty())?;
        }
        Ok(())
    }
}

/// Applies an event to an image, of a write those sectors that are wanted.
fn apply(file: &File, event: &Event, mut wanted: impl FnMut(usize) -> bool) -> io::Result<()> {
    match event {
        Event::Flush => Ok(()),
        Event::Length(length) => match wanted(0) {
            true => file.set_len(*length),
            false => Ok(()),
        },
        Event::Zero(extent) => {
            // If only a part is wanted, the part in front.
            let sectors = extent.length as usize / SECTOR;
            let length = (0..sectors).take_while(|sector| wanted(*sector)).count() * SECTOR;
            match length {
                0 => Ok(()),
                _ => punch(file, Extent::new(extent.offset, length as u64)),
            }
        }
        Event::Write { offset, bytes } => {
            for (sector, part) in bytes.chunks(SECTOR).enumerate() {
                if wanted(sector) {
                    file.write_all_at(part, offset + (sector * SECTOR) as u64)?;
                }
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    fn write(offset: u64, byte: u8) -> Event {
        Event::Write { offset, bytes: vec![byte; 512].into() }
    }

    #[test]
    fn what_a_flush_covers_is_in_every_image_and_the_rest_may_be() {
        let scratch = TempDir::new();
        let backing = scratch.write("backing", &"-".repeat(2048));
        let mut record = Record::new(&backing, true);
        for event in [write(0, 1), Event::Flush, write(512, 2), write(1024, 3)] {
            record.note(|| event);
        }
        let recorded = record.recorded(Vec::new());
        let moments: Vec<Instant> = recorded.moments().collect();
        let mut images = Images::new(recorded, scratch.join("durable"));
        let mut shown = |moment: usize, torn, name: &str| {
            images.make(moments[moment], torn, &scratch.join(name));
            let bytes = std::fs::read(scratch.join(name)).expect("just written");
            [0, 512, 1024, 1536].map(|at| bytes[at])
        };
        let old = b'-';
        assert_eq!(shown(0, Torn::Nothing, "a"), [old; 4]);
        assert_eq!(shown(1, Torn::Nothing, "b"), [1, old, old, old]);
        assert_eq!(shown(2, Torn::All, "c"), [1, 2, old, old]);
        assert_eq!(shown(3, Torn::Nothing, "d"), [1, old, old, old]);
        assert_eq!(shown(3, Torn::All, "e"), [1, 2, 3, old]);
        assert!(
            (0..20).any(|n| { shown(3, Torn::Some(n), &format!("torn-{n}")) == [1, old, 3, old] })
        );
    }
}
