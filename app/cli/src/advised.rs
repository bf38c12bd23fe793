// SPDX-License-Identifier: Apache-2.0
//! Reads the sources: every command that a text advises is one that runs.

use crate::args;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const ROOTS: [&str; 3] = ["core", "app", "advise"];
/// What stands for a placeholder: a name, a number, a size, a mode.
const SAMPLES: [&str; 4] = ["db", "64", "64MiB", "sync"];
/// Commands that are no advice, with the reason.
const PROSE: [(&str, &str); 17] = [
    ("helio --wait", "a notation for several commands"),
    ("helio COMMAND --help", "a notation for all commands"),
    ("helio {}", "the command that was run"),
    ("helio {shown}", "the new form of the command that was typed"),
    ("helio {verb} {group}", "callers give the verb: see `commands`"),
    ("helio {verb} {group} --reverse", "the verb is `resync` or `resync --full`"),
    ("helio adopt", "names the command; the operator knows its disks"),
    ("helio lab disk", "names the tool; the operator knows the disk"),
    ("helio lab link primary", "names the tool; the operator knows the two hosts"),
    ("helio lab record", "names the tool that wrote a file"),
    ("helio lab relay", "names the tool that emulates a link"),
    ("helio lab search", "names the tool; the operator knows the two hosts"),
    ("helio lab search --write-sysctl FILE", "an option of that tool"),
    ("helio member add", "names the command; the operator knows the new disk"),
    ("helio member remove", "names the command; the operator knows the old disk"),
    ("helio plan forecast", "names the command; the operator knows the trace"),
    ("helio plan forecast --json", "names the command that wrote a file"),
];

/// The sources, without those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("it is listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("it is UTF-8");
        let of_tests = ["tests", "stories", "tests.rs"].contains(&name)
            || ["_stories.rs", "_tests.rs"].iter().any(|end| name.ends_with(end));
        if path.is_dir() && !of_tests && name != "target" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !of_tests {
            found.push(path);
        }
    }
}

/// A source without comments, in which a string that goes on behind `\` is one line.
fn text_of(path: &Path) -> String {
    let source = fs::read_to_string(path).expect("it is UTF-8");
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut text = String::new();
    for line in source.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        match line.strip_suffix('\\') {
            Some(begun) => text.push_str(begun),
            None => text.extend([line, "\n"]),
        }
    }
    text
}

/// The commands in a source; `not_primary("pause")` and `lacks("seed begin")` make one of their argument.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let quoted = line.split('`').filter(|piece| piece.starts_with("helio "));
        found
            .extend(quoted.filter(|piece| line.contains(&format!("`{piece}`"))).map(str::to_owned));
        for call in ["not_primary(\"", "self.lacks(\""] {
            let verbs = line.split(call).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(verbs.map(|verb| format!("helio {verb} db")));
        }
    }
    found
}

/// The command with a sample in the place of each placeholder.
fn filled(command: &str, sample: &str) -> String {
    let mut out = String::new();
    for (at, piece) in command.replace("{of}", " db").split(['{', '}']).enumerate() {
        out.push_str(if at % 2 == 0 { piece } else { sample });
    }
    out
}

/// Whether this command line, in this form, is accepted.
fn runs(line: &str) -> bool {
    match args::read(line.split(' ').map(OsString::from).collect()) {
        Ok(asked) => !asked.notice.is_some_and(|notice| notice.contains("this form is old")),
        Err(error) => error.kind() == ErrorKind::DisplayHelp,
    }
}

#[test]
fn every_command_in_a_text_is_one_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ROOTS {
        sources(&root.join(folder), &mut paths);
    }
    let (mut faults, mut count, mut prose) = (Vec::new(), 0, Vec::new());
    for path in &paths {
        for command in commands(&text_of(path)) {
            count += 1;
            if PROSE.iter().any(|(known, _)| *known == command) {
                prose.push(command);
            } else if !SAMPLES.iter().any(|sample| runs(&filled(&command, sample))) {
                let path = path.strip_prefix(&root).unwrap_or(path);
                faults.push(format!("{}: `{command}`", path.display()));
            }
        }
    }
    assert!(count > 200, "only {count} commands were found");
    assert!(faults.is_empty(), "these do not run:\n{}", faults.join("\n"));
    for (command, reason) in PROSE {
        assert!(prose.iter().any(|found| found == command), "no text has `{command}`: {reason}");
    }
}
