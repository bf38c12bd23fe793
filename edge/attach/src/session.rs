// SPDX-License-Identifier: Apache-2.0
//! The conversation with the kernel about one file: messages become work or are answered at once.

use crate::wire::{
    self, Attributes, Fallocate, Greeting, Header, Introduction, MAJOR, MAX_WRITE, MINOR_LEAST,
    Opened, Statistics, Transfer, opcode,
};
use helio_units::{Bytes, Extent};

/// Requests the kernel may have in the background at once; a loop device has 128.
const BACKGROUND: u16 = 256;

/// What is agreed on where the kernel can: reads and direct transfers that need not wait for each other, writes of many
/// pages.
const ASYNC_READ: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIRECT: u32 = 1 << 15;
const MANY_PAGES: u32 = 1 << 22;
/// Attributes whose change is refused: mode, user, group, size.
const FIXED_ATTRIBUTES: u32 = 0b1111;

/// What the file looks like. It stays so as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its size.
    pub size: Bytes,
    /// Writes keep to blocks of that many bytes; a power of two, at least 512.
    pub block: u32,
    /// Nothing may change it.
    pub read_only: bool,
    /// Giving space back is worth it.
    pub trims: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read whole blocks, of which the bytes from `skip` on are wanted.
    Read {
        /// The blocks.
        extent: Extent,
        /// Bytes before those that are wanted.
        skip: usize,
        /// Bytes wanted.
        length: usize,
    },
    /// Write the message's payload.
    Write {
        /// Where.
        extent: Extent,
        /// Answer only once it is durable.
        durable: bool,
    },
    /// Make durable what was answered.
    Flush,
    /// Make the extent read as zero.
    Zero {
        /// Where.
        extent: Extent,
        /// Space may go back.
        punch: bool,
    },
}

/// What a message asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is answered with this.
    Answer(Vec<u8>),
    /// Something is to be done before it can be answered.
    Work {
        /// Names it in the answer.
        unique: u64,
        /// What is to be done.
        work: Work,
    },
    /// It wants no answer.
    Silent,
}

/// Why work was not done, in what the kernel can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It failed.
    Io,
    /// There is no space.
    NoSpace,
    /// The request makes no sense.
    Invalid,
}

impl Fault {
    /// The number errno(3) has for it.
    pub(crate) const fn errno(self) -> i32 {
        match self {
            Self::Io => libc::EIO,
            Self::NoSpace => libc::ENOSPC,
            Self::Invalid => libc::EINVAL,
        }
    }
}

/// One conversation.
#[derive(Debug)]
pub struct Session {
    shape: Shape,
}

impl Session {
    /// About a file of that shape.
    #[must_use]
    pub const fn new(shape: Shape) -> Self {
        Self { shape }
    }

    /// The file's shape.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Takes a message: its first bytes (as many of [`crate::HEAD_BYTES`] as it has) and its whole length. All we look
    /// at lies there, but for a write's payload.
    #[must_use]
    pub fn consume(&self, head: &[u8], length: usize) -> Step {
        let Some((header, body)) = Header::split(head) else { return Step::Silent };
        let answer = |body: &[u8]| Step::Answer(wire::answer(header.unique, body, 0));
        match header.opcode {
            opcode::INIT => self.introduced(header.unique, body),
            opcode::GETATTR => answer(&self.attributes()),
            opcode::SETATTR if flags(body) & FIXED_ATTRIBUTES != 0 => refuse(&header, libc::EPERM),
            opcode::SETATTR => answer(&self.attributes()),
            opcode::OPEN if self.shape.read_only && writes(flags(body)) => {
                refuse(&header, libc::EROFS)
            }
            opcode::OPEN => answer(&Opened::bytes()),
            opcode::READ => self.read(&header, body),
            opcode::WRITE => self.write(&header, body, length),
            // What was never changed is durable.
            opcode::FSYNC if self.shape.read_only => answer(&[]),
            opcode::FSYNC => Step::Work { unique: header.unique, work: Work::Flush },
            opcode::FALLOCATE => self.fallocate(&header, body),
            opcode::STATFS => {
                let Shape { size, block, .. } = self.shape;
                answer(&Statistics { size: size.0, block }.bytes())
            }
            // Closing promises nothing; who wants more calls fsync.
            opcode::RELEASE | opcode::FLUSH | opcode::DESTROY => answer(&[]),
            opcode::FORGET | opcode::BATCH_FORGET => Step::Silent,
            _ => refuse(&header, libc::ENOSYS),
        }
    }

    /// The answer to work that was done; what a read found follows it.
    #[must_use]
    pub fn done(unique: u64, work: &Work) -> Vec<u8> {
        match work {
            Work::Read { length, .. } => wire::answer(unique, &[], *length),
            Work::Write { extent, .. } => wire::answer(unique, &extent.length.to_ne_bytes(), 0),
            Work::Flush | Work::Zero { .. } => wire::answer(unique, &[], 0),
        }
    }

    /// The answer to work that failed.
    #[must_use]
    pub fn failed(unique: u64, fault: Fault) -> Vec<u8> {
        wire::error(unique, fault.errno())
    }

    fn introduced(&self, unique: u64, body: &[u8]) -> Step {
        let Some(first) = Introduction::read(body) else {
            return Step::Answer(wire::error(unique, libc::EPROTO));
        };
        // A kernel of another major version says what it has and lets us choose; there never was one.
        if first.major != MAJOR || first.minor < MINOR_LEAST {
            return Step::Answer(wire::error(unique, libc::EPROTO));
        }
        let flags = first.flags & (ASYNC_READ | BIG_WRITES | ASYNC_DIRECT | MANY_PAGES);
        let greeting = Greeting {
            minor: first.minor,
            readahead: first.readahead,
            flags,
            background: BACKGROUND,
        };
        Step::Answer(wire::answer(unique, &greeting.bytes(), 0))
    }

    fn attributes(&self) -> Vec<u8> {
        let Shape { size, block, read_only, .. } = self.shape;
        let mode = libc::S_IFREG | if read_only { 0o400 } else { 0o600 };
        Attributes { size: size.0, mode, block }.bytes()
    }

    /// The whole blocks around what is wanted, as far as the file goes.
    fn read(&self, header: &Header, body: &[u8]) -> Step {
        let Some(Transfer { offset, length, .. }) = Transfer::read(body) else {
            return refuse(header, libc::EPROTO);
        };
        let (size, block) = (self.shape.size.0, u64::from(self.shape.block));
        let end = offset.saturating_add(u64::from(length.min(MAX_WRITE))).min(size);
        if offset >= end {
            return Step::Answer(wire::answer(header.unique, &[], 0));
        }
        let from = offset - offset % block;
        let to = end.next_multiple_of(block).min(size);
        let work = Work::Read {
            extent: Extent::new(from, to - from),
            skip: (offset - from) as usize,
            length: (end - offset) as usize,
        };
        Step::Work { unique: header.unique, work }
    }

    fn write(&self, header: &Header, body: &[u8], length: usize) -> Step {
        let Some(transfer) = Transfer::read(body) else { return refuse(header, libc::EPROTO) };
        let extent = Extent::new(transfer.offset, u64::from(transfer.length));
        let payload = length.checked_sub(Header::BYTES + Transfer::BYTES);
        if payload != Some(transfer.length as usize) || transfer.length > MAX_WRITE {
            return refuse(header, libc::EPROTO);
        }
        if let Some(errno) = self.unfit(extent) {
            return refuse(header, errno);
        }
        if extent.length == 0 {
            let body = 0u64.to_ne_bytes();
            return Step::Answer(wire::answer(header.unique, &body, 0));
        }
        let durable = transfer.flags & (libc::O_DSYNC | libc::O_SYNC) as u32 != 0;
        Step::Work { unique: header.unique, work: Work::Write { extent, durable } }
    }

    fn fallocate(&self, header: &Header, body: &[u8]) -> Step {
        let Some(Fallocate { offset, length, mode }) = Fallocate::read(body) else {
            return refuse(header, libc::EPROTO);
        };
        let punch = match mode as i32 & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE if self.shape.trims => true,
            libc::FALLOC_FL_ZERO_RANGE => false,
            _ => return refuse(header, libc::EOPNOTSUPP),
        };
        let extent = Extent::new(offset, length);
        match self.unfit(extent) {
            Some(errno) => refuse(header, errno),
            None if length == 0 => Step::Answer(wire::answer(header.unique, &[], 0)),
            None => Step::Work { unique: header.unique, work: Work::Zero { extent, punch } },
        }
    }

    /// Why an extent cannot be changed.
    fn unfit(&self, extent: Extent) -> Option<i32> {
        let block = u64::from(self.shape.block);
        let whole = |number: u64| number.is_multiple_of(block);
        if self.shape.read_only {
            Some(libc::EROFS)
        } else if extent.end() > self.shape.size.0 {
            Some(libc::ENOSPC)
        } else if !whole(extent.offset) || !whole(extent.length) {
            Some(libc::EINVAL)
        } else {
            None
        }
    }
}

fn refuse(header: &Header, errno: i32) -> Step {
    Step::Answer(wire::error(header.unique, errno))
}

/// What SETATTR and OPEN begin with.
fn flags(body: &[u8]) -> u32 {
    body.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

const fn writes(flags: u32) -> bool {
    flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPE: Shape = Shape { size: Bytes::mib(8), block: 4096, read_only: false, trims: true };
    const READ_ONLY: Shape = Shape { read_only: true, ..SHAPE };

    fn ask(shape: Shape, opcode: u32, body: &[u8], payload: usize) -> Step {
        let length = Header::BYTES + body.len() + payload;
        let header = Header { length: length as u32, opcode, unique: 7, node: 1 };
        let mut message = header.bytes();
        message.extend_from_slice(body);
        Session::new(shape).consume(&message, length)
    }

    fn transfer(shape: Shape, opcode: u32, offset: u64, length: u32, flags: i32) -> Step {
        let payload = if opcode == opcode::WRITE { length as usize } else { 0 };
        let body = Transfer { offset, length, flags: flags as u32 }.bytes();
        ask(shape, opcode, &body, payload)
    }

    fn errno(step: &Step) -> Option<i32> {
        let Step::Answer(bytes) = step else { return None };
        let negated = i32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
        (negated < 0).then_some(-negated)
    }

    fn work(step: Step) -> Work {
        match step {
            Step::Work { unique: 7, work } => work,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_greeting_agrees_on_what_both_can() {
        let kernel = Introduction { major: 7, minor: 44, readahead: 131_072, flags: u32::MAX };
        let Step::Answer(told) = ask(SHAPE, opcode::INIT, &kernel.bytes(), 0) else {
            panic!("the kernel is greeted")
        };
        let flags = ASYNC_READ | BIG_WRITES | ASYNC_DIRECT | MANY_PAGES;
        assert_eq!(told[16 + 12..16 + 16], flags.to_ne_bytes());
        let old = Introduction { minor: 12, ..kernel };
        assert_eq!(errno(&ask(SHAPE, opcode::INIT, &old.bytes(), 0)), Some(libc::EPROTO));
    }

    #[test]
    fn a_write_keeps_to_blocks_and_to_the_file() {
        let at = |offset, length| transfer(SHAPE, opcode::WRITE, offset, length, 0);
        let extent = Extent::new(8192, 4096);
        assert_eq!(work(at(8192, 4096)), Work::Write { extent, durable: false });
        assert_eq!(errno(&at(512, 4096)), Some(libc::EINVAL));
        assert_eq!(errno(&at(4096, 1000)), Some(libc::EINVAL));
        assert_eq!(errno(&at(8 << 20, 4096)), Some(libc::ENOSPC));
        assert_eq!(errno(&at(u64::MAX - 4095, 4096)), Some(libc::ENOSPC));
        let durable = transfer(SHAPE, opcode::WRITE, 8192, 4096, libc::O_DSYNC);
        assert_eq!(work(durable), Work::Write { extent, durable: true });
    }

    #[test]
    fn a_write_whose_payload_is_not_there_is_refused() {
        let body = Transfer { offset: 0, length: 4096, flags: 0 }.bytes();
        assert_eq!(errno(&ask(SHAPE, opcode::WRITE, &body, 4095)), Some(libc::EPROTO));
    }

    #[test]
    fn what_is_read_only_refuses_every_change() {
        let open = (libc::O_RDWR as u32).to_ne_bytes();
        assert_eq!(errno(&ask(READ_ONLY, opcode::OPEN, &open, 0)), Some(libc::EROFS));
        assert_eq!(errno(&ask(READ_ONLY, opcode::OPEN, &0u32.to_ne_bytes(), 0)), None);
        let write = transfer(READ_ONLY, opcode::WRITE, 0, 4096, 0);
        assert_eq!(errno(&write), Some(libc::EROFS));
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let body = Fallocate { offset: 0, length: 4096, mode: punch as u32 }.bytes();
        assert_eq!(errno(&ask(READ_ONLY, opcode::FALLOCATE, &body, 0)), Some(libc::EROFS));
        assert!(matches!(ask(READ_ONLY, opcode::FSYNC, &[0; 16], 0), Step::Answer(_)));
    }

    #[test]
    fn holes_and_zeroes_are_told_apart_and_the_rest_is_not_supported() {
        let ask_mode = |shape, mode: i32| {
            let body = Fallocate { offset: 4096, length: 8192, mode: mode as u32 }.bytes();
            ask(shape, opcode::FALLOCATE, &body, 0)
        };
        let extent = Extent::new(4096, 8192);
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let punch = libc::FALLOC_FL_PUNCH_HOLE | keep;
        assert_eq!(work(ask_mode(SHAPE, punch)), Work::Zero { extent, punch: true });
        let zero = libc::FALLOC_FL_ZERO_RANGE;
        assert_eq!(work(ask_mode(SHAPE, zero)), Work::Zero { extent, punch: false });
        assert_eq!(work(ask_mode(SHAPE, zero | keep)), Work::Zero { extent, punch: false });
        assert_eq!(errno(&ask_mode(SHAPE, 0)), Some(libc::EOPNOTSUPP));
        let firm = Shape { trims: false, ..SHAPE };
        assert_eq!(errno(&ask_mode(firm, punch)), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn the_size_cannot_be_changed_and_times_do_not_matter() {
        let mut size = [0; 88];
        size[0] = 1 << 3;
        assert_eq!(errno(&ask(SHAPE, opcode::SETATTR, &size, 0)), Some(libc::EPERM));
        let mut time = [0; 88];
        time[0] = 1 << 5;
        assert_eq!(errno(&ask(SHAPE, opcode::SETATTR, &time, 0)), None);
    }

    #[test]
    fn what_is_not_known_is_not_here_and_forgetting_wants_no_answer() {
        assert_eq!(errno(&ask(SHAPE, 9999, &[], 0)), Some(libc::ENOSYS));
        assert_eq!(ask(SHAPE, opcode::FORGET, &[0; 8], 0), Step::Silent);
        assert_eq!(Session::new(SHAPE).consume(&[0; 39], 39), Step::Silent);
    }

    proptest! {
        /// Against the slow way: byte by byte.
        #[test]
        fn a_read_finds_the_bytes_that_were_wanted(
            offset in 0u64..10 << 20,
            length in 0u32..2 << 20,
            block in prop::sample::select(vec![512u32, 4096]),
        ) {
            let shape = Shape { block, ..SHAPE };
            let end = (offset + u64::from(length.min(MAX_WRITE))).min(shape.size.0);
            let step = transfer(shape, opcode::READ, offset, length, 0);
            if offset >= end {
                prop_assert_eq!(step, Step::Answer(wire::answer(7, &[], 0)));
            } else {
                let Work::Read { extent, skip, length } = work(step) else { panic!("a read") };
                prop_assert_eq!(extent.offset + skip as u64, offset);
                prop_assert_eq!(length as u64, end - offset);
                prop_assert!(offset + length as u64 <= extent.end());
                prop_assert!(extent.end() <= shape.size.0);
                prop_assert!(extent.offset.is_multiple_of(u64::from(block)));
                prop_assert!(extent.length.is_multiple_of(u64::from(block)));
            }
        }

        #[test]
        fn no_message_makes_us_fall_over(head in prop::collection::vec(any::<u8>(), 0..80),
            opcode in 0u32..60, length in 0usize..2 << 20) {
            let mut head = head;
            if head.len() >= 8 {
                head[4..8].copy_from_slice(&opcode.to_ne_bytes());
            }
            let step = Session::new(SHAPE).consume(&head, length);
            if let Step::Work { work: Work::Write { extent, .. } | Work::Zero { extent, .. }, .. } = step {
                prop_assert!(extent.end() <= SHAPE.size.0 && extent.length > 0);
            }
        }
    }
}
