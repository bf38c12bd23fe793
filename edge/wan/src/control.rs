// SPDX-License-Identifier: Apache-2.0
//! What others may ask of a running relay.

use crate::desk::{self, Desk};
use helio_netmodel::Profile;
use helio_units::{Bytes, Items};
use std::io;

/// How a link fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Bytes stop in both directions and nobody is told, as when a line is dug up: connections stay as they are,
    /// new ones are accepted and carry nothing. After [`RelayControl::heal`] they go on in order and nothing is
    /// lost.
    Freeze,
    /// Each connection carries so many bytes in each direction and nothing behind them, as on a network that does not carry large packets:
    /// first words pass, and data does not.
    After(Bytes),
    /// Every connection is reset, on both sides at once, and so is every new one until [`RelayControl::heal`], as
    /// when a host or a firewall on the way has forgotten them.
    Reset,
}

/// One direction of a relay, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayStats {
    /// What the receivers' sockets took since the relay started.
    pub delivered: Bytes,
    /// What the relay holds now: waiting to be serialised, in flight, or arrived at a receiver that does not read.
    pub queued: Bytes,
}

/// A relay in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// From the clients to the target.
    pub there: WayStats,
    /// From the target to the clients.
    pub back: WayStats,
    /// Connections now.
    pub connections: Items,
    /// Connections accepted since the relay started, those reset at once by [`Cut::Reset`] included.
    pub accepted: Items,
    /// How the link is cut now, if it is.
    pub cut: Option<Cut>,
}

/// What the relay's thread is told.
pub(crate) enum Order {
    /// Carry on like this, there and back.
    Profile(Box<[Profile; 2]>),
    /// Cut the link, or heal it.
    Cut(Option<Cut>),
    /// Close everything and end.
    Stop,
}

/// A handle on a running relay: cheap to clone, usable from any thread.
///
/// Every order has taken effect when its call returns. Orders to a relay that was dropped do nothing.
#[derive(Clone, Debug)]
pub struct RelayControl {
    desk: Desk<Order, RelayStats>,
}

/// The relay thread's end of its controls.
pub(crate) type Duty = desk::Duty<Order, RelayStats>;

impl RelayControl {
    /// A handle, and the end that obeys it.
    pub(crate) fn new() -> io::Result<(Self, Duty)> {
        let (desk, duty) = desk::desk()?;
        Ok((Self { desk }, duty))
    }

    /// Gives the link other profiles: `there` from client to target, `back` from target to client. What is on its
    /// way arrives as the new profile says or as it was promised, whichever is earlier.
    pub fn set_profile(&self, there: Profile, back: Profile) {
        self.order(Order::Profile(Box::new([there, back])));
    }

    /// Cuts the link until [`RelayControl::heal`]. A cut replaces the one before it.
    pub fn cut(&self, cut: Cut) {
        self.order(Order::Cut(Some(cut)));
    }

    /// Ends a cut; does nothing where there is none.
    pub fn heal(&self) {
        self.order(Order::Cut(None));
    }

    /// The relay in numbers, as of its last turn.
    #[must_use]
    pub fn stats(&self) -> RelayStats {
        self.desk.stats()
    }

    pub(crate) fn stop(&self) {
        self.order(Order::Stop);
    }

    fn order(&self, order: Order) {
        // A thread that has ended leaves nothing to order.
        let _ = self.desk.order(order);
    }
}
