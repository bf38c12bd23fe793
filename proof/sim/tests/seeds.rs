// SPDX-License-Identifier: Apache-2.0
//! The simulator itself: it finds nothing on the product as it is, it tells the same story twice, and it goes where
//! the interesting things happen.

use helio_sim::{Story, Telling, run, walk};

#[test]
fn two_hundred_seeds_keep_every_promise() {
    let found = walk(&Telling::of(0), 200, 1, &|_, _| {});
    assert!(found.broken.is_empty(), "{:?}", found.broken);
    let counts = found.counts;
    assert!(counts.writes >= 200 * 200, "{counts:?}");
    assert!(counts.long > 0, "no long story in 200: {counts:?}");
    for (what, count) in [
        ("crashes", counts.crashes),
        ("power cuts", counts.power_cuts),
        ("link cuts", counts.link_cuts),
        ("promotions", counts.promotions),
        ("resyncs", counts.resyncs),
        ("nodes that joined as new", counts.wipes),
    ] {
        assert!(count > 10, "only {count} {what} in 200 stories");
    }
    let stray: Vec<_> = found.coverage.lines().into_iter().filter(|line| !line.listed).collect();
    assert!(stray.is_empty(), "seen and in no list of `coverage`: {stray:?}");
}

#[test]
fn a_seed_tells_the_same_story_again() {
    let tell = |seed| {
        let mut story = String::new();
        let mut listener = |at: helio_units::Moment, words: &dyn core::fmt::Display| {
            story += &format!("{} {words}\n", at.0);
        };
        run(&Telling::of(seed), Some(Story(&mut listener)));
        story
    };
    for seed in [3, 44] {
        let (first, second) = (tell(seed), tell(seed));
        assert!(first.len() > 10_000 && first == second, "seed {seed} tells two stories");
    }
}

#[test]
fn listening_changes_nothing() {
    let mut listener = |_: helio_units::Moment, _: &dyn core::fmt::Display| {};
    let told = run(&Telling::of(9), Some(Story(&mut listener))).counts;
    let untold = run(&Telling::of(9), None).counts;
    assert_eq!((told.steps, told.answered), (untold.steps, untold.answered));
}

#[test]
fn every_kind_of_misfortune_strikes() {
    let found = walk(&Telling::of(1000), 1000, 1, &|_, _| {});
    assert!(found.broken.is_empty(), "{:?}", found.broken);
    let lines = found.coverage.lines();
    let missed: Vec<_> =
        lines.iter().filter(|line| line.kind == "fault" && line.count == 0).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
