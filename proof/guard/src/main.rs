// SPDX-License-Identifier: Apache-2.0
//! `helio-guard ROW`: performs the operations of one row, and prints what it counted. `cargo xtask guard` runs it under callgrind.
//!
//! `helio-guard` alone prints the names of the rows.

mod allocations;
mod boundary;
mod client;
mod daemon;
mod drivers;
mod figures;
mod pair;

use drivers::{List, Missing};
use figures::Figures;
use helio_driver::DriverChoice;
use pair::Kind;
use std::process::ExitCode;

/// Writes that are measured for each seed.
const WRITES: u64 = 500;

/// What a row measures.
#[derive(Clone, Copy)]
enum Row {
    /// Writes of a group, with so many under way.
    Group(Kind, u64),
    /// Operations of a driver of the product.
    Driver(DriverChoice, List),
}

const ROWS: [(&str, Row); 11] = [
    ("sync-1", Row::Group(Kind::Sync, 1)),
    ("sync-16", Row::Group(Kind::Sync, 16)),
    ("async-1", Row::Group(Kind::Async, 1)),
    ("async-16", Row::Group(Kind::Async, 16)),
    ("local-1", Row::Group(Kind::Local, 1)),
    ("local-16", Row::Group(Kind::Local, 16)),
    ("poll-1", Row::Driver(DriverChoice::Poll, List::Cached(1))),
    ("poll-16", Row::Driver(DriverChoice::Poll, List::Cached(16))),
    ("ring-1", Row::Driver(DriverChoice::Ring, List::Cached(1))),
    ("ring-16", Row::Driver(DriverChoice::Ring, List::Cached(16))),
    ("ring-direct", Row::Driver(DriverChoice::Ring, List::Direct)),
];

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        ROWS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    match perform(&name) {
        Ok(Ok(figures)) => {
            print!("{figures}");
            ExitCode::SUCCESS
        }
        Ok(Err(Missing(why))) => {
            println!("skipped {why}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("helio-guard: {name}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn perform(name: &str) -> Result<Result<Figures, Missing>, String> {
    let row = ROWS.iter().find(|(row, _)| *row == name).map(|(_, row)| *row);
    match row.ok_or("there is no such row; without an argument all rows are printed")? {
        Row::Group(kind, depth) => pair::measure(kind, depth, WRITES).map(Ok),
        Row::Driver(choice, list) => drivers::measure(choice, list),
    }
}
