// SPDX-License-Identifier: Apache-2.0
//! The lean pair: two real engines whose operations only take their time, for forecasts over millions of writes.
//!
//! Its host is that of [`Cluster`](crate::Cluster), without content: one bit per block, whether the copies differ there. Nodes never die
//! here; links do. What costs time is modelled:
//!
//! ```text
//!  request ─> inbox ─(a turn: base + per event + per byte)─> engine ─┬─> disk (service times, lanes, bandwidth)
//!                                                                    ├─> records (write and flush, together)
//!                                                                    └─> socket ─> window ─> link model ─> inbox
//! ```
//! A turn takes whatever has come by its beginning, as a shard's does, so batches grow under load.
//!
//! Known to be coarse: a block that was written twice within the queue counts as equal once the first of the two is
//! applied; and flushes do not make a disk's writes slower.

mod course;
mod differing;
mod disk;
mod figures;
mod link;
mod pair;
mod records;
mod shard;
mod sizes;
mod socket;
mod work;

pub use course::Course;
pub use disk::{DiskModel, ServiceTime};
pub use figures::{Figures, Outcome, Sample, Spread};
pub use pair::{Pair, PairConfig, Processor, Run, Stuck};
pub use socket::{LinkModel, Transport};
