// SPDX-License-Identifier: Apache-2.0
//! Windows: what must be under way to fill a link, and what a given window lets through.
//!
//! | formula | from |
//! |---|---|
//! | product = rate × round trip | "TCP window size = send_rate * round_trip_time" (HADR TCP tuning) |
//! | buffer = 2 × product | "buffer size = 2 * bandwidth * delay" (Sun remote mirror, appendix B) |
//! | throughput = the lesser of window ÷ round trip and the link | TABLE B-1 of the same |
//! | room for a hiccup = rate × seconds | "30MB to buffer 10 seconds of work load at 3MB/sec" (HADR TCP tuning) |

use helio_units::{Bytes, Rate};
use std::time::Duration;

/// No socket buffer should be smaller: HADR ships its log in pieces of this size.
pub const LEAST_BUFFER: Bytes = Bytes::kib(64);
/// HADR's advice is to set no socket buffer larger.
pub const MOST_BUFFER: Bytes = Bytes::mib(32);

/// The bandwidth-delay product: what is under way on a link that is full.
#[must_use]
pub fn product(link: Rate, rtt: Duration) -> Bytes {
    link.bytes_in(rtt)
}

/// The buffer Sun's rule asks for: twice the product.
#[must_use]
pub fn buffer(link: Rate, rtt: Duration) -> Bytes {
    Bytes(product(link, rtt).0.saturating_mul(2))
}

/// The first size of the search by doubling, 64 KiB, 128 KiB, …, that holds `least`.
#[must_use]
pub fn doubled(least: Bytes) -> Bytes {
    let mut size = LEAST_BUFFER;
    while size < least && size.0 < 1 << 62 {
        size = size * 2;
    }
    size
}

/// What one connection carries: a window per round trip, and never more than the link.
#[must_use]
pub fn throughput(window: Bytes, rtt: Duration, link: Rate) -> Rate {
    match rtt.as_nanos() {
        0 => link,
        nanos => {
            let rate = (u128::from(window.0) * 1_000_000_000 + nanos / 2) / nanos;
            Rate(u64::try_from(rate).unwrap_or(u64::MAX)).min(link)
        }
    }
}

/// What piles up while nothing travels for `hiccup`: a buffer of that size hides it from who writes at `rate`.
#[must_use]
pub fn hiccup_room(rate: Rate, hiccup: Duration) -> Bytes {
    rate.bytes_in(hiccup)
}

/// What Linux grants to who asks for a socket buffer of `requested`: twice as much, for its own book-keeping.
#[must_use]
pub fn granted_by_linux(requested: Bytes) -> Bytes {
    Bytes(requested.0.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Rate = Rate::mbit(100);

    #[test]
    fn a_window_rules_until_the_link_does() {
        let ms = Duration::from_millis;
        assert_eq!(throughput(Bytes::kib(24), ms(100), FAST), Rate(245_760));
        assert_eq!(throughput(Bytes::kib(256), ms(10), FAST), FAST);
        assert_eq!(throughput(Bytes::kib(24), Duration::ZERO, FAST), FAST);
        // The product is just the window that fills the link.
        assert_eq!(throughput(product(FAST, ms(50)), ms(50), FAST), FAST);
    }

    #[test]
    fn the_search_stops_at_the_first_size_that_holds_enough() {
        assert_eq!(doubled(Bytes(1)), Bytes::kib(64));
        assert_eq!(doubled(Bytes::kib(64)), Bytes::kib(64));
        assert_eq!(doubled(Bytes(65_537)), Bytes::kib(128));
        assert_eq!(doubled(Bytes(u64::MAX)), Bytes(1 << 62));
    }
}
