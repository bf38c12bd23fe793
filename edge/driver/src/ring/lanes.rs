// SPDX-License-Identifier: Apache-2.0
//! The order of operations on one socket: of each direction one is with the kernel, the others wait their turn.

use std::collections::VecDeque;
use std::os::fd::RawFd;

/// A direction of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Accepts and receives.
    In,
    /// Connects and sends.
    Out,
}

/// One direction of one socket, in slots of the driver.
#[derive(Debug, Default)]
struct Lane {
    flying: Option<usize>,
    waiting: VecDeque<usize>,
}

/// All lanes, by the socket's number: numbers are small and used again.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<[Lane; 2]>,
}

impl Lanes {
    fn lane(&mut self, socket: RawFd, way: Way) -> &mut Lane {
        let at = usize::try_from(socket).unwrap_or_default();
        if self.lanes.len() <= at {
            self.lanes.resize_with(at + 1, Default::default);
        }
        &mut self.lanes[at][way as usize]
    }

    /// Lines a slot up; says whether it goes to the kernel at once.
    pub(super) fn enter(&mut self, socket: RawFd, way: Way, slot: usize) -> bool {
        let lane = self.lane(socket, way);
        if lane.flying.is_some() {
            lane.waiting.push_back(slot);
            return false;
        }
        lane.flying = Some(slot);
        true
    }

    /// The one with the kernel ended; returns the next one, which goes there now.
    pub(super) fn leave(&mut self, socket: RawFd, way: Way) -> Option<usize> {
        let lane = self.lane(socket, way);
        lane.flying = lane.waiting.pop_front();
        lane.flying
    }

    /// Takes everything that waits on a socket, and names what is with the kernel.
    pub(super) fn clear(&mut self, socket: RawFd) -> (Vec<usize>, Vec<usize>) {
        let (mut waiting, mut flying) = (Vec::new(), Vec::new());
        for way in [Way::In, Way::Out] {
            let lane = self.lane(socket, way);
            waiting.extend(lane.waiting.drain(..));
            flying.extend(lane.flying);
        }
        (waiting, flying)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_lets_one_through_at_a_time_in_order() {
        let mut lanes = Lanes::default();
        assert!(lanes.enter(5, Way::In, 1));
        assert!(!lanes.enter(5, Way::In, 2));
        assert!(!lanes.enter(5, Way::In, 3));
        assert!(lanes.enter(5, Way::Out, 4), "directions do not hold each other up");
        assert!(lanes.enter(6, Way::In, 5), "nor do sockets");
        assert_eq!(lanes.leave(5, Way::In), Some(2));
        assert_eq!(lanes.clear(5), (vec![3], vec![2, 4]));
        assert_eq!(lanes.leave(5, Way::In), None);
        assert!(lanes.enter(5, Way::In, 6));
    }
}
