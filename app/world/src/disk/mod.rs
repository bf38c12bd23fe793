// SPDX-License-Identifier: Apache-2.0
//! The disk of a machine with its one file system: files, folders, names, locks and room.

mod content;
mod history;
mod names;
mod path;

pub(crate) use content::{BLOCK, Change, Content};
pub(crate) use history::Stamp;
pub(crate) use names::Inode;

use helio_driver::{Errno, Facts, FileType, Mode, OFlags, Room};
use helio_netmodel::Dice;
use helio_units::{Bytes, Moment, SECTOR};
use history::History;
use names::Names;
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of an open file. No two of a world are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HandleId(pub(crate) u64);

/// The folder that everything is in.
const TOP: Inode = Inode(2);

/// What a file or folder has beside its content.
#[derive(Clone, Debug)]
struct Attributes {
    mode: Mode,
    extended: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug)]
pub(crate) enum Body {
    File(Content),
    Folder,
    /// Where a Unix socket listens or listened.
    Socket,
}

#[derive(Debug)]
struct Node {
    body: Body,
    attributes: History<Attributes>,
    born: Moment,
    /// How many times it is open.
    open: usize,
    locked_by: Option<HandleId>,
}

/// The disk.
#[derive(Debug)]
pub(crate) struct Disk {
    nodes: BTreeMap<Inode, Node>,
    names: Names,
    size: u64,
    next: u64,
    stamp: Stamp,
}

impl Disk {
    pub(crate) fn new(size: u64) -> Self {
        let mut disk = Self {
            nodes: BTreeMap::new(),
            names: Names::default(),
            size,
            next: TOP.0,
            stamp: Stamp::default(),
        };
        disk.create(Body::Folder, Mode::from_raw_mode(0o755), Moment::ZERO);
        disk
    }

    fn create(&mut self, body: Body, mode: Mode, now: Moment) -> Inode {
        let inode = Inode(self.next);
        self.next += 1;
        let attributes = History::new(Attributes { mode, extended: BTreeMap::new() });
        self.nodes.insert(inode, Node { body, attributes, born: now, open: 0, locked_by: None });
        inode
    }

    fn node(&self, inode: Inode) -> Result<&Node, Errno> {
        self.nodes.get(&inode).ok_or(Errno::IO)
    }

    fn node_mut(&mut self, inode: Inode) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&inode).ok_or(Errno::IO)
    }

    /// The content of a file.
    pub(crate) fn content(&self, inode: Inode) -> Result<&Content, Errno> {
        match &self.node(inode)?.body {
            Body::File(content) => Ok(content),
            Body::Folder => Err(Errno::ISDIR),
            Body::Socket => Err(Errno::INVAL),
        }
    }

    /// The content of a file, to be changed.
    pub(crate) fn content_mut(&mut self, inode: Inode) -> Result<&mut Content, Errno> {
        match &mut self.node_mut(inode)?.body {
            Body::File(content) => Ok(content),
            Body::Folder => Err(Errno::ISDIR),
            Body::Socket => Err(Errno::INVAL),
        }
    }

    /// What the next change has to know.
    pub(crate) fn change(&mut self) -> Change {
        self.stamp.0 += 1;
        Change { stamp: self.stamp, free: self.room().free.0 }
    }

    /// The last change.
    pub(crate) const fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Room in all, and what is left.
    pub(crate) fn room(&self) -> Room {
        let held = self.nodes.iter().map(|(inode, node)| match &node.body {
            Body::File(content) if node.open > 0 || self.names.is_named(*inode) => content.held(),
            _ => 0,
        });
        let held: u64 = held.sum();
        Room { free: Bytes(self.size.saturating_sub(held)), size: Bytes(self.size) }
    }

    /// Changes how much fits.
    pub(crate) const fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    pub(crate) fn facts(&self, inode: Inode, device: u64, birth: Duration) -> Result<Facts, Errno> {
        let node = self.node(inode)?;
        let (kind, length, held) = match &node.body {
            Body::File(content) => (FileType::RegularFile, content.length(), content.held()),
            Body::Folder => (FileType::Directory, BLOCK, BLOCK),
            Body::Socket => (FileType::Socket, 0, 0),
        };
        let born = birth + node.born.since(Moment::ZERO);
        Ok(Facts {
            kind,
            length: Bytes(length),
            held: Bytes(held),
            device,
            inode: inode.0,
            represents: 0,
            mode: node.attributes.current().mode,
            owner: 0,
            // When a file changed is not recorded.
            modified: born,
            born: Some((i64::try_from(born.as_secs()).unwrap_or(i64::MAX), born.subsec_nanos())),
        })
    }

    pub(crate) fn set_mode(&mut self, inode: Inode, mode: Mode) -> Result<(), Errno> {
        self.set_attributes(inode, |attributes| {
            attributes.mode = mode;
            Ok(())
        })
    }

    fn set_attributes(
        &mut self,
        inode: Inode,
        set: impl FnOnce(&mut Attributes) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        self.stamp.0 += 1;
        let stamp = self.stamp;
        let node = self.node_mut(inode)?;
        let mut attributes = node.attributes.current().clone();
        set(&mut attributes)?;
        // A flush of attributes happens at its end: none is under way.
        node.attributes.put(stamp, attributes, &[]);
        Ok(())
    }

    pub(crate) fn attribute(&self, inode: Inode, name: &str) -> Result<&[u8], Errno> {
        let value = self.node(inode)?.attributes.current().extended.get(name);
        value.map(Vec::as_slice).ok_or(Errno::NODATA)
    }

    pub(crate) fn set_attribute(
        &mut self,
        inode: Inode,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.set_attributes(inode, |attributes| match value {
            Some(value) => {
                attributes.extended.insert(name.to_owned(), value.to_vec());
                Ok(())
            }
            None => attributes.extended.remove(name).map(drop).ok_or(Errno::NODATA),
        })
    }

    /// Whether this handle has the lock now.
    pub(crate) fn lock(&mut self, inode: Inode, handle: HandleId) -> Result<bool, Errno> {
        let holder = self.node_mut(inode)?.locked_by.get_or_insert(handle);
        Ok(*holder == handle)
    }

    pub(crate) fn opened(&mut self, inode: Inode) -> Result<(), Errno> {
        self.node_mut(inode)?.open += 1;
        Ok(())
    }

    /// A handle is closed, and its lock with it.
    pub(crate) fn closed(&mut self, inode: Inode, handle: HandleId) {
        if let Ok(node) = self.node_mut(inode) {
            node.open = node.open.saturating_sub(1);
            node.locked_by = node.locked_by.filter(|holder| *holder != handle);
        }
        self.forget(inode);
    }

    /// Forgets a file that is neither open nor has a name, or could get one back.
    fn forget(&mut self, inode: Inode) {
        let names = &self.names;
        let used = |node: &Node| node.open > 0 || names.is_named(inode) || names.may_return(inode);
        if inode != TOP && self.nodes.get(&inode).is_some_and(|node| !used(node)) {
            self.nodes.remove(&inode);
        }
    }

    /// A flush of a file or folder begins; it covers the changes so far.
    pub(crate) fn begin_flush(&mut self, inode: Inode) -> Result<Stamp, Errno> {
        let stamp = self.stamp;
        if let Body::File(content) = &mut self.node_mut(inode)?.body {
            content.begin_flush(stamp);
        }
        Ok(stamp)
    }

    /// It never happens.
    pub(crate) fn drop_flush(&mut self, inode: Inode, upto: Stamp) {
        if let Ok(content) = self.content_mut(inode) {
            content.drop_flush(upto);
        }
    }

    /// It ended. With `attributes` they are durable, too.
    pub(crate) fn end_flush(
        &mut self,
        inode: Inode,
        upto: Stamp,
        attributes: bool,
        failed: Option<&mut Dice>,
    ) -> Result<(), Errno> {
        let fails = failed.is_some();
        let node = self.node_mut(inode)?;
        if attributes && !fails {
            node.attributes.flush(upto);
        }
        match &mut node.body {
            Body::File(content) => content.end_flush(upto, failed),
            Body::Folder if !fails => self.names.flush(inode),
            Body::Folder | Body::Socket => {}
        }
        if fails { Err(Errno::IO) } else { Ok(()) }
    }

    /// The power is cut: no file is open, and what was not flushed is there or not. Returns how many changes of names were lost.
    pub(crate) fn cut(&mut self, dice: &mut Dice) -> usize {
        let lost = self.names.cut(dice);
        for node in self.nodes.values_mut() {
            (node.open, node.locked_by) = (0, None);
            node.attributes.cut(dice);
            if let Body::File(content) = &mut node.body {
                content.cut(dice);
            }
        }
        let all: Vec<Inode> = self.nodes.keys().copied().collect();
        all.into_iter().for_each(|inode| self.forget(inode));
        lost
    }
}

/// Direct I/O wants whole sectors.
pub(crate) const fn is_aligned(at: u64, length: u64) -> bool {
    at.is_multiple_of(SECTOR) && length.is_multiple_of(SECTOR)
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) direct: bool,
}

impl Access {
    pub(crate) const fn of(flags: OFlags) -> Self {
        let way = flags.bits() & 3;
        let direct = flags.contains(OFlags::DIRECT);
        Self {
            reads: way != OFlags::WRONLY.bits(),
            writes: way == OFlags::WRONLY.bits() || way == OFlags::RDWR.bits(),
            direct,
        }
    }
}
