// SPDX-License-Identifier: Apache-2.0
//! Which address of the peer is tried next. A name is resolved at each connection attempt, by the control plane; its
//! addresses are tried one behind the other, and the attempt has failed when all of them have.

use crate::config::PeerAddress;
use crate::names::{self, ADDRESSES_MAX, Unresolved};
use helio_link::Backoff;
use helio_units::Moment;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::watch;

/// An attempt to connect to one address is given up after that long: a dead host says nothing for minutes.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// That pause, and the time after which a kernel repeats an unanswered one (3 s).
const REPEATED_WITHIN: Duration = Duration::from_secs(5);
/// A peer that runs connects within that time after the last conversation with it: the pause after a refusal, then as above. One that
/// must resolve a name first may take longer; force is advised only for a peer that is surely down.
pub(crate) const CONNECTS_WITHIN: Duration = Backoff::LONGEST.saturating_add(REPEATED_WITHIN);

/// Which node connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialler {
    /// Neither: the group has only this node.
    None,
    This,
    /// `resolves`: the address of this node is a name, which the peer resolves first.
    Peer {
        resolves: bool,
    },
}

impl Dialler {
    /// The node whose name is first connects.
    pub(crate) fn of(node: &str, peer: &str, own: &PeerAddress) -> Self {
        if node < peer {
            Self::This
        } else {
            Self::Peer { resolves: matches!(own, PeerAddress::Name { .. }) }
        }
    }

    /// A live peer that lost its connection, or finds this node's process running again, connects within this time; none
    /// if this node connects. A name takes longer: the peer resolves it, and each of its addresses may first not respond
    /// to the connection, then accept it and stay silent for the whole `peer-timeout`.
    pub(crate) fn peer_within(self, peer_timeout: Duration) -> Option<Duration> {
        let each = (CONNECT_PATIENCE + LONGEST_PAUSE).saturating_add(peer_timeout);
        let all = each.saturating_mul(ADDRESSES_MAX as u32);
        match self {
            Self::None | Self::This => None,
            Self::Peer { resolves: false } => Some(REPEATED_WITHIN),
            Self::Peer { resolves: true } => {
                Some((REPEATED_WITHIN + names::PATIENCE).saturating_add(all))
            }
        }
    }
}

/// What an attempt does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Connect(SocketAddr),
    /// The name is being resolved: [`Route::resolved`] follows.
    Wait,
}

/// The way to one peer, if the group has one.
#[derive(Debug)]
pub(crate) struct Route {
    peer: Option<PeerAddress>,
    /// Counts the requests to resolve the name.
    lookups: watch::Sender<u64>,
    /// Addresses of the name that this attempt has not tried.
    untried: VecDeque<SocketAddr>,
    /// Addresses that the name had last.
    known: Vec<SocketAddr>,
    unresolved: Option<Unresolved>,
    /// Why each address that this attempt tried cannot be reached.
    failed: Vec<String>,
    trying: Option<SocketAddr>,
    /// When this attempt began, if it got as far as the network.
    sent: Option<Moment>,
}

impl Route {
    pub(crate) fn new(peer: Option<PeerAddress>, lookups: watch::Sender<u64>) -> Self {
        Self {
            peer,
            lookups,
            untried: VecDeque::new(),
            known: Vec::new(),
            unresolved: None,
            failed: Vec::new(),
            trying: None,
            sent: None,
        }
    }

    pub(crate) fn peer(&self) -> Option<&PeerAddress> {
        self.peer.as_ref()
    }

    /// The one address that is tried, unless it is a name's.
    fn fixed(&self) -> Option<SocketAddr> {
        self.peer.as_ref().and_then(PeerAddress::fixed)
    }

    /// Whether the next step goes on with an attempt that has tried another address.
    pub(crate) fn goes_on(&self) -> bool {
        !self.failed.is_empty()
    }

    pub(crate) fn step(&mut self) -> Step {
        self.trying = self.fixed().or_else(|| self.untried.pop_front());
        self.trying.map_or_else(
            || {
                self.look_up();
                Step::Wait
            },
            Step::Connect,
        )
    }

    fn look_up(&self) {
        self.lookups.send_modify(|asked| *asked += 1);
    }

    /// The name was resolved, or not; `Err` if an attempt that waited for it has failed.
    pub(crate) fn resolved(
        &mut self,
        found: Result<Vec<SocketAddr>, Unresolved>,
        waits: bool,
    ) -> Result<(), String> {
        match found {
            Ok(addresses) => {
                self.unresolved = None;
                self.known = addresses;
            }
            Err(unresolved) if waits => {
                let why = unresolved.why.clone();
                self.unresolved = Some(unresolved);
                // That a name cannot be resolved says nothing of the peer, which may still be where it was.
                if self.known.is_empty() {
                    return Err(why);
                }
            }
            Err(_) => {}
        }
        if waits {
            self.untried = self.known.iter().copied().collect();
        }
        Ok(())
    }

    /// A step failed; `sent` is when its attempt began, if the step got as far as the network. Unless there is another address
    /// to try, the attempt has failed: why, and when it began, if one of its steps got that far.
    pub(crate) fn failed(
        &mut self,
        why: &str,
        sent: Option<Moment>,
    ) -> Option<(String, Option<Moment>)> {
        self.sent = self.sent.or(sent);
        let Some(address) = self.trying.take().filter(|_| self.fixed().is_none()) else {
            return Some((why.to_owned(), self.sent.take()));
        };
        self.failed.push(format!("{address}: {why}"));
        if !self.untried.is_empty() {
            return None;
        }
        let mut all = std::mem::take(&mut self.failed);
        // A name server may give them in another order every time.
        all.sort();
        Some((all.join("; "), self.sent.take()))
    }

    /// An address was reached. If what answers there is not the peer, the next attempt tries the next one.
    pub(crate) fn reached(&mut self) {
        self.failed.clear();
        self.sent = None;
    }

    /// The peer was reached: the next attempt resolves its name again.
    pub(crate) fn greeted(&mut self) {
        self.untried.clear();
        self.failed.clear();
        self.sent = None;
        self.unresolved = None;
    }

    /// Why the name has no address to try, if that was so last.
    pub(crate) fn unresolved(&self) -> Option<&Unresolved> {
        self.unresolved.as_ref()
    }

    /// Whether a caller is at one of the peer's addresses, as far as they are known. Otherwise the name is resolved, for
    /// the next call.
    pub(crate) fn is_from(&self, from: IpAddr) -> bool {
        match &self.peer {
            None => false,
            Some(PeerAddress::Fixed(address)) => address.ip() == from,
            Some(PeerAddress::Name { .. }) => {
                let is_known = self.known.iter().any(|address| address.ip() == from);
                if !is_known {
                    self.look_up();
                }
                is_known
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [&str; 2] = ["[::1]:7122", "127.0.0.1:7122"];

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn named() -> (Route, watch::Receiver<u64>) {
        let (lookups, asked) = watch::channel(0);
        let peer = PeerAddress::Name { host: "lyon.example".into(), port: 7122 };
        (Route::new(Some(peer), lookups), asked)
    }

    fn found() -> Result<Vec<SocketAddr>, Unresolved> {
        Ok(ADDRESSES.map(address).to_vec())
    }

    #[test]
    fn every_address_of_a_name_is_tried_before_an_attempt_has_failed() {
        let (mut route, asked) = named();
        for attempt in 1..=2 {
            assert_eq!(route.step(), Step::Wait);
            assert_eq!(*asked.borrow(), attempt, "resolved at each attempt");
            route.resolved(found(), true).expect("it was found");
            assert_eq!(route.step(), Step::Connect(address(ADDRESSES[0])));
            assert_eq!(route.failed("refused", Some(Moment(attempt))), None);
            assert!(route.goes_on());
            assert_eq!(route.step(), Step::Connect(address(ADDRESSES[1])));
            let why = "127.0.0.1:7122: unreachable; [::1]:7122: refused";
            // The last address fails on this host: the one before was tried over the network.
            let failed = Some((String::from(why), Some(Moment(attempt))));
            assert_eq!(route.failed("unreachable", None), failed);
            assert!(!route.goes_on());
        }
    }

    #[test]
    fn an_address_where_something_else_answers_is_followed_by_the_next_one() {
        let (mut route, asked) = named();
        assert_eq!(route.step(), Step::Wait);
        route.resolved(found(), true).expect("it was found");
        assert_eq!(route.step(), Step::Connect(address(ADDRESSES[0])));
        route.reached();
        assert_eq!(route.step(), Step::Connect(address(ADDRESSES[1])), "it was not the peer");
        route.reached();
        route.greeted();
        assert_eq!((route.step(), *asked.borrow()), (Step::Wait, 2), "it was the peer");
    }

    #[test]
    fn a_name_without_address_is_reported_until_it_has_one() {
        let (mut route, _asked) = named();
        assert_eq!(route.step(), Step::Wait);
        let why = String::from("cannot resolve lyon.example: not known");
        let unresolved = Unresolved { why: why.clone(), hint: String::new() };
        assert_eq!(route.resolved(Err(unresolved.clone()), true), Err(why.clone()));
        assert_eq!(route.failed(&why, None), Some((why, None)), "that proves nothing of the peer");
        assert_eq!(route.unresolved(), Some(&unresolved));
        assert_eq!(route.step(), Step::Wait);
        route.resolved(found(), true).expect("it was found");
        assert_eq!(route.unresolved(), None);
    }

    #[test]
    fn a_name_that_cannot_be_resolved_any_more_is_tried_where_it_was() {
        let (mut route, _asked) = named();
        route.resolved(found(), false).expect("it was found");
        assert_eq!(route.step(), Step::Wait);
        let unresolved = Unresolved { why: String::from("no answer"), hint: String::new() };
        assert_eq!(route.resolved(Err(unresolved.clone()), true), Ok(()));
        assert_eq!(route.step(), Step::Connect(address(ADDRESSES[0])));
        assert_eq!(route.unresolved(), Some(&unresolved), "and shown");
    }

    #[test]
    fn a_peer_that_resolves_a_name_has_more_time_to_connect() {
        let named = PeerAddress::Name { host: "lyon.example".into(), port: 7122 };
        let fixed = PeerAddress::Fixed(address(ADDRESSES[0]));
        let seconds = Duration::from_secs;
        let within = |own, timeout| Dialler::of("paris", "lyon", own).peer_within(timeout);
        assert_eq!(within(&fixed, seconds(6)), Some(seconds(5)));
        assert_eq!(within(&named, seconds(6)), Some(seconds(77)));
        assert_eq!(within(&named, seconds(60)), Some(seconds(293)), "silent addresses take longer");
        assert_eq!(within(&named, Duration::MAX), Some(Duration::MAX));
        assert_eq!(Dialler::of("lyon", "paris", &named), Dialler::This);
        assert_eq!(Dialler::This.peer_within(seconds(6)), None);
    }

    #[test]
    fn a_caller_is_known_once_the_name_was_resolved() {
        let (mut route, asked) = named();
        let from = address(ADDRESSES[1]).ip();
        assert!(!route.is_from(from));
        assert_eq!(*asked.borrow(), 1);
        route.resolved(found(), false).expect("nothing waits for it");
        assert!(route.is_from(from));
        assert_eq!(route.step(), Step::Wait, "an attempt resolves it again");
    }

    #[test]
    fn an_address_is_tried_at_each_attempt() {
        let fixed = address(ADDRESSES[1]);
        let (lookups, asked) = watch::channel(0);
        let mut route = Route::new(Some(PeerAddress::Fixed(fixed)), lookups);
        for _ in 0..2 {
            assert_eq!(route.step(), Step::Connect(fixed));
            assert_eq!(route.failed("refused", None), Some((String::from("refused"), None)));
        }
        assert!(route.is_from(fixed.ip()) && *asked.borrow() == 0);
    }
}
