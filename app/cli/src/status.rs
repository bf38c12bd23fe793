// SPDX-License-Identifier: Apache-2.0
//! `helio status`.

use crate::args::At;
use crate::client::Client;
use crate::render::{self, Colour, Detail};
use crate::signals;
use crate::verbs::{NOT_SERVED, explain, pause, print, status_path};
use anyhow::Result;
use helio_api::Status;
use helio_units::Verdict;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

/// What of a status is asked for, and how it is printed.
pub(crate) struct Look {
    pub(crate) group: Option<String>,
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    pub(crate) check: bool,
    pub(crate) watch: Option<u64>,
}

pub(crate) fn run(at: &At, look: &Look) -> Result<ExitCode> {
    let shown = show_status(at, look);
    match shown {
        Err(error) if look.check => {
            // The code of the error is that of other commands.
            let _ = explain(&error, look.json);
            Ok(ExitCode::from(render::check_code(Verdict::Unknown)))
        }
        other => other,
    }
}

fn show_status(at: &At, look: &Look) -> Result<ExitCode> {
    let client = Client::new(at)?;
    if look.watch.is_some() {
        signals::end_with_reader()?;
    }
    let terminal = std::io::stdout().is_terminal();
    let wants = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let detail = match (look.verbose, &look.group) {
        (true, _) => Detail::All,
        (false, Some(_)) => Detail::Group,
        (false, None) => Detail::List,
    };
    loop {
        let status: Status = client.get(&status_path(look.group.as_deref()))?;
        let text = if look.json {
            serde_json::to_string_pretty(&status)? + "\n"
        } else {
            render::status(&status, detail, Colour(terminal && wants))
        };
        let clear = look.watch.is_some() && !look.json && terminal;
        print(&if clear { format!("\x1b[H\x1b[2J{text}") } else { text })?;
        let Some(seconds) = look.watch else { return Ok(status_code(&status, look.check)) };
        pause(Duration::from_secs(seconds));
    }
}

/// What `helio status` ends with; with `--check` as monitoring expects, by the worst group.
fn status_code(status: &Status, check: bool) -> ExitCode {
    ExitCode::from(match (check, status.failed.is_empty()) {
        (false, true) => return ExitCode::SUCCESS,
        (false, false) => NOT_SERVED,
        (true, false) => render::check_code(Verdict::NoPrimary),
        (true, true) => status
            .groups
            .iter()
            .map(|group| group.verdict.word)
            .min()
            .map_or(render::check_code(Verdict::Ok), render::check_code),
    })
}
