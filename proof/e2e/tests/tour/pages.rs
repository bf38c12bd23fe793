// SPDX-License-Identifier: Apache-2.0
//! The pages, and the commands in them: in blocks fenced as `console`, a line that begins with `$ ` is a command,
//! lines behind it that begin with `> ` belong to it, and what follows is what it says.

use std::path::{Path, PathBuf};

/// A command of a page, and what it should say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) says: Vec<String>,
}

/// The top folder of the repository.
pub(crate) fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a page.
pub(crate) fn page(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Every page for operators: README.md, and docs but for proposals.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut found = vec![("README.md".to_owned(), page("README.md"))];
    for folder in ["docs", "docs/reference", "docs/sources"] {
        let entries = std::fs::read_dir(top().join(folder)).expect("the folder is there");
        for entry in entries.flatten() {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if name.ends_with(".md") {
                found.push((name.clone(), page(&name)));
            }
        }
    }
    found
}

/// The blocks of a page fenced with this word.
pub(crate) fn blocks(text: &str, word: &str) -> Vec<String> {
    let fence = format!("```{word}");
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    for line in text.lines() {
        match &mut inside {
            Some(_) if line == "```" => found.extend(inside.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
            None if line == fence => inside = Some(String::new()),
            None => {}
        }
    }
    found
}

/// The steps of a page, over all its blocks.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks(text, "console").iter().flat_map(|block| block.lines()) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), says: Vec::new() });
            continue;
        }
        let step = steps.last_mut().expect("a block begins with a command");
        match line.strip_prefix('>') {
            Some(more) if step.says.is_empty() => {
                step.command.push('\n');
                step.command.push_str(more.strip_prefix(' ').unwrap_or(more));
            }
            _ => step.says.push(line.to_owned()),
        }
    }
    steps
}

/// Whether the output is what the page says. `…` stands for anything within a line, and alone for any lines;
/// how many blanks there are does not matter.
pub(crate) fn matches(says: &[String], output: &str) -> bool {
    let output: Vec<&str> = output.lines().collect();
    let says: Vec<&str> = says.iter().map(String::as_str).collect();
    lines_match(&says, &output)
}

fn lines_match(says: &[&str], output: &[&str]) -> bool {
    match says {
        [] => output.is_empty(),
        [any, rest @ ..] if any.trim() == "…" => {
            (0..=output.len()).any(|from| lines_match(rest, &output[from..]))
        }
        [line, rest @ ..] => {
            output.first().is_some_and(|said| line_matches(line, said))
                && lines_match(rest, &output[1..])
        }
    }
}

fn line_matches(says: &str, said: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (says, said) = (plain(says), plain(said));
    let mut pieces = says.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = said.strip_prefix(first) else { return false };
    let Some(last) = says.contains('…').then(|| pieces.next_back()).flatten() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn a_block_is_read_as_commands_and_what_they_say() {
    let text =
        "a\n```console\n$ cat > x <<END\n> one\n>\n> END\n$ ls\nx\n…\n```\n```sh\n$ no\n```\n";
    let step = |command: &str, says: &[&str]| Step {
        command: command.to_owned(),
        says: says.iter().map(ToString::to_string).collect(),
    };
    let expected = [step("cat > x <<END\none\n\nEND", &[]), step("ls", &["x", "…"])];
    assert_eq!(steps(text), expected);
}

#[test]
fn an_ellipsis_stands_for_anything() {
    let fits = |says: &str, output: &str| {
        matches(&says.lines().map(ToOwned::to_owned).collect::<Vec<_>>(), output)
    };
    assert!(fits("for … s: all", "for 12   s: all"));
    assert!(fits("a …\n…\nz", "a b\nc\nd\nz\n"));
    assert!(fits("…", ""));
    assert!(!fits("a", "a b"));
    assert!(!fits("a\n…\ny", "a\nz"));
    assert!(!fits("a", "a\nb"));
}
