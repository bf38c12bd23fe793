// SPDX-License-Identifier: Apache-2.0
//! The two disks of a copy or a mirror: files without a name, through the disk access and the driver of daemons. One may be slowed
//! down, or lie behind a link.

use crate::error::LabError;
use crate::store::Disk;
use helio_disk::{Io, Member, Neighbours, OpenOptions, open};
use helio_driver::{AnyDriver, Buffer, Completion, Driver, DriverChoice, Op, Outcome, Pool, Token};
use helio_netmodel::{Dice, Direction, Profile, Verdict};
use helio_units::{Bytes, Extent, Moment};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Buffers for everything that may be in flight, and to spare.
const POOL: Bytes = Bytes::mib(256);

/// What a message to a remote disk takes besides the bytes that are written, and all of a response.
const MESSAGE: Bytes = Bytes(48);

/// How operations reach a disk.
#[derive(Debug)]
pub(super) enum Way {
    Direct,
    /// It is slow; when it has transferred everything so far.
    Slow(Disk, Moment),
    /// Over a link: there, and back.
    Link(Box<[Direction; 2]>),
}

impl Way {
    pub(super) fn slow(disk: Option<Disk>) -> Self {
        disk.map_or(Self::Direct, |disk| Self::Slow(disk, Moment::ZERO))
    }

    /// Over a link whose directions are like that, without loss.
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

/// An operation under way on a leg, and when it completes at the earliest.
#[derive(Clone, Copy, Debug)]
struct Due {
    leg: usize,
    at: Moment,
}

/// See the module. Operations are named by their tokens.
pub(super) struct Legs {
    driver: AnyDriver,
    legs: [Leg; 2],
    pool: Pool,
    begun: Instant,
    dice: Dice,
    due: BTreeMap<Token, Due>,
    /// What is on its way to its disk.
    coming: BTreeMap<(Moment, Token), Op>,
    /// What has completed, and waits for its time.
    early: BTreeMap<(Moment, Token), Outcome>,
    out: Vec<Completion>,
}

impl Legs {
    /// In these directories, the source first. The files have no name any more when this returns.
    pub(super) fn open(folders: [&Path; 2], size: Bytes, io: Io) -> Result<Self, LabError> {
        let source = make(folders[0], "source", size, io)?;
        let target = make(folders[1], "target", size, io)?;
        let system = LabError::system("open an I/O driver", "read the error of the kernel");
        let (driver, _) = AnyDriver::open(DriverChoice::Auto, Duration::ZERO).map_err(system)?;
        let leg = |member| Leg { member, way: Way::Direct };
        Ok(Self {
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

    /// Blocks that operations on both keep to.
    pub(super) fn block(&self) -> Bytes {
        self.legs[0].member.alignment().max(self.legs[1].member.alignment())
    }

    /// From now on operations reach that disk in that way.
    pub(super) fn make(&mut self, leg: usize, way: Way) {
        self.legs[leg].way = way;
    }

    fn now(&self) -> Moment {
        Moment::ZERO + self.begun.elapsed()
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

    /// Hands in what has arrived at its disk.
    fn hand_in(&mut self, now: Moment) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, token), op) = entry.remove_entry();
            self.driver.submit(token, op);
        }
    }

    /// Whether operations are under way.
    fn is_busy(&self) -> bool {
        !self.due.is_empty() || !self.early.is_empty()
    }

    /// What has completed; waits until something has, or until then.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> Result<Vec<Completion>, LabError> {
        let next = [self.early.keys().next(), self.coming.keys().next()];
        let next = next.into_iter().flatten().map(|(at, _)| self.begun + at.since(Moment::ZERO));
        let until = next.chain(until).min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        self.driver
            .wait(left, &mut self.out)
            .map_err(LabError::system("wait for a disk", "read the error of the kernel"))?;
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

/// When something arrives. What finds the queue full waits for room, as a stream does.
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
    let opened = sized.and_then(|()| {
        open(&path, &options, &Neighbours::default())
            .map_err(|why| LabError::Asked(why.to_string()))
    });
    std::fs::remove_file(&path).map_err(LabError::system(doing("remove"), hint))?;
    opened
}
