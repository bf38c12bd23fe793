// SPDX-License-Identifier: Apache-2.0
//! Types a page's commands into a shell in a scratch folder, with `helio` on its path.

use crate::pages::{Step, matches, page, steps};
use helio_testkit::{Group, TempDir, eventually, eventually_from, free_port, helio_binary};
use std::fs;
use std::io::{PipeWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Far longer than any step should take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ports that pages use. Here each becomes one that is free.
const PORTS: [&str; 3] = ["7121", "7122", "10809"];
/// Commands that only look, and may look again until they see what the page says.
const LOOKS: [&str; 4] = ["helio status", "nbdinfo", "grep", "cmp"];

/// Walks through a page, and fails where it goes another way than it says.
#[track_caller]
pub(crate) fn walk(name: &str) {
    let mut text = page(name);
    for port in PORTS {
        let free = free_port().port().to_string();
        text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{free}"));
    }
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{name} has no block fenced as `console`");
    let mut shell = Shell::new();
    for step in &steps {
        shell.take(name, step);
    }
}

/// A shell that reads commands one by one, as it would from a keyboard. With it ends all that it started.
struct Shell {
    // Dropped in this order: nothing may run any more when the folder goes.
    group: Group,
    keyboard: PipeWriter,
    taken: usize,
    scratch: TempDir,
}

impl Shell {
    fn new() -> Self {
        let scratch = TempDir::new();
        let folder = scratch.join("bin");
        fs::create_dir(&folder).expect("the scratch folder takes a folder");
        std::os::unix::fs::symlink(helio_binary(), folder.join("helio")).expect("it takes a link");
        let desk = scratch.join("desk");
        fs::create_dir(&desk).expect("the scratch folder takes a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path)));
        let (reader, keyboard) = std::io::pipe().expect("there are pipes");
        let mut command = Command::new("sh");
        command.current_dir(desk).env("PATH", path.expect("a path of paths"));
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        let group = Group::spawn(&mut command).expect("there is a shell");
        Self { group, keyboard, taken: 0, scratch }
    }

    /// Runs one command, and returns what it said.
    #[track_caller]
    fn run(&mut self, command: &str) -> String {
        self.taken += 1;
        let said = self.scratch.join(&format!("said-{}", self.taken));
        let done = self.scratch.join(&format!("done-{}", self.taken));
        let typed = format!(
            "{{ {command}\n}} > '{}' 2>&1 < /dev/null\n: > '{}'\n",
            said.display(),
            done.display()
        );
        self.keyboard.write_all(typed.as_bytes()).expect("the shell reads");
        eventually(PATIENCE, command, || {
            assert_eq!(self.group.ended(), None, "the shell should not end at: {command}");
            done.exists().then_some(())
        });
        self.told(&said)
    }

    /// What was said, as the page has it: the scratch folder's own path is the reader's choice.
    fn told(&self, said: &PathBuf) -> String {
        let desk = self.scratch.join("desk");
        fs::read_to_string(said).unwrap_or_default().replace(&*desk.to_string_lossy(), "…")
    }

    #[track_caller]
    fn take(&mut self, name: &str, step: &Step) {
        let looks = LOOKS.iter().any(|look| step.command.starts_with(look));
        let should = format!("{name}: `{}` to say\n{}", step.command, step.says.join("\n"));
        let mut says = || {
            let said = self.run(&step.command);
            if matches(&step.says, &said) { Ok(()) } else { Err(said) }
        };
        if looks {
            eventually_from(PATIENCE, &should, says);
        } else if let Err(said) = says() {
            panic!("expected {should}\n-- and it says\n{said}");
        }
    }
}
