// SPDX-License-Identifier: Apache-2.0
//! The paths that a file of the engine names, tests apart: in its `use` items, lists taken apart, and in its code.

use super::items::{pieces, visibility};
use super::source::{Source, end_of_item, is_word};
use std::ops::RangeInclusive;
use std::path::Path;

/// A name in a file, and the path that it stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The line that the `use` item begins on, counted from 1.
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) path: Vec<String>,
}

/// The path of a file from the engine's folder.
pub(super) fn inside(file: &Path) -> &Path {
    file.strip_prefix("core/engine/src").unwrap_or(file)
}

/// The path of a file's module from the crate's top; empty for `lib.rs`.
pub(super) fn module(file: &Path) -> Vec<String> {
    let inside = inside(file).with_extension("");
    let mut path: Vec<String> =
        inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    path.pop_if(|last| last == "mod" || last == "lib");
    path
}

/// The names that a file imports.
pub(super) fn imports(source: &Source) -> Vec<Import> {
    let trees = items(source).flat_map(|item| {
        let line = item.start() + 1;
        let text = source.code[item].join(" ");
        let tree = text.split(';').next().unwrap_or_default();
        let tree = visibility(tree).1.strip_prefix("use ").unwrap_or_default();
        leaves(line, &[], tree)
    });
    trees.collect()
}

/// The paths in a file's code, its `use` items apart, each with its line, counted from 1.
pub(super) fn in_code(source: &Source) -> impl Iterator<Item = (usize, Vec<String>)> + '_ {
    let items: Vec<_> = items(source).collect();
    let in_items = move |line: usize| items.iter().any(|item| item.contains(&(line - 1)));
    let lines = source.lines().filter(move |(line, _, test)| !test && !in_items(*line));
    let words = lines.flat_map(|(line, code, _)| {
        let words = code.split(|c| !(is_word(c) || c == ':'));
        words.filter(|word| !word.starts_with(':')).map(move |word| (line, segments(word)))
    });
    words.filter(|(_, path)| path.len() > 1)
}

/// The lines of each `use` item, counted from 0.
fn items(source: &Source) -> impl Iterator<Item = RangeInclusive<usize>> + '_ {
    let begun =
        source.lines().filter(|(_, code, test)| !test && visibility(code).1.starts_with("use "));
    begun.map(|(line, ..)| line - 1..=end_of_item(&source.code, line - 1, 0))
}

fn segments(path: &str) -> Vec<String> {
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// The imports of a tree such as `a::{b, c as d}`, behind the path so far.
fn leaves(line: usize, before: &[String], tree: &str) -> Vec<Import> {
    if let Some((head, list)) = tree.split_once('{') {
        let list = list.trim_end().strip_suffix('}').unwrap_or(list);
        let before = [before, &segments(head)].concat();
        return pieces(list).into_iter().flat_map(|tree| leaves(line, &before, tree)).collect();
    }
    let (path, renamed) = tree.split_once(" as ").map_or((tree, None), |it| (it.0, Some(it.1)));
    let mut path = [before, &segments(path)].concat();
    path.pop_if(|last| last == "self");
    let name = renamed.map_or(path.last().map_or("", String::as_str), str::trim).to_owned();
    vec![Import { line, name, path }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::read(Path::new("core/engine/src/a/b.rs"), text)
    }

    #[test]
    fn a_file_has_its_module() {
        let path = |file: &str| module(&Path::new("core/engine/src").join(file)).join("::");
        assert_eq!(path("lead/lack/pull.rs"), "lead::lack::pull");
        assert_eq!([path("lead/mod.rs"), path("turn.rs"), path("lib.rs")], ["lead", "turn", ""]);
    }

    #[test]
    fn groups_are_taken_apart_at_every_depth() {
        let text = "pub(crate) use crate::{\n    a::B,\n    c::{self, d::{E, F as G}},\n};\nuse super::*;\n";
        let shown = imports(&source(text));
        let shown: Vec<_> =
            shown.iter().map(|it| (it.line, &*it.name, it.path.join("::"))).collect();
        let expected = [
            (1, "B", "crate::a::B"),
            (1, "c", "crate::c"),
            (1, "E", "crate::c::d::E"),
            (1, "G", "crate::c::d::F"),
            (5, "*", "super::*"),
        ];
        assert_eq!(shown, expected.map(|(line, name, path)| (line, name, path.to_owned())));
    }

    #[test]
    fn paths_in_code_are_found_and_those_of_items_are_not_found_again() {
        let text = "use crate::{\n    a::B,\n};\nfn f() -> Vec<crate::a::B> {\n    crate::c::d::<u8>();\n    e\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn g() {\n        crate::h::i();\n    }\n}\n";
        let source = source(text);
        let shown: Vec<_> = in_code(&source).map(|(line, path)| (line, path.join("::"))).collect();
        assert_eq!(shown, [(4, "crate::a::B".to_owned()), (5, "crate::c::d".to_owned())]);
    }
}
