// SPDX-License-Identifier: Apache-2.0
//! The options that every command takes, and which daemon they name.

use super::{Cli, Target, Verb, old, some_time};
use crate::init::shell_word;
use crate::typed::Typed;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser};
use helio_tls::PublicKey;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default state directory of a daemon.
pub const STATE: &str = "/var/lib/heliograph";
/// Maximum time for the response to one request.
const RESPONSE: Duration = Duration::from_secs(30);
const HEADING: &str = "Global options";

/// The options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// State directory of the daemon (or HELIO_STATE_DIR).
    #[arg(long, value_name = "DIR", default_value = STATE, env = "HELIO_STATE_DIR", hide_env = true,
          global = true, help_heading = HEADING)]
    state: PathBuf,
    /// Connect to a remote daemon, at the `control` address of its node (or HELIO_HOST).
    #[arg(long, value_name = "HOST:PORT", value_parser = super::host, env = "HELIO_HOST",
          hide_env = true, global = true, help_heading = HEADING)]
    host: Option<String>,
    /// File of your operator key, one of the node's `operators` (or HELIO_KEY).
    #[arg(long, value_name = "FILE", env = "HELIO_KEY", hide_env = true, global = true,
          help_heading = HEADING)]
    key: Option<PathBuf>,
    /// Public key of the node, as in the configuration file (or HELIO_SERVER_KEY).
    #[arg(long, value_name = "KEY", env = "HELIO_SERVER_KEY", hide_env = true, global = true,
          help_heading = HEADING)]
    server_key: Option<PublicKey>,
    /// Maximum time to wait (or HELIO_TIMEOUT). Default 30s; drill 5min, lab 10min; with --wait no limit.
    #[arg(long, value_name = "TIME", value_parser = some_time, env = "HELIO_TIMEOUT",
          hide_env = true, global = true, help_heading = HEADING)]
    timeout: Option<Duration>,
}

/// A daemon on another host.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Name or address, and port.
    pub host: String,
    /// File of the operator's key.
    pub key: PathBuf,
    /// Public key of the node.
    pub server_key: PublicKey,
}

/// Which daemon is asked, and how long a command waits for it.
#[derive(Clone, Debug)]
pub struct At {
    /// State directory, for the daemon of this host and for files without a daemon.
    pub state: PathBuf,
    /// The daemon to ask, if it is on another host.
    pub remote: Option<Remote>,
    /// `--timeout`, if it is given.
    pub timeout: Option<Duration>,
}

impl At {
    /// Maximum time for the response to one request.
    #[must_use]
    pub fn response(&self) -> Duration {
        self.timeout.unwrap_or(RESPONSE)
    }
}

/// A command line as it was understood.
#[derive(Debug)]
pub struct Asked {
    /// The command.
    pub cli: Cli,
    /// Where.
    pub at: At,
    /// Whether the result and errors are printed as JSON.
    pub json: bool,
    /// The new form of an old command line, or the daemon that the environment names.
    pub notice: Option<String>,
    /// The global options that were typed.
    pub(crate) typed: Typed,
}

/// Reads a command line, old forms included.
///
/// # Errors
/// The command line is invalid, or asks for help or the version.
pub fn read(line: Vec<OsString>) -> Result<Asked, clap::Error> {
    let mut command = super::command();
    let invalid = |text: String| Cli::command().error(ErrorKind::InvalidSubcommand, text);
    let rewritten = old::rewrite(line).map_err(invalid)?;
    let matches = command.try_get_matches_from_mut(&rewritten.line)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let at = at(&cli, &matches)
        .map_err(|text| Cli::command().error(ErrorKind::ArgumentConflict, text))?;
    let mut deepest = &matches;
    while let Some((_, inner)) = deepest.subcommand() {
        deepest = inner;
    }
    let json = deepest.try_get_one("json").ok().flatten().copied().unwrap_or(false);
    let typed = matches.value_source("host") == Some(ValueSource::CommandLine);
    let elsewhere = at.remote.as_ref().filter(|_| !typed);
    let notice = rewritten.notice.or_else(|| {
        elsewhere.map(|remote| format!("asks the daemon at {} (HELIO_HOST)", remote.host))
    });
    let typed = typed_options(&at, &matches);
    Ok(Asked { cli, at, json, notice, typed })
}

/// The command of a line in a text, for the daemon that is asked anyway; none if it is invalid, or names a daemon.
pub(crate) fn verb_of(line: &str) -> Option<Verb> {
    let words: Vec<&str> = line.split(' ').collect();
    let is_global = |word: &&str| {
        let option = word.split('=').next().unwrap_or_default();
        ["--state", "--host", "--key", "--server-key", "--timeout"].contains(&option)
    };
    if words.first() != Some(&"helio") || words.iter().any(is_global) {
        return None;
    }
    Cli::try_parse_from(words).ok().map(|cli| cli.verb)
}

/// The options that were typed, as they are typed again. Those from the environment are not.
fn typed_options(at: &At, matches: &ArgMatches) -> Typed {
    let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let option = |name: &str, value: &Path| format!(" --{name} {}", shell_word(value));
    let state = if typed("state") { option("state", &at.state) } else { String::new() };
    let remote = at.remote.as_ref().map_or_else(String::new, |Remote { host, key, server_key }| {
        let server_key = server_key.to_string();
        let all = [
            ("host", "host", Path::new(host)),
            ("key", "key", key),
            ("server_key", "server-key", Path::new(&server_key)),
        ];
        all.iter()
            .filter(|(id, ..)| typed(id))
            .map(|(_, name, value)| option(name, value))
            .collect()
    });
    Typed { state, remote, ..Typed::default() }
}

/// What the options and the environment name. An option overrules the environment.
fn at(cli: &Cli, matches: &ArgMatches) -> Result<At, String> {
    let Global { state, host, key, server_key, timeout } = cli.global.clone();
    let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let command = matches.subcommand();
    let target = command.map(|(name, inner)| super::target(name, inner.subcommand_name()));
    let is_local = target.flatten() != Some(Target::Daemon);
    if typed("host") && typed("state") {
        return Err("--host and --state name two daemons; use one of them".to_owned());
    }
    if typed("host") && is_local {
        return Err("--host has no effect: this command works on this host, without a daemon\n  \
                    hint: run it on the other host"
            .to_owned());
    }
    if host.is_none() && (typed("key") || typed("server_key")) {
        return Err("--key and --server-key need --host".to_owned());
    }
    let host = host.filter(|_| !typed("state"));
    let remote = match (host, key, server_key) {
        (None, ..) => None,
        (Some(host), Some(key), Some(server_key)) => Some(Remote { host, key, server_key }),
        (Some(_), ..) if is_local => None,
        (Some(_), ..) => {
            return Err("--host needs --key and --server-key (or HELIO_KEY and HELIO_SERVER_KEY)"
                .to_owned());
        }
    };
    Ok(At { state, remote, timeout })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, clap::Error> {
        read(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn global_options_are_taken_before_and_behind_the_command() {
        for line in
            ["helio --state /a --timeout 5s pause db", "helio pause db --state /a --timeout 5s"]
        {
            let asked = asked(line).expect(line);
            assert_eq!(asked.at.state, PathBuf::from("/a"), "{line}");
            assert_eq!(asked.at.timeout, Some(Duration::from_secs(5)), "{line}");
        }
    }

    #[test]
    fn advised_commands_repeat_what_was_typed_and_not_the_environment() {
        let typed = asked("helio status db --state /a").expect("valid").typed;
        assert_eq!((typed.state.as_str(), typed.remote.as_str()), (" --state /a", ""));
        let dir = tempfile::tempdir().expect("a folder");
        let key = helio_tls::NodeKey::create(&helio_driver::Linux::host(), &dir.path().join("k"))
            .expect("a key")
            .public();
        let options = format!(" --host lyon:7000 --key k --server-key {key}");
        let typed = asked(&format!("helio status{options}")).expect("valid").typed;
        assert_eq!((typed.state.as_str(), typed.remote), ("", options));
        assert_eq!(asked("helio status").expect("valid").typed.state, "");
    }

    #[test]
    fn a_remote_daemon_needs_two_keys_and_no_state_directory() {
        for (line, why) in [
            ("helio status --host lyon:7000", "--host needs --key"),
            ("helio --host lyon:7000 status --state /a", "two daemons"),
            ("helio status --key k", "need --host"),
            ("helio --host lyon:7000 key show", "without a daemon"),
            ("helio --host lyon status", "HOST:PORT"),
        ] {
            let error = asked(line).expect_err(line);
            assert!(error.to_string().contains(why) && error.exit_code() == 2, "{line}: {error}");
        }
    }
}
