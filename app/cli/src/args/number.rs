// SPDX-License-Identifier: Apache-2.0
//! Numbers, sizes and rates within bounds, and addresses; what is wrong is said in plain words.

use helio_units::{Bytes, Rate};
use std::net::SocketAddr;
use std::num::NonZeroUsize;

/// A whole number from `least` to `most`.
pub(super) fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let found = text.parse().ok().filter(|n| (least..=most).contains(n));
        found.and_then(|n: u64| T::try_from(n).ok()).ok_or_else(|| match most {
            u64::MAX => format!("write a whole number from {least} on"),
            most => format!("write a whole number from {least} to {most}"),
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
            _ if most == u64::MAX => Err(format!("write a size from {} on", Bytes(least))),
            _ => Err(format!("write a size from {} to {}", Bytes(least), Bytes(most))),
        })
    }
}

/// A rate at which something is written.
pub(super) fn more_than_nothing(text: &str) -> Result<Rate, String> {
    super::rate(text).and_then(|rate| match rate {
        Rate(0) => Err("is nothing; leave it out where there is no limit".to_owned()),
        rate => Ok(rate),
    })
}

/// An address with its port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let why = "write IP:PORT, as 192.0.2.1:7000 or [2001:db8::1]:7000; names are not looked up";
    text.parse().map_err(|_| why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_told_with_the_bounds() {
        assert_eq!(whole::<u16>(1, 64)("64"), Ok(64));
        for text in ["0", "65", "-1", "1.5", "many", ""] {
            let told = whole::<u16>(1, 64)(text);
            assert_eq!(told, Err("write a whole number from 1 to 64".to_owned()), "{text}");
        }
        assert!(whole::<u64>(1, u64::MAX)("0").is_err_and(|told| told.ends_with("from 1 on")));
        assert!(whole::<u8>(1, u64::MAX)("256").is_err(), "it must fit, too");
        assert!(threads("0").is_err() && threads("2").is_ok_and(|n| n.get() == 2));
        assert_eq!(size(64, 1 << 20)("64B"), Ok(Bytes(64)));
        let small = size(64, 1 << 20)("63B");
        assert_eq!(small, Err("write a size from 64 B to 1 MiB".to_owned()));
        assert!(size(64, u64::MAX)("64").is_err_and(|told| told.contains("unit")));
        assert!(address("localhost:7000").is_err() && address("[::1]:7000").is_ok());
        assert!(more_than_nothing("0MB/s").is_err() && more_than_nothing("1MB/s").is_ok());
    }
}
