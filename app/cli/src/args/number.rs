// SPDX-License-Identifier: Apache-2.0
//! Parsers of numbers, sizes and rates within limits, and of addresses.

use helio_units::{Bytes, Rate};
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;

/// A whole number from `least` to `most`.
pub(super) fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let found = text.parse().ok().filter(|n| (least..=most).contains(n));
        found.and_then(|n: u64| T::try_from(n).ok()).ok_or_else(|| match most {
            u64::MAX => format!("must be a whole number of at least {least}"),
            most => format!("must be a whole number from {least} to {most}"),
        })
    }
}

/// A number of threads.
pub(super) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads: usize = whole(1, 4096)(text)?;
    Ok(NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN))
}

/// A size from `least` to `most`.
pub(super) fn size(least: u64, most: u64) -> impl Fn(&str) -> Result<Bytes, String> + Clone {
    move |text| {
        super::bytes(text).and_then(|size| match size {
            Bytes(n) if (least..=most).contains(&n) => Ok(size),
            _ if most == u64::MAX => Err(format!("must be at least {}", Bytes(least))),
            _ => Err(format!("must be from {} to {}", Bytes(least), Bytes(most))),
        })
    }
}

/// A rate greater than zero.
pub(super) fn more_than_nothing(text: &str) -> Result<Rate, String> {
    super::rate(text).and_then(|rate| match rate {
        Rate(0) => Err("must be greater than zero; omit the option for no limit".to_owned()),
        rate => Ok(rate),
    })
}

/// An address with a port. The system resolves a name, to its first address.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let expected =
        "expected HOST:PORT, for example 192.0.2.1:7000, lyon:7000 or [2001:db8::1]:7000";
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let host = super::host(text).map_err(|_| expected.to_owned())?;
    let mut found =
        host.to_socket_addrs().map_err(|why| format!("the name is not resolved: {why}"))?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        assert_eq!(whole::<u16>(1, 64)("64"), Ok(64));
        for text in ["0", "65", "-1", "1.5", "many", ""] {
            let result = whole::<u16>(1, 64)(text);
            assert_eq!(result, Err("must be a whole number from 1 to 64".to_owned()), "{text}");
        }
        assert!(whole::<u64>(1, u64::MAX)("0").is_err_and(|error| error.ends_with("at least 1")));
        assert!(whole::<u8>(1, u64::MAX)("256").is_err(), "it must fit the type");
        assert!(threads("0").is_err() && threads("2").is_ok_and(|n| n.get() == 2));
        assert_eq!(size(64, 1 << 20)("64B"), Ok(Bytes(64)));
        let small = size(64, 1 << 20)("63B");
        assert_eq!(small, Err("must be from 64 B to 1 MiB".to_owned()));
        assert!(size(64, u64::MAX)("64").is_err_and(|error| error.contains("unit")));
        assert!(
            address("localhost").is_err()
                && address("localhost:7000").is_ok()
                && address("[::1]:7000").is_ok()
        );
        assert!(more_than_nothing("0MB/s").is_err() && more_than_nothing("1MB/s").is_ok());
    }
}
