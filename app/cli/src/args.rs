// SPDX-License-Identifier: Apache-2.0
//! The definition of the command line. Help, man pages and completions are generated from it.

use clap::{Args, Command, CommandFactory, Parser};
use helio_api::{Memory, ReadCost, WhenFull};
use helio_units::{Bytes, Mode, Rate};
use std::time::Duration;

mod adopt;
mod advise;
mod check;
mod clients;
mod copy;
mod dashboard;
mod drbd;
mod drill;
mod forecast;
mod global;
mod init;
mod lab;
mod line;
mod nouns;
mod number;
mod old;
mod plan;
mod saved;
mod snapshot;
mod target;
mod tasks;
mod trace;
mod verb;
pub use adopt::Adoption;
pub use advise::Advise;
pub use check::Check;
pub use clients::Clients;
pub use copy::CopyOf;
pub use dashboard::{Dashboard, OtherDaemon};
pub use drill::Drill;
pub use forecast::Forecast;
pub(crate) use global::verb_of;
pub use global::{Asked, At, Global, Remote, STATE, read};
pub use init::{Init, NodeWish, VolumeWish};
pub use lab::{
    Answer, Common, DiskOf, Link, Meeting, MirrorOf, Primary, Record, Search, Standby, Trial,
};
pub use line::{Course, Line, Relay, Wan};
pub use nouns::{
    Comparison, Debug, Key, Lab, Member, MemberAt, Metadata, NewName, OfMember, Queue, Rename,
    Seed, Verify,
};
pub(crate) use old::positional;
pub use plan::{Calculator, MarksPlan, PlanVerb, QueuePlan, Window};
pub use saved::Saved;
pub use snapshot::{Export, Snapshot, SnapshotName};
pub(crate) use target::{Target, target};
pub use trace::{Trace, TraceFormat};
pub use verb::{LogFormat, Promote, Resync, Shell, Verb};

/// Mirror block volumes between two Linux hosts, synchronously or asynchronously.
#[derive(Debug, Parser)]
#[command(name = "helio", version, max_term_width = 100, subcommand_value_name = "COMMAND")]
pub struct Cli {
    /// The options that every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The command line, with the commands grouped by task in its help.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let template = tasks::help(&command);
    command.help_template(template)
}

/// A group, and the form of the output.
#[derive(Clone, Debug, Args)]
pub struct OfGroup {
    /// Group name; may be omitted if the daemon has only one group.
    pub group: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A group, the form of the output, and whether to wait for the end of a resync.
#[derive(Clone, Debug, Args)]
pub struct Resyncing {
    /// Group and output.
    #[command(flatten)]
    pub of: OfGroup,
    /// Return when the copies are in sync; fail if they cannot get in sync.
    #[arg(long)]
    pub wait: bool,
}

/// A group, or one of its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name of the group.
    pub group: String,
    /// Name of the volume, if one is given.
    pub volume: Option<String>,
}

fn named(text: &str) -> Result<Named, String> {
    let (group, volume) = match text.split_once('/') {
        Some((group, volume)) => (group, Some(volume)),
        None => (text, None),
    };
    if group.contains('@') {
        let expected =
            "expected GROUP/VOLUME@NAME for a volume in a snapshot, for example db/data@daily";
        return Err(expected.to_owned());
    }
    if group.is_empty() || volume.is_some_and(str::is_empty) {
        return Err("expected GROUP/VOLUME, for example db/data, or GROUP".to_owned());
    }
    Ok(Named { group: group.to_owned(), volume: volume.map(str::to_owned) })
}

/// A host and a port. The name is resolved when the connection is made.
fn host(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.parse::<u16>().is_ok() => {
            let bare_ipv6 = name.contains(':') && !(name.starts_with('[') && name.ends_with(']'));
            if bare_ipv6 {
                return Err(
                    "write an IPv6 address in brackets, for example [2001:db8::1]:7131".to_owned()
                );
            }
            Ok(text.to_owned())
        }
        _ => {
            Err("expected HOST:PORT, for example lyon.example.com:7131 or 192.0.2.1:7131"
                .to_owned())
        }
    }
}

fn mode(word: &str) -> Result<Mode, String> {
    Mode::from_word(word)
        .ok_or_else(|| "expected one of sync, nearsync, async, periodic".to_owned())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    helio_units::parse_bytes(text).map_err(|error| error.to_string())
}

fn memory(text: &str) -> Result<Memory, String> {
    match text {
        "auto" => Ok(Memory::Auto),
        size => {
            helio_units::parse_bytes(size).map(Memory::Bytes).map_err(|error| error.to_string())
        }
    }
}

fn read_cost(text: &str) -> Result<ReadCost, String> {
    match (text, text.parse()) {
        ("auto", _) => Ok(ReadCost::Auto),
        (_, Ok(cost)) => Ok(ReadCost::Cost(cost)),
        _ => Err(String::from("expected auto, or a number from 1 to 65535")),
    }
}

fn when_full(text: &str) -> Result<(WhenFull, WhenFull), String> {
    let policy = |word: &str| WhenFull::ALL.into_iter().find(|policy| policy.word() == word);
    let (connected, disconnected) = text.split_once('/').unwrap_or((text, text));
    policy(connected).zip(policy(disconnected)).ok_or_else(|| {
        "expected block, log or fail, or two of them, for example block/log".to_owned()
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    helio_units::parse_duration(text).map_err(|error| error.to_string())
}

/// How often something is shown.
fn interval(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| match time.as_millis() {
        100..=3_600_000 => Ok(time),
        _ => Err("expected a time from 100ms to 1h, for example 2s".to_owned()),
    })
}

/// A time greater than zero.
fn some_time(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| match time {
        Duration::ZERO => Err("must be greater than zero, for example 10s".to_owned()),
        time => Ok(time),
    })
}

fn rate(text: &str) -> Result<Rate, String> {
    helio_units::parse_rate(text).map_err(|error| error.to_string())
}

/// A rate greater than zero.
fn some_rate(text: &str) -> Result<Rate, String> {
    rate(text).and_then(|rate| match rate {
        Rate(0) => {
            Err("must be greater than zero; use the command `cut` to stop the link".to_owned())
        }
        rate => Ok(rate),
    })
}

fn group_name(text: &str) -> Result<String, String> {
    use helio_daemon::config::{NAME_RULE, is_name};
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected a group name: {NAME_RULE}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_one_or_two_words() {
        assert_eq!(when_full("log"), Ok((WhenFull::Log, WhenFull::Log)));
        assert_eq!(when_full("block/fail"), Ok((WhenFull::Block, WhenFull::Fail)));
        assert!(when_full("block/").is_err());
    }

    #[test]
    fn watch_does_not_take_the_group_name_as_its_value() {
        for (line, every) in [
            (["helio", "status", "db", "--watch"], 1),
            (["helio", "status", "--watch", "db"], 1),
            (["helio", "status", "--watch=5", "db"], 5),
        ] {
            let Verb::Status { group, watch, .. } = Cli::parse_from(line).verb else {
                panic!("{line:?} is not parsed as status")
            };
            assert_eq!((group.as_deref(), watch), (Some("db"), Some(every)), "{line:?}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
