// SPDX-License-Identifier: Apache-2.0
//! What the caller asks for.

use helio_whole::Telling;
use std::collections::BTreeSet;

pub(crate) const HELP: &str = "\
The whole program in the simulator: two real daemons, their clients, an operator and bad luck, in virtual time.

  cargo xtask sim --daemon --seeds N [--from SEED]   walks N seeds (200) from SEED (0) on, with all cores
      --digest           prints one number for everything that happens in them
      --cage             forbids this process every system call for a descriptor, a clock, a thread or a file first
      --most N           goes on until N seeds are broken (10)
      --coverage         prints how often each fault met each request, and each change of roles
      --require N        fails if one of these pairs was met fewer than N times
      --plant NAME       in a build with `--features plant`: plants a fault in the daemon
      --check-planted    in such a build: each fault that can be planted is found within the seeds
  cargo xtask sim --daemon --seed SEED               tells whether one seed keeps every promise
      --story            and everything that happens in it
      --shrink           finds the smallest story that breaks the same promise, and tells it
      --acts N           nothing happens after N acts
      --skip A,B         these acts do not happen, counted from 1
      --clients N        there are no more than N clients, and programs that use devices
";

/// What `--cage-proof` reaches for out of the cage. It is for the test of the cage, so the help does not list it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    Nothing,
    Clock,
    File,
    Thread,
    Socket,
}

impl Reach {
    fn read(word: Option<String>) -> Result<Self, String> {
        match word.as_deref() {
            Some("nothing") => Ok(Self::Nothing),
            Some("clock") => Ok(Self::Clock),
            Some("file") => Ok(Self::File),
            Some("thread") => Ok(Self::Thread),
            Some("socket") => Ok(Self::Socket),
            _ => Err("--cage-proof needs nothing, clock, file, thread or socket".to_owned()),
        }
    }
}

/// Which fault is planted in the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    /// The one of that name.
    One(String),
    /// Each in turn.
    Each,
}

/// See [`HELP`].
pub(crate) struct Options {
    pub(crate) seeds: u64,
    pub(crate) from: u64,
    /// One story alone: --seed says so.
    pub(crate) one: bool,
    pub(crate) telling: Telling,
    pub(crate) shrink: bool,
    pub(crate) most: usize,
    pub(crate) coverage: bool,
    pub(crate) require: Option<u64>,
    pub(crate) planted: Planted,
    pub(crate) story: bool,
    pub(crate) digest: bool,
    pub(crate) cage: bool,
    pub(crate) cage_proof: Option<Reach>,
    pub(crate) help: bool,
}

impl Options {
    pub(crate) fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            seeds: 200,
            from: 0,
            one: false,
            telling: Telling::default(),
            shrink: false,
            most: 10,
            coverage: false,
            require: None,
            planted: Planted::Nothing,
            story: false,
            digest: false,
            cage: false,
            cage_proof: None,
            help: false,
        };
        while let Some(argument) = arguments.next() {
            if argument == "--cage-proof" {
                options.cage_proof = Some(Reach::read(arguments.next())?);
                continue;
            }
            if argument == "--plant" {
                let name = arguments.next().ok_or("--plant needs the name of a fault")?;
                options.planted = Planted::One(name);
                continue;
            }
            let mut number = || {
                let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
                value
                    .parse::<u64>()
                    .map_err(|_| format!("{argument} {value}: that is not a number"))
            };
            match argument.as_str() {
                "--seeds" => options.seeds = number()?,
                "--from" => options.from = number()?,
                "--seed" => (options.one, options.telling.seed) = (true, number()?),
                "--acts" => options.telling.acts = Some(number()?),
                "--clients" => options.telling.clients = Some(number()? as usize),
                "--skip" => options.telling.skipped = numbers(&argument, arguments.next())?,
                "--shrink" => options.shrink = true,
                "--most" => options.most = number()? as usize,
                "--coverage" => options.coverage = true,
                "--require" => options.require = Some(number()?),
                "--check-planted" => options.planted = Planted::Each,
                "--story" => options.story = true,
                "--digest" => options.digest = true,
                "--cage" => options.cage = true,
                "--help" | "-h" => options.help = true,
                other => return Err(format!("{other} is unknown\n\n{HELP}")),
            }
        }
        if !options.one && (options.shrink || options.telling != Telling::default()) {
            return Err("--acts, --clients, --shrink and --skip need --seed".to_owned());
        }
        let each = options.planted == Planted::Each;
        let walks = !options.one && !options.cage && !options.digest && !each;
        if !walks && (options.coverage || options.require.is_some()) {
            return Err("--coverage and --require need a walk".to_owned());
        }
        Ok(options)
    }
}

/// Numbers with commas between.
fn numbers(argument: &str, value: Option<String>) -> Result<BTreeSet<u64>, String> {
    let value = value.ok_or(format!("{argument} needs numbers with commas between"))?;
    let number = |word: &str| {
        word.parse().map_err(|_| format!("{argument} {value}: {word} is not a number"))
    };
    value.split(',').map(number).collect()
}
