// SPDX-License-Identifier: Apache-2.0
//! What the caller asks for.

use helio_replay::Script;
use helio_whole::Telling;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const HELP: &str = "\
The whole program in the simulator: two real daemons, their clients, an operator and faults, in virtual time.

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
  cargo xtask sim --daemon --replay FILE [FILE]      tells again what `helio debug events GROUP --json` printed, of one node
                                                     or of both, the one that served first: its requests, link cuts,
                                                     commands and failed writes at the same moments
      --seed SEED        what the files do not have comes from this seed (0)
      --seeds N          walks N seeds instead; --from, --coverage and so on as above
      --story, --shrink, --acts, --skip, --clients
                         as above: each step is an act
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Planted {
    #[default]
    Nothing,
    /// The one of that name.
    One(String),
    /// Each in turn.
    Each,
}

/// See [`HELP`].
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) seeds: u64,
    /// One story alone: --seed says so, or --replay without --seeds.
    pub(crate) one: bool,
    /// The story, or the first one of a walk.
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
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut seeds, mut files) = (None, None::<Vec<String>>);
        let mut arguments = arguments.peekable();
        let mut options = Self { most: 10, ..Self::default() };
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
            if argument == "--replay" {
                files.get_or_insert_default().extend(helio_replay::files(&mut arguments));
                continue;
            }
            let mut number = || {
                let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
                value
                    .parse::<u64>()
                    .map_err(|_| format!("{argument} {value}: that is not a number"))
            };
            match argument.as_str() {
                "--seeds" => seeds = Some(number()?),
                "--from" => options.telling.seed = number()?,
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
        let script = files.map(|files| Script::load(&files)).transpose()?;
        if options.one && seeds.is_some() {
            let text =
                "--seed tells one story, and --seeds walks many\nhint: `--seeds N --from SEED`";
            return Err(text.to_owned());
        }
        options.one |= script.is_some() && seeds.is_none();
        options.seeds = seeds.unwrap_or(200);
        options.telling.script = script.map(Arc::new);
        options.check()
    }

    /// Every story that the options choose, in order of the seeds.
    pub(crate) fn tellings(&self) -> impl Iterator<Item = Telling> {
        let (seed, seeds) = (self.telling.seed, if self.one { 1 } else { self.seeds });
        (seed..seed.saturating_add(seeds)).map(|seed| self.telling.with_seed(seed))
    }

    /// Refuses what does not go together.
    fn check(self) -> Result<Self, String> {
        let Telling { clients, acts, skipped, .. } = &self.telling;
        let is_abridged = clients.is_some() || acts.is_some() || !skipped.is_empty();
        if !self.one && (self.shrink || is_abridged) {
            return Err("--acts, --clients, --shrink and --skip need --seed".to_owned());
        }
        let each = self.planted == Planted::Each;
        let walks = !self.one && !self.cage && !self.digest && !each;
        if !walks && (self.coverage || self.require.is_some()) {
            return Err("--coverage and --require need a walk".to_owned());
        }
        Ok(self)
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
