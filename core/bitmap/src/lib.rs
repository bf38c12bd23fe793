// SPDX-License-Identifier: Apache-2.0
//! What may differ between two copies, and what is recorded before a write is issued.
//!
//! * [`Grid`]: the volumes of a group, divided into units of one size.
//! * [`Bitmap`]: the regions of one copy that may differ from another.
//! * [`Parts`]: which parts of a hot extent were touched.
//! * [`HotExtents`]: the extents that may be written now (rule 1). A durable record covers each of them.
//!
//! Pure: nothing here does I/O or knows the time. The owner saves pages and extents, and reports when they are durable.
#![no_std]

extern crate alloc;

mod bitmap;
mod counts;
mod grid;
mod hot;
mod parts;
mod stretches;

pub use bitmap::{Bitmap, PAGE_REGIONS, Region};
pub use grid::{Grid, add_run};
pub use hot::{Change, Cooling, EXTENT, HotExtent, HotExtents, Parked};
pub use parts::Parts;
