// SPDX-License-Identifier: Apache-2.0
//! What the caller asks for.

use helio_replay::Script;
use helio_sim::{Kind, Telling};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const HELP: &str = "\
The simulator: two nodes, one client, one operator and bad luck, in virtual time.

  cargo xtask sim --seeds N [--from SEED]    walks N seeds (1000) from SEED (0) on, with all cores
      --coverage         tells how often every row of the recovery table, every change of state and standing and every
                         kind of fault was met
      --require N        and fails where one was met fewer than N times, or is in no list
      --json             tells the whole of it as JSON
      --digest           prints one number for everything that happens in them, to show that a change changes nothing
  cargo xtask sim --layers [--seeds N] [--from SEED]
                                             walks N seeds of the store layers alone, copies and then sets of members, against
                                             one reference store
  cargo xtask sim --seed SEED                tells the story of one seed
      --shrink           where it breaks a promise: finds the smallest story that still does, and tells that

  cargo xtask sim --replay FILE [FILE] [--seeds N]
                                             tells what `helio debug events GROUP --json` printed again: the same requests,
                                             link cuts and commands at the same moments, on N (1000) kinds of link,
                                             disk and queue; the second file is the peer's
  cargo xtask sim --replay FILE [FILE] --seed SEED
                                             the story of one of them

What a story leaves out, as --shrink prints it:
  --requests N           the client makes no more than N requests
  --misfortunes N        nothing breaks any more behind misfortune N
  --without KIND,…       no misfortunes of these kinds; an unknown kind tells those there are
  --skip NUMBER,…        not these misfortunes
And what it adds:
  --with KIND,…          kinds that do not strike otherwise, since the product cannot bear them yet

Built with `--features plant`:
  --plant NAME       plants a fault in the engine first; an unknown name tells those there are
  --check-planted    plants one after the other, and fails unless each is found within N seeds
";

#[derive(Default)]
pub(crate) struct Options {
    pub(crate) telling: Telling,
    pub(crate) seeds: u64,
    pub(crate) tell: bool,
    pub(crate) shrink: bool,
    pub(crate) coverage: bool,
    pub(crate) require: Option<u64>,
    pub(crate) json: bool,
    pub(crate) digest: bool,
    pub(crate) layers: bool,
    pub(crate) help: bool,
    pub(crate) check_planted: bool,
    pub(crate) plant: Option<String>,
}

impl Options {
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut arguments, mut files) = (arguments.peekable(), None::<Vec<String>>);
        let mut options = Self { seeds: 1000, ..Self::default() };
        let telling = &mut options.telling;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            let number = |value: String| {
                value.parse().map_err(|_| format!("{argument} {value}: that is not a number"))
            };
            match argument.as_str() {
                "--seeds" => options.seeds = number(value()?)?,
                "--from" => telling.seed = number(value()?)?,
                "--seed" => (telling.seed, options.tell) = (number(value()?)?, true),
                "--shrink" => options.shrink = true,
                "--coverage" => options.coverage = true,
                "--require" => options.require = Some(number(value()?)?),
                "--json" => options.json = true,
                "--digest" => options.digest = true,
                "--layers" => options.layers = true,
                "--requests" => telling.requests = Some(number(value()?)?),
                "--misfortunes" => telling.misfortunes = Some(number(value()?)?),
                "--without" => telling.without = kinds(&value()?)?,
                "--with" => telling.with = kinds(&value()?)?,
                "--skip" => {
                    let listed = value()?;
                    let numbers = listed.split(',').map(|one| number(one.to_owned()));
                    telling.skipped = numbers.collect::<Result<_, _>>()?;
                }
                "--replay" => {
                    let behind = helio_replay::files(&mut arguments);
                    files.get_or_insert_default().extend(behind);
                }
                "--plant" => options.plant = Some(value()?),
                "--check-planted" => options.check_planted = true,
                "--help" | "-h" => options.help = true,
                other => return Err(format!("{other} is unknown\n\n{HELP}")),
            }
        }
        telling.script = files.map(|files| Script::load(&files)).transpose()?.map(Arc::new);
        Ok(options)
    }
}

/// What of the call a story needs beside itself.
impl core::fmt::Display for Options {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.plant.iter().try_for_each(|name| write!(f, " --plant {name}"))
    }
}

fn kinds(listed: &str) -> Result<BTreeSet<Kind>, String> {
    let kind = |name: &str| {
        Kind::named(name).ok_or_else(|| {
            let names: Vec<&str> = Kind::all().map(Kind::name).collect();
            format!("{name}: there is no such kind; there are {}", names.join(", "))
        })
    };
    listed.split(',').map(kind).collect()
}
