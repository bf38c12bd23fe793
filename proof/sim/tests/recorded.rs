// SPDX-License-Identifier: Apache-2.0
//! A flight recorder's file is told again.

use helio_replay::Script;
use helio_sim::{Telling, walk};
use std::sync::Arc;

const DUMP: &str = include_str!("../../replay/two-cuts-and-a-failed-store.json");

#[test]
fn a_file_of_the_field_keeps_every_promise_on_every_link() {
    let dump = ("dump".to_owned(), DUMP.to_owned());
    let script = Some(Arc::new(Script::read(&[dump]).expect("a dump")));
    let told = walk(&Telling { script, ..Telling::of(0) }, 60, 1, &|_, _| {});
    assert!(told.broken.is_empty(), "{:?}", told.broken);
    // 191 requests are in it; what was asked while nobody served was denied.
    assert!(told.counts.answered > 60 * 100, "{:?}", told.counts);
    assert_eq!(told.counts.link_cuts, 60 * 2);
    assert_eq!((told.counts.crashes, told.counts.power_cuts), (0, 0));
    assert!(told.counts.writes > 60 * 100, "{:?}", told.counts);
}
