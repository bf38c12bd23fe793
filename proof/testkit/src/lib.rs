// SPDX-License-Identifier: Apache-2.0
//! What the end-to-end tests stand on: real daemons in scratch folders, waiting for conditions instead of
//! for time, seeds that replay, and nothing left behind however a test ends.
//!
//! A test in one breath:
//!
//! ```no_run
//! use helio_testkit::{Dice, Plan};
//! use helio_units::{Bytes, Mode};
//!
//! let mut dice = Dice::of_test("a_write_reaches_the_other_node");
//! let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(64)).start();
//! pair.helio("paris", &["promote", "db", "--yes"]).expect_success();
//! let uri = pair.export("paris", "data");
//! // … write through `uri`, then:
//! pair.daemon("paris").kill9();
//! let member = pair.member("lyon", "data");
//! # let _ = (dice.below(3), uri, member);
//! ```
//!
//! The environment says more: `HELIO_BIN` which program to test, `HELIO_SEED` which seed,
//! `HELIO_ROUNDS` how many rounds, `HELIO_KEEP=1` to leave the scratch folders for a look.

mod browser;
mod config;
mod daemon;
mod dice;
mod loop_device;
mod pair;
mod port;
mod process;
mod program;
mod scratch;
mod small;
mod store;
mod terminal;
mod timely;
mod traced;
mod wait;
mod wan;

pub use browser::{Browser, page_tests};
pub use config::Config;
pub use daemon::Daemon;
pub use dice::{Dice, drawn, first_seed, rounds, times, walk_share};
pub use loop_device::LoopDevice;
pub use pair::{Pair, Plan};
pub use port::free_port;
pub use process::{Group, handles};
pub use program::{PYTHON, Told, have, helio, helio_binary, lacking, run, run_within, say_skipped};
pub use scratch::TempDir;
pub use small::SmallFs;
pub use store::{
    Counts, Event, Failing, FaultyStore, Fua, Images, Loss, Recorded, Request, Shows, StorePlan,
    Torn, faulty_stores_possible,
};
pub use terminal::Terminal;
pub use timely::{in_rate, received, timely};
pub use traced::Traced;
pub use wait::{eventually, eventually_from, in_time};
pub use wan::{Side, Wan, in_namespace};
