// SPDX-License-Identifier: Apache-2.0
//! Debian's Chromium: what a person sees of a page, and what they do on it. It is driven by `app/web/page/test/browser.mjs`.

use crate::process::Group;
use crate::program::{Told, run_within};
use crate::wait::slow;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How long it may take to end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// A headless browser with one page. It ends, with what it keeps in temporary folders, when this is dropped.
pub struct Browser {
    process: Group,
    /// None once it is told to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The source of the page, with the driver and what it needs.
pub(crate) fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../app/web/page")
}

/// What `all.test.mjs` prints if tests failed, and each because a wait reached its limit.
const ALL_LATE: &str = "every failed test waited in vain";

/// Runs the page's own tests. A test that does so requires `node`, `npm`, `chromium` and `playwright-core`.
///
/// # Panics
/// As SLOW if they take longer than `limit`, or if a wait reached its limit in each test that failed.
#[must_use]
#[track_caller]
pub fn page_tests(limit: Duration) -> Told {
    let told = run_within(Command::new("npm").arg("test").current_dir(page()), limit);
    if told.stdout.contains(ALL_LATE) {
        slow(format_args!("{ALL_LATE}: {told}"));
    }
    told
}

impl Browser {
    /// Starts it. A test that does so requires `node`, `chromium` and `playwright-core`.
    ///
    /// # Panics
    /// Where it is installed and does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        let mut command = Command::new("node");
        command.arg("test/browser.mjs").current_dir(page());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = Group::spawn(&mut command);
        let mut process = started.unwrap_or_else(|why| panic!("node does not start: {why}"));
        let input = process.take_input();
        let output = process.take_output().0.expect("the output is piped");
        Self { process, input, output: BufReader::new(output) }
    }

    #[track_caller]
    fn ask(&mut self, request: &Value) -> Value {
        let input = self.input.as_mut().expect("it was not told to end");
        let sent = writeln!(input, "{request}").and_then(|()| input.flush());
        let mut line = String::new();
        let told = sent.and_then(|()| self.output.read_line(&mut line));
        let answer: Value = match told {
            Ok(1..) => serde_json::from_str(&line).expect("the driver responds in JSON"),
            other => panic!("the browser is gone at {request}: {other:?}"),
        };
        let why = answer["why"].as_str().unwrap_or_default();
        if answer["late"] == true {
            slow(format_args!("{request}: {why}"));
        }
        assert!(answer["ok"] == true, "{request}: {why}");
        answer["value"].clone()
    }

    /// Opens a page of that size, `light` or `dark`, and returns the HTTP status.
    #[track_caller]
    pub fn open(&mut self, url: &str, size: [u32; 2], scheme: &str) -> u64 {
        let [width, height] = size;
        let request =
            json!({"do": "open", "url": url, "width": width, "height": height, "scheme": scheme});
        self.ask(&request).as_u64().unwrap_or_default()
    }

    /// Waits until the page shows all these texts.
    ///
    /// # Panics
    /// As SLOW if it does not come to that, as all that follow.
    #[track_caller]
    pub fn see(&mut self, texts: &[&str]) {
        self.ask(&json!({"do": "see", "texts": texts}));
    }

    /// Waits until the page shows none of these texts.
    #[track_caller]
    pub fn see_none(&mut self, without: &[&str]) {
        self.ask(&json!({"do": "see", "without": without}));
    }

    /// What the page shows.
    #[track_caller]
    pub fn text(&mut self) -> String {
        self.ask(&json!({"do": "text"})).as_str().unwrap_or_default().to_owned()
    }

    /// Clicks a button by its name.
    #[track_caller]
    pub fn click(&mut self, name: &str) {
        self.ask(&json!({"do": "click", "role": "button", "name": name}));
    }

    /// Clicks the first text of that wording: what opens a list, for example.
    #[track_caller]
    pub fn click_text(&mut self, text: &str) {
        self.ask(&json!({"do": "clickText", "text": text}));
    }

    /// Types a text into a field by its label, over what was there.
    #[track_caller]
    pub fn fill(&mut self, label: &str, value: &str) {
        let request =
            json!({"do": "fill", "role": "textbox", "name": label, "value": value, "exact": false});
        self.ask(&request);
    }

    /// Presses a key: `Tab`, `Enter`, `Escape`, `Shift+Tab`.
    #[track_caller]
    pub fn press(&mut self, keys: &str) {
        self.ask(&json!({"do": "press", "keys": keys}));
    }

    /// What a script comes to on the page.
    #[track_caller]
    pub fn run(&mut self, script: &str) -> Value {
        self.ask(&json!({"do": "run", "script": script}))
    }

    /// Takes a picture of what is shown.
    #[track_caller]
    pub fn shot(&mut self, path: &Path) {
        self.ask(&json!({"do": "shot", "path": path}));
    }

    /// Errors of the page, and what its policy refused.
    #[track_caller]
    pub fn faults(&mut self) -> Vec<String> {
        let faults = self.ask(&json!({"do": "faults"}));
        faults.as_array().into_iter().flatten().map(|fault| fault.to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The end of its input ends it. What does not end is killed with the group.
        self.input = None;
        let _ended = self.process.wait(END_WITHIN);
    }
}
