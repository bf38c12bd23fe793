// SPDX-License-Identifier: Apache-2.0
//! Who makes room at a port that anybody may call: one address alone keeps no other out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Of `(slot, host, rank)`, the slot that makes room: of the host that has the most of them, the one of the lowest rank.
pub(crate) fn makes_room<H: Ord, R: Ord>(
    crowd: impl Iterator<Item = (usize, H, R)> + Clone,
) -> Option<usize> {
    let mut hosts = BTreeMap::<H, u32>::new();
    crowd.clone().for_each(|(_, host, _)| *hosts.entry(host).or_default() += 1);
    let ranked = crowd.map(|(slot, host, rank)| ((Reverse(hosts.get(&host)), rank), slot));
    ranked.min().map(|(_, slot)| slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_with_the_most_makes_room_by_its_lowest_rank() {
        let crowd = [(0, "a", 1), (1, "b", 9), (2, "b", 8), (3, "c", 0), (4, "b", 9)];
        assert_eq!(makes_room(crowd.into_iter()), Some(2));
        assert_eq!(makes_room([(7, "a", 3), (5, "b", 2)].into_iter()), Some(5));
        assert_eq!(makes_room(std::iter::empty::<(usize, &str, u32)>()), None);
    }
}
