// SPDX-License-Identifier: Apache-2.0
//! The two disks of a copy or a mirror: files without a name, used by the disk access and the driver of daemons. A disk can be made
//! slow, or be behind an emulated link.

use crate::error::LabError;
use crate::meet::Stage;
use crate::socket::SLICE;
use crate::store::Disk;
use helio_disk::{Io, Member, OpenOptions, OtherUsers, Refusal, open};
use helio_driver::{
    AnyDriver, Buffer, Completion, Driver, DriverChoice, Linux, Op, Outcome, Pool, Token,
};
use helio_netmodel::{Dice, Direction, Profile, Verdict};
use helio_units::{Bytes, Extent, Moment};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Size of the buffer pool: more than all operations in flight need.
const POOL: Bytes = Bytes::mib(256);

/// Length of a message to or from a remote disk without the bytes that are written or read.
const MESSAGE: Bytes = Bytes(48);

/// How operations reach a disk.
#[derive(Debug)]
pub(super) enum Way {
    Direct,
    /// The disk is slow; the moment at which it has transferred everything so far.
    Slow(Disk, Moment),
    /// The disk is remote: the direction to it, and the one back.
    Link(Box<[Direction; 2]>),
}

impl Way {
    pub(super) fn slow(disk: Option<Disk>) -> Self {
        disk.map_or(Self::Direct, |disk| Self::Slow(disk, Moment::ZERO))
    }

    /// The disk is behind a link with this profile in each direction, without loss.
    pub(super) fn over(profile: &Profile) -> Self {
        Self::Link(Box::new([Direction::new(profile.clone()), Direction::new(profile.clone())]))
    }
}

/// A disk.
#[derive(Debug)]
struct Leg {
    member: Member,
    way: Way,
}

/// An operation in progress on a leg, and the earliest moment at which it completes.
#[derive(Clone, Copy, Debug)]
struct Due {
    leg: usize,
    at: Moment,
}

/// See the module. Operations are named by their tokens.
pub(super) struct Legs<'s> {
    stage: &'s Stage<'s>,
    driver: AnyDriver,
    legs: [Leg; 2],
    pool: Pool,
    begun: Instant,
    dice: Dice,
    due: BTreeMap<Token, Due>,
    /// Operations that are on the link to their disk, by the moment at which they arrive.
    coming: BTreeMap<(Moment, Token), Op>,
    /// Operations that have completed before their time.
    early: BTreeMap<(Moment, Token), Outcome>,
    out: Vec<Completion>,
}

impl<'s> Legs<'s> {
    /// Creates the files in these directories, the source first, and removes their names.
    pub(super) fn open(
        folders: [&Path; 2],
        size: Bytes,
        io: Io,
        stage: &'s Stage<'s>,
    ) -> Result<Self, LabError> {
        let source = make(folders[0], "source", size, io)?;
        let target = make(folders[1], "target", size, io)?;
        let system = LabError::system("open an I/O driver", "read the error of the kernel");
        let (driver, _) = AnyDriver::open(DriverChoice::Auto, Duration::ZERO).map_err(system)?;
        let leg = |member| Leg { member, way: Way::Direct };
        Ok(Self {
            stage,
            driver,
            legs: [leg(source), leg(target)],
            pool: Pool::new(POOL),
            begun: Instant::now(),
            dice: Dice::new(1),
            due: BTreeMap::new(),
            coming: BTreeMap::new(),
            early: BTreeMap::new(),
            out: Vec::new(),
        })
    }

    pub(super) fn driver(&self) -> &'static str {
        self.driver.name()
    }

    /// The block size that both disks accept.
    pub(super) fn block(&self) -> Bytes {
        self.legs[0].member.alignment().max(self.legs[1].member.alignment())
    }

    /// Changes how operations reach this disk from now on.
    pub(super) fn make(&mut self, leg: usize, way: Way) {
        self.legs[leg].way = way;
    }

    fn now(&self) -> Moment {
        Moment::ZERO + self.begun.elapsed()
    }

    /// A buffer of this length in bytes; its content is undefined.
    pub(super) fn buffer(&self, length: u64) -> Buffer {
        self.pool.take(length as usize).unwrap_or_else(|| Buffer::zeroed(length as usize))
    }

    pub(super) fn member(&self, leg: usize) -> &Member {
        &self.legs[leg].member
    }

    /// Starts an operation on this disk.
    pub(super) fn submit(&mut self, leg: usize, token: Token, op: Op) {
        let (moved, sent) = match &op {
            Op::Read { extent, .. } => (extent.length, 0),
            Op::Write { extent, .. } => (extent.length, extent.length),
            _ => (0, 0),
        };
        let now = self.now();
        let mut at = now;
        match &mut self.legs[leg].way {
            Way::Direct => {}
            Way::Slow(disk, free) => {
                *free = now.max(*free) + disk.transfer(moved);
                at = *free + disk.overhead;
            }
            Way::Link(ways) => {
                let arrives = carried(&mut ways[0], now, MESSAGE + Bytes(sent), &mut self.dice);
                self.due.insert(token, Due { leg, at: arrives });
                self.coming.insert((arrives, token), op);
                return self.hand_in(now);
            }
        }
        self.due.insert(token, Due { leg, at });
        self.driver.submit(token, op);
    }

    /// Starts the operations that have arrived at their disk.
    fn hand_in(&mut self, now: Moment) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, token), op) = entry.remove_entry();
            self.driver.submit(token, op);
        }
    }

    /// Whether operations are in progress.
    fn is_busy(&self) -> bool {
        !self.due.is_empty() || !self.early.is_empty()
    }

    /// Waits until an operation completes, at most until this moment, and returns what has completed. It may return earlier with nothing.
    ///
    /// # Errors
    /// A disk failed, or a signal asked for the end.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Result<Vec<Completion>, LabError> {
        self.stage.go_on()?;
        let next = [self.early.keys().next(), self.coming.keys().next()];
        let next = next.into_iter().flatten().map(|(at, _)| self.begun + at.since(Moment::ZERO));
        let now = Instant::now();
        let until = next.chain(until).chain([now + SLICE]).min();
        self.wait_for_disks(until.map(|until| until.saturating_duration_since(now)))?;
        let now = self.now();
        self.hand_in(now);
        let mut done = Vec::new();
        for Completion { token, outcome } in self.out.drain(..) {
            let Some(Due { leg, mut at }) = self.due.remove(&token) else { continue };
            if let Way::Link(ways) = &mut self.legs[leg].way {
                let read =
                    if let Outcome::Read { buffer, .. } = &outcome { buffer.len() } else { 0 };
                at = carried(&mut ways[1], now, MESSAGE + Bytes(read as u64), &mut self.dice);
            }
            if at > now {
                self.early.insert((at, token), outcome);
            } else {
                done.push(Completion { token, outcome });
            }
        }
        while let Some(entry) = self.early.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, token), outcome) = entry.remove_entry();
            done.push(Completion { token, outcome });
        }
        if let Some(error) = done.iter().find_map(|completion| completion.outcome.error()) {
            let hint =
                "use directories on disks that work, with space for the measurement (--size)";
            return Err(LabError::system("use the disks", hint)(std::io::Error::other(error)));
        }
        Ok(done)
    }

    fn wait_for_disks(&mut self, longest: Option<Duration>) -> Result<(), LabError> {
        let failed = LabError::system("wait for a disk", "read the error of the kernel");
        self.driver.wait(longest, &mut self.out).map_err(failed)
    }

    /// Waits until every operation in progress has completed.
    ///
    /// # Errors
    /// As [`Legs::wait`].
    pub(super) fn settle(&mut self) -> Result<(), LabError> {
        while self.is_busy() {
            self.wait(None)?;
        }
        Ok(())
    }

    /// Forgets every operation in progress. Waits for the disks, not for emulated delays.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub(super) fn abandon(&mut self) -> Result<(), LabError> {
        for (_, token) in std::mem::take(&mut self.coming).into_keys() {
            self.due.remove(&token);
        }
        self.early.clear();
        while !self.due.is_empty() {
            self.wait_for_disks(None)?;
            for done in self.out.drain(..) {
                self.due.remove(&done.token);
            }
        }
        Ok(())
    }

    /// The operation, unless a disk does not accept its blocks.
    pub(super) fn fits<T>(it: Result<T, helio_disk::StoreError>) -> Result<T, LabError> {
        it.map_err(|why| {
            LabError::system("use the disks", "use directories on disks with smaller blocks")(
                std::io::Error::other(why.to_string()),
            )
        })
    }

    /// A write of a buffer. `fua`: it is durable when it completes.
    pub(super) fn write(
        &self,
        leg: usize,
        extent: Extent,
        buffer: Buffer,
        fua: bool,
    ) -> Result<Op, LabError> {
        let range = 0..extent.length as usize;
        Self::fits(self.member(leg).write(extent, buffer.into_shared(), range, fua))
    }
}

/// When a message arrives. If the queue of the link is full, the message waits for room, as in a stream.
fn carried(way: &mut Direction, now: Moment, size: Bytes, dice: &mut Dice) -> Moment {
    let from = way.room_at(now, size);
    match way.offer(from, size, dice) {
        Verdict::Deliver { at } => at,
        Verdict::Drop(why) => panic!("a link without loss and outages dropped something: {why:?}"),
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
    let refused = |refusal: Refusal| {
        let hint = match refusal {
            Refusal::NoDirectIo => "use a directory on a file system with direct I/O",
            Refusal::LargeBlocks { .. } => "use a directory on a disk with smaller blocks",
            _ => hint,
        };
        LabError::system(doing("open"), hint)(std::io::Error::other(refusal.to_string()))
    };
    let opened = sized.and_then(|()| {
        open(&path, &options, &OtherUsers::of(&Linux::host())).map_err(|why| refused(why.refusal))
    });
    std::fs::remove_file(&path).map_err(LabError::system(doing("remove"), hint))?;
    opened
}
