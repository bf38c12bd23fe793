// SPDX-License-Identifier: Apache-2.0
//! A ledger over one or two metadata files: every write and flush goes to each file that counts.
//!
//! ```text
//!   both ──a file fails──> recording ──the record is durable──> one ──it fails──> failed
//!                              └───────────the other file fails, too──────────────────^
//! ```
//! A batch of the ledger ends when it has ended on every file that counts. If one of two files fails, the end of the batch is
//! held back until the other file durably records that it counts alone ([`crate::files`]); only then are changes reported as kept.
//! If the last file fails, the ledger is poisoned.

use crate::files::record_places;
use crate::ledger::{Change, Kept, Ledger, MetadataEffect};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use helio_format::files::{FileRecord, Standing};

/// What an operation is part of, and on which file (0 or 1) it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// What the ledger asks for.
    Batch(usize),
    /// The record of a file that goes on alone.
    Record(usize),
}

impl Task {
    /// Which file.
    #[must_use]
    pub const fn file(self) -> usize {
        match self {
            Self::Batch(file) | Self::Record(file) => file,
        }
    }
}

/// What the owner of the files must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEffect {
    /// The owner reports the end of the effect with this task.
    pub task: Task,
    /// What is to be done.
    pub effect: MetadataEffect,
}

/// Which files count.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Files {
    Both {
        epoch: u64,
    },
    One(usize),
    /// This one goes on alone once these operations of its record have ended, and the one under way.
    Recording {
        file: usize,
        steps: VecDeque<MetadataEffect>,
    },
    Failed,
}

/// A batch of the ledger that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    /// How many writes; 0 is a flush.
    writes: usize,
    /// How many operations have not ended, on each file.
    left: [usize; 2],
}

/// The state machine drawn above.
#[derive(Clone, Debug)]
pub struct Mirror {
    ledger: Ledger,
    files: Files,
    batch: Option<Batch>,
}

impl Mirror {
    /// Over one file that counts (0 or 1); another one, if there is one, does not count, and the file says so.
    #[must_use]
    pub const fn one(ledger: Ledger, file: usize) -> Self {
        Self { ledger, files: Files::One(file), batch: None }
    }

    /// Over two files that say the same, and both record this epoch.
    #[must_use]
    pub const fn two(ledger: Ledger, epoch: u64) -> Self {
        Self { ledger, files: Files::Both { epoch }, batch: None }
    }

    /// The ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether two files count.
    #[must_use]
    pub const fn counts_both(&self) -> bool {
        matches!(self.files, Files::Both { .. })
    }

    /// Whether nothing is queued or being written.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.batch.is_none() && self.ledger.is_idle()
    }

    /// As [`Ledger::keep`].
    ///
    /// # Panics
    /// As that one.
    #[must_use = "a change that cannot be stored is reported here"]
    pub fn keep(&mut self, change: Change) -> Option<Kept> {
        self.ledger.keep(change)
    }

    /// Appends what is to be done next. Call it after [`Mirror::keep`] and [`Mirror::done`].
    pub fn next(&mut self, out: &mut Vec<FileEffect>) {
        if self.batch.is_some() {
            return;
        }
        let mut effects = Vec::new();
        self.ledger.next(&mut effects);
        if effects.is_empty() {
            return;
        }
        let (count, is_flush) = (effects.len(), effects.contains(&MetadataEffect::Flush));
        let mut left = [0; 2];
        for file in self.counting() {
            left[file] = count;
            let effects = effects.iter().cloned();
            out.extend(effects.map(|effect| FileEffect { task: Task::Batch(file), effect }));
        }
        self.batch = Some(Batch { writes: if is_flush { 0 } else { count }, left });
    }

    /// An operation ended, or `ok` is false and it is given up: how it ends later changes nothing. Appends the operations of a record that follow, and returns what is kept now, or cannot be.
    pub fn done(&mut self, task: Task, ok: bool, out: &mut Vec<FileEffect>) -> Vec<Kept> {
        if !self.counting().contains(&task.file()) {
            return Vec::new();
        }
        match (task, &mut self.batch) {
            (task, _) if !ok => self.give_up(task.file(), out),
            (Task::Record(_), _) => self.go_on_recording(out),
            (Task::Batch(file), Some(batch)) => batch.left[file] -= 1,
            (Task::Batch(_), None) => panic!("an operation ended that was not requested"),
        }
        self.end_batch()
    }

    /// The files that the ledger's operations go to.
    fn counting(&self) -> Vec<usize> {
        match self.files {
            Files::Both { .. } => Vec::from([0, 1]),
            Files::One(file) | Files::Recording { file, .. } => Vec::from([file]),
            Files::Failed => Vec::new(),
        }
    }

    /// A file failed, and does not count from here on.
    fn give_up(&mut self, file: usize, out: &mut Vec<FileEffect>) {
        let Files::Both { epoch } = self.files else {
            self.files = Files::Failed;
            return;
        };
        let record = FileRecord { standing: Standing::Alone, epoch: epoch + 1 };
        let bytes = self.ledger.record_page(record);
        let [a, b] = record_places();
        let write = |offset| MetadataEffect::Write { offset, bytes: bytes.clone() };
        let steps = [write(a), MetadataEffect::Flush, write(b), MetadataEffect::Flush].into();
        self.files = Files::Recording { file: 1 - file, steps };
        self.go_on_recording(out);
    }

    /// The next operation of a record; behind the last one the file counts alone.
    fn go_on_recording(&mut self, out: &mut Vec<FileEffect>) {
        let Files::Recording { file, steps } = &mut self.files else { return };
        let file = *file;
        match steps.pop_front() {
            Some(effect) => out.push(FileEffect { task: Task::Record(file), effect }),
            None => self.files = Files::One(file),
        }
    }

    /// The ledger's batch ends, if it has ended on every file that counts and no record is being made.
    fn end_batch(&mut self) -> Vec<Kept> {
        let Some(batch) = self.batch else { return Vec::new() };
        let ok = match self.files {
            Files::Recording { .. } => return Vec::new(),
            Files::Both { .. } if batch.left != [0, 0] => return Vec::new(),
            Files::One(file) if batch.left[file] != 0 => return Vec::new(),
            Files::Both { .. } | Files::One(_) => true,
            Files::Failed => false,
        };
        self.batch = None;
        match batch.writes {
            0 => self.ledger.flushed(ok),
            writes => (0..writes).flat_map(|_| self.ledger.written(ok)).collect(),
        }
    }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
