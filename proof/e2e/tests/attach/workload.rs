// SPDX-License-Identifier: Apache-2.0
//! A program that writes files and makes each durable before it goes on, and what may be found of them after a cut.
//!
//! One step changes one name and ends with fsync. So after a cut every step that had ended is there to the byte; of the
//! one that had begun anything its way of writing allows; of later ones nothing.

use helio_testkit::Dice;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const NAMES: u64 = 40;
const LOG: &str = "log";

/// How a step changes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Written anew in its place: until it ends, anything may be there.
    Fresh,
    /// Written aside and renamed: the old or the new.
    Replace,
    /// Made longer: the old, and behind it anything.
    Append,
    /// Gone.
    Remove,
}

#[derive(Debug)]
struct Step {
    name: String,
    way: Way,
    /// What the name holds afterwards.
    after: Option<Vec<u8>>,
}

/// The steps done, in their order.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    steps: Vec<Step>,
    now: BTreeMap<String, Vec<u8>>,
}

/// What a file system holds.
pub(crate) type Found = BTreeMap<String, Vec<u8>>;

impl Workload {
    /// Does one step, durably when it returns. Now and then it writes besides what nobody waits for.
    pub(crate) fn step(&mut self, place: &Path, dice: &mut Dice) -> io::Result<()> {
        if dice.chance(30) {
            let noise = bytes(dice, 300 << 10);
            fs::write(place.join(format!("noise-{}", dice.below(8))), noise)?;
        }
        let way = *dice.pick(&[Way::Fresh, Way::Fresh, Way::Replace, Way::Append, Way::Remove]);
        let name = match way {
            Way::Append => LOG.to_owned(),
            _ => format!("d{}/f{}", dice.below(4), dice.below(NAMES)),
        };
        let most = if dice.chance(8) { 700 << 10 } else { 24 << 10 };
        let after = match way {
            Way::Remove => None,
            Way::Append => {
                let mut log = self.now.get(LOG).cloned().unwrap_or_default();
                log.extend(bytes(dice, 3000));
                Some(log)
            }
            Way::Fresh | Way::Replace => Some(bytes(dice, most)),
        };
        self.change(place, &name, way, after.as_deref())?;
        match &after {
            Some(bytes) => self.now.insert(name.clone(), bytes.clone()),
            None => self.now.remove(&name),
        };
        self.steps.push(Step { name, way, after });
        Ok(())
    }

    fn change(&self, place: &Path, name: &str, way: Way, after: Option<&[u8]>) -> io::Result<()> {
        let path = place.join(name);
        let folder = path.parent().unwrap_or(place);
        if !folder.exists() {
            fs::create_dir(folder)?;
            File::open(place)?.sync_all()?;
        }
        match (way, after) {
            (Way::Fresh, Some(bytes)) => durable(&path, bytes)?,
            (Way::Replace, Some(bytes)) => {
                let aside = folder.join("aside");
                durable(&aside, bytes)?;
                fs::rename(&aside, &path)?;
            }
            (Way::Append, Some(bytes)) => {
                let old = self.now.get(name).map_or(0, Vec::len);
                let log = File::options().create(true).append(true).open(&path)?;
                (&log).write_all(&bytes[old..])?;
                log.sync_data()?;
            }
            _ if self.now.contains_key(name) => fs::remove_file(&path)?,
            _ => {}
        }
        File::open(folder)?.sync_all()
    }

    /// How many steps there were.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Whether what was found is what a cut leaves when that many steps had ended.
    pub(crate) fn fits(&self, found: &Found, ended: usize) -> Result<(), String> {
        let mut wanted: BTreeMap<&str, &[u8]> = BTreeMap::new();
        for step in &self.steps[..ended] {
            match &step.after {
                Some(bytes) => wanted.insert(&step.name, bytes),
                None => wanted.remove(step.name.as_str()),
            };
        }
        let under_way = self.steps.get(ended);
        let names = found.keys().map(String::as_str).chain(wanted.keys().copied());
        for name in names.chain(under_way.map(|step| step.name.as_str())) {
            let (here, old) = (found.get(name).map(Vec::as_slice), wanted.get(name).copied());
            let allowed = here == old
                || under_way.is_some_and(|step| step.name == name && step.allows(old, here));
            if !allowed {
                let length = |bytes: Option<&[u8]>| bytes.map(<[u8]>::len);
                return Err(format!(
                    "{name} holds {:?} bytes and should hold {:?}, or others of these",
                    length(here),
                    length(old)
                ));
            }
        }
        Ok(())
    }
}

impl Step {
    /// Whether a name may show this while the step is under way.
    fn allows(&self, old: Option<&[u8]>, here: Option<&[u8]>) -> bool {
        match self.way {
            Way::Fresh => true,
            Way::Replace | Way::Remove => here == self.after.as_deref(),
            Way::Append => match here {
                Some(here) => here.starts_with(old.unwrap_or_default()),
                None => old.is_none(),
            },
        }
    }
}

/// The files a workload left, as a file system shows them.
pub(crate) fn look(place: &Path) -> io::Result<Found> {
    let mut found = Found::new();
    for folder in (0..4).map(|n| format!("d{n}")) {
        let Ok(entries) = fs::read_dir(place.join(&folder)) else { continue };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "aside" {
                let bytes = fs::read(place.join(&folder).join(&name))?;
                found.insert(format!("{folder}/{name}"), bytes);
            }
        }
    }
    if place.join(LOG).exists() {
        found.insert(LOG.to_owned(), fs::read(place.join(LOG))?);
    }
    Ok(found)
}

fn durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    file.set_len(bytes.len() as u64)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()
}

/// Some bytes, never all alike.
fn bytes(dice: &mut Dice, most: u64) -> Vec<u8> {
    let mut bytes = vec![0; dice.below(most) as usize + 1];
    dice.fill(&mut bytes);
    bytes
}
