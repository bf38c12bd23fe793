// SPDX-License-Identifier: Apache-2.0
//! The whole program: an input is a schedule for one real daemon in a simulated world, whose promises are judged there
//! (`proof/whole/src/single`).
//!
//! Input: step after step, each a byte that says which, then its arguments. Steps below [`COMMON`] are the same for every
//! target: time, sound clients, orders, the end of the daemon. The others are the target's: `nbd`, `peer`, `control`,
//! `attach`.

pub(crate) mod attach;
pub(crate) mod control;
pub(crate) mod nbd;
pub(crate) mod peer;
mod schedule;

use helio_nbd::Form;
use helio_whole::client::{Habits, Leaving, Mischief, Pace};
use helio_whole::{Shape, Single, Violation};
use schedule::Schedule;
use std::time::Duration;

/// How many kinds of steps all targets have.
const COMMON: u8 = 10;
/// So many steps are taken of an input, and so much virtual time passes in them.
const STEPS_MOST: usize = 200;
const LASTS_MOST: Duration = Duration::from_secs(60);
/// How often a target looks while time passes.
const LOOKS: Duration = Duration::from_millis(20);
/// Clients that may be connected at once.
const CLIENTS: u8 = 2;

/// Bytes that decide which requests a client makes in a step; dice decide the rest.
const CHOICES: usize = 8;

type Judged = Result<(), Violation>;

/// What a target adds.
trait Stage {
    /// Comes before the first step.
    fn begin(&mut self, _single: &mut Single) -> Judged {
        Ok(())
    }

    /// Takes a step of its own.
    fn act(&mut self, what: u8, schedule: &mut Schedule<'_>, single: &mut Single) -> Judged;

    /// Looks at what has happened by now.
    fn look(&mut self, _single: &mut Single) -> Judged {
        Ok(())
    }
}

/// Follows a schedule, and stops the daemon.
fn follow(shape: Shape, data: &[u8], stage: &mut impl Stage) {
    let judged = steps(shape, data, stage);
    let judged = judged.and_then(|single| single.finish(|single| stage.look(single)));
    assert!(judged.is_ok(), "{}", judged.err().map(|why| why.to_string()).unwrap_or_default());
}

/// Takes the steps of a schedule.
fn steps(shape: Shape, data: &[u8], stage: &mut impl Stage) -> Result<Single, Violation> {
    let mut single = Single::new(shape)?;
    stage.begin(&mut single)?;
    let mut schedule = Schedule::of(data);
    for _ in 0..STEPS_MOST {
        let Some(what) = schedule.next().filter(|_| single.passed() <= LASTS_MOST) else { break };
        match what.checked_sub(COMMON) {
            None => common(what, &mut schedule, &mut single, stage)?,
            Some(what) => stage.act(what, &mut schedule, &mut single)?,
        }
        stage.look(&mut single)?;
    }
    Ok(single)
}

/// Lets time pass. The target sees what happens in between.
fn pass(span: Duration, single: &mut Single, stage: &mut impl Stage) -> Judged {
    let until = single.passed() + span;
    while single.passed() < until {
        single.pass(LOOKS.min(until - single.passed()))?;
        stage.look(single)?;
    }
    Ok(())
}

fn common(
    what: u8,
    schedule: &mut Schedule<'_>,
    single: &mut Single,
    stage: &mut impl Stage,
) -> Judged {
    let slot = |schedule: &mut Schedule<'_>| usize::from(schedule.below(CLIENTS));
    match what {
        0 => return pass(Duration::from_micros(100) * (schedule.number() + 1), single, stage),
        1 => return pass(Duration::from_millis(10) * (schedule.number() + 1), single, stage),
        2 => {
            let (slot, count) = (slot(schedule), schedule.below(8) + 1);
            single.request(slot, count.into(), schedule.take(CHOICES));
            return single.pass(Duration::ZERO);
        }
        3 => {
            let slot = slot(schedule);
            single.connect(slot, habits(schedule));
        }
        4 => single.leave(slot(schedule)),
        5 => single.reset(slot(schedule)),
        6 => single.give_up(slot(schedule)),
        7 => {
            single.kill();
            single.pass(Duration::from_millis(1) * schedule.number())?;
            return single.start();
        }
        8 => {
            let _number = single.order("GET", "/v2/status".to_owned(), Vec::new());
        }
        _ => {
            let mischief = Mischief::ALL[usize::from(schedule.below(Mischief::ALL.len() as u8))];
            let habits = Habits { mischief: Some(mischief), ..habits(schedule) };
            single.connect(usize::from(CLIENTS), habits);
        }
    }
    Ok(())
}

/// A client that makes requests when a step says so.
fn habits(schedule: &mut Schedule<'_>) -> Habits {
    let (drawn, plain) = (schedule.next().unwrap_or_default(), Habits::plain("db/data", 0));
    let form = [Form::Structured, Form::Simple, Form::Extended][usize::from(drawn % 3)];
    let pace = Pace { bytes: 700, every: Duration::from_micros(300) };
    // A client without any request to make would leave at once.
    let breaks_off = drawn & 32 != 0;
    let requests = match (breaks_off, drawn & 128) {
        (false, _) => 0,
        (true, 0) => 1,
        (true, _) => 4,
    };
    Habits {
        requests,
        form,
        contexts: drawn & 4 != 0,
        longest: if drawn & 8 == 0 { 8 } else { 128 },
        pace: (drawn & 16 != 0).then_some(pace),
        leaving: if breaks_off {
            Leaving::InRequest { reset: drawn & 64 != 0 }
        } else {
            Leaving::Retired
        },
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::State;
    use helio_whole::client::Ending;

    fn seed(seeds: Vec<(&'static str, Vec<u8>)>, name: &str) -> Vec<u8> {
        seeds.into_iter().find(|(of, _)| *of == name).expect("a seed").1
    }

    #[test]
    fn clients_are_served_on_every_stage() {
        let sound = seed(nbd::seeds(), "sound");
        let alone = steps(Shape::Alone, &sound, &mut nbd::Strangers::default()).expect("kept");
        assert_eq!(alone.acknowledged(), 12);
        let kill = seed(nbd::seeds(), "kill");
        let again = steps(Shape::Alone, &kill, &mut nbd::Strangers::default()).expect("kept");
        assert!(again.acknowledged() > 8 && again.is_judged(), "{}", again.acknowledged());
        let job = seed(attach::seeds(), "job");
        let attached = steps(Shape::Alone, &job, &mut attach::Attached).expect("kept");
        assert!(attached.acknowledged() > 5, "{}", attached.acknowledged());
        let both = steps(Shape::Both, &sound, &mut control::Asked::default()).expect("kept");
        assert_eq!((both.acknowledged(), both.is_judged()), (12, true));
    }

    #[test]
    fn a_client_that_is_to_break_off_makes_requests_before_it_does() {
        for (drawn, requests) in [(32, 1), (32 | 64, 1), (32 | 128, 4)] {
            let schedule = [3, 0, drawn, 0, 90, 8];
            let mut single =
                steps(Shape::Alone, &schedule, &mut nbd::Strangers::default()).expect("kept");
            assert_eq!(single.ending(0), Some(Ending::BrokeOff), "{drawn}");
            assert!(single.acknowledged() < requests, "{drawn}");
            // Another client in its place stays until it is to leave.
            single.connect(0, habits(&mut Schedule::of(&[0])));
            single.pass(Duration::from_millis(9)).expect("kept");
            assert_eq!(single.ending(0), None, "{drawn}");
        }
    }

    #[test]
    fn a_played_peer_that_is_sound_is_replicated_to() {
        for (shape, name) in [(Shape::Dials, "accepted"), (Shape::Accepts, "dialled")] {
            let steps = steps(shape, &seed(peer::seeds(), name)[1..], &mut peer::Peer::new(shape));
            let mut single = steps.expect("kept");
            assert_eq!(single.state(), Some(State::Replicating), "{name}");
            assert!(single.acknowledged() > 10 && single.is_judged(), "{}", single.acknowledged());
        }
    }
}
