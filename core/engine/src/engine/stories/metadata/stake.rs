// SPDX-License-Identifier: Apache-2.0
//! Stories of what only one node holds, if the metadata of the other one is older than it was.

use super::*;
use crate::Unknown;

/// What this node alone holds, in bytes, and why that is unknown.
fn at_stake(desk: &Desk) -> (u64, Option<Unknown>) {
    let stake = desk.engine.view().stake(true).expect("there is something to give up");
    (stake.differing.iter().map(|(_, extent)| extent.length).sum(), stake.unknown)
}

/// The same node starts again, by what its record says.
fn again(desk: &Desk) -> Desk {
    let record = desk.engine.record.superblock().clone();
    let mut desk = Desk::new(config());
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    desk
}

#[test]
fn what_a_peer_that_went_back_has_lost_counts_as_only_here_behind_restarts_of_both() {
    for wrote in [true, false] {
        for (metadata, old) in [(9, true), (40, false)] {
            let mut desk = restarted(Role::Secondary);
            let record =
                Superblock { wrote, alone: wrote, ..desk.engine.record.superblock().clone() };
            desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
            // Neither node leads: no connection is refused, and the peer may write its metadata at once.
            desk.meet(Hello { clean: false, metadata, ..hello(generation(1), true) });
            let expected = if old { (SIZE.0, Some(Unknown::NoRecord)) } else { (0, None) };
            assert_eq!(at_stake(&desk), expected, "{metadata}");
            assert_eq!(desk.engine.record.superblock().peer_invalid != Generation::NONE, old);
            // The peer was promoted by force, and its metadata no longer looks old.
            let mut desk = again(&desk);
            let lineage = generation(1).fork(Generation { number: 2, tag: 9 }, Sequence(1));
            let serves = Hello { serving: true, role: Role::Primary, ..hello(lineage, true) };
            desk.meet(Hello { wrote: true, alone: true, metadata: 60, ..serves });
            if wrote {
                assert_eq!(row(&desk), Some("diverged"));
                assert_eq!(at_stake(&desk), expected, "{metadata}");
            }
        }
    }
}

#[test]
fn what_a_primary_that_went_back_has_lost_counts_as_only_at_its_follower() {
    let mut desk = restarted(Role::Secondary);
    let record =
        Superblock { wrote: false, alone: false, ..desk.engine.record.superblock().clone() };
    desk.engine = Engine::new(config(), durable(record), 1, 1, Moment::ZERO);
    let serves = Hello { serving: true, role: Role::Primary, ..hello(generation(1), true) };
    desk.meet(Hello { wrote: true, alone: true, metadata: 9, ..serves });
    assert_eq!(row(&desk), Some("source-rolled-back"));
    assert_eq!(at_stake(&desk), (SIZE.0, Some(Unknown::NoRecord)));
    assert_eq!(at_stake(&again(&desk)), (SIZE.0, Some(Unknown::NoRecord)), "it is on record");
}

#[test]
fn what_a_target_that_went_back_has_lost_counts_as_only_here_if_it_was_refused() {
    let mut desk = Desk::replicating(Mode::Async);
    let (token, flushing, waits, short) = (1, false, false, false);
    desk.hear(Message::Pong { token, flushing, waits, short, metadata: 40 });
    desk.write(1);
    desk.store_all();
    desk.acked(4);
    desk.save_all();
    let lineage = desk.lineage_now();
    desk.lose_link();
    let back = Hello { wrote: true, alone: true, clean: false, ..hello(lineage, true) };
    desk.meet(Hello { metadata: 9, ..back });
    assert_eq!(row(&desk), Some("diverged"));
    desk.command(Command::Demote);
    desk.store_all();
    desk.save_all();
    assert_eq!(at_stake(&desk), (SIZE.0, Some(Unknown::NoRecord)));
}
