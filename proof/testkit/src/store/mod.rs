// SPDX-License-Identifier: Apache-2.0
//! A store that fails when a test says so: one file, served by FUSE from a thread of the test, with a volatile cache.
//!
//! A member, a metadata file or a before-image file lies on it. A flush that fails drops what was not durable; reads,
//! writes and flushes fail or wait on demand; a power cut loses the cache. It needs root and FUSE.

mod cache;
mod fault;
mod record;
mod serve;

pub use cache::{Loss, Shows};
pub use fault::{Counts, Failing, Fua, Request};
pub use record::{Event, Images, Recorded, Torn};

use crate::process::leash;
use crate::{TempDir, say_skipped};
use cache::Cache;
use fault::Control;
use helio_attach::Mount;
use helio_units::{Bytes, Extent};
use record::Record;
use rustix::mount::{UnmountFlags, unmount};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Whether such stores can be had here; says what is missing otherwise.
#[must_use]
pub fn faulty_stores_possible() -> bool {
    let fuse = File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let there = fuse && rustix::process::geteuid().is_root();
    if !there {
        say_skipped("root and /dev/fuse");
    }
    there
}

/// What a store is made of.
#[derive(Clone, Debug)]
pub struct StorePlan {
    size: Bytes,
    block: u32,
    fua: Fua,
    place: Option<PathBuf>,
    recorded: bool,
}

impl StorePlan {
    /// A store of zeroes with sectors of 512 bytes, whose FUA is a write and a flush of everything.
    #[must_use]
    pub const fn new(size: Bytes) -> Self {
        Self { size, block: 512, fua: Fua::WriteAndFlush, place: None, recorded: false }
    }

    /// The size of its sectors.
    #[must_use]
    pub const fn block(mut self, block: u32) -> Self {
        self.block = block;
        self
    }

    /// What it makes of a write that is to be durable when it completes.
    #[must_use]
    pub const fn fua(mut self, fua: Fua) -> Self {
        self.fua = fua;
        self
    }

    /// Keeps a record of everything that reaches it.
    #[must_use]
    pub const fn recorded(mut self) -> Self {
        self.recorded = true;
        self
    }

    /// Mounts it over an existing file, whose content and length it takes. Such a file can grow.
    #[must_use]
    pub fn over(mut self, file: &Path) -> Self {
        self.place = Some(file.to_owned());
        self
    }

    /// Mounts the store.
    ///
    /// # Panics
    /// If FUSE refuses.
    #[must_use]
    #[track_caller]
    pub fn mount(self) -> FaultyStore {
        let folder = TempDir::new();
        let backing = folder.join("content");
        let path = match &self.place {
            None => {
                folder.file("content", self.size);
                folder.join("store")
            }
            Some(place) => {
                let copied = std::fs::copy(place, &backing);
                copied.unwrap_or_else(|why| panic!("cannot read {}: {why}", place.display()));
                place.clone()
            }
        };
        let file = File::options().read(true).write(true).open(&backing).expect("just made");
        let state = State {
            cache: Cache::new(file).expect("a file has a length"),
            control: Control::new(self.fua),
            record: Record::new(&backing, self.recorded),
            attributes: BTreeMap::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let leash = leash("umount -l \"$1\"", path.as_ref()).expect("there is a shell");
        let (mount, channel) = Mount::new(&path, "faulty").unwrap_or_else(|why| panic!("{why}"));
        let grows = self.place.is_some();
        let served = serve::Served::new(channel, Arc::clone(&state), self.block, grows);
        let serving = std::thread::spawn(move || served.run());
        // The kernel learns with the first file that is closed that it need not ask at the next one. It would wait for the answer
        // even where the process was killed.
        drop(File::open(&path).expect("it is mounted"));
        FaultyStore { path, state, _mount: mount, serving: Some(serving), leash, folder }
    }
}

/// What the serving thread and the test share.
#[derive(Debug)]
struct State {
    cache: Cache,
    control: Control,
    record: Record,
    /// Extended attributes. They are durable at once.
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl State {
    fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.cache.set_size(size)?;
        self.record.note(|| Event::Length(size));
        Ok(())
    }
}

/// A mounted store. Dropped, it is unmounted by force: whoever has it open gets errors from then on.
#[derive(Debug)]
pub struct FaultyStore {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    _mount: Mount,
    serving: Option<JoinHandle<io::Result<()>>>,
    leash: Child,
    folder: TempDir,
}

impl FaultyStore {
    /// The file to use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file with what a read returns, past FUSE. Nothing may be writing to the store.
    #[must_use]
    pub fn content(&self) -> PathBuf {
        self.folder.join("content")
    }

    /// Lets something fail.
    pub fn fail(&self, failing: Failing) {
        self.state().control.fail(failing);
    }

    /// Lets nothing fail any more, of what did not fail yet.
    pub fn heal(&self) {
        self.state().control.heal();
    }

    /// Lets reads (or writes) of an extent fail with EIO, until `heal`.
    pub fn fail_extent(&self, extent: Extent, writes: bool) {
        self.state().control.fail_extent(extent, writes);
    }

    /// Lets every request of that kind take so long, until `respond`.
    pub fn slow(&self, request: Request, by: Duration) {
        self.state().control.slow = Some((request, by));
    }

    /// Holds every flush back until `release`, at most 20 seconds.
    pub fn hold_flushes(&self) {
        self.state().control.holds = true;
    }

    /// Takes no request any more, of whatever kind, until `respond`. A process that waits for one can be killed.
    pub fn hang(&self) {
        self.state().control.hangs = true;
    }

    /// Takes requests again, and those that wait; none is slow.
    pub fn respond(&self) {
        let mut state = self.state();
        (state.control.hangs, state.control.slow) = (false, None);
    }

    /// Lets held flushes go on.
    pub fn release(&self) {
        self.state().control.holds = false;
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = self.state();
        Counts { volatile: state.cache.volatile(), ..state.control.counts }
    }

    /// The power of the machine is cut and comes back: the cache is lost as far as `loss` says, and every earlier loss
    /// shows. The daemon must be down.
    ///
    /// # Panics
    /// If the backing file cannot be written.
    pub fn cut_power(&self, loss: Loss) {
        let mut state = self.state();
        let cut = state.cache.lose(loss, Shows::AtOnce).and_then(|_| {
            state.cache.flush();
            state.cache.show_lost()
        });
        cut.expect("the backing file can be written");
    }

    /// Everything that reached it so far, if it keeps a record.
    #[must_use]
    pub fn recording(&self) -> Recorded {
        let state = self.state();
        let attributes = state.attributes.iter().map(|(name, value)| (name.clone(), value.clone()));
        state.record.recorded(attributes.collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FaultyStore {
    fn drop(&mut self) {
        self.release();
        // By force: a daemon that still waits for an operation gets an error, and the serving thread ends.
        let _not_mounted = unmount(&self.path, UnmountFlags::FORCE | UnmountFlags::DETACH);
        let _ended = self.leash.kill().and_then(|()| self.leash.wait());
        let served = self.serving.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(served, Some(Ok(Ok(())))), "the store failed: {served:?}");
        }
    }
}

#[cfg(test)]
mod tests;
