// SPDX-License-Identifier: Apache-2.0
//! Rule `rooms`: which room of the engine uses which. A room is a folder of `core/engine/src`; `top` is what lies in none.
//!
//! An import that is not in the list below is a finding. Tests fail for an entry that no file needs any more, and for one
//! that would let two rooms use each other. A name that `lib.rs` exports again (`crate::Lag`) is not followed to its room.

use super::Finding;
use super::imports::{imports, in_code, inside, module};
use super::methods::is_story;
use super::source::Source;
use std::collections::BTreeSet;
use std::path::Path;

const ENGINE: &str = "core/engine/src";

/// The room of the files beside the rooms (`turn.rs`, `event.rs` and the like): words that every room may use.
const TOP: &str = "top";

/// Each room, and the rooms it may use: only rooms above it in the list, which are below it in the drawing of ARCHITECTURE.md. The last one, with `engine.rs`, composes the others
/// and is used by none; `top` is used by all and uses none.
const ROOMS: [(&str, &[&str]); 12] = [
    (TOP, &[]),
    ("stream", &[]),
    ("local", &[]),
    ("record", &[]),
    ("copies", &["local"]),
    ("peer", &["local"]),
    ("resync", &["stream", "local"]),
    ("follow", &["stream", "local"]),
    ("lead", &["stream", "local", "record", "peer", "resync"]),
    ("role", &["local", "record", "copies", "peer", "resync", "follow", "lead"]),
    ("show", &["stream", "local", "record", "copies", "peer", "resync", "follow", "lead", "role"]),
    ("engine", &["local", "record", "peer", "resync", "follow", "lead", "role", "show"]),
];

/// What a file uses although its room may not: the file, the path, and the reason.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "effect.rs",
    "stream::ack::AckProof",
    "an acknowledgement carries the proof that only the room which decides it can make",
)];

/// The room that a file belongs to. None for stories, which test all rooms, and for the files that compose them.
fn room_of(path: &Path) -> Option<&'static str> {
    let inside = path.strip_prefix(ENGINE).ok()?;
    let first = inside.iter().next()?.to_str()?;
    if is_story(path) || ["lib.rs", "engine.rs"].contains(&first) {
        return None;
    }
    Some(room(first.strip_suffix(".rs").unwrap_or(first)).unwrap_or(TOP))
}

/// The room of this name.
fn room(name: &str) -> Option<&'static str> {
    ROOMS.iter().map(|(room, _)| *room).find(|known| *known == name)
}

/// The paths that a file names, tests apart: each with its line, from the crate's top.
fn paths(source: &Source) -> impl Iterator<Item = (usize, Vec<String>)> + '_ {
    let imported = imports(source).into_iter().map(|it| (it.line, it.path));
    let paths = imported.chain(in_code(source));
    paths.filter_map(|(line, path)| Some((line, from_top(&source.path, &path)?)))
}

/// A path in a file, from the crate's top; none if it begins with a name.
fn from_top(file: &Path, path: &[String]) -> Option<Vec<String>> {
    let mut top = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module(file),
        _ => return None,
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => drop(top.pop()),
            name => top.push(name.to_owned()),
        }
    }
    Some(top)
}

/// The other rooms that a file uses, with the lines; what is an exception has its place in that list.
fn uses(source: &Source) -> (BTreeSet<(usize, &'static str)>, BTreeSet<usize>) {
    let (mut uses, mut exceptions) = (BTreeSet::new(), BTreeSet::new());
    let Some(own) = room_of(&source.path) else { return (uses, exceptions) };
    for (line, path) in paths(source) {
        let Some(room) = path.first().and_then(|name| room(name)).filter(|room| *room != own)
        else {
            continue;
        };
        let file = inside(&source.path);
        let named = path.join("::");
        let excepted =
            EXCEPTIONS.iter().position(|(at, path, _)| file == Path::new(at) && *path == named);
        match excepted {
            Some(at) => drop(exceptions.insert(at)),
            None => drop(uses.insert((line, room))),
        }
    }
    (uses, exceptions)
}

/// Imports between rooms that are not in the list, and paths that would hide one.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(own) = room_of(&source.path) else { return Vec::new() };
    let allowed = ROOMS.iter().find(|(room, _)| *room == own).map_or(&[][..], |(_, rooms)| *rooms);
    let finding = |at, hint: String| Finding::new(&source.path, at, "rooms", hint);
    let mut findings: Vec<Finding> = (uses(source).0.into_iter())
        .filter(|(_, room)| !allowed.contains(room))
        .map(|(at, room)| {
            finding(at, format!("`{own}` may not use `{room}`: pass what it needs as an argument"))
        })
        .collect();
    // All names of the crate's top at once, or the top under another name.
    let whole = |path: &[String]| path.first().is_none_or(|first| first == "*");
    let climbing = source.lines().filter(|(_, line, test)| !test && line.contains("super::super"));
    let hidden = paths(source).filter(|(_, path)| whole(path)).map(|(at, _)| at);
    let hidden: BTreeSet<usize> = hidden.chain(climbing.map(|(at, ..)| at)).collect();
    let hint = "name what is used by its path from `crate::`";
    findings.extend(hidden.into_iter().map(|at| finding(at, hint.to_owned())));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    fn found(path: &str, text: &str) -> usize {
        check(&Source::read(Path::new(path), text)).len()
    }

    #[test]
    fn an_import_that_is_not_in_the_list_is_found() {
        let text = "use crate::show::status::Status;\n";
        assert_eq!(found("core/engine/src/record/save.rs", text), 1);
        assert_eq!(found("core/engine/src/show/verdict.rs", text), 0);
        assert_eq!(found("core/engine/src/engine.rs", text), 0);
        assert_eq!(found("core/engine/src/engine/stories/roles.rs", text), 0);
        let tests = format!("#[cfg(test)]\nmod tests {{\n    {text}}}\n");
        assert_eq!(found("core/engine/src/record/save.rs", &tests), 0);
    }

    #[test]
    fn an_import_in_a_group_is_found_at_every_depth() {
        let found = |text: &str| found("core/engine/src/record/save.rs", text);
        assert_eq!(found("use crate::{turn::Turn, show::View};\n"), 1);
        assert_eq!(
            found("use crate::{\n    turn::Turn,\n    show::{\n        view::View,\n    },\n};\n"),
            1
        );
        assert_eq!(found("use crate::{show, peer::{link::Link, lease}};\n"), 2);
        assert_eq!(found("use crate::{turn::Turn, record::{ages::Ages, keep}};\n"), 0);
        assert_eq!(found("fn a() {\n    crate::show::a::<u8>();\n}\n"), 1);
    }

    #[test]
    fn a_path_that_climbs_out_of_a_room_is_found() {
        let found = |text: &str| found("core/engine/src/record/save.rs", text);
        assert_eq!(found("use super::super::Engine;\n"), 1);
        assert_eq!(found("use super::{ages::Ages, super::show::View};\n"), 1);
        assert_eq!(found("use super::ages::Ages;\n"), 0);
        let in_head = |text: &str| super::tests::found("core/engine/src/record/mod.rs", text);
        assert_eq!(in_head("use super::show::View;\n"), 1);
        assert_eq!(in_head("use super::*;\n"), 1);
        assert_eq!(in_head("use crate as top;\n"), 1);
        assert_eq!(in_head("use self::ages::Ages;\n"), 0);
    }

    #[test]
    fn the_top_uses_no_room_but_for_its_exception() {
        let proof = "use crate::stream::ack::AckProof;\n";
        assert_eq!(found("core/engine/src/effect.rs", proof), 0);
        assert_eq!(found("core/engine/src/event.rs", proof), 1);
        let leg = "use crate::stream::ack::{AckProof, Leg};\n";
        assert_eq!(found("core/engine/src/effect.rs", leg), 1);
        assert_eq!(found("core/engine/src/turn.rs", "use super::stream::queue::Queue;\n"), 1);
        assert_eq!(
            found("core/engine/src/turn.rs", "use crate::{effect::Effect, dice::Dice};\n"),
            0
        );
        assert_eq!(found("core/engine/src/unlisted/a.rs", proof), 1);
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
        let (mut needed, mut excepted) = (BTreeSet::new(), BTreeSet::new());
        for path in repo::files().expect("the repository has files") {
            let Some(own) = room_of(&path) else { continue };
            let text = std::fs::read_to_string(repo::root().join(&path)).expect("it is text");
            let source = Source::read(&path, &text);
            let (uses, exceptions) = uses(&source);
            needed.extend(uses.into_iter().map(|(_, room)| (own, room)));
            excepted.extend(exceptions);
        }
        let listed =
            ROOMS.iter().flat_map(|(own, rooms)| rooms.iter().map(move |room| (*own, *room)));
        let spare: Vec<_> = listed.filter(|(own, room)| !needed.contains(&(*own, *room))).collect();
        assert!(spare.is_empty(), "remove from the list: {spare:?}");
        assert_eq!(excepted.len(), EXCEPTIONS.len(), "remove an exception that no file needs");
    }
}
