// SPDX-License-Identifier: Apache-2.0
//! `helio-whole`: walks seeds of the whole program, or tells one.

fn main() {
    let seed = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    let story = std::env::args().nth(2).is_some();
    let verdict = helio_whole::run(seed, story);
    verdict.story.iter().for_each(|line| println!("{line}"));
    println!("{seed} {:016x} {:?} {:?}", verdict.digest, verdict.lasted, verdict.broken);
}
