// SPDX-License-Identifier: Apache-2.0
//! The forecast: a workload run by the twin's pair without content under every mode, queue, buffer and link that is asked for, and
//! the answer that follows.
//!
//! A [`Grid`] says what is varied and what stays; [`Grid::run`] makes a [`Cell`] of each combination, each with its
//! [`helio_twin::Figures`]. [`answer()`] holds them against [`Goals`]. [`page()`] draws them.
//!
//! Absent on purpose: clocks, files, sockets. How long forecasts take is for whoever asks to measure.

mod answer;
mod grid;
mod link;
mod page;
mod pairs;
mod report;
mod sampling;
mod setting;

pub use answer::{Answer, Goals, answer};
pub use grid::{Buffer, Cell, CellError, Grid, Point, Queue};
pub use link::{LineError, Link};
pub use page::{PAGE_HEAD, page};
pub use pairs::{PairsError, disk, synthetic};
pub use report::{cell_json, table_rows};
pub use sampling::{Deviation, Sampling, deviations};
pub use setting::{CLIENT, DEPTH, PROCESSOR, WINDOW, disk_called, settings};
