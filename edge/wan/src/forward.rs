// SPDX-License-Identifier: Apache-2.0
//! The emulator's thread: obey, deliver what has arrived, take what was sent, sleep until one of them is due.

use crate::lead::Lead;
use crate::line::Line;
use crate::steer::{Duty, EmulatorStats, Steer};
use crate::tun::Tun;
use helio_units::Moment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::time::Instant;

/// The thread's priority, the highest of ordinary ones: a packet that waits for a processor is late.
const NICE: i32 = -20;

/// Everything the thread owns.
pub(crate) struct Forwarder {
    /// Left and right.
    devices: [Tun; 2],
    /// There (left to right) and back.
    lines: [Line; 2],
    duty: Duty,
    lead: Lead,
    started: Instant,
}

impl Forwarder {
    pub(crate) fn new(devices: [Tun; 2], lines: [Line; 2], duty: Duty) -> Self {
        Self { devices, lines, duty, lead: Lead::new(), started: Instant::now() }
    }

    /// Forwards until told to stop, or until a device is gone.
    pub(crate) fn run(mut self) {
        // Both only make it more exact; where the kernel refuses, it is that much less so.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let own = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(own), NICE);
        while self.obey().is_continue() {
            match self.forward() {
                Ok(true) => {}
                Ok(false) => {
                    if self.rest().is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn now(&self) -> Moment {
        Moment::ZERO + self.started.elapsed()
    }

    /// Carries out every order given.
    fn obey(&mut self) -> ControlFlow<()> {
        while let Ok(told) = self.duty.orders.try_recv() {
            match told.order {
                Steer::Profile(profiles) => {
                    let now = self.now();
                    for (line, profile) in self.lines.iter_mut().zip(*profiles) {
                        line.set_profile(profile, now);
                    }
                }
                Steer::Down(ways, down) => {
                    for (line, meant) in self.lines.iter_mut().zip(ways.each()) {
                        if meant {
                            line.set_down(down);
                        }
                    }
                }
                Steer::Report => {
                    let [there, back] = [self.lines[0].tally(), self.lines[1].tally()];
                    self.duty.publish(EmulatorStats { there, back });
                }
                Steer::Stop => return ControlFlow::Break(()),
            }
            // The caller may have given up waiting; the order stands all the same.
            let _ = told.done.send(());
        }
        ControlFlow::Continue(())
    }

    /// Moves a batch each way. True when something moved.
    fn forward(&mut self) -> Result<bool, Errno> {
        let started = self.started;
        let now = || Moment::ZERO + started.elapsed();
        let mut moved = false;
        for (way, line) in self.lines.iter_mut().enumerate() {
            let (from, to) = (&self.devices[way], &self.devices[1 - way]);
            moved |= line.give(to, now);
            moved |= line.take(from, now)?;
        }
        Ok(moved)
    }

    /// Sleeps until shortly before the next packet arrives, or until one is sent or an order is given. Returns at
    /// once where that is not worth it.
    fn rest(&mut self) -> Result<(), Errno> {
        let next = self.lines.iter().map(Line::next_at).fold(Moment::NEVER, Moment::min);
        let now = self.now();
        let span = next.since(now).saturating_sub(self.lead.span());
        if span.is_zero() {
            std::hint::spin_loop();
            return Ok(());
        }
        let timeout = (next != Moment::NEVER).then(|| Timespec {
            // A moment is a count of nanoseconds in a u64, so its seconds fit.
            tv_sec: span.as_secs() as i64,
            tv_nsec: span.subsec_nanos().into(),
        });
        let [left, right] = &self.devices;
        let mut fds = [
            PollFd::new(&*self.duty.bell, PollFlags::IN),
            PollFd::new(left, PollFlags::IN),
            PollFd::new(right, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => self.lead.learn(self.now().since(now + span)),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno),
        }
        if fds[0].revents().contains(PollFlags::IN) {
            self.duty.silence();
        }
        Ok(())
    }
}
