// SPDX-License-Identifier: Apache-2.0
//! What is varied, what stays, and a run for every combination.

use crate::link::Link;
use crate::sampling::Sampling;
use crate::setting::{CLIENT, PROCESSOR, WINDOW, settings};
use core::fmt;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use helio_engine::ITEM_BYTES_MAX;
use helio_netmodel::Outage;
use helio_twin::{DiskModel, Figures, PairConfig, Stuck};
use helio_units::{Bytes, Mode};
use helio_workload::{Kind, Workload};
use std::sync::Mutex;

/// The most combinations of one grid.
const MOST_POINTS: usize = 1024;

/// A queue's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// As the daemon chooses it by what it measures.
    Auto,
    /// Fixed.
    Bytes(Bytes),
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Bytes(bytes) => f.pad(&bytes.to_string()),
        }
    }
}

/// A socket's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Left to the kernel: up to [`WINDOW`].
    Auto,
    /// Exactly so many bytes unacknowledged.
    Bytes(Bytes),
}

impl Buffer {
    /// The most that is unacknowledged.
    #[must_use]
    pub fn window(self) -> Bytes {
        match self {
            Self::Auto => WINDOW,
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Bytes(bytes) => f.pad(&bytes.to_string()),
        }
    }
}

/// What is varied, and what stays.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Modes.
    pub modes: Vec<Mode>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Links.
    pub links: Vec<Link>,
    /// When every link is down, counted from the workload's beginning.
    pub outages: Vec<Outage>,
    /// The primary's disk and its peer's.
    pub disks: [DiskModel; 2],
    /// Requests the application has under way at most.
    pub depth: u32,
    /// What of the workload is run.
    pub sampling: Sampling,
    /// How long a run may take behind the workload's end.
    pub patience: Duration,
    /// Decides what is left to chance.
    pub seed: u64,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The mode.
    pub mode: Mode,
    /// The queue.
    pub queue: Queue,
    /// The buffer.
    pub buffer: Buffer,
    /// The link.
    pub link: Link,
}

/// One combination, and what it came to.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which.
    pub point: Point,
    /// The figures, or why there are none.
    pub figures: Result<Figures, Stuck>,
    /// How much of the workload was run and counted.
    pub measured: Duration,
}

/// Why there is no grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellError {
    /// There is nothing to vary, or too much.
    Points(usize),
    /// A request is longer than a client may make it.
    TooLong {
        /// Which, counted from 1.
        number: u64,
        /// Its length.
        length: Bytes,
    },
    /// The workload asks for nothing.
    Empty,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(count) => {
                write!(
                    f,
                    "{count} combinations of modes, queues, buffers and links; use 1 to {MOST_POINTS}"
                )
            }
            Self::TooLong { number, length } => write!(
                f,
                "request {number} is {length} long; clients request at most {} at once",
                Bytes(ITEM_BYTES_MAX)
            ),
            Self::Empty => f.write_str(
                "the workload has no requests; hint: use rate= and for= above 0 for a \
                                        synthetic one",
            ),
        }
    }
}

impl core::error::Error for CellError {}

impl Grid {
    /// Every combination: modes vary fastest, links slowest.
    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for link in &self.links {
            for &buffer in &self.buffers {
                for &queue in &self.queues {
                    let point = |&mode: &Mode| Point { mode, queue, buffer, link: link.clone() };
                    points.extend(self.modes.iter().map(point));
                }
            }
        }
        points
    }

    /// Runs every combination, on as many threads as asked for; how many changes nothing but the time it takes.
    ///
    /// # Errors
    /// The grid or the workload is not fit for it.
    pub fn run(&self, workload: &Workload, threads: NonZeroUsize) -> Result<Vec<Cell>, CellError> {
        self.check(workload)?;
        let points = self.points();
        let (next, cells) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..threads.get().min(points.len()) {
                scope.spawn(|| {
                    while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let at = points.iter().position(|other| other == point);
                        let cell = self.cell(workload, point);
                        cells.lock().expect("no run panics").push((at, cell));
                    }
                });
            }
        });
        let mut cells = cells.into_inner().expect("no run panics");
        cells.sort_by_key(|(at, _)| *at);
        Ok(cells.into_iter().map(|(_, cell)| cell).collect())
    }

    fn check(&self, workload: &Workload) -> Result<(), CellError> {
        let count = self.modes.len() * self.queues.len() * self.buffers.len() * self.links.len();
        if count == 0 || count > MOST_POINTS {
            return Err(CellError::Points(count));
        }
        if workload.requests().is_empty() {
            return Err(CellError::Empty);
        }
        let moves = |kind| matches!(kind, Kind::Read | Kind::Write);
        let long = workload
            .requests()
            .iter()
            .position(|r| moves(r.kind) && r.extent.length > ITEM_BYTES_MAX);
        match long {
            Some(at) => Err(CellError::TooLong {
                number: at as u64 + 1,
                length: Bytes(workload.requests()[at].extent.length),
            }),
            None => Ok(()),
        }
    }

    fn cell(&self, workload: &Workload, point: &Point) -> Cell {
        let (figures, measured) =
            self.sampling.run(workload, &self.config(workload, point), self.patience);
        Cell { point: point.clone(), figures, measured }
    }

    fn config(&self, workload: &Workload, point: &Point) -> PairConfig {
        let volumes = workload.volumes().iter().map(|volume| volume.size).collect();
        let memory = match point.queue {
            Queue::Auto => None,
            Queue::Bytes(bytes) => Some(bytes),
        };
        let mut link = point.link.model(point.buffer.window());
        link.forth.outages.clone_from(&self.outages);
        link.back.outages.clone_from(&self.outages);
        PairConfig {
            settings: settings(volumes, point.mode, memory),
            link,
            disks: self.disks,
            processor: PROCESSOR,
            client: CLIENT,
            depth: self.depth,
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{disk, synthetic};

    fn grid() -> Grid {
        let disk = disk("nvme").expect("a name");
        Grid {
            modes: vec![Mode::Async, Mode::Sync],
            queues: vec![Queue::Auto, Queue::Bytes(Bytes::mib(4))],
            buffers: vec![Buffer::Auto],
            links: vec!["rtt=10ms,rate=100Mbit/s".parse().expect("a link")],
            outages: Vec::new(),
            disks: [disk, disk],
            depth: 256,
            sampling: Sampling::Whole,
            patience: Duration::from_secs(60),
            seed: 1,
        }
    }

    fn workload(text: &str) -> Workload {
        synthetic(text).expect("fields").draw().expect("a workload")
    }

    #[test]
    fn threads_change_nothing_but_the_time() {
        let work = workload("rate=300,for=3s");
        let with = |threads| {
            let threads = NonZeroUsize::new(threads).expect("some");
            let cells = grid().run(&work, threads).expect("it runs");
            cells
                .into_iter()
                .map(|cell| (cell.point, cell.figures.expect("it mirrors")))
                .collect::<Vec<_>>()
        };
        let one = with(1);
        assert_eq!(one.len(), 4);
        assert_eq!(one, with(3));
        let median = |n: usize| one[n].1.writes.time_at(50.0);
        assert!(median(1) > median(0) + Duration::from_millis(9), "sync waits for the link");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let one = NonZeroUsize::MIN;
        let none = Grid { modes: vec![], ..grid() };
        let work = workload("rate=10,for=1s");
        assert_eq!(none.run(&work, one).err(), Some(CellError::Points(0)));
        let long = workload("rate=1,for=2s,size=64MiB");
        let error = grid().run(&long, one).expect_err("too long");
        assert!(error.to_string().starts_with("request 1 is 64 MiB long"), "{error}");
        let empty = workload("rate=0,for=1s");
        assert_eq!(grid().run(&empty, one).err(), Some(CellError::Empty));
    }
}
