// SPDX-License-Identifier: Apache-2.0
//! Waits that the system makes for a test: a socket with a time limit, a channel. If the limit ended one, the test is SLOW.

use crate::wait::slow;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Passes on the result of a socket that has a time limit.
///
/// # Panics
/// As SLOW if the limit was reached: the message names `what` was awaited.
#[track_caller]
pub fn timely<T>(result: io::Result<T>, what: &str) -> io::Result<T> {
    match result {
        Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            slow(format_args!("waited in vain for {what}: {why}"))
        }
        other => other,
    }
}

/// Waits for the next item of a channel.
///
/// # Panics
/// As SLOW if none came within `limit`; as BROKEN if none can come any more.
#[track_caller]
pub fn received<T>(from: &Receiver<T>, limit: Duration, what: &str) -> T {
    match from.recv_timeout(limit) {
        Ok(item) => item,
        Err(RecvTimeoutError::Timeout) => slow(format_args!("waited {limit:?} in vain for {what}")),
        Err(RecvTimeoutError::Disconnected) => panic!("the sender ended before {what}"),
    }
}

/// Holds real processes to a rate that was promised for them, both in one unit.
///
/// # Panics
/// As SLOW if they reached less.
#[track_caller]
pub fn in_rate(reached: f64, least: f64, what: &str) {
    if reached < least {
        slow(format_args!("{what} reached {reached:.0}, and {least:.0} is promised"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::sync_channel;

    // What is SLOW has its kind and a colon before its text.

    #[test]
    #[should_panic(expected = ": waited in vain for a byte")]
    fn a_socket_whose_limit_was_reached_is_slow() {
        let (mut here, _there) = UnixStream::pair().expect("two sockets");
        here.set_read_timeout(Some(Duration::from_millis(1))).expect("it is not zero");
        let _read = timely(here.read(&mut [0]), "a byte");
    }

    #[test]
    fn another_end_of_a_socket_is_for_the_test_to_judge() {
        let (mut here, there) = UnixStream::pair().expect("two sockets");
        drop(there);
        assert_eq!(timely(here.read(&mut [0]), "a byte").expect("no error"), 0);
        let reset = timely::<()>(Err(ErrorKind::ConnectionReset.into()), "a byte");
        assert_eq!(reset.map_err(|why| why.kind()), Err(ErrorKind::ConnectionReset));
    }

    #[test]
    #[should_panic(expected = ": waited 1ms in vain for a word")]
    fn a_channel_that_stays_empty_is_slow() {
        let (_say, heard) = sync_channel::<()>(1);
        received(&heard, Duration::from_millis(1), "a word");
    }

    #[test]
    #[should_panic(expected = ": the link, in bit/s, reached 89, and 90 is promised")]
    fn what_is_below_its_rate_is_slow() {
        in_rate(90.0, 90.0, "the link, in bit/s,");
        in_rate(89.0, 90.0, "the link, in bit/s,");
    }

    #[test]
    #[should_panic(expected = "the sender ended before a word")]
    fn a_channel_without_a_sender_is_broken() {
        let (say, heard) = sync_channel(1);
        say.send(7).expect("there is room");
        drop(say);
        assert_eq!(received(&heard, Duration::from_millis(1), "a number"), 7);
        received(&heard, Duration::from_secs(60), "a word");
    }
}
