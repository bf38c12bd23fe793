// SPDX-License-Identifier: Apache-2.0
//! The answer as configuration: the keys it is about, or a whole file with them changed.

use crate::failure::{failed, named, unreadable};
use crate::newfile;
use anyhow::{Result, anyhow, bail};
use helio_daemon::config::Config;
use helio_forecast::{Buffer, Point, Queue};
use helio_units::Bytes;
use std::path::Path;
use toml::{Table, Value};

/// The keys the answer is about, as tables of a group.
pub(super) fn fragment(group: &str, point: &Point) -> String {
    let buffer = buffer(point);
    format!(
        "[group.{group}]\nmode = \"{}\"\n\n[group.{group}.queue]\nmemory = \"{}\"\n\n[group.{group}.link]\n\
         send-buffer = \"{buffer}\"\nreceive-buffer = \"{buffer}\"\n",
        point.mode,
        queue(point),
    )
}

fn size(bytes: Bytes) -> String {
    format!("{}B", bytes.0)
}

fn queue(point: &Point) -> String {
    match point.queue {
        Queue::Auto => "auto".to_owned(),
        Queue::Bytes(bytes) => size(bytes),
    }
}

/// Linux grants twice what is asked for, and keeps half of that for itself: the window is what is asked.
fn buffer(point: &Point) -> String {
    match point.buffer {
        Buffer::Auto => "auto".to_owned(),
        Buffer::Bytes(bytes) => size(bytes),
    }
}

fn read(from: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(from).map_err(unreadable(from))?;
    let what = format!("{} is not TOML", from.display());
    text.parse().map_err(failed(what, "name the configuration file of a daemon with --config"))
}

fn table<'a>(file: &'a mut Table, from: &Path, group: &str) -> Result<&'a mut Table> {
    let from = from.display();
    let groups = file.get_mut("group").and_then(Value::as_table_mut);
    let Some(groups) = groups else {
        bail!("{from} has no groups\n  hint: name the configuration file of a daemon with --config")
    };
    let names = groups.keys().cloned().collect::<Vec<_>>().join(", ");
    let table = groups.get_mut(group).and_then(Value::as_table_mut);
    table
        .ok_or_else(|| anyhow!("{from} has no group {group}\n  hint: give --group one of: {names}"))
}

/// Refuses a file that has no such group, before anything is run for it.
pub(super) fn check(from: &Path, group: &str) -> Result<()> {
    table(&mut read(from)?, from, group).map(drop)
}

/// Writes the configuration file `from` to `out` with the answer in its group. Comments are lost; what is written was
/// read again as a daemon reads it.
///
/// # Errors
/// The file cannot be read or written, or has no such group.
pub(super) fn rewrite(from: &Path, group: &str, point: &Point, out: &Path) -> Result<()> {
    let mut file = read(from)?;
    let table = table(&mut file, from, group)?;
    table.insert("mode".into(), point.mode.word().into());
    let own = |table: &mut Table, name: &str, pairs: &[(&str, String)]| -> Result<()> {
        let entry = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
        let Some(inner) = entry.as_table_mut() else {
            bail!("{name} of group {group} is no table\n  hint: write it as [group.{group}.{name}]")
        };
        for (key, value) in pairs {
            inner.insert((*key).into(), value.clone().into());
        }
        Ok(())
    };
    own(table, "queue", &[("memory", queue(point))])?;
    if let Some(queue) = table.get_mut("queue").and_then(Value::as_table_mut) {
        // It names a bound too, and a file may have only one.
        queue.remove("preset");
    }
    own(table, "link", &[("send-buffer", buffer(point)), ("receive-buffer", buffer(point))])?;
    let changed =
        toml::to_string(&file).map_err(failed("the changed file", "report this as a defect"))?;
    Config::parse(&changed, &out.display().to_string())
        .map_err(named("a daemon would not accept the changed file"))?;
    newfile::write(out, &changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Mode;

    const EXAMPLE: &str = include_str!("../../../../docs/example.toml");

    fn point() -> Point {
        Point {
            mode: Mode::Sync,
            queue: Queue::Bytes(Bytes::mib(48)),
            buffer: Buffer::Bytes(Bytes::kib(768)),
            link: "rtt=10ms".parse().expect("a link"),
        }
    }

    #[test]
    fn the_answer_in_a_file_is_what_a_daemon_reads() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, out) = (dir.path().join("old.toml"), dir.path().join("new.toml"));
        std::fs::write(&from, EXAMPLE).expect("it is written");
        rewrite(&from, "db", &point(), &out).expect("it is rewritten");
        let text = std::fs::read_to_string(&out).expect("it is there");
        let read = Config::parse(&text, "new.toml").expect("a daemon accepts it");
        let group = &read.groups["db"];
        assert_eq!(group.mode, Mode::Sync);
        assert_eq!(group.queue.memory, Some(Bytes::mib(48)));
        assert_eq!(group.link.send_buffer, Some(Bytes::kib(768)));
        let none = rewrite(&from, "nobody", &point(), &out).expect_err("no such group");
        assert!(none.to_string().contains("no group nobody"), "{none}");
    }

    #[test]
    fn the_fragment_says_the_same() {
        let table: Table = fragment("db", &point()).parse().expect("it is TOML");
        assert_eq!(table["group"]["db"]["queue"]["memory"].as_str(), Some("50331648B"));
    }
}
