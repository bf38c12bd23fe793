// SPDX-License-Identifier: Apache-2.0
//! The kernel's part of attached volumes, with a daemon of a few lines.

use crate::{DeviceIo, Done, Failure, MachineOptions, Manner, OpenDevice, Process, Readiness};
use crate::{SimMachine, World};
use helio_attach::{
    Arrival, Channel, HEAD_BYTES, Kernel, LoopDevice, MESSAGE_BYTES, Mount, Session,
};
use helio_attach::{Settling, Shape, Step, Work};
use helio_driver::{Errno, Machine, Mode};
use helio_units::{Bytes, Extent};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SHAPE: Shape = Shape { size: Bytes::kib(64), block: 512, read_only: false, trims: true };
const FILE: &str = "/state/attach/db/data";
const WRITES: Manner = Manner { writes: true, mounted: None, hidden: false };

/// A machine, a process on it, and what it serves.
struct Served {
    world: World,
    machine: SimMachine,
    process: Process,
    mount: Option<Mount>,
    channel: Option<Channel>,
}

fn served() -> Served {
    let world = World::new(1, false);
    let machine = world.machine(MachineOptions {
        name: "lyon".to_owned(),
        address: [127, 0, 0, 2].into(),
        disk: 1 << 20,
        calendar: Duration::from_secs(1_700_000_000),
    });
    for folder in ["/state", "/state/attach", "/state/attach/db"] {
        machine.make_folder(Path::new(folder), Mode::RWXU).expect("made");
    }
    let process = machine.process();
    let (mount, channel) = process.kernel().mount(Path::new(FILE), "db/data").expect("mounted");
    Served { world, machine, process, mount: Some(mount), channel: Some(channel) }
}

impl Served {
    /// Makes a loop device on it.
    fn with_loop(&self) -> PathBuf {
        let made = self.process.kernel().loop_device(Path::new(FILE), 512, false);
        made.expect("made").path().to_owned()
    }

    fn open(&self, path: &Path) -> OpenDevice {
        self.world.open_device(&self.machine, path, WRITES).expect("opened")
    }

    /// The next message, and where the payload of a write went.
    fn message(&self) -> Option<(Vec<u8>, usize)> {
        let channel = self.channel.as_ref().expect("it is open");
        let (mut head, mut payload) = ([0; HEAD_BYTES], vec![0; MESSAGE_BYTES]);
        match channel.receive(&mut head, &mut payload, &mut []).expect("the kernel permits it") {
            Arrival::Message(length) => Some((head[..length.min(HEAD_BYTES)].to_vec(), length)),
            Arrival::Nothing | Arrival::Over => None,
        }
    }

    /// Responds to everything that has arrived.
    fn serve(&self) {
        while let Some((head, length)) = self.message() {
            let channel = self.channel.as_ref().expect("it is open");
            let response = match Session::new(SHAPE).consume(&head, length) {
                Step::Answer(response) => response,
                Step::Work { unique, work } => {
                    let found = match work {
                        Work::Read { length, .. } => vec![7; length],
                        _ => Vec::new(),
                    };
                    channel.answer(&Session::done(unique, &work), &found).expect("taken");
                    continue;
                }
                Step::Silent => continue,
            };
            channel.answer(&response, &[]).expect("taken");
        }
    }

    /// Nothing is left of its process.
    fn kill(&mut self) {
        self.process.kill();
        self.channel = None;
    }
}

fn only(device: &mut OpenDevice) -> Result<Vec<u8>, Failure> {
    let mut done = device.reap();
    let Done { result, .. } = done.pop().expect("it ended");
    assert!(done.is_empty(), "it ended once");
    result
}

fn write(at: u64) -> DeviceIo {
    DeviceIo::Write { extent: Extent::new(at, 512), bytes: vec![9; 512], fua: true }
}

#[test]
fn what_a_program_asks_of_a_loop_device_arrives_and_ends_with_the_response() {
    let served = served();
    served.serve();
    let mut device = served.open(&served.with_loop());
    assert_eq!(device.readiness(), Readiness::Opening, "the size is not known yet");
    served.serve();
    let ready = Readiness::Ready { size: 64 << 10, block: 512, read_only: false };
    assert_eq!(device.readiness(), ready);
    device.submit(DeviceIo::Read(Extent::new(512, 1024)));
    assert!(device.reap().is_empty());
    served.serve();
    assert_eq!(only(&mut device), Ok(vec![7; 1024]));
    device.submit(write(0));
    served.serve();
    assert_eq!(only(&mut device), Ok(Vec::new()), "the flush of FUA was served, too");
    assert_eq!((served.world.device_violation(), served.world.unanswered()), (None, Vec::new()));
}

#[test]
fn a_second_response_breaks_a_promise() {
    let served = served();
    let (head, length) = served.message().expect("INIT");
    let Step::Answer(response) = Session::new(SHAPE).consume(&head, length) else {
        panic!("INIT is answered at once")
    };
    let channel = served.channel.as_ref().expect("it is open");
    channel.answer(&response, &[]).expect("taken");
    assert_eq!(served.world.device_violation(), None);
    channel.answer(&response, &[]).expect("nobody waits for it");
    let broken = served.world.device_violation().expect("it is noted");
    assert!(broken.contains("again"), "{broken}");
}

#[test]
fn a_short_response_to_a_read_breaks_a_promise() {
    let served = served();
    served.serve();
    let mut device = served.open(&served.with_loop());
    served.serve();
    device.submit(DeviceIo::Read(Extent::new(0, 512)));
    let (head, length) = served.message().expect("the read");
    let Step::Work { unique, .. } = Session::new(SHAPE).consume(&head, length) else {
        panic!("a read is work")
    };
    let work = Work::Read { extent: Extent::new(0, 512), skip: 0, length: 100 };
    let channel = served.channel.as_ref().expect("it is open");
    channel.answer(&Session::done(unique, &work), &[7; 100]).expect("taken");
    assert!(served.world.device_violation().is_some());
}

#[test]
fn the_end_of_a_daemon_ends_requests_and_leaves_mount_and_loop_device() {
    let mut served = served();
    served.serve();
    let node = served.with_loop();
    served.serve();
    let mut device = served.open(&node);
    device.submit(write(0));
    served.kill();
    assert_eq!(only(&mut device), Err(Failure::Lost));
    let next = served.machine.process();
    let folder = Path::new("/state/attach");
    let (mounts, loops) = (next.kernel().mounts_below(folder), next.kernel().loops_below(folder));
    assert_eq!(mounts.expect("listed").len(), 1);
    let [left] = &loops[..] else { panic!("{loops:?}") };
    assert_eq!(left.path(), node);
    served.machine.cut_power();
    served.machine.boot();
    let next = served.machine.process();
    assert!(next.kernel().loops_below(folder).is_empty());
    assert_eq!(device.readiness(), Readiness::Gone);
}

#[test]
fn a_file_that_is_open_is_unmounted_only_lazily() {
    let mut served = served();
    served.serve();
    let device = served.open(Path::new(FILE));
    served.serve();
    let kernel = served.process.kernel();
    let mount = served.mount.take().expect("it is mounted");
    let (mount, error) = kernel.unmount(mount, false).expect_err("it is in use");
    assert_eq!(Errno::from_io_error(&error), Some(Errno::BUSY));
    assert_eq!(kernel.users(&[Path::new(FILE)], None).len(), 1);
    kernel.unmount(mount, true).expect("it need not be free");
    assert!(kernel.mounts_below(Path::new("/state")).expect("listed").is_empty());
    drop(device);
    assert!(served.world.unanswered().is_empty());
    assert_eq!(served.message(), None, "the connection ended with its last user");
}

#[test]
fn what_a_killed_program_asked_of_the_file_is_taken_back_if_the_daemon_has_not_read_it() {
    let served = served();
    served.serve();
    let mut device = served.open(Path::new(FILE));
    served.serve();
    let read = device.submit(DeviceIo::Read(Extent::new(0, 512)));
    let (_, length) = served.message().expect("the read");
    let never = device.submit(write(0));
    assert_eq!(device.kill(), [never], "the daemon works on request {read}");
    assert_eq!(length, 80);
    let (interrupt, _) = served.message().expect("an interrupt");
    assert_eq!(interrupt[4..8], 36_u32.to_ne_bytes());
}

#[test]
fn a_claimed_device_is_not_settled_and_one_that_is_settled_is_released() {
    let served = served();
    served.serve();
    let node = served.with_loop();
    served.serve();
    let kernel = served.process.kernel();
    let settle = || {
        let Settling::Elsewhere(mut ends) = kernel.settle(&node) else {
            panic!("it has no process")
        };
        served.serve();
        match ends.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map_err(|error| Errno::from_io_error(&error)),
            Poll::Pending => panic!("it has ended"),
        }
    };
    let mounted = Manner { mounted: Some(PathBuf::from("/srv")), ..WRITES };
    let device = served.world.open_device(&served.machine, &node, mounted).expect("opened");
    assert_eq!(settle(), Err(Some(Errno::BUSY)));
    drop(device);
    assert_eq!(settle(), Ok(()));
    assert_eq!(kernel.loops_below(Path::new("/state")), []);
}

#[test]
fn a_loop_device_whose_file_was_unmounted_is_known_by_what_it_was_told_of_it() {
    let mut served = served();
    served.serve();
    let kernel = served.process.kernel();
    let device = kernel.loop_device(Path::new(FILE), 512, false).expect("made");
    served.serve();
    let mount = served.mount.take().expect("it is mounted");
    kernel.unmount(mount, true).expect("it need not be free");
    assert!(!kernel.has_loop(&device), "the kernel names its file otherwise");
    let hidden = LoopDevice::hidden(device.path().to_owned());
    assert_eq!(kernel.loops_below(Path::new("/state")), std::slice::from_ref(&hidden));
    assert_eq!(kernel.loops_below(Path::new("/other")), []);
    kernel.abandon(&device).expect("permitted");
    assert!(!kernel.has_loop(&hidden), "it is gone");
}

#[test]
fn a_name_is_given_away_only_if_another_program_has_its_loop_device() {
    let served = served();
    let kernel = served.process.kernel();
    let (ours, name) = (served.with_loop(), Path::new("/dev/heliograph/db/data"));
    kernel.make_name(name, &ours).expect("the name is free");
    let other = Path::new("/dev/loop7");
    kernel.make_name(name, other).expect_err("the loop device is on the file of the volume");
    served.world.lock().release_loop(served.machine.id(), 0);
    served.world.lock().add_strange_loop(served.machine.id(), 0);
    kernel.make_name(name, other).expect("another program has the number");
    kernel.remove_name(name, &ours);
    assert_eq!(kernel.named(name).as_deref(), Some(other));
    kernel.remove_name(name, other);
    assert_eq!(kernel.named(name), None);
}
