// SPDX-License-Identifier: Apache-2.0
//! The least that serves a file through FUSE and a loop device: what an attached volume is measured against.
//!
//! ```text
//! cargo run --release -p helio-attach --example trivial -- STORE MOUNT_POINT [THREADS]
//! ```
//! Prints the loop device, and serves until its standard input ends. Each thread does one request at a time with plain
//! calls on the store, opened for direct I/O: no order, no mirror, no pool.

use helio_attach::{
    Arrival, Channel, Fault, HEAD_BYTES, Kernel, LoopDevice, MESSAGE_BYTES, Mount, Session, Shape,
    Step, ThisKernel, Work,
};
use helio_driver::Buffer;
use helio_units::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, place, rest @ ..] = &arguments[..] else {
        return Err("say STORE MOUNT_POINT [THREADS]".into());
    };
    let threads: usize = rest.first().map_or(Ok(4), |count| count.parse())?;
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    let store = options.open(store)?;
    let size = Bytes(store.metadata()?.len());
    let session = Session::new(Shape { size, block: 512, read_only: false, trims: false });
    let (mount, channel) = Mount::new(Path::new(place), "trivial")?;
    let shared = Arc::new((channel, session, store));
    for _ in 0..threads {
        let shared = Arc::clone(&shared);
        thread::spawn(move || serve(&shared.0, &shared.1, &shared.2));
    }
    let device = LoopDevice::on(mount.path(), 512, false)?;
    println!("{}", device.path().display());
    io::stdin().read_to_end(&mut Vec::new())?;
    ThisKernel.abandon(&device)?;
    mount.remove(true).map_err(|(_, error)| error)?;
    Ok(())
}

fn serve(channel: &Channel, session: &Session, store: &File) -> io::Result<()> {
    let (mut head, mut body) = ([0; HEAD_BYTES], Buffer::zeroed(MESSAGE_BYTES));
    loop {
        let length = match channel.receive(&mut head, &mut body, &mut [])? {
            Arrival::Message(length) => length,
            Arrival::Over => return Ok(()),
            Arrival::Nothing => {
                let mut set = [PollFd::from_borrowed_fd(channel.socket().as_fd(), PollFlags::IN)];
                poll(&mut set, None)?;
                continue;
            }
        };
        match session.consume(&head[..length.min(HEAD_BYTES)], length) {
            Step::Answer(answer) => channel.answer(&answer, &[])?,
            Step::Silent => {}
            Step::Work { unique, work } => match done(&work, &mut body, store) {
                Ok(payload) => channel.answer(&Session::done(unique, &work), payload)?,
                Err(_) => channel.answer(&Session::failed(unique, Fault::Io), &[])?,
            },
        }
    }
}

fn done<'a>(work: &Work, body: &'a mut Buffer, store: &File) -> io::Result<&'a [u8]> {
    match *work {
        Work::Read { extent, skip, length } => {
            store.read_exact_at(&mut body[..extent.length as usize], extent.offset)?;
            Ok(&body[skip..skip + length])
        }
        Work::Write { extent, .. } => {
            store.write_all_at(&body[..extent.length as usize], extent.offset)?;
            Ok(&[])
        }
        Work::Flush => store.sync_data().map(|()| &[][..]),
        Work::Zero { .. } => Err(io::Error::other("not done here")),
    }
}
