// SPDX-License-Identifier: Apache-2.0
//! The project's chores: `cargo xtask test`, `ready`, `tidy`, `guard`, `sim`, `fuzz`, `vm`, `uml`.
//!
//! Knows how the house is checked; knows nothing of what it does, and uses no crate of it.

mod fuzz;
mod guard;
mod guest;
mod ready;
mod repo;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
The project's chores.

  cargo xtask test [PART…]   the parts that have their turn, or the parts named; with CI=true every part
      --list                 the parts, each with the time it takes
      --all                  the parts of all turns
      --seed N               the seed of everything that is left to chance. N modulo 3 selects the turn: 0 the
                             simulators, 1 a `helio` that has assertions, 2 `helio` as it ships
                             (default: the first eight bytes of the hash of the tree of HEAD)
      --rounds N             rounds of each repeated end-to-end test
      --no-install           install no packages, skip what needs them
      --no-limit             no limit on the time of all parts together
  cargo xtask ready          `.ci/run` as continuous integration runs it, in a fresh clone of HEAD
      --last                 instead, the last tree that passed, and the commits since
      --quick                instead, what fails most often: tidy, fmt, clippy, doc, generated files, lists
  cargo xtask tidy           the rules of the house (HACKING.md says which)
  cargo xtask guard          instructions, allocations and calls of a write, and of operations of the drivers, compared
                             with proof/guard/numbers.txt: 2 % more or less fails. Needs valgrind
      --accept REASON        writes the numbers of this build into that file instead, with the reason
      --base                 compares with the commit that set the numbers, measured on this machine
  cargo xtask sim [ARGS…]    the simulator, in release: `cargo xtask sim -- --help`
      --record               counts the walk in proof/sim/walked.txt (with --daemon: proof/whole/), if every promise held
      --daemon               instead, the whole program: `cargo xtask sim --daemon --help`
  cargo xtask fuzz [TARGET…] the fuzzer over what strangers' bytes reach; needs nightly and cargo-fuzz
      --seconds N            for so long each (default: 600)
      --minimise             instead, keep the few inputs that reach most
  cargo xtask vm ublk        attached volumes under Debian's newest kernel in a virtual machine
  cargo xtask uml nbd        attached volumes through the kernel's NBD client, in User-Mode Linux
      pressure               instead, a writer that dirties twice the guest's memory, on every attach
      TEST…                  behind either, only tests with that in their names
  cargo xtask uml units      the units for systemd and the rule for udev, in a guest that boots into systemd
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((verb, rest)) => match verb.as_str() {
            "test" => test::run(rest),
            "ready" => ready::run(rest),
            "tidy" => tidy::run(rest),
            "guard" => guard::run(rest),
            "sim" => sim::run(rest),
            "fuzz" => fuzz::run(rest),
            "vm" => guest::vm(rest),
            "uml" => guest::uml(rest),
            "help" | "--help" | "-h" => {
                print!("{HELP}");
                Ok(ExitCode::SUCCESS)
            }
            other => Err(format!("no chore is called `{other}`; see `cargo xtask --help`")),
        },
        None => {
            print!("{HELP}");
            Ok(ExitCode::from(2))
        }
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("xtask: {why}");
        ExitCode::from(2)
    })
}
