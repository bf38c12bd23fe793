// SPDX-License-Identifier: Apache-2.0
//! Running programs to their end: `helio` itself, and the clients of others that tests talk to.

use crate::browser;
use crate::process::Group;
use crate::wait::slow;
use helio_api::{ApiError, form};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

/// How long a program may take that says nothing else; far longer than any should.
const PATIENCE: Duration = Duration::from_secs(120);
/// The code with which a Rust program ends that panicked.
const PANICKED: i32 = 101;

/// What a program said, and how it ended.
#[derive(Clone, Debug)]
pub struct Told {
    /// What was run, for messages.
    pub command: String,
    /// Its end; of a program stopped for taking too long, the signal.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Told {
    /// Standard output, of a program that ended well.
    ///
    /// # Panics
    /// Where it did not, with all it said.
    #[track_caller]
    pub fn expect_success(self) -> String {
        assert!(self.status.success(), "it should have ended well: {self}");
        self.stdout
    }

    /// Standard error, of a program that refused.
    ///
    /// # Panics
    /// Where it ended well or by a signal, with all it said.
    #[track_caller]
    pub fn expect_failure(self) -> String {
        let refused = self.status.code().is_some_and(|code| code != 0);
        assert!(refused, "it should have refused: {self}");
        self.stderr
    }

    /// Whether `helio status` was answered; it ends with another code where a group is not served.
    #[must_use]
    pub fn shows_status(&self) -> bool {
        matches!(self.status.code(), Some(0 | 7))
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// Where the program did not end well, or printed something else.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.expect_success();
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("this is not JSON ({why}): {text}"))
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}\n{}{}", self.command, self.status, self.stdout, self.stderr)
    }
}

/// Runs a command to its end, with nothing on its standard input. It may take two minutes.
///
/// # Panics
/// Where it cannot be started; as SLOW if it takes longer.
#[track_caller]
pub fn run(command: &mut Command) -> Told {
    run_within(command, PATIENCE)
}

/// As `run`, with another limit.
///
/// # Panics
/// Where it cannot be started; as SLOW if it takes longer.
#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Told {
    let name = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = match Group::spawn(command) {
        Ok(group) => group,
        Err(why) => panic!("cannot start {name}: {why}"),
    };
    let (stdout, stderr) = group.take_output();
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    let in_time = group.wait(limit).is_some();
    // Kills what it may have left in the background, which would hold the pipes open.
    let status = group.kill();
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    let told = Told { command: name, status, stdout: text(stdout), stderr: text(stderr) };
    if !in_time {
        slow(format_args!("it took longer than {limit:?}: {told}"));
    }
    let faults = faults(&told);
    assert!(faults.is_empty(), "the form of this error is wrong ({faults:?}): {told}");
    told
}

/// What is wrong with the form of the error with which `helio` ended; nothing if it printed none.
fn faults(told: &Told) -> Vec<String> {
    let code = match told.status.code() {
        Some(1 | 3..=5) => "failed",
        Some(2) => "usage",
        // A panic is never a refusal.
        Some(PANICKED) => return vec!["it panicked".to_owned()],
        _ => return Vec::new(),
    };
    let rows: Vec<&str> = told.stderr.lines().collect();
    let Some(at) = rows.iter().rposition(|row| row.starts_with("helio: ")) else {
        return Vec::new();
    };
    let text = rows[at..].join("\n");
    form::faults(&ApiError::read(code, text.trim_start_matches("helio: ")))
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs `helio` with these arguments.
///
/// # Panics
/// As `run`, and where there is no `helio`.
#[track_caller]
pub fn helio(arguments: &[&str]) -> Told {
    run(Command::new(helio_binary()).args(arguments))
}

/// The program under test: `HELIO_BIN`, else the one built last into the target folder.
///
/// # Panics
/// Where there is none.
#[must_use]
#[track_caller]
pub fn helio_binary() -> PathBuf {
    if let Some(given) = std::env::var_os("HELIO_BIN") {
        let path = PathBuf::from(given);
        assert!(path.is_file(), "HELIO_BIN is {}, and there is no such file", path.display());
        return path;
    }
    // A test stands in target/debug/deps or target/release/deps, a program of the bench beside `helio`.
    let own = std::env::current_exe().unwrap_or_default();
    let profiles = own.ancestors().skip(1).take(3);
    let found = profiles.filter_map(|folder| {
        newest(["release", "debug"].map(|profile| folder.join(profile).join("helio")))
    });
    match found.last() {
        Some(path) => path,
        None => {
            panic!("no helio beside {}: `cargo build --release -p helio` builds it", own.display())
        }
    }
}

/// The file changed last.
fn newest(paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let changed =
        |path: &PathBuf| -> Option<SystemTime> { std::fs::metadata(path).ok()?.modified().ok() };
    paths.into_iter().filter_map(|path| Some((changed(&path)?, path))).max().map(|(_, path)| path)
}

/// Debian's own Python, the one that sees the modules of Debian's packages.
pub const PYTHON: &str = "/usr/bin/python3";

/// Whether a program can be run. `python3-libnbd` stands for the module `nbd` of `PYTHON`, and `playwright-core` for
/// what `npm ci` installs beside the page of the dashboard.
#[must_use]
pub fn have(program: &str) -> bool {
    if program == "python3-libnbd" {
        let mut asking = Command::new(PYTHON);
        asking
            .args(["-c", "import nbd"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        return asking.status().is_ok_and(|status| status.success());
    }
    if program == "node" {
        // An older one cannot run the tests of the page.
        let old = "process.exit(+(parseInt(process.versions.node) < 20))";
        let asked = Command::new("node").args(["-e", old]).stderr(Stdio::null()).status();
        return asked.is_ok_and(|status| status.success());
    }
    if program == "playwright-core" {
        return browser::page().join("node_modules").join(program).is_dir();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The programs that are missing.
#[must_use]
pub fn lacking(programs: &[&str]) -> Vec<String> {
    programs.iter().filter(|program| !have(program)).map(ToString::to_string).collect()
}

/// Says that a test does nothing for want of something. The test counts as skipped in `cargo xtask test`.
pub fn say_skipped(what: &str) {
    // Past libtest's capture, which would swallow what a passing test prints.
    let _ = writeln!(std::io::stdout().lock(), "skipped: needs {what}");
}

/// Ends a test here, saying so, where one of these programs is missing: `require!("fio", "nbdinfo");`
#[macro_export]
macro_rules! require {
    ($($program:expr),+ $(,)?) => {
        let lacking = $crate::lacking(&[$($program),+]);
        if !lacking.is_empty() {
            $crate::say_skipped(&lacking.join(" "));
            return;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Told {
        run(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn a_program_is_heard_to_its_end() {
        let told = sh("echo out; echo err >&2; exit 3");
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(told.status.code(), Some(3));
        assert_eq!(told.expect_failure(), "err\n");
        assert_eq!(sh("echo '{\"a\": 1}'").json()["a"], 1);
    }

    #[test]
    fn what_it_leaves_behind_does_not_hold_up_the_test() {
        assert_eq!(sh("sleep 600 & echo done").expect_success(), "done\n");
    }

    #[test]
    #[should_panic(expected = "some reason")]
    fn a_failure_shows_all_that_was_said() {
        sh("echo some reason >&2; exit 1").expect_success();
    }

    #[test]
    fn a_missing_program_ends_the_test_before_it_begins() {
        const STAGE: &str = "HELIO_TESTKIT_STAGE";
        if std::env::var_os(STAGE).is_some() {
            require!("sh");
            require!("sh", "no-such-program");
            panic!("the test went on without its program");
        }
        // In a process of its own, whose skipping is not counted as this test's.
        let name = "program::tests::a_missing_program_ends_the_test_before_it_begins";
        let own = std::env::current_exe().expect("a test has a program");
        let told = run(Command::new(own).args(["--exact", name]).env(STAGE, "1"));
        assert!(told.expect_success().contains("skipped: needs no-such-program\n"));
    }

    #[test]
    #[should_panic(expected = "longer than")]
    fn a_program_that_does_not_end_is_stopped() {
        run_within(Command::new("sleep").arg("600"), Duration::from_millis(50));
    }
}
