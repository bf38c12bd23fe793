// SPDX-License-Identifier: Apache-2.0
//! Names of hosts to addresses, with what simhadr shows of it: the canonical name too, which the standard library does
//! not tell.
#![allow(unsafe_code)]

use crate::error::LabError;
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// The canonical name; the one that was asked for where the resolver tells none.
    pub(crate) name: String,
    /// The name that was asked for, if it is another.
    pub(crate) alias: Option<String>,
    /// Every address, each once, the preferred first.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Asks the system's resolver.
///
/// # Errors
/// It knows no such host.
pub(crate) fn resolve(name: &str) -> Result<Host, LabError> {
    let hint = "a host name the system resolves, or an IP address";
    let failed = |why| LabError::System { doing: format!("resolve {name}"), why, hint };
    let (canonical, addresses) = look_up(name).map_err(failed)?;
    let canonical = canonical.unwrap_or_else(|| name.to_owned());
    let alias = (canonical != name).then(|| name.to_owned());
    Ok(Host { name: canonical, alias, addresses })
}

fn look_up(name: &str) -> io::Result<(Option<String>, Vec<IpAddr>)> {
    let text = CString::new(name).map_err(|_| io::Error::other("it has a zero byte"))?;
    // SAFETY: the structure is plain old data, for which all zeros is the value that asks for nothing.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    (hints.ai_flags, hints.ai_socktype) = (libc::AI_CANONNAME, libc::SOCK_STREAM);
    let mut list = std::ptr::null_mut();
    // SAFETY: the name ends in a zero byte, the service may be null, and both pointers are live for the call.
    let code = unsafe { libc::getaddrinfo(text.as_ptr(), std::ptr::null(), &hints, &raw mut list) };
    if code != 0 {
        // SAFETY: the library answers every code with a text of its own that stays.
        let why = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
        return Err(io::Error::other(why.to_string_lossy().into_owned()));
    }
    let (mut canonical, mut addresses, mut at) = (None, Vec::new(), list);
    while !at.is_null() {
        // SAFETY: the call succeeded, so every link of the list is a live entry until the list is freed below.
        let entry = unsafe { &*at };
        if !entry.ai_canonname.is_null() {
            // SAFETY: where the library gives a name, it ends in a zero byte and lives as long as the list.
            let text = unsafe { CStr::from_ptr(entry.ai_canonname) };
            canonical.get_or_insert_with(|| text.to_string_lossy().into_owned());
        }
        if let Some(address) = address(entry).filter(|address| !addresses.contains(address)) {
            addresses.push(address);
        }
        at = entry.ai_next;
    }
    // SAFETY: the list came from a call that succeeded, and nothing points into it any more.
    unsafe { libc::freeaddrinfo(list) };
    if addresses.is_empty() {
        Err(io::Error::other("it has no address"))
    } else {
        Ok((canonical, addresses))
    }
}

fn address(entry: &libc::addrinfo) -> Option<IpAddr> {
    match entry.ai_family {
        libc::AF_INET => {
            // SAFETY: of this family the library gives an address of this type, which may be read unaligned.
            let raw = unsafe { entry.ai_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: of this family the library gives an address of this type, which may be read unaligned.
            let raw = unsafe { entry.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(raw.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_its_own_name_and_a_host_that_is_none_is_named() {
        let host = resolve("127.0.0.1").expect("it needs no resolver");
        assert_eq!(host.addresses, [IpAddr::from([127, 0, 0, 1])]);
        assert_eq!((host.name.as_str(), host.alias), ("127.0.0.1", None));
        assert_eq!(
            resolve("::1").expect("nor does this").addresses,
            [IpAddr::from(Ipv6Addr::LOCALHOST)]
        );
        let none = resolve("no such host").expect_err("spaces are no host").to_string();
        assert!(none.contains("no such host") && none.contains("hint"), "{none}");
        assert!(resolve("a\0b").is_err());
    }
}
