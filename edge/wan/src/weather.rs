// SPDX-License-Identifier: Apache-2.0
//! A change of the weather while things are under way.

use helio_netmodel::{Dice, Direction, Ppm, Profile, Verdict};
use helio_units::{Bytes, Moment};

/// The direction that goes on with `profile` from `now`. `promised` is all that is on the line, in order of arrival,
/// with its size: each is sent again through the new profile and arrives when that says or when it was promised
/// before, whichever is earlier. Otherwise a link that was once slow would stay slow until its old queue is through.
pub(crate) fn changed<'a>(
    profile: Profile,
    now: Moment,
    dice: &mut Dice,
    promised: impl Iterator<Item = (&'a mut Moment, Bytes)>,
) -> Direction {
    // They were admitted once, and not lost: no queue, outage or roll may refuse them now.
    let open =
        Profile { queue: Bytes(u64::MAX), outages: Vec::new(), loss: Ppm::NONE, ..profile.clone() };
    let mut direction = Direction::new(open);
    for (at, size) in promised {
        if let Verdict::Deliver { at: sooner } = direction.offer(now, size, dice) {
            *at = (*at).min(sooner);
        }
    }
    direction.set_profile(profile);
    direction
}
