// SPDX-License-Identifier: Apache-2.0
//! The daemons that called as the peer: more than one of them may run, if the peer's machine was copied.
//!
//! A daemon that starts draws a new incarnation, so one that was followed by another and calls again was not restarted: both run. The
//! one that was started last keeps the connection; once it is gone, an earlier one is accepted again.

use std::net::SocketAddr;

/// How many are remembered.
const REMEMBERED: usize = 8;

/// In the order in which they called first, or were accepted again.
#[derive(Debug, Default)]
pub(crate) struct Callers(Vec<Caller>);

/// One daemon, and from where it called last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) incarnation: u64,
    pub(crate) from: Option<SocketAddr>,
}

impl Callers {
    /// A daemon calls as the peer. `is_up`: the last one that was accepted is connected.
    ///
    /// # Errors
    /// That one was started later, and both run.
    pub(crate) fn accept(&mut self, caller: Caller, is_up: bool) -> Result<(), Caller> {
        let known = self.0.iter().position(|it| it.incarnation == caller.incarnation);
        match (known, self.0.last()) {
            (Some(at), Some(last)) if is_up && at + 1 < self.0.len() => return Err(*last),
            (Some(at), _) => drop(self.0.remove(at)),
            (None, _) if self.0.len() == REMEMBERED => drop(self.0.remove(0)),
            (None, _) => {}
        }
        self.0.push(caller);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn caller(incarnation: u64, port: u16) -> Caller {
        let from = Some(SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port));
        Caller { incarnation, from }
    }

    #[test]
    fn a_daemon_that_calls_again_after_a_later_one_is_refused_while_that_is_connected() {
        let mut callers = Callers::default();
        for is_up in [false, true, true] {
            assert_eq!(callers.accept(caller(1, 10), is_up), Ok(()), "it connects again");
        }
        assert_eq!(callers.accept(caller(2, 20), true), Ok(()), "it was restarted");
        assert_eq!(callers.accept(caller(1, 11), true), Err(caller(2, 20)));
        assert_eq!(callers.accept(caller(2, 21), true), Ok(()));
        assert_eq!(callers.accept(caller(1, 12), true), Err(caller(2, 21)));
        assert_eq!(callers.accept(caller(1, 12), false), Ok(()), "the later one is gone");
        assert_eq!(callers.accept(caller(2, 22), true), Err(caller(1, 12)));
    }

    #[test]
    fn the_memory_of_callers_has_a_bound() {
        let mut callers = Callers::default();
        (0..100).for_each(|n| assert_eq!(callers.accept(caller(n, 1), true), Ok(())));
        assert_eq!(callers.0.len(), REMEMBERED);
        assert_eq!(callers.accept(caller(98, 1), true), Err(caller(99, 1)));
    }
}
