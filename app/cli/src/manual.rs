// SPDX-License-Identifier: Apache-2.0
//! Man pages and completions, from the definition of the command line.
//!
//! The pages are kept in the tree too (`docs/man`), so that packagers need not run anything and a change of the command
//! line is seen in review.

use crate::args::{Cli, Shell};
use crate::verbs::print;
use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::Path;
use std::process::ExitCode;

/// Prints what makes a shell complete this command line.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "helio", &mut text);
    print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of `helio` itself, or writes all pages into a directory.
pub(crate) fn write(dir: Option<&Path>) -> Result<ExitCode> {
    let Some(dir) = dir else {
        print(&page(&command())?)?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let pages = pages()?;
    for (name, text) in &pages {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    print(&format!("{} pages in {}\n", pages.len(), dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The whole command line, with every name and every argument a verb inherits in place.
fn command() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

fn page(command: &Command) -> Result<String> {
    let mut text = Vec::new();
    let source = concat!("helio ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("Heliograph").render(&mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Every page by its file's name: `helio.1`, `helio-queue.1`, `helio-queue-set.1`.
fn pages() -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    let mut left = vec![command()];
    while let Some(command) = left.pop() {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        pages.push((format!("{name}.1"), page(&command)?));
        left.extend(command.get_subcommands().cloned());
    }
    pages.sort();
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/man");

    #[test]
    fn the_pages_in_the_tree_are_those_of_the_command_line() {
        if std::env::var_os("HELIO_REWRITE").is_some() {
            std::fs::remove_dir_all(KEPT).ok();
            write(Some(Path::new(KEPT))).expect("the tree can be written");
        }
        let kept: BTreeMap<String, String> = std::fs::read_dir(KEPT)
            .expect("pages are kept in the tree")
            .map(|entry| entry.expect("can be listed").path())
            .map(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name, std::fs::read_to_string(&path).expect("is text"))
            })
            .collect();
        let wanted: BTreeMap<String, String> = pages().expect("renders").into_iter().collect();
        assert!(
            kept == wanted,
            "docs/man is stale; rewrite it: HELIO_REWRITE=1 cargo test -p helio manual"
        );
    }

    #[test]
    fn every_verb_has_a_page_that_names_its_arguments() {
        let pages: BTreeMap<String, String> = pages().expect("renders").into_iter().collect();
        for (page, word) in [
            ("helio.1", "helio\\-update(1)"),
            ("helio-update.1", "\\-\\-wait"),
            ("helio-queue-set.1", "\\-\\-when\\-full"),
            ("helio-queue-set.1", "\\-\\-timeout"),
        ] {
            assert!(pages[page].contains(word), "{page} lacks {word}:\n{}", pages[page]);
        }
    }
}
