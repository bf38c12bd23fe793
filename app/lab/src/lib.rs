// SPDX-License-Identifier: Apache-2.0
//! Measures a link with the traffic of a mirror: flushes of one size, sent, written and acknowledged as each mode does,
//! without a volume. IBM's HADR simulator does the same for DB2; this is that job in two faces, [`simhadr`] in its
//! words and [`show`] in ours, over one measuring core.
//!
//! ```text
//!   primary ── flush ──> standby        a lane per stream (`lane`), to one or several standbys
//!           <── ack ────                (`standby`), over counted connections (`channel`)
//!           ── end, report ──           bytes in `wire`
//! ```
//!
//! Threads that block and deadlines in poll: what is measured is the link, and a runtime would stand in between.
//! `record` is another measurement: what a link is like by itself, over time, as weather that can be replayed. `copy` measures how fast
//! one member of a volume is copied to another.
//!
//! Absent on purpose: volumes of daemons, the engine, of the link model all but the weather it replays, and of workloads all but
//! how values are counted by size.

mod channel;
mod copy;
mod error;
mod gauge;
mod lane;
mod meet;
mod outcome;
mod pause;
mod payload;
mod primary;
mod record;
mod search;
mod series;
pub mod show;
pub mod simhadr;
mod socket;
mod standby;
mod store;
pub mod strangers;
mod watch;
mod wire;

pub use channel::Tally;
pub use copy::{
    BLOCK, CopyRow, CopyTest, Data, MirrorRow, MirrorTest, Slow, copy_experiment, mirror_experiment,
};
pub use error::LabError;
pub use gauge::{Gauge, LEAST_SPAN, Times, gauge};
pub use meet::{Keys, Place, Stage};
pub use outcome::{Counts, End, Jitter, Latencies, Outcome, Told, Wire, per_second};
pub use pause::Waking;
pub use payload::RATIOS;
pub use primary::{Job, MOST_STANDBYS, run_primary};
pub use record::{Asking, GRACE, Listen, run_answer, run_record};
pub use search::{Advice, SYSCTL_HEAD, Search, Step, follow, search};
pub use series::{Point, Series};
pub use socket::{Ask, Properties};
pub use standby::{Duty, MOST_BUFFER, run_standby};
pub use store::{Disk, DiskResult, DiskTest, Trial, test_disk};
pub use watch::{Event, Watch};
pub use wire::{Granted, LEAST_FLUSH, MOST_FLUSH, MOST_STREAMS, Mode, WireError};
