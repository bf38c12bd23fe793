// SPDX-License-Identifier: Apache-2.0
//! What others may ask of a running emulator.

use crate::desk::{self, Desk};
use helio_netmodel::{Profile, Tally};
use std::io;
use std::time::Duration;

/// One way through a link, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ways {
    /// From left to right and from right to left.
    Both,
    /// From left to right alone.
    There,
    /// From right to left alone.
    Back,
}

impl Ways {
    /// Whether `there` and `back` are meant.
    pub(crate) const fn each(self) -> [bool; 2] {
        [!matches!(self, Self::Back), !matches!(self, Self::There)]
    }
}

/// What became of the packets of one way since the emulator started: `taken` is the sum of the other seven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayTally {
    /// Read from the sender's device.
    pub taken: Tally,
    /// On the way now.
    pub held: Tally,
    /// Given to the receiver's kernel.
    pub delivered: Tally,
    /// Refused by the receiver's device: it is down.
    pub refused: Tally,
    /// Lost by the roll of the dice.
    pub lost: Tally,
    /// Dropped at the full queue, or at the bound of what the emulator holds.
    pub queue_full: Tally,
    /// Dropped because the way was cut, or had an outage.
    pub cut: Tally,
    /// The most by which a packet came later than the model said.
    pub late_at_most: Duration,
    /// The mean of that over all packets.
    pub late_on_average: Duration,
    /// Whether the way is cut.
    pub down: bool,
}

/// An emulator in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatorStats {
    /// From left to right.
    pub there: WayTally,
    /// From right to left.
    pub back: WayTally,
}

/// What the emulator's thread is told.
pub(crate) enum Steer {
    /// Carry on like this, there and back.
    Profile(Box<[Profile; 2]>),
    /// Cut these ways, or heal them.
    Down(Ways, bool),
    /// Publish the numbers.
    Report,
    /// End.
    Stop,
}

/// The emulator thread's end of its controls.
pub(crate) type Duty = desk::Duty<Steer, EmulatorStats>;

/// A handle on a running emulator: cheap to clone, usable from any thread.
///
/// Every order has taken effect when its call returns. Orders to an emulator that has ended do nothing.
#[derive(Clone, Debug)]
pub struct EmulatorControl {
    desk: Desk<Steer, EmulatorStats>,
}

impl EmulatorControl {
    /// A handle, and the end that obeys it.
    pub(crate) fn new() -> io::Result<(Self, Duty)> {
        let (desk, duty) = desk::desk()?;
        Ok((Self { desk }, duty))
    }

    /// Gives the link other profiles: `there` from left to right, `back` from right to left. What is on its way
    /// arrives as the new profile says or as it was promised, whichever is earlier.
    pub fn set_profile(&self, there: Profile, back: Profile) {
        self.order(Steer::Profile(Box::new([there, back])));
    }

    /// Drops every packet that sets out on these ways until they are [healed](EmulatorControl::heal). What is under
    /// way arrives.
    pub fn cut(&self, ways: Ways) {
        self.order(Steer::Down(ways, true));
    }

    /// Ends a cut of these ways; does nothing where there is none.
    pub fn heal(&self, ways: Ways) {
        self.order(Steer::Down(ways, false));
    }

    /// The emulator in numbers, as of now; `None` where it has ended because its devices were taken away.
    #[must_use]
    pub fn stats(&self) -> Option<EmulatorStats> {
        self.desk.order(Steer::Report).then(|| self.desk.stats())
    }

    pub(crate) fn stop(&self) {
        self.order(Steer::Stop);
    }

    fn order(&self, order: Steer) {
        // A thread that has ended leaves nothing to order.
        let _ = self.desk.order(order);
    }
}
