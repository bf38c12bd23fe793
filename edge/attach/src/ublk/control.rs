// SPDX-License-Identifier: Apache-2.0
//! The desk where devices are made and taken away: `/dev/ublk-control`, which takes commands through io_uring alone.
#![allow(unsafe_code)]

use super::wire::{Command, Info, command, feature};
use crate::AttachError;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const CONTROL: &str = "/dev/ublk-control";

/// What a command points at.
pub(super) enum Told<'a> {
    Nothing,
    /// The kernel reads it.
    Given(&'a [u8]),
    /// The kernel writes it.
    Asked(&'a mut [u8]),
}

/// One conversation with the kernel about devices. Each command is waited for.
pub(super) struct Desk {
    ring: IoUring<Entry128, cqueue::Entry>,
    control: File,
}

impl Desk {
    /// # Errors
    /// This kernel has no ublk, or not for this process.
    pub(super) fn open() -> Result<Self, AttachError> {
        let control = File::options().read(true).write(true).open(CONTROL);
        let control = control.map_err(no_ublk(CONTROL))?;
        let ring = IoUring::builder().build(2).map_err(no_ublk("io_uring"))?;
        let mut desk = Self { ring, control };
        let mut features = [0; 8];
        let told = desk.call(command::GET_FEATURES, 0, 0, Told::Asked(&mut features));
        told.map_err(no_ublk(CONTROL))?;
        if u64::from_ne_bytes(features) & feature::WANTED != feature::WANTED {
            let error = io::Error::other(
                "ublk in this kernel does not support user copy or recovery (Linux 6.5 and later do)",
            );
            return Err(no_ublk(CONTROL)(error));
        }
        Ok(desk)
    }

    /// What the kernel says of a device.
    pub(super) fn info(&mut self, device: u32) -> io::Result<Info> {
        let mut bytes = [0; Info::BYTES];
        self.call(command::GET_DEVICE, device, 0, Told::Asked(&mut bytes))?;
        Info::read(&bytes).ok_or_else(|| io::Error::other("truncated"))
    }

    /// Gives a command, and waits until it is done.
    pub(super) fn call(
        &mut self,
        command: u32,
        device: u32,
        number: u64,
        told: Told<'_>,
    ) -> io::Result<()> {
        let (address, length) = match told {
            Told::Nothing => (0, 0),
            Told::Given(bytes) => (bytes.as_ptr() as u64, bytes.len()),
            Told::Asked(bytes) => (bytes.as_mut_ptr() as u64, bytes.len()),
        };
        let told = Command { device, length: length as u16, address, number };
        let entry = opcode::UringCmd80::new(types::Fd(self.control.as_raw_fd()), command);
        let entry = entry.cmd(told.bytes()).build();
        // SAFETY: what the command points at is borrowed for the whole of this function, which does not return before
        // the kernel is done with it; `Asked` is borrowed such that it may be written.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        let mut result = None;
        while result.is_none() {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // Not handed over, or the ring is broken: either way nobody will look at it any more.
                    return Err(error);
                }
                _ => result = self.ring.completion().next(),
            }
        }
        match result.map_or(0, |done| done.result()) {
            code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
            _ => Ok(()),
        }
    }
}

fn no_ublk(culprit: &str) -> impl FnOnce(io::Error) -> AttachError {
    let culprit = culprit.to_owned();
    move |error| AttachError::NoUblk { culprit, error }
}
