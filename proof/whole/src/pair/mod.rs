// SPDX-License-Identifier: Apache-2.0
//! Two nodes with real daemons in one world: their clients, their operator, their bad luck, and what is promised of them.

mod act;
mod calm;
mod coda;
mod devices;
mod file;
mod judge;
mod luck;
mod node;
mod older;
mod operator;
mod promised;
mod put_back;
mod replay;
mod run;
mod scenario;
mod shipping;
mod shrink;
mod telling;
mod upkeep;
mod watch;

pub(crate) use act::{Luck, Order};
pub(crate) use node::Node;
pub use node::stock_runtimes;
pub(crate) use scenario::Scenario;

pub use run::{Verdict, run};
pub use shrink::shrink;
pub use telling::Telling;
