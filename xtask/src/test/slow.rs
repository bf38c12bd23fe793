// SPDX-License-Identifier: Apache-2.0
//! Tests that failed because a wait of the test kit reached its limit. A busy machine can be the reason, so each is repeated once, alone.
//! Every other failure is a broken promise, and nothing is repeated.

use super::limit::{self, Ending};
use crate::repo;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What the text of such a panic begins with (`proof/testkit/src/wait.rs`).
const SLOW: &str = "SLOW: ";
/// What cargo prints before the output of a program of tests.
const RUNNING: &str = "Running ";

/// What a part sets in the environment of its tests.
pub(super) type Environment = Vec<(OsString, OsString)>;

/// The environment that a command sets.
pub(super) fn environment(command: &Command) -> Environment {
    let set = command.get_envs();
    set.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect()
}

/// A program of tests, as cargo names it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// `src/lib.rs`, `tests/story/main.rs`, below its package.
    source: String,
    /// Where it was built.
    path: String,
}

impl Program {
    /// From `Running unittests src/lib.rs (target/debug/deps/helio_units-0123)`.
    fn read(line: &str) -> Option<Self> {
        let named = line.trim_start().strip_prefix(RUNNING)?.strip_suffix(')')?;
        let (source, path) = named.split_once(" (")?;
        let source = source.strip_prefix("unittests ").unwrap_or(source);
        Some(Self { source: source.to_owned(), path: path.to_owned() })
    }

    /// Its name without what cargo adds to it.
    fn name(&self) -> &str {
        let file = Path::new(&self.path).file_name().and_then(|name| name.to_str());
        file.and_then(|file| file.rsplit_once('-')).map_or("", |(name, _)| name)
    }
}

/// A test that was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    program: Program,
    test: String,
}

impl Slow {
    /// For the reader: `attach drill::a_drill_is_told`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.program.name(), self.test)
    }

    /// Runs it alone, in the environment of the part that it was slow in.
    pub(super) fn again(&self, environment: &Environment, limit: Duration) -> Ending {
        let folder = match repo::package_with(&self.program.source, self.program.name()) {
            Ok(folder) => folder,
            Err(why) => return Ending::Failure(why),
        };
        let mut command = Command::new(repo::root().join(&self.program.path));
        command.args(["--exact", &self.test]).current_dir(&folder);
        command.env("CARGO", repo::cargo()).env("CARGO_MANIFEST_DIR", &folder);
        command.envs(environment.iter().cloned());
        let mut ran = 0;
        let ending = limit::run(command, limit, |line| {
            ran += u32::from(line.starts_with("test ") && line.contains(" ... "));
        });
        match (ending, ran) {
            (Ending::Success, 0) => Ending::Failure("no test of that name ran".to_owned()),
            (ending, _) => ending,
        }
    }
}

/// Where the reader of a program's output is.
#[derive(Debug, Default)]
enum Section {
    #[default]
    Elsewhere,
    /// In what a failed test printed, before it panicked.
    Of(String),
    /// On the line with the text of its first panic.
    Panicked(String),
    /// Behind the text of a test that was slow, ...
    Slow,
    /// ... in the log of a daemon that the test kit printed there.
    Log,
}

/// What the test kit prints before the log of a daemon whose test failed, and behind it (`proof/testkit/src/daemon.rs`).
const LOG: &str = "-- the daemon of ";
const END_OF_LOG: &str = "-- end of its log";

/// The failures that a command of cargo tells.
#[derive(Debug, Default)]
pub(super) struct Failures {
    program: Option<Program>,
    section: Section,
    slow: Vec<Slow>,
    /// Tests that failed.
    tests: u64,
    /// Programs that ended with failed tests, by their own word.
    programs: u64,
    /// Programs that failed, by cargo's word.
    counted: Option<u64>,
}

impl Failures {
    /// Takes in one line of output.
    pub(super) fn read(&mut self, line: &str) {
        if let Some(program) = Program::read(line) {
            self.program = Some(program);
        } else if let Some(test) = section(line) {
            self.section = Section::Of(test.to_owned());
        } else if line.starts_with("test result: ") {
            self.section = Section::Elsewhere;
            self.programs += u64::from(line.starts_with("test result: FAILED"));
        } else if let Some(rest) = line.strip_prefix("error: ")
            && let Some((count, "target failed:" | "targets failed:")) = rest.split_once(' ')
        {
            self.counted = count.parse().ok();
        }
        self.section = match std::mem::take(&mut self.section) {
            Section::Of(test) if line.starts_with("thread '") && line.contains(" panicked at ") => {
                Section::Panicked(test)
            }
            Section::Panicked(test) => {
                let program = self.program.clone().filter(|_| line.starts_with(SLOW));
                let is_slow = program.is_some();
                self.slow.extend(program.map(|program| Slow { program, test }));
                if is_slow { Section::Slow } else { Section::Elsewhere }
            }
            Section::Slow if line.starts_with(LOG) => Section::Log,
            Section::Log if line.starts_with(END_OF_LOG) => Section::Slow,
            // A daemon that panicked broke a promise, and the test waited for it in vain.
            Section::Log if line.contains(" panicked at ") => {
                self.slow.pop();
                Section::Elsewhere
            }
            same => same,
        };
    }

    /// Takes in how many tests one program says failed.
    pub(super) fn add(&mut self, tests: u64) {
        self.tests += tests;
    }

    /// The slow tests, if a command of cargo failed for nothing else: each program that failed told its failed tests, and all were slow.
    pub(super) fn only_slow(&self) -> Option<&[Slow]> {
        let all = self.tests == self.slow.len() as u64 && self.counted == Some(self.programs);
        Some(&*self.slow).filter(|slow| all && !slow.is_empty())
    }
}

/// The test of `---- drill::a_drill_is_told stdout ----`.
fn section(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: &str =
        "     Running tests/attach/main.rs (target/debug/deps/attach-0123456789abcdef)";

    fn failed(test: &str, text: &str) -> String {
        format!(
            "---- {test} stdout ----\nfirst it said this\n\nthread '{test}' (12) panicked at a.rs:1:2:\n{text}\n\
             thread 'x' (13) panicked at b.rs:1:2:\nthe log of a daemon\n"
        )
    }

    /// What a command of cargo prints in which these tests failed.
    fn story(failures: &[String]) -> Failures {
        let count = failures.len();
        let text = format!(
            "{RUNS}\nrunning 5 tests\n\nfailures:\n\n{}\ntest result: FAILED. 1 passed; {count} failed\nerror: 1 target failed:\n",
            failures.concat()
        );
        read(&text, count as u64)
    }

    fn read(text: &str, failed: u64) -> Failures {
        let mut failures = Failures::default();
        text.lines().for_each(|line| failures.read(line));
        failures.add(failed);
        failures
    }

    #[test]
    fn tests_whose_wait_ended_are_slow() {
        let names = ["drill::a", "waits::b"];
        let told = story(&names.map(|name| failed(name, "SLOW: waited 30s in vain for it")));
        let slow = told.only_slow().expect("nothing else failed");
        assert_eq!(
            slow.iter().map(Slow::name).collect::<Vec<_>>(),
            ["attach drill::a", "attach waits::b"]
        );
        assert_eq!(slow[0].program.source, "tests/attach/main.rs");
    }

    #[test]
    fn a_broken_promise_beside_a_slow_test_is_not_repeated() {
        let slow = failed("a", "SLOW: waited 30s in vain for it");
        for other in ["assertion failed: x", "it said SLOW: in its text"] {
            assert_eq!(story(&[slow.clone(), failed("b", other)]).only_slow(), None, "{other}");
        }
        let log = "-- the daemon of paris logged:\nthread 'shard' (9) panicked at c.rs:1:2:\n-- end of its log";
        let panicked = failed("a", "SLOW: a wait").replace("the log of a daemon", log);
        assert_eq!(story(&[panicked]).only_slow(), None, "a daemon broke");
        let sound = log.replace(" panicked at ", " said ");
        let waited = failed("a", "SLOW: a wait").replace("the log of a daemon", &sound);
        assert!(story(&[waited]).only_slow().is_some());
        // Its first panic counts: what follows is what the first one left.
        let broken = failed("a", "a promise").replace("the log of a daemon", "SLOW: a wait");
        assert_eq!(story(&[broken]).only_slow(), None);
    }

    #[test]
    fn a_program_that_died_or_did_not_compile_is_not_repeated() {
        let slow = failed("a", "SLOW: waited 30s in vain for it");
        let result = "test result: FAILED. 1 passed; 1 failed";
        let died = format!("{RUNS}\n{slow}\n{result}\n{RUNS}\nerror: 2 targets failed:\n");
        assert_eq!(read(&died, 1).only_slow(), None);
        let uncounted = format!("{RUNS}\n{slow}\n{result}\nerror: could not compile\n");
        assert_eq!(read(&uncounted, 1).only_slow(), None);
        assert_eq!(read("", 0).only_slow(), None);
    }

    #[test]
    fn programs_are_read_as_cargo_names_them() {
        let unit = "     Running unittests src/lib.rs (target/debug/deps/helio_units-01ab)";
        let unit = Program::read(unit).expect("a program");
        assert_eq!((&*unit.source, unit.name()), ("src/lib.rs", "helio_units"));
        let folder = repo::package_with(&unit.source, unit.name()).expect("one package has it");
        assert_eq!(folder, repo::root().join("words/units"));
        assert_eq!(Program::read("Running out of room (for now"), None);
        assert!(repo::package_with("src/lib.rs", "none").is_err());
    }
}
