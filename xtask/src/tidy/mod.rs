// SPDX-License-Identifier: Apache-2.0
//! The rules of the house as checks. Every rule is a function from text to findings, so that a test can
//! show it failing; only this file reads the repository.

mod banned;
mod clocks;
mod cycles;
mod errors;
mod floors;
mod header;
mod imports;
mod items;
mod length;
mod links;
mod machine;
mod members;
mod methods;
mod ratchet;
mod rooms;
mod source;
mod state;
mod words;

use crate::repo;
use source::Source;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A rule broken: where, which, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    /// Counted from 1.
    line: usize,
    rule: &'static str,
    hint: String,
}

impl Finding {
    fn new(path: &Path, line: usize, rule: &'static str, hint: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, hint: hint.into() }
    }
}

/// Prints as `core/engine/src/gate.rs:12: banned-call: …`, which editors jump to.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.rule, self.hint)
    }
}

/// `cargo xtask tidy`.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, String> {
    if let Some(extra) = arguments.first() {
        return Err(format!("tidy takes no arguments, and got `{extra}`"));
    }
    let (read, findings) = survey()?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {read} files read, {} findings", findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every rule over the whole repository: how many files were read, and what was found.
fn survey() -> Result<(usize, Vec<Finding>), String> {
    let files = repo::files()?;
    let mut findings = floors::check(&repo::metadata()?, repo::root())?;
    let mut read = 0;
    for path in &files {
        // What is not text (a compressed image, say) has no lines to judge.
        let Ok(text) = std::fs::read_to_string(repo::root().join(path)) else { continue };
        read += 1;
        findings.extend(file(path, &text));
    }
    findings.extend(ratchet::check(&core(&files)?));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok((read, findings))
}

/// The sources of the pure core, for the rules that look at all of them at once.
fn core(files: &[PathBuf]) -> Result<Vec<Source>, String> {
    let rust = |path: &&PathBuf| path.extension().is_some_and(|end| end == "rs");
    let files = files.iter().filter(|path| path.starts_with("core")).filter(rust);
    let sources = files.map(|path| {
        let text = std::fs::read_to_string(repo::root().join(path));
        let text = text.map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        Ok(Source::read(path, &text))
    });
    sources.collect()
}

/// Every rule that looks at one file alone.
fn file(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = header::check(path, text);
    findings.extend(machine::check(path, text));
    match path.extension().and_then(|end| end.to_str()) {
        Some("rs") => {
            let source = Source::read(path, text);
            findings.extend(floors::check_source(&source));
            findings.extend(rooms::check(&source));
            findings.extend(members::check(&source));
            findings.extend(banned::check(&source));
            findings.extend(clocks::check(&source));
            findings.extend(length::check(&source));
            findings.extend(words::check(&source));
            findings.extend(errors::check(&source));
        }
        Some("md") => {
            let exists = |target: &Path| repo::root().join(target).exists();
            findings.extend(links::check(path, text, exists));
            findings.extend(words::check_page(path, text));
        }
        Some("1") => findings.extend(words::check_page(path, text)),
        Some("toml" | "sh" | "py") => findings.extend(banned::check_script(path, text)),
        _ => {}
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo test` alone enforces the house's rules, whoever forgets to call tidy.
    #[test]
    fn the_house_stands() {
        let (read, findings) = survey().expect("the repository can be read");
        assert!(read > 20, "only {read} files were found");
        let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "\n{}\n", told.join("\n"));
    }

    #[test]
    fn a_finding_prints_where_which_and_what_to_do() {
        let finding = Finding::new(Path::new("core/engine/src/gate.rs"), 12, "length", "split it");
        assert_eq!(finding.to_string(), "core/engine/src/gate.rs:12: length: split it");
    }
}
