// SPDX-License-Identifier: Apache-2.0
//! Rule `rooms`: which room of the engine uses which. A room is a folder of `core/engine/src`.
//!
//! An import that is not in the list below is a finding. Tests fail for an entry that no file needs any more, and for one
//! that would let two rooms use each other.

use super::Finding;
use super::source::Source;
use std::path::Path;

const ENGINE: &str = "core/engine/src";

/// Each room, and the rooms it may use: only rooms above it in the list. The last one, with `engine.rs`, composes the others
/// and is used by none; what lies beside them (`turn.rs`, `event.rs` and the like) is used by all.
const ROOMS: [(&str, &[&str]); 10] = [
    ("stream", &[]),
    ("local", &[]),
    ("record", &[]),
    ("peer", &["local"]),
    ("resync", &["stream", "local"]),
    ("follow", &["stream", "local", "peer"]),
    ("lead", &["stream", "local", "record", "peer", "resync"]),
    ("role", &["local", "record", "follow", "lead"]),
    ("show", &["stream", "local", "record", "peer", "resync", "follow", "lead", "role"]),
    ("engine", &["local", "record", "peer", "resync", "follow", "lead", "role", "show"]),
];

/// The room that a file belongs to; stories are tests of all of them.
fn room_of(path: &Path) -> Option<&str> {
    let inside = path.strip_prefix(ENGINE).ok()?;
    let room = inside.iter().next()?.to_str()?;
    ROOMS.iter().map(|(room, _)| *room).find(|known| *known == room)
}

/// The rooms that a line names by their path from the crate's top.
fn named(line: &str) -> impl Iterator<Item = &'static str> + '_ {
    let paths = line.split("crate::").skip(1);
    paths.filter_map(|path| {
        let name = path.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next()?;
        ROOMS.iter().map(|(room, _)| *room).find(|room| *room == name)
    })
}

/// What a file uses of other rooms, with the lines; tests apart.
fn uses(source: &Source) -> impl Iterator<Item = (usize, &'static str)> + '_ {
    let own = room_of(&source.path);
    let lines = source.lines().filter(move |(_, _, test)| own.is_some() && !test);
    let named = lines.flat_map(|(at, line, _)| named(line).map(move |room| (at, room)));
    named.filter(move |(_, room)| Some(*room) != own)
}

/// Imports between rooms that are not in the list, and paths that would hide one.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(own) = room_of(&source.path) else { return Vec::new() };
    let allowed = ROOMS.iter().find(|(room, _)| *room == own).map_or(&[][..], |(_, rooms)| *rooms);
    let finding = |at, hint: String| Finding::new(&source.path, at, "rooms", hint);
    let mut findings: Vec<Finding> = uses(source)
        .filter(|(_, room)| !allowed.contains(room))
        .map(|(at, room)| {
            finding(at, format!("`{own}` may not use `{room}`: pass what it needs as an argument"))
        })
        .collect();
    let hidden = source.lines().filter(|(_, line, test)| !test && line.contains("super::super"));
    findings.extend(hidden.map(|(at, ..)| finding(at, "name the path from `crate::`".to_owned())));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;
    use std::collections::BTreeSet;

    fn found(path: &str, text: &str) -> usize {
        check(&Source::read(Path::new(path), text)).len()
    }

    #[test]
    fn an_import_that_is_not_in_the_list_is_found() {
        let text = "use crate::show::status::Status;\n";
        assert_eq!(found("core/engine/src/record/save.rs", text), 1);
        assert_eq!(found("core/engine/src/show/verdict.rs", text), 0);
        assert_eq!(found("core/engine/src/engine.rs", text), 0);
        assert_eq!(found("core/engine/src/stories/roles.rs", text), 0);
        let tests = format!("#[cfg(test)]\nmod tests {{\n    {text}}}\n");
        assert_eq!(found("core/engine/src/record/save.rs", &tests), 0);
    }

    #[test]
    fn a_path_that_climbs_out_of_a_room_is_found() {
        assert_eq!(found("core/engine/src/record/save.rs", "use super::super::Engine;\n"), 1);
    }

    #[test]
    fn no_two_rooms_use_each_other() {
        let place = |room: &str| ROOMS.iter().position(|(known, _)| *known == room);
        for (own, rooms) in ROOMS {
            assert!(
                rooms.iter().all(|room| place(room) < place(own)),
                "{own} uses a room below it"
            );
        }
    }

    #[test]
    fn every_entry_of_the_list_is_needed() {
        let mut needed = BTreeSet::new();
        for path in repo::files().expect("the repository has files") {
            let Some(own) = room_of(&path).map(str::to_owned) else { continue };
            let text = std::fs::read_to_string(repo::root().join(&path)).expect("it is text");
            let source = Source::read(&path, &text);
            needed.extend(uses(&source).map(|(_, room)| (own.clone(), room)));
        }
        let listed =
            ROOMS.iter().flat_map(|(own, rooms)| rooms.iter().map(move |room| (*own, *room)));
        let spare: Vec<_> =
            listed.filter(|(own, room)| !needed.contains(&((*own).to_owned(), *room))).collect();
        assert!(spare.is_empty(), "remove from the list: {spare:?}");
    }
}
