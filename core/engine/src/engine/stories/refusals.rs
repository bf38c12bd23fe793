// SPDX-License-Identifier: Apache-2.0
//! Every refusal has its form: every command is given in every situation, and whatever is refused is judged.

use super::*;
use alloc::collections::BTreeSet;

mod disks;

const V: VolumeIndex = VolumeIndex(0);

pub(super) fn commands() -> Vec<Command> {
    use Command::*;
    let wish = VerifyWish::default();
    Vec::from([
        Promote { force: false },
        Promote { force: true },
        Restore { force: false },
        Demote,
        Switch,
        Yield { generation: Generation::NONE, last_copy: false },
        Pause,
        Resume,
        Resync,
        FullResync,
        Reverse(Reversal { full: false, last_copy: false }),
        Replace { volume: V, identity: 7, block: 512 },
        Accept { volume: V },
        GiveUpSafeCopy,
        Mode(helio_units::Mode::Sync),
        ResetQueueMarks,
        Verify(wish),
        StopVerify,
        SeedBegin { at: 7 },
        SeedEnd,
        Stop,
    ])
}

/// A named way to a situation.
type Situation = (&'static str, fn() -> Desk);

const SITUATIONS: &[Situation] = &[
    ("a secondary that never met its peer", || Desk::new(config())),
    ("two secondaries", || {
        let mut desk = Desk::new(config());
        desk.meet(hello(Lineage::default(), true));
        desk
    }),
    ("a primary alone", || Desk::primary(config())),
    ("replicating", || Desk::replicating(Mode::Sync)),
    ("a primary cut off", || {
        let mut desk = Desk::replicating(Mode::Sync);
        desk.lose_link();
        desk
    }),
    ("a secondary", || {
        let mut desk = follower(generation(1), true);
        desk.save_all();
        desk
    }),
    ("a secondary cut off", || {
        let mut desk = follower(generation(1), true);
        desk.save_all();
        desk.lose_link();
        desk
    }),
    ("a secondary that is copied to", || {
        let mut desk = follower(generation(1), false);
        desk.save_all();
        desk
    }),
    ("an inconsistent secondary cut off", || {
        let mut desk = follower(generation(1), false);
        desk.save_all();
        desk.lose_link();
        desk
    }),
    ("paused", lack::logging),
    ("reversed", lack::reversed),
    ("seeding", seed::seeding),
    ("a full disk", following::full),
    ("a suspect secondary", accept::suspect),
    ("accepting", accept::accepting),
    ("a suspect primary", flush::suspect),
    ("served from the peer", replace::lost),
    ("given up", lose::given_up),
    ("the last copy", lose::answered_at_the_peer_alone),
    ("handing over", switch::handing),
    ("diverged", || switch::diverged().0),
    ("verifying", || {
        let mut desk = Desk::replicating(Mode::Async);
        desk.command(Command::Verify(VerifyWish::default()));
        desk
    }),
    ("seeding to a peer with a history", || {
        let mut desk = seed::seeding();
        let lineage = desk.lineage_now();
        desk.meet(hello(lineage, true));
        desk
    }),
    ("replicating in mode periodic", || {
        let mut desk = Desk::replicating(Mode::Async);
        desk.command(Command::Mode(Mode::Periodic));
        desk
    }),
    ("writing while paused", || {
        let mut desk = lack::logging();
        desk.write(2);
        desk
    }),
    ("a failed disk beside a primary without a consistent copy", || {
        let mut desk = Desk::new(config());
        desk.meet(Hello { serving: true, role: Role::Primary, ..hello(generation(1), false) });
        desk.hear(Message::Start(start(generation(1), 1, false)));
        desk.store_all();
        desk.save_all();
        desk.hear(item(1));
        let (io, ..) = desk.ios.pop_front().expect("the item is issued");
        desk.tell(Event::StoreDone { io, outcome: StoreOutcome::Failed(StoreFault::Io) });
        desk
    }),
];

/// Codes that the walk meets. Each of the others has a story of its own, which a test of the API holds against the sources.
const MET: &[&str] = &[
    "busy",
    "disk-in-use",
    "in-use",
    "is-primary",
    "lacking",
    "last-copy",
    "leads",
    "metadata-failed",
    "needs-force",
    "needs-sync",
    "no-primary",
    "no-safe-copy",
    "no-whole-copy",
    "not-level",
    "not-paused",
    "not-primary",
    "not-rewritten",
    "not-seeding",
    "not-suspect",
    "not-switched",
    "nothing-to-resolve",
    "peer-has-a-copy",
    "peer-has-a-history",
    "peer-is-primary",
    "peer-lost",
    "periodic",
    "seeding",
    "suspect",
    "unsure",
    "verifying",
    "volume-failed",
];

/// A command is given, and time passes until it has ended.
fn refused(desk: &mut Desk, command: Command) -> Vec<Refusal> {
    desk.results.clear();
    desk.command(command);
    for _ in 0..4 {
        desk.save_all();
        desk.store_all();
        desk.now = desk.now + Duration::from_secs(20);
        desk.tell(Event::Tick);
    }
    desk.results.drain(..).filter_map(Result::err).collect()
}

/// Every desk judges what it is refused, so the stories judge what this walk does not meet.
#[test]
fn every_refusal_says_what_failed_and_what_helps() {
    let mut met = BTreeSet::new();
    for (name, situation) in SITUATIONS {
        for unwritable in [false, true] {
            for command in commands() {
                let mut desk = situation();
                desk.unwritable = unwritable;
                for refusal in refused(&mut desk, command) {
                    assert_eq!(refusal.flaw(), None, "{command:?} on {name}");
                    met.insert(refusal.code);
                }
            }
        }
    }
    assert_eq!(met.into_iter().collect::<Vec<_>>(), MET);
}

#[test]
fn a_resync_that_the_hook_refuses_says_what_the_hook_said() {
    let mut desk = Desk::primary(Config { hook_before_sync: true, ..config() });
    desk.meet(hello(Lineage::default(), true));
    desk.hook_answers(Some("the backup runs"));
    desk.command(Command::Resync);
    desk.hook_answers(Some("the backup runs"));
    let refusal = desk.results.pop().and_then(Result::err).expect("it is refused");
    assert_eq!(refusal.code, "hook-refused");
    assert!(refusal.text.ends_with("refused the resync: the backup runs"), "{}", refusal.text);
}

#[test]
fn mode_periodic_is_refused_without_a_safe_copy_and_with_a_hold_lease() {
    let without = Config { safe_copy: SafeCopy::Off, ..config() };
    let leases = Config { hold: Duration::from_secs(20), ..config() };
    for config in [without, leases] {
        let mut desk = Desk::primary(config);
        let refused = refused(&mut desk, Command::Mode(Mode::Periodic));
        assert_eq!(refused.first().map(|refusal| refusal.code), Some("periodic"));
    }
}
