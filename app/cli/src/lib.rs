// SPDX-License-Identifier: Apache-2.0
//! The `helio` command: the daemon's front door, the operator's verbs, the quickstart, the lab.

mod adopt;
mod advise;
pub mod args;
mod attach;
mod before;
mod check;
mod client;
mod events;
mod init;
mod key;
mod lab;
mod manual;
mod metadata;
mod newfile;
mod plan;
mod progress;
mod queue;
mod quickstart;
mod render;
mod roles;
mod saved;
mod signals;
mod trace;
mod verbs;
mod verify;
mod wait;

use anyhow::Result;
use args::{Cli, Key, Lab, Metadata, Queue, Seed, Verb};
use clap::Parser;
use helio_api::{EventsRequest, PromoteRequest, UpdateRequest};
use helio_daemon::Creation;
use std::process::ExitCode;

/// Runs the command line this process was given.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = helio_daemon::did_apart() {
        return code;
    }
    match run(Cli::parse().verb) {
        Ok(code) => code,
        Err(error) => verbs::explain(&error),
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Daemon { node, config, state, log_format } => {
            let log_format = match log_format {
                args::LogFormat::Text => helio_daemon::LogFormat::Text,
                args::LogFormat::Json => helio_daemon::LogFormat::Json,
            };
            helio_daemon::run(&helio_daemon::Options { node, config, state, log_format })?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Init(wish) => init::run(&wish),
        Verb::Check(wish) => check::run(wish),
        Verb::Status { group, json, verbose, check, watch, at } => {
            verbs::status(&at, &verbs::Look { group, json, verbose, check, watch })
        }
        Verb::Apply { dry_run, json, at } => verbs::apply(&at, dry_run, json),
        Verb::Log { group, at } => verbs::log(&at, &group),
        Verb::Update { group, wait, reverse: true, yes, save, at, .. } => {
            roles::reverse(&at, &group, (false, wait), yes, save)
        }
        Verb::Full { group, wait, reverse: true, yes, save, at } => {
            roles::reverse(&at, &group, (true, wait), yes, save)
        }
        Verb::Update { group, wait, give_up_safe_copy, at, .. } => {
            verbs::update(&at, &group, wait, UpdateRequest { give_up_safe_copy })
        }
        Verb::Full { group, wait, yes, at, .. } => verbs::full(&at, &group, wait, yes),
        Verb::Mode { group, mode, at } => verbs::mode(&at, &group, mode),
        Verb::Promote { group, force, restore, yes, fence, at } => {
            let wish = PromoteRequest { force, confirmed: yes, restore, fence };
            verbs::promote(&at, &group, wish)
        }
        Verb::Verify { wish, at } => verify::run(&at, wish),
        Verb::Demote { group, at } => verbs::demote(&at, &group),
        Verb::Switch { group, force, wait, at } => roles::switch(&at, &group, force, wait),
        Verb::Explain { group, json, at } => roles::explain(&at, &group, json),
        Verb::Resolve { group, discard, yes, save, at } => {
            roles::resolve(&at, &group, discard, yes, save)
        }
        Verb::Seed { verb: Seed::Begin { group, at } } => verbs::seed_begin(&at, &group),
        Verb::Seed { verb: Seed::End { group, wait, at } } => verbs::seed_end(&at, &group, wait),
        Verb::Saved { verb } => saved::saved(verb),
        Verb::Member { verb } => roles::member(verb),
        Verb::Attach { volume: Some(volume), read_only, via, wait, at, .. } => {
            attach::attach(&at, volume, read_only, via.into(), wait.unwrap_or_default())
        }
        Verb::Attach { volume: None, json, at, .. } => attach::list(&at, json),
        Verb::Detach { volume, force, at } => attach::detach(&at, volume, force),
        Verb::Adopt(wish) => adopt::adopt(wish),
        Verb::Release { what, keep_metadata, force, at } => {
            adopt::release(&at, &what, keep_metadata, force)
        }
        Verb::Recorder { group, json, at } => verbs::recorder(&at, &group, json),
        Verb::Events { group, json, since, now, at } => {
            events::follow(&at, EventsRequest { group, since, now }, json)
        }
        Verb::Advise(wish) => advise::run(&wish),
        Verb::Queue { group, json, verb: None, at } => queue::show(&at, &group, json),
        Verb::Queue { group, verb: Some(verb), at, .. } => of_queue(verb, &group, &at),
        Verb::Inspect { group, state, json } => metadata::inspect(&group, &state, json),
        Verb::Metadata { verb } => of_metadata(verb),
        Verb::Completions { shell } => manual::completions(shell),
        Verb::Man { dir } => manual::write(dir.as_deref()),
        Verb::Key { verb } => of_key(verb),
        Verb::Quickstart { from, keep } => quickstart::run(from.as_deref(), keep),
        Verb::Trace { verb } => trace::run(verb),
        Verb::Plan { verb } => plan::run(verb),
        Verb::Lab { tool } => of_lab(tool),
        Verb::Simhadr { options } => lab::simhadr(&options),
    }
}

fn of_key(verb: Key) -> Result<ExitCode> {
    match verb {
        Key::New { out, state } => key::new(out, &state),
        Key::Show { file, state } => key::show(file, &state),
    }
}

fn of_lab(tool: Lab) -> Result<ExitCode> {
    match tool {
        Lab::Relay(relay) => lab::relay(relay),
        Lab::Wan(wan) => lab::wan(wan),
        Lab::Link { end } => lab::link(end),
        Lab::Search(search) => lab::search(search),
        Lab::Disk(disk) => lab::disk(&disk),
        Lab::Record(record) => lab::record(record),
        Lab::Answer(answer) => lab::answer(answer),
    }
}

fn of_queue(verb: Queue, group: &str, at: &args::At) -> Result<ExitCode> {
    match verb {
        Queue::Set { memory, items, when_full } => queue::set(at, group, memory, items, when_full),
        Queue::Reset => queue::reset(at, group),
    }
}

fn of_metadata(verb: Metadata) -> Result<ExitCode> {
    match verb {
        Metadata::Check { group, state } => metadata::check(&group, &state),
        Metadata::Move { group, to, state } => metadata::moved(&group, &state, &to),
        Metadata::Create { group, node, config, state, yes } => {
            metadata::create(Creation { group, node, config, state }, yes)
        }
        Metadata::Accept { group, state } => metadata::accept(&group, &state),
    }
}
