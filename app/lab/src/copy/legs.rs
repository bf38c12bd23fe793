// SPDX-License-Identifier: Apache-2.0
//! The two disks of a copy: files without a name, through the disk access and the driver of daemons. One may be slowed down.

use crate::error::LabError;
use crate::store::Disk;
use helio_disk::{Io, Member, OpenOptions, open};
use helio_driver::{AnyDriver, Buffer, Completion, Driver, DriverChoice, Op, Outcome, Pool, Token};
use helio_units::{Bytes, Extent};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Buffers for everything that may be in flight, and to spare.
const POOL: Bytes = Bytes::mib(256);

/// A disk, and how slow it is made.
#[derive(Debug)]
struct Leg {
    member: Member,
    slow: Option<Disk>,
    /// When a slow one has transferred everything so far.
    free: Instant,
}

/// See the module. Operations are named by their tokens.
pub(super) struct Legs {
    driver: AnyDriver,
    legs: [Leg; 2],
    pool: Pool,
    /// Of operations under way: when they complete at the earliest.
    due: BTreeMap<Token, Instant>,
    /// What has completed, and waits for its time.
    early: BTreeMap<(Instant, Token), Outcome>,
    out: Vec<Completion>,
}

impl Legs {
    /// In these directories, the source first. The files have no name any more when this returns.
    pub(super) fn open(folders: [&Path; 2], size: Bytes, io: Io) -> Result<Self, LabError> {
        let source = make(folders[0], "source", size, io)?;
        let target = make(folders[1], "target", size, io)?;
        let system = LabError::system("open an I/O driver", "read the error of the kernel");
        let (driver, _) = AnyDriver::open(DriverChoice::Auto, Duration::ZERO).map_err(system)?;
        let leg = |member| Leg { member, slow: None, free: Instant::now() };
        Ok(Self {
            driver,
            legs: [leg(source), leg(target)],
            pool: Pool::new(POOL),
            due: BTreeMap::new(),
            early: BTreeMap::new(),
            out: Vec::new(),
        })
    }

    pub(super) fn driver(&self) -> &'static str {
        self.driver.name()
    }

    /// Blocks that operations on both keep to.
    pub(super) fn block(&self) -> Bytes {
        self.legs[0].member.alignment().max(self.legs[1].member.alignment())
    }

    /// From now on the source and the target are that slow.
    pub(super) fn slow_down(&mut self, slow: [Option<Disk>; 2]) {
        for (leg, slow) in self.legs.iter_mut().zip(slow) {
            (leg.slow, leg.free) = (slow, Instant::now());
        }
    }

    /// A buffer of that length.
    pub(super) fn buffer(&self, length: u64) -> Buffer {
        self.pool.take(length as usize).unwrap_or_else(|| Buffer::zeroed(length as usize))
    }

    pub(super) fn member(&self, leg: usize) -> &Member {
        &self.legs[leg].member
    }

    /// Hands in an operation on that disk.
    pub(super) fn submit(&mut self, leg: usize, token: Token, op: Op) {
        let bytes = match &op {
            Op::Read { extent, .. } | Op::Write { extent, .. } => extent.length,
            _ => 0,
        };
        let Leg { slow, free, .. } = &mut self.legs[leg];
        let now = Instant::now();
        let due = slow.map_or(now, |disk| {
            *free = now.max(*free) + disk.transfer(bytes);
            *free + disk.overhead
        });
        self.due.insert(token, due);
        self.driver.submit(token, op);
    }

    /// Whether operations are under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.due.is_empty() || !self.early.is_empty()
    }

    /// What has completed; waits until something has, or until then.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Result<Vec<Completion>, LabError> {
        let next = self.early.keys().next().map(|(due, _)| *due);
        let until = next.into_iter().chain(until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        self.driver
            .wait(left, &mut self.out)
            .map_err(LabError::system("wait for a disk", "read the error of the kernel"))?;
        let now = Instant::now();
        let mut done = Vec::new();
        for Completion { token, outcome } in self.out.drain(..) {
            match self.due.remove(&token) {
                Some(due) if due > now => _ = self.early.insert((due, token), outcome),
                _ => done.push(Completion { token, outcome }),
            }
        }
        while let Some(entry) = self.early.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, token), outcome) = entry.remove_entry();
            done.push(Completion { token, outcome });
        }
        for Completion { outcome, .. } in &done {
            if let Some(error) = outcome.error() {
                let hint =
                    "use directories on disks that work, with space for the measurement (--size)";
                let why = std::io::Error::other(error);
                return Err(LabError::system("use the disks", hint)(why));
            }
        }
        Ok(done)
    }

    /// Ends what is under way; its outcomes mean nothing.
    pub(super) fn settle(&mut self) -> Result<(), LabError> {
        while self.is_busy() {
            self.wait(None)?;
        }
        Ok(())
    }

    /// An operation of ours does not fit a disk of ours.
    pub(super) fn fits<T>(it: Result<T, helio_disk::StoreError>) -> Result<T, LabError> {
        it.map_err(|why| {
            LabError::system("use the disks", "use --transfer with multiples of the block size")(
                std::io::Error::other(why.to_string()),
            )
        })
    }

    /// A write of a buffer.
    pub(super) fn write(&self, leg: usize, extent: Extent, buffer: Buffer) -> Result<Op, LabError> {
        let range = 0..extent.length as usize;
        Self::fits(self.member(leg).write(extent, buffer.into_shared(), range, false))
    }
}

/// A new file of that size, open and without a name.
fn make(folder: &Path, what: &str, size: Bytes, io: Io) -> Result<Member, LabError> {
    let path = folder.join(format!(".helio-lab-copy-{}-{what}", std::process::id()));
    let doing = |what: &str| format!("{what} {}", path.display());
    let hint = "use a writable directory with space for the measurement (--size)";
    let made = std::fs::File::create_new(&path).map_err(LabError::system(doing("create"), hint))?;
    let sized = made.set_len(size.0).map_err(LabError::system(doing("set the size of"), hint));
    drop(made);
    let role = format!("{what} of the copy");
    let options = OpenOptions { size, io, create: false, sparse: false, role };
    let opened =
        sized.and_then(|()| open(&path, &options).map_err(|why| LabError::Asked(why.to_string())));
    std::fs::remove_file(&path).map_err(LabError::system(doing("remove"), hint))?;
    opened
}
