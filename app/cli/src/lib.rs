// SPDX-License-Identifier: Apache-2.0
//! The `helio` command: the daemon's front door, the operator's verbs, the quickstart, the lab.

mod adopt;
mod advise;
#[cfg(test)]
mod advised;
pub mod args;
mod attach;
mod before;
mod check;
mod client;
mod clients;
mod complete;
mod confirm;
mod dashboard;
mod drill;
mod events;
mod failure;
mod init;
mod key;
mod lab;
mod manual;
mod metadata;
mod newfile;
mod offer;
mod plan;
mod progress;
mod queue;
mod quickstart;
mod rename;
mod render;
mod request;
mod roles;
mod saved;
mod signals;
mod snapshot;
mod status;
mod stopping;
mod top;
mod trace;
mod typed;
mod usage;
mod verbs;
mod verify;
mod wait;
#[cfg(test)]
mod walk;
mod which;

use anyhow::Result;
use args::{Asked, At, Debug, Key, Lab, Metadata, Seed, Verb};
use clap::error::ErrorKind;
use confirm::Consent;
use helio_api::{EventsRequest, paths};
use helio_daemon::Creation;
use request::Request;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;
use typed::Typed;

/// How long an end of a measurement waits for the other end.
const OTHER_END: Duration = Duration::from_secs(600);

/// Runs the command line this process was given.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = helio_daemon::did_apart() {
        return code;
    }
    let line: Vec<OsString> = std::env::args_os().collect();
    let wants_json = line.iter().any(|word| word == "--json");
    let command = usage::command_of(&line);
    let Asked { cli, at, json, notice, typed } = match args::read(line) {
        Ok(asked) => asked,
        Err(error) => return invalid(&error, &command, wants_json),
    };
    typed::set(Typed { command, ..typed });
    if let (Some(notice), false) = (notice, json) {
        eprintln!("helio: {notice}");
    }
    match run(cli.verb, &at) {
        Ok(code) => code,
        Err(error) => verbs::explain(&error, json),
    }
}

/// Prints help, the version, or why a command line is invalid.
fn invalid(error: &clap::Error, command: &str, json: bool) -> ExitCode {
    if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        verbs::report(&usage::error(error, command), json);
    } else {
        // A closed pipe is no failure of ours.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn run(verb: Verb, at: &At) -> Result<ExitCode> {
    match verb {
        Verb::Daemon { node, config, log_format } => {
            let log_format = match log_format {
                args::LogFormat::Text => helio_daemon::LogFormat::Text,
                args::LogFormat::Json => helio_daemon::LogFormat::Json,
            };
            let state = at.state.clone();
            helio_daemon::run(&helio_daemon::Options { node, config, state, log_format })?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Init(wish) => init::run(&wish),
        Verb::Check(wish) => check::run(at, wish),
        Verb::Adopt(wish) => adopt::adopt(at, wish),
        Verb::Inspect { group, json } => metadata::inspect(&group, &at.state, json),
        Verb::Metadata { verb } => of_metadata(verb, at),
        Verb::Rename { verb } => rename::run(verb, &at.state),
        Verb::Key { verb: Key::New { out, json } } => key::new(out, &at.state, json),
        Verb::Key { verb: Key::Show { file, json } } => key::show(file, &at.state, json),
        Verb::Completions { shell } => manual::completions(shell),
        Verb::CompleteNames { words } => complete::names(&words),
        Verb::Man { command, dir: None } => manual::open(&command),
        Verb::Man { dir: Some(dir), .. } => manual::write(&dir),
        Verb::Quickstart { from, keep } => quickstart::run(from.as_deref(), keep),
        Verb::Trace { verb } => trace::run(at, verb),
        Verb::Plan { verb } => plan::run(verb),
        Verb::Lab { tool } => of_lab(tool, at.timeout.unwrap_or(OTHER_END)),
        Verb::Simhadr { options } => lab::simhadr(&options),
        asks => ask(asks, at),
    }
}

/// Runs a command that asks the daemon.
fn ask(verb: Verb, at: &At) -> Result<ExitCode> {
    match verb {
        Verb::Status { group, json, verbose, check, watch } => {
            status::run(at, &status::Look { group, json, verbose, check, watch })
        }
        Verb::Apply { dry_run, json } => verbs::apply(at, dry_run, json),
        Verb::Top { group, interval } => top::run(at, group, interval),
        Verb::Dashboard(wish) => dashboard::run(at, &wish),
        Verb::Pause(of) => verbs::request(at, &Request::Pause, of),
        Verb::Resume(wish) => verbs::request_resync(at, &Request::Resume, wish),
        Verb::Resync(wish) => verbs::resync(at, wish),
        Verb::Mode { group, mode, json } => verbs::mode(at, group, mode, json),
        Verb::Promote(wish) => verbs::promote(at, wish),
        Verb::Demote(of) => verbs::demote(at, of),
        Verb::Switch { of, force, yes } => roles::switch(at, of, force, yes),
        Verb::Drill(wish) => drill::run(at, wish),
        Verb::Explain(of) => roles::explain(at, of),
        Verb::Resolve { of, discard, yes, save, last_copy } => {
            roles::resolve(at, of, (discard, last_copy), yes, save)
        }
        Verb::Verify { verb } => verify::run(at, verb),
        Verb::Seed { verb: Seed::Begin(of) } => verbs::plain(at, paths::SEED_BEGIN, of),
        Verb::Seed { verb: Seed::End(wish) } => verbs::plain_resync(at, paths::SEED_END, wish),
        Verb::Client { verb } => clients::clients(at, verb),
        Verb::Saved { verb } => saved::saved(at, verb),
        Verb::Snapshot { verb } => snapshot::run(at, verb),
        Verb::Member { verb } => roles::member(at, verb),
        Verb::Attach { list: true, json, .. } => attach::list(at, json),
        Verb::Attach { volume, read_only, via, wait, json, .. } => {
            attach::attach(at, volume, (read_only, via.into()), (wait, json))
        }
        Verb::Detach { volume, force, yes, json } => {
            attach::detach(at, volume, force, Consent { yes, json })
        }
        Verb::Release { what, keep_metadata, force, yes, json } => {
            adopt::release(at, what, keep_metadata, force, Consent { yes, json })
        }
        Verb::Events { group, json, since, now } => {
            events::follow(at, EventsRequest { group, since, now }, json)
        }
        Verb::Advise(wish) => advise::run(at, &wish),
        Verb::Queue { verb } => queue::run(at, verb),
        Verb::Debug { verb: Debug::Events(of) } => verbs::debug_events(at, of),
        _ => unreachable!("`run` has every command that asks no daemon"),
    }
}

fn of_lab(tool: Lab, patience: Duration) -> Result<ExitCode> {
    match tool {
        Lab::Relay(relay) => lab::relay(relay),
        Lab::Wan(wan) => lab::wan(wan),
        Lab::Link { end } => lab::link(end, patience),
        Lab::Search(search) => lab::search(search, patience),
        Lab::Disk(disk) => lab::disk(&disk),
        Lab::Copy(copy) => lab::copy(&copy),
        Lab::Record(record) => lab::record(record, patience),
        Lab::Answer(answer) => lab::answer(answer),
    }
}

fn of_metadata(verb: Metadata, At { state, .. }: &At) -> Result<ExitCode> {
    match verb {
        Metadata::Check { group, json } => metadata::check(&group, state, json),
        Metadata::Move { group, to, json } => metadata::moved(&group, state, &to, json),
        Metadata::Create { group, node, config, finish_restore: restore, yes, json } => {
            let state = state.clone();
            metadata::create(
                Creation { group, node, config, state, restore },
                Consent { yes, json },
            )
        }
        Metadata::Accept { group, finish_restore, yes, json } => {
            metadata::accept(&group, finish_restore.as_deref(), state, Consent { yes, json })
        }
    }
}
