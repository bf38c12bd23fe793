// SPDX-License-Identifier: Apache-2.0
//! Names of groups, volumes and nodes for the completion scripts. Prints nothing if no daemon answers.

use crate::args::{self, At};
use crate::client::Client;
use anyhow::Result;
use clap::{Arg, Command};
use helio_api::{Status, paths};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// A shell waits no longer for names.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prints the names that fit the last word, one a row.
pub(crate) fn names(words: &[String]) -> Result<ExitCode> {
    let command = args::command();
    let Some(kind) = kind(&command, words) else { return Ok(ExitCode::SUCCESS) };
    let Ok(status) =
        asked(words).and_then(|at| Ok(Client::new(&at)?.get::<Status>(paths::STATUS)?))
    else {
        return Ok(ExitCode::SUCCESS);
    };
    let names: BTreeSet<String> = match kind {
        Kind::Group => groups(&status).collect(),
        Kind::Volume => groups(&status).chain(volumes(&status)).collect(),
        Kind::Node => {
            let peers =
                status.groups.iter().filter_map(|group| Some(group.peer.as_ref()?.name.clone()));
            peers.chain([status.node.clone()]).collect()
        }
    };
    let rows: String = names.into_iter().map(|name| name + "\n").collect();
    crate::verbs::print(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn groups(status: &Status) -> impl Iterator<Item = String> {
    let served = status.groups.iter().map(|group| group.name.clone());
    served.chain(status.failed.iter().map(|group| group.name.clone()))
}

fn volumes(status: &Status) -> impl Iterator<Item = String> {
    let of = |group: &helio_api::GroupStatus| {
        let name = group.name.clone();
        let volumes = group.volumes.iter();
        volumes.map(move |volume| format!("{name}/{}", volume.name)).collect::<Vec<_>>()
    };
    status.groups.iter().flat_map(of)
}

/// The daemon that the words and the environment name.
fn asked(words: &[String]) -> Result<At> {
    let options = words
        .windows(2)
        .filter(|pair| ["--state", "--host", "--key", "--server-key"].contains(&pair[0].as_str()));
    let line = ["helio"].into_iter().map(str::to_owned);
    let line = line.chain(options.flatten().cloned()).chain(["status".to_owned()]);
    let mut at = args::read(line.map(OsString::from).collect())?.at;
    at.timeout = Some(PATIENCE);
    Ok(at)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Group,
    Volume,
    Node,
}

/// What kind of name the value of an argument is.
fn kind_of(argument: &Arg) -> Option<Kind> {
    match argument.get_value_names()?.first()?.as_str() {
        "GROUP" => Some(Kind::Group),
        "GROUP[/VOLUME]" => Some(Kind::Volume),
        "NODE" => Some(Kind::Node),
        _ => None,
    }
}

/// What kind of name the last word is.
fn kind(command: &Command, words: &[String]) -> Option<Kind> {
    let (last, before) = words.split_last()?;
    let mut command = command.clone();
    command.build();
    let (mut here, mut place, mut option) = (&command, 0, None);
    for word in before {
        if option.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            option = here.get_arguments().find(|argument| is_option(argument, word));
        } else if let Some(inner) = here.find_subcommand(word) {
            (here, place) = (inner, 0);
        } else {
            place += 1;
        }
    }
    match option {
        Some(argument) => kind_of(argument),
        None if last.starts_with('-') => None,
        None => here.get_positionals().nth(place).and_then(kind_of),
    }
}

/// Whether a word is this option, and its value is the next word.
fn is_option(argument: &Arg, word: &str) -> bool {
    let takes = argument.get_num_args().is_some_and(|range| range.min_values() > 0);
    takes && argument.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_decides_which_names_fit() {
        let command = args::command();
        for (line, wanted) in [
            ("pause ", Some(Kind::Group)),
            ("pause d", Some(Kind::Group)),
            ("pause --state /a ", Some(Kind::Group)),
            ("--state /a queue set ", Some(Kind::Group)),
            ("attach ", Some(Kind::Volume)),
            ("verify start db/", Some(Kind::Volume)),
            ("member replace ", Some(Kind::Volume)),
            ("member add ", Some(Kind::Volume)),
            ("member add db/data ", None),
            ("member merge ", Some(Kind::Volume)),
            ("member set ", Some(Kind::Volume)),
            ("resolve db --discard ", Some(Kind::Node)),
            ("mode ", Some(Kind::Group)),
            ("mode db ", None),
            ("pause --", None),
            ("pause --state ", None),
            ("key new --out ", None),
            ("", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(kind(&command, &words), wanted, "helio {line}");
        }
    }
}
