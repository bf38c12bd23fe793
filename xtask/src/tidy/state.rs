// SPDX-License-Identifier: Apache-2.0
//! Rules `crate-fields`, `flags` and `large-state`: the shape of the core's mutable state, struct by struct.

use super::items::{Item, items, pieces};
use super::methods::engine;
use super::ratchet::{Count, Place};
use super::source::Source;
use std::collections::BTreeSet;
use std::path::Path;

/// The most fields that a struct of the state may have.
pub(super) const LARGE: usize = 12;

/// Structs that are plain data and not mutable state: the path, the names (none: all structs there), and the reason.
const PLAIN: [(&str, &[&str], &str); 25] = [
    ("core", &["Facts"], "facts of one decision: gathered, judged, dropped"),
    ("core/recovery/src/table.rs", &["Row"], "a row of the constant decision table"),
    ("core/recovery/src/words.rs", &["LastDecision"], "the facts of a decision, kept to be shown"),
    ("core/engine/src/config.rs", &[], "configuration, replaced as a whole"),
    ("core/engine/src/event.rs", &[], "messages to the engine"),
    ("core/engine/src/effect.rs", &[], "messages from the engine"),
    ("core/engine/src/refusal.rs", &["Refusal"], "the result of a command"),
    ("core/recovery/src/handing.rs", &["Handing"], "facts of one decision"),
    ("core/recovery/src/returning.rs", &["Returning"], "facts of one decision"),
    ("core/copy/src/pace.rs", &["ResyncConfig"], "configuration, replaced as a whole"),
    ("core/engine/src/resync/verify.rs", &["VerifyPass"], "status of a verify that ended"),
    ("core/engine/src/resync/verified.rs", &["Verified"], "status of a verify that ended"),
    ("core/engine/src/show/status.rs", &[], "status"),
    ("core/engine/src/show/view.rs", &["View"], "borrows through which nothing can be changed"),
    ("core/engine/src/stream/slots.rs", &["Part"], "arguments of an operation (FUA, punch)"),
    (
        "core/engine/src/stream/slots.rs",
        &["Slot"],
        "changed in place in its own file alone; others get a copy when the request ends",
    ),
    (
        "core/engine/src/stream/queue.rs",
        &["Figures"],
        "changed in place in its own file alone; others get a copy, to show it",
    ),
    ("core/engine/src/local/replace.rs", &["Replacing"], "a command that waits"),
    ("core/engine/src/lead/lack/mod.rs", &["Reversal"], "a command that waits"),
    ("core/engine/src/lead/lack", &["Ask", "Fetched"], "a question and its result, as values"),
    ("core/engine/src/lead/outgoing.rs", &["Opening"], "arguments of an operation"),
    ("core/engine/src/peer/read_server.rs", &["Asked"], "arguments of the peer's read"),
    (
        "core/engine/src/purpose.rs",
        &["Reader", "Piece", "PeerRead", "Look", "JobId", "StretchId", "Check"],
        "names of operations under way",
    ),
    ("core/engine/src/lead/status.rs", &["SyncStatus"], "status"),
    ("core/ledger/src/before.rs", &["BeforeFound"], "what opening a file found, as a result"),
];

/// Whether a struct is plain data by the list.
fn is_plain(path: &Path, name: &str) -> bool {
    PLAIN.iter().any(|(below, names, _)| {
        path.starts_with(below) && (names.is_empty() || names.contains(&name))
    })
}

/// The structs of the core, tests apart.
fn structs(core: &[Source]) -> impl Iterator<Item = Item<'_>> {
    let others = core.iter().filter(|source| !source.path.starts_with("core/engine"));
    engine(core).chain(others).flat_map(|source| items(source, "struct"))
}

/// The structs of the core's mutable state.
fn state(core: &[Source]) -> impl Iterator<Item = Item<'_>> {
    structs(core).filter(|it| !is_plain(it.path, it.name))
}

/// Each struct of the state with a number of it.
fn by_struct<'a>(
    core: &'a [Source],
    number: impl Fn(&Item<'_>) -> usize + 'a,
) -> impl Iterator<Item = Place> + 'a {
    state(core).map(move |it| Place::new(it.path, it.line, number(&it), it.name))
}

/// Fields with `pub(crate)` or the like. In a struct that is not public itself, `pub` means the same.
pub(super) fn open_fields(core: &[Source]) -> Vec<Count> {
    vec![Count::new("fields that other files can change", by_struct(core, open))]
}

fn open(it: &Item<'_>) -> usize {
    let counted = it.fields().filter(|field| match field.visibility {
        "" => false,
        "pub" => it.visibility != "pub",
        _ => true,
    });
    counted.count()
}

/// Each struct with its number of fields.
pub(super) fn large(core: &[Source]) -> Vec<Count> {
    let places = by_struct(core, |it| it.parts.len());
    places.map(|place| Count::new(&format!("fields of {}", place.what), [place])).collect()
}

/// Fields that hold a flag.
pub(super) fn flags(core: &[Source]) -> Vec<Count> {
    let two = of_two(core);
    let flags = |it: &Item<'_>| it.fields().filter(|field| is_flag(field.kind, &two)).count();
    vec![Count::new("flags in mutable state", by_struct(core, flags))]
}

/// The names of the enums of two unit variants.
fn of_two(core: &[Source]) -> BTreeSet<&str> {
    let enums = core.iter().flat_map(|source| items(source, "enum"));
    let is_unit = |variant: &String| !variant.contains(['(', '{']);
    let two = enums.filter(|it| it.parts.len() == 2 && it.parts.iter().all(is_unit));
    two.map(|it| it.name).collect()
}

/// Whether a type is a `bool`, an enum of two unit variants, `Option<()>`, or a tuple, an array or an `Option` that holds one.
fn is_flag(kind: &str, two: &BTreeSet<&str>) -> bool {
    let kind = kind.trim();
    let between = |open, close| kind.strip_prefix(open)?.strip_suffix(close);
    if let Some(inner) = between("Option<", ">") {
        inner == "()" || is_flag(inner, two)
    } else if let Some(inner) = between("(", ")") {
        pieces(inner).into_iter().any(|part| is_flag(part, two))
    } else if let Some(inner) = between("[", "]") {
        is_flag(inner.rsplit_once(';').map_or(inner, |it| it.0), two)
    } else {
        let name = kind.rsplit("::").next().unwrap_or(kind);
        kind == "bool" || two.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;
    use crate::tidy::core;

    fn found(measure: fn(&[Source]) -> Vec<Count>, path: &str, text: &str) -> Vec<usize> {
        let counts = measure(&[Source::read(Path::new(path), text)]);
        counts.iter().map(Count::number).collect()
    }

    #[test]
    fn fields_that_other_files_can_change_are_counted() {
        let text = "pub struct A {\n    pub(crate) a: u8,\n    pub(super) b: u8,\n    pub c: u8,\n    d: u8,\n}\n\
                    pub(crate) struct B(pub u8, pub(crate) u8, u8);\n";
        assert_eq!(found(open_fields, "core/ledger/src/a.rs", text), [4]);
        assert_eq!(found(open_fields, "core/engine/src/engine/stories/a.rs", text), [0]);
        assert_eq!(found(open_fields, "core/ledger/src/a_tests.rs", text), [0]);
    }

    #[test]
    fn flags_are_counted_inside_tuples_arrays_and_options_too() {
        let two = "enum Two {\n    #[default]\n    A,\n    B,\n}\nenum Three {\n    A,\n    B,\n    C,\n}\nenum Data {\n    A(u8),\n    B,\n}\n";
        let field = |kind: &str| {
            found(flags, "core/ledger/src/a.rs", &format!("{two}struct S {{\n    a: {kind},\n}}\n"))
        };
        let flagged = ["bool", "Option<()>", "Option<bool>", "Option<(Start, bool)>", "(u8, bool)"];
        for kind in flagged.into_iter().chain(["[bool; 4]", "Two", "crate::a::Two", "Option<Two>"])
        {
            assert_eq!(field(kind), [1], "{kind}");
        }
        for kind in ["u8", "()", "Three", "Data", "Vec<bool>", "BTreeMap<u8, bool>", "(u8, u8)"] {
            assert_eq!(field(kind), [0], "{kind}");
        }
    }

    #[test]
    fn plain_data_has_no_flags() {
        let text = "struct Facts {\n    a: bool,\n}\nstruct Part {\n    a: bool,\n}\n";
        assert_eq!(found(flags, "core/engine/src/stream/ack.rs", text), [1]);
        assert_eq!(found(flags, "core/engine/src/stream/slots.rs", text), [0]);
        assert_eq!(found(flags, "core/engine/src/event.rs", text), [0]);
    }

    #[test]
    fn every_struct_of_the_state_has_its_number_of_fields() {
        let text = "struct A {\n    a: u8,\n    b: (u8, u8),\n}\nstruct Facts {\n    a: u8,\n}\n";
        assert_eq!(found(large, "core/ledger/src/a.rs", text), [2]);
        let counts = large(&[Source::read(Path::new("core/ledger/src/a.rs"), text)]);
        assert_eq!(counts[0].subject, "fields of A");
    }

    #[test]
    fn every_entry_of_the_list_is_needed() {
        let core = core(&repo::files().expect("the repository has files")).expect("they are text");
        let two = of_two(&core);
        let counted: Vec<_> = structs(&core)
            .filter(|it| {
                let flags = it.fields().filter(|field| is_flag(field.kind, &two)).count();
                open(it) > 0 || flags > 0 || it.parts.len() > LARGE
            })
            .collect();
        let is_needed = |below: &str, name: Option<&str>| {
            let mut here = counted.iter().filter(|it| it.path.starts_with(below));
            here.any(|it| name.is_none_or(|name| it.name == name))
        };
        let mut spare = Vec::new();
        for (below, names, _) in PLAIN {
            if names.is_empty() && !is_needed(below, None) {
                spare.push(below.to_owned());
            }
            let unneeded = names.iter().filter(|name| !is_needed(below, Some(name)));
            spare.extend(unneeded.map(|name| format!("{name} in {below}")));
        }
        assert!(spare.is_empty(), "no rule counts these; remove {spare:?}");
    }
}
