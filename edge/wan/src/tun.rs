// SPDX-License-Identifier: Apache-2.0
//! TUN devices: what a namespace sends is read here, and what is written here it receives.
#![allow(unsafe_code)]

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use std::ffi::c_int;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Where TUN devices come from.
pub(crate) const SOURCE: &str = "/dev/net/tun";
/// Packets the device holds for us before it drops them: 40 ms of a full 1 Gbit/s line.
const DEVICE_QUEUE: c_int = 4096;

// From the kernel's user-space headers linux/if_tun.h, linux/if.h and linux/sockios.h.
const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);
const IFF_TUN: u16 = 0x0001;
/// No four bytes in front of each packet.
const IFF_NO_PI: u16 = 0x1000;
const IFF_UP: u16 = 0x0001;
const SIOCGIFFLAGS: Opcode = 0x8913;
const SIOCSIFFLAGS: Opcode = 0x8914;
const SIOCSIFADDR: Opcode = 0x8916;
const SIOCSIFNETMASK: Opcode = 0x891c;
const SIOCSIFMTU: Opcode = 0x8922;
const SIOCSIFTXQLEN: Opcode = 0x8943;
const AF_INET: u16 = 2;

/// The kernel's `struct ifreq`: the name of a device, and a union that holds what is asked or answered.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    name: [u8; 16],
    value: Value,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Value {
    flags: u16,
    number: c_int,
    address: Address,
    whole: [u64; 3],
}

/// The kernel's `struct sockaddr_in`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Address {
    family: u16,
    port: u16,
    address: [u8; 4],
    nothing: [u8; 8],
}

impl Request {
    fn of(device: &str) -> Self {
        let mut name = [0; 16];
        // The last byte stays zero: it ends the name.
        for (to, from) in name[..15].iter_mut().zip(device.bytes()) {
            *to = from;
        }
        Self { name, value: Value { whole: [0; 3] } }
    }

    fn with(self, value: Value) -> Self {
        Self { value, ..self }
    }
}

fn address(address: Ipv4Addr) -> Value {
    let address = Address { family: AF_INET, port: 0, address: address.octets(), nothing: [0; 8] };
    Value { address }
}

/// Gives the kernel one request about a device.
fn set<const OPCODE: Opcode>(fd: impl AsFd, request: Request) -> io::Result<()> {
    // SAFETY: every opcode this is used with reads one `struct ifreq` and writes at most that; a `Request` has its
    // size and layout, and each byte of it is initialised.
    Ok(unsafe { ioctl(fd, Setter::<OPCODE, Request>::new(request)) }?)
}

/// Brings a device of the calling thread's namespace up.
fn up(socket: &UdpSocket, device: &str) -> io::Result<()> {
    let mut request = Request::of(device);
    // SAFETY: the opcode writes one `struct ifreq`, whose size and layout a `Request` has.
    unsafe { ioctl(socket, Updater::<SIOCGIFFLAGS, Request>::new(&mut request)) }?;
    // SAFETY: the opcode has filled in `flags`, and any bits are a valid u16.
    let flags = unsafe { request.value.flags } | IFF_UP;
    set::<SIOCSIFFLAGS>(socket, request.with(Value { flags }))
}

/// A socket to configure devices through: any of the namespace will do.
fn handle() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
}

/// Brings up the loopback of the calling thread's namespace.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn loopback_up() -> io::Result<()> {
    up(&handle()?, "lo")
}

/// A TUN device; gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Tun {
    fd: OwnedFd,
}

impl Tun {
    /// Makes one in the calling thread's namespace: named, with an address in a subnet of `mask`, and up.
    ///
    /// # Errors
    /// There is no TUN here, the name is taken, or the process lacks CAP_NET_ADMIN.
    pub(crate) fn make(name: &str, own: Ipv4Addr, mask: Ipv4Addr, mtu: u16) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = open(SOURCE, flags, Mode::empty())?;
        let device = Request::of(name);
        set::<TUNSETIFF>(&fd, device.with(Value { flags: IFF_TUN | IFF_NO_PI }))?;
        // There is nobody to talk to by IPv6: its solicitations would only show up in the numbers. A kernel
        // without IPv6 has no such file.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        let socket = handle()?;
        set::<SIOCSIFMTU>(&socket, device.with(Value { number: c_int::from(mtu) }))?;
        set::<SIOCSIFTXQLEN>(&socket, device.with(Value { number: DEVICE_QUEUE }))?;
        set::<SIOCSIFADDR>(&socket, device.with(address(own)))?;
        set::<SIOCSIFNETMASK>(&socket, device.with(address(mask)))?;
        up(&socket, name)?;
        Ok(Self { fd })
    }

    /// Reads one packet, and returns its length.
    ///
    /// # Errors
    /// `AGAIN` where there is none; else the device is gone.
    pub(crate) fn read(&self, place: &mut [u8]) -> Result<usize, Errno> {
        read(&self.fd, place)
    }

    /// Hands the namespace one packet.
    ///
    /// # Errors
    /// The device is down, or the kernel has no memory for it.
    pub(crate) fn write(&self, packet: &[u8]) -> Result<(), Errno> {
        write(&self.fd, packet).map(|_whole| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_kernels_layout() {
        assert_eq!((size_of::<Request>(), size_of::<Address>()), (40, 16));
        assert_eq!(TUNSETIFF, 0x4004_54ca);
        let request = Request::of("a_name_that_is_too_long");
        assert_eq!(&request.name, b"a_name_that_is_\0");
    }
}
