// SPDX-License-Identifier: Apache-2.0
//! The emulator as its owner sees it.

use crate::forward::Forwarder;
use crate::line::Line;
use crate::netns::{self, Namespace};
use crate::probe::{self, Probe};
use crate::steer::EmulatorControl;
use crate::tun::{self, Tun};
use helio_netmodel::{Dice, Profile};
use helio_units::Items;
use rustix::thread::{CapabilitySet, capabilities};
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// What the device is called, on both sides.
const DEVICE: &str = "wan0";
/// The subnet both ends are in, and nobody else.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);

/// What an emulator is to be.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// The network namespace of the left end: a name as `ip netns` knows it, made where there is none; without a
    /// name, a new one under a name of our choosing.
    pub left: Option<String>,
    /// The right end's.
    pub right: Option<String>,
    /// The largest packet, in bytes, at least [`Emulator::LEAST_MTU`].
    pub mtu: u16,
    /// The link from left to right.
    pub there: Profile,
    /// The link from right to left.
    pub back: Profile,
    /// Decides loss and jitter.
    pub seed: u64,
}

/// One end of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The network namespace.
    pub namespace: String,
    /// Whether the emulator made it, and will remove it.
    pub made: bool,
    /// The device in it.
    pub device: &'static str,
    /// The device's address.
    pub address: Ipv4Addr,
}

/// What a namespace's kernel does about congestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// The algorithm of a socket that asks for none.
    pub default: String,
    /// Those a socket may ask for.
    pub available: Vec<String>,
}

/// Why there is no emulator.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The process or the system lacks what it takes.
    #[error("a link below TCP needs what this process does not have: {}", .0.join(", "))]
    Lacking(Vec<&'static str>),
    /// No name for a namespace.
    #[error(
        "`{0}` is not a valid name of a network namespace: up to 64 letters, digits, `-`, `_` and `.`, starting with \
         a letter or digit"
    )]
    Name(String),
    /// One namespace for both ends.
    #[error("both ends are in the network namespace {0}: use two different ones")]
    Same(String),
    /// Every name we would choose is taken.
    #[error("{0} links exist already: end one of them, or use --left and --right")]
    Crowded(u32),
    /// An MTU out of range.
    #[error("an MTU of {0} is not possible: it is at least {least}", least = Emulator::LEAST_MTU)]
    Mtu(u16),
    /// The kernel refused.
    #[error("cannot {doing}: {why}")]
    Refused {
        /// What was to be done.
        doing: String,
        /// What the kernel said.
        why: io::Error,
    },
}

/// Says what was being done when the kernel refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, EmulatorError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, EmulatorError> {
        self.map_err(|why| EmulatorError::Refused { doing: what(), why: why.into() })
    }
}

/// A running emulator. Dropping it gives up what is on its way and takes the devices away, and the namespaces it
/// made.
#[derive(Debug)]
pub struct Emulator {
    namespaces: [Namespace; 2],
    control: EmulatorControl,
    thread: Option<JoinHandle<()>>,
}

impl Emulator {
    /// The least MTU, in bytes: what every host must take of IPv4.
    pub const LEAST_MTU: u16 = 576;

    /// What [`Emulator::start`] needs and this process or system lacks; empty where it may be tried.
    #[must_use]
    pub fn lacking() -> Vec<&'static str> {
        let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let mut lacking = Vec::new();
        for (needed, name) in [
            (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN (root has it)"),
            (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN (root has it)"),
        ] {
            if !has.contains(needed) {
                lacking.push(name);
            }
        }
        if !Path::new(tun::SOURCE).exists() {
            lacking.push("/dev/net/tun (run `modprobe tun`)");
        }
        lacking
    }

    /// Lays the line: makes what is missing, brings the devices up, and starts the thread that forwards.
    ///
    /// # Errors
    /// What it needs is lacking, a name does not do, or the kernel refuses. Whatever was made is removed then.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let lacking = Self::lacking();
        if !lacking.is_empty() {
            return Err(EmulatorError::Lacking(lacking));
        }
        if config.mtu < Self::LEAST_MTU {
            return Err(EmulatorError::Mtu(config.mtu));
        }
        let namespaces = netns::pair(config.left.as_deref(), config.right.as_deref())?;
        let device = |side: usize| {
            let namespace = &namespaces[side];
            let made = namespace.inside(|| Tun::make(DEVICE, ADDRESSES[side], MASK, config.mtu));
            made.doing(|| format!("make the device {DEVICE} in {}", namespace.name()))
        };
        let devices = [device(0)?, device(1)?];
        let (dice, mtu) = (Dice::new(config.seed), usize::from(config.mtu));
        let lines = [
            Line::new(config.there, dice.split("there"), mtu),
            Line::new(config.back, dice.split("back"), mtu),
        ];
        let (control, duty) = EmulatorControl::new().doing(|| "make an eventfd".to_owned())?;
        let forwarder = Forwarder::new(devices, lines, duty);
        let thread = std::thread::Builder::new()
            .name("helio-wan".into())
            .spawn(move || forwarder.run())
            .doing(|| "start a thread".to_owned())?;
        Ok(Self { namespaces, control, thread: Some(thread) })
    }

    /// The left and the right end.
    #[must_use]
    pub fn ends(&self) -> [End; 2] {
        [0, 1].map(|side| End {
            namespace: self.namespaces[side].name().to_owned(),
            made: self.namespaces[side].made(),
            device: DEVICE,
            address: ADDRESSES[side],
        })
    }

    /// A handle to change and watch it with.
    #[must_use]
    pub fn control(&self) -> EmulatorControl {
        self.control.clone()
    }

    /// What the left end does about congestion. A sender that compares links says which it wants: the default is
    /// the host's, and differs.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn congestion(&self) -> io::Result<Congestion> {
        let tell = |what: &str| {
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{what}congestion_control"))
        };
        let (default, available) =
            self.namespaces[0].inside(|| Ok((tell("")?, tell("available_")?)))?;
        let available = available.split_whitespace().map(str::to_owned).collect();
        Ok(Congestion { default: default.trim().to_owned(), available })
    }

    /// Sends datagrams from left to right and back, one at a time, until so many are back or the time is over, and
    /// tells how long they took.
    ///
    /// # Errors
    /// The kernel refuses sockets.
    pub fn probe(&self, rounds: u32, limit: Duration) -> io::Result<Probe> {
        let socket = |side: usize| self.namespaces[side].inside(|| probe::socket(ADDRESSES[side]));
        probe::run([socket(0)?, socket(1)?], rounds, limit)
    }

    /// Packets that left's and right's kernels dropped before the emulator could take them, since the device was
    /// made: its thread did not get a processor for too long.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn overrun(&self) -> io::Result<[Items; 2]> {
        let of = |side: usize| {
            let text = self.namespaces[side]
                .inside(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
            dropped(&text, DEVICE).ok_or_else(|| io::Error::other(format!("no {DEVICE} there")))
        };
        Ok([of(0)?, of(1)?])
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was printed there; passing it on from a drop would abort the process.
            let _ = thread.join();
        }
    }
}

/// Packets a device dropped instead of sending, from the kernel's table of devices.
fn dropped(table: &str, device: &str) -> Option<Items> {
    let line =
        table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    // Eight columns of what was received, then bytes, packets, errors, drops.
    line.split_whitespace().nth(11)?.parse().ok().map(Items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_kernels_table() {
        let table = "Inter-| Receive | Transmit\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                     wan0:1 2 3 4 5 6 7 8 9 10 11 42 13 14 15 16\n";
        assert_eq!(dropped(table, "wan0"), Some(Items(42)));
        assert_eq!(dropped(table, "lo"), Some(Items(12)));
        assert_eq!(dropped(table, "wan"), None);
    }
}
