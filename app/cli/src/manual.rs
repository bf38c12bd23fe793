// SPDX-License-Identifier: Apache-2.0
//! Man pages and completions, from the definition of the command line.
//!
//! The pages are kept in the tree too (`docs/man`), so that packagers need not run anything and a change of the command
//! line is seen in review.

use crate::args::Shell;
use crate::failure::unwritable;
use crate::verbs::print;
use anyhow::{Result, anyhow};
use clap::Command;
use clap_mangen::Man;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{self, ExitCode, Stdio};

/// Completes names of groups, volumes and nodes in bash, beside what the generated function completes.
const BASH_NAMES: &str = r#"
_helio_names() {
    _helio "$@"
    local cur=${COMP_WORDS[COMP_CWORD]} word kept=()
    for word in "${COMPREPLY[@]}"; do
        # The generated function offers the names of arguments: [GROUP].
        [[ $word == [\[\<]* ]] || kept+=("$word")
    done
    COMPREPLY=("${kept[@]}" $(compgen -W "$(helio complete-names -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "$cur"))
}
complete -F _helio_names -o bashdefault -o default helio
"#;
/// The same in zsh.
const ZSH_NAMES: &str = r#"
_helio_names() {
    local -a names
    names=(${(f)"$(helio complete-names -- "${(@)helio_words}" 2>/dev/null)"})
    compadd -a names
}
"#;
/// The same in fish.
const FISH_NAMES: &str = r#"
function __helio_names
    set -l words (commandline -opc) (commandline -ct)
    set -e words[1]
    helio complete-names -- $words 2>/dev/null
end
complete -c helio -a "(__helio_names)"
"#;

/// Prints what makes a shell complete this command line.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode> {
    print(&script(shell)?)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn script(shell: Shell) -> Result<String> {
    let generated = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    let all = crate::args::command();
    let shown = all.get_subcommands().filter(|verb| !verb.is_hide_set());
    let named = Command::new("helio").version(env!("CARGO_PKG_VERSION"));
    let mut command = named.args(all.get_arguments()).subcommands(shown.cloned());
    clap_complete::generate(generated, &mut command, "helio", &mut text);
    let text = String::from_utf8(text)?;
    Ok(match shell {
        Shell::Bash => text + BASH_NAMES,
        Shell::Zsh => zsh(&text),
        Shell::Fish => text + FISH_NAMES,
    })
}

/// The generated function completes files for a value of any kind. Names get a function of their own.
fn zsh(generated: &str) -> String {
    let named = |row: &str| {
        ["::group -- ", "::volume -- ", "::what -- ", ":NODE:"]
            .iter()
            .any(|mark| row.contains(mark))
    };
    let row = |row: &str| {
        let row =
            if named(row) { row.replace(":_default'", ":_helio_names'") } else { row.to_owned() };
        row + "\n"
    };
    let text: String = generated.lines().map(row).collect();
    // A colon ends the name of a value. `words` loses the first words in the states of the function.
    let text = text.replace(":HOST:PORT:", r":HOST\:PORT:").replacen(
        "    local context",
        "    local -a helio_words\n    helio_words=(\"${(@)words[2,CURRENT]}\")\n    local context",
        1,
    );
    // The last command of the script runs the completion, so the function comes before it.
    let at = text.find("(( $+functions[_helio_commands] ))").unwrap_or(text.len());
    format!("{}{}\n{}", &text[..at], ZSH_NAMES.trim_start(), &text[at..])
}

/// Opens the page of a command with man(1). Prints its source if there is no terminal or no man.
pub(crate) fn open(command: &[String]) -> Result<ExitCode> {
    let mut found = &self::command();
    for word in command {
        found = found.find_subcommand(word).ok_or_else(|| {
            let name = command.join(" ");
            anyhow!("there is no command `{name}`\n  hint: `helio --help` lists the commands")
        })?;
    }
    let text = page(found)?;
    if !std::io::stdout().is_terminal() || !shown(&text) {
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether man(1) showed the page.
fn shown(text: &str) -> bool {
    let man = process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut man) = man else { return false };
    let written = man.stdin.take().is_some_and(|mut pipe| pipe.write_all(text.as_bytes()).is_ok());
    man.wait().is_ok_and(|status| status.success()) && written
}

/// Writes all pages into a directory.
pub(crate) fn write(dir: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(dir).map_err(unwritable(dir))?;
    let pages = pages()?;
    for (name, text) in &pages {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(unwritable(&path))?;
    }
    print(&format!("{} pages in {}\n", pages.len(), dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The whole command line, with every name and every argument a verb inherits in place.
fn command() -> Command {
    let mut command = crate::args::command().disable_help_subcommand(true);
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
        left.extend(command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned());
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
            write(Path::new(KEPT)).expect("the tree can be written");
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
            ("helio.1", "helio\\-resync(1)"),
            ("helio-resync.1", "\\-\\-wait"),
            ("helio-queue-set.1", "\\-\\-when\\-full"),
            ("helio-queue-set.1", "\\-\\-timeout"),
        ] {
            assert!(pages[page].contains(word), "{page} lacks {word}:\n{}", pages[page]);
        }
    }
}
