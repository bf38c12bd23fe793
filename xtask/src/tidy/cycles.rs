// SPDX-License-Identifier: Apache-2.0
//! Rule `file-cycles`: files of the engine that import each other in a cycle.
//!
//! A file uses the files that its paths name, in `use` items and in code, from `crate`, `self`, `super` or a module below. A
//! name that the file there only imports or re-exports is followed to the file that defines it. Globs are not followed, and
//! a call of a method on a value is not seen.

use super::imports::{Import, imports, in_code, inside, module};
use super::methods::engine;
use super::ratchet::{Count, Place};
use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Most files of a cycle that is small.
const FEW: usize = 4;
/// Most re-exports that one path is followed through.
const STEPS: usize = 8;

/// A file of the engine.
struct Module<'a> {
    source: &'a Source,
    /// Its path from the crate's top; empty for `lib.rs`.
    path: Vec<String>,
    imports: Vec<Import>,
}

/// The files of the largest cycle.
pub(super) fn largest(core: &[Source]) -> Vec<Count> {
    let largest = cycles(core).into_iter().max_by_key(Vec::len).unwrap_or_default();
    vec![Count::new("files in the largest import cycle", largest)]
}

/// The files of all cycles that are not small.
pub(super) fn beyond_four(core: &[Source]) -> Vec<Count> {
    let large = cycles(core).into_iter().filter(|files| files.len() > FEW);
    vec![Count::new("files in import cycles of more than four files", large.flatten())]
}

/// The cycles: strongly connected components of at least two files.
fn cycles(core: &[Source]) -> Vec<Vec<Place>> {
    let modules: Vec<Module<'_>> = engine(core).filter_map(Module::read).collect();
    let uses = graph(&modules);
    let reached: Vec<BTreeSet<usize>> = (0..uses.len()).map(|from| reach(&uses, from)).collect();
    let both = |from: usize| {
        let there = reached[from].iter().copied();
        there.filter(|to| reached[*to].contains(&from)).collect::<BTreeSet<usize>>()
    };
    let sets: BTreeSet<BTreeSet<usize>> = (0..uses.len()).map(both).collect();
    let place = |set: &BTreeSet<usize>, at: usize| {
        let used = (&uses[at] & set).into_iter().filter(|to| *to != at);
        let used: Vec<_> =
            used.map(|to| inside(&modules[to].source.path).display().to_string()).collect();
        Place::new(&modules[at].source.path, 1, 1, &format!("uses {}", used.join(", ")))
    };
    let large = sets.into_iter().filter(|set| set.len() > 1);
    large.map(|set| set.iter().map(|at| place(&set, *at)).collect()).collect()
}

/// The files that each file uses, by their numbers.
fn graph(modules: &[Module<'_>]) -> Vec<BTreeSet<usize>> {
    let by_path: BTreeMap<&[String], usize> =
        modules.iter().enumerate().map(|(at, module)| (module.path.as_slice(), at)).collect();
    let used = modules.iter().enumerate().map(|(at, module)| {
        let imported = module.imports.iter().map(|import| import.path.clone());
        let paths = imported.chain(in_code(module.source).map(|it| it.1));
        paths.filter_map(|path| resolve(modules, &by_path, at, &path, STEPS)).collect()
    });
    used.collect()
}

/// Every file that a file uses, directly or through others.
fn reach(uses: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(uses[at].iter().filter(|to| reached.insert(**to)));
    }
    reached
}

/// The file that a path in a file leads to; none if it leads out of the engine.
fn resolve(
    modules: &[Module<'_>],
    by_path: &BTreeMap<&[String], usize>,
    from: usize,
    path: &[String],
    steps: usize,
) -> Option<usize> {
    let own = &modules[from].path;
    let mut rest = path;
    let mut module = match rest.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => own.clone(),
        child => {
            let below = [own.as_slice(), &[child.to_owned()]].concat();
            by_path.get(below.as_slice())?;
            own.clone()
        }
    };
    while let Some((first, behind)) = rest.split_first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => drop(module.pop()),
            name => {
                module.push(name.to_owned());
                if !by_path.contains_key(module.as_slice()) {
                    module.pop();
                    break;
                }
            }
        }
        rest = behind;
    }
    let at = *by_path.get(module.as_slice())?;
    let followed = rest.split_first().filter(|_| steps > 0).and_then(|(name, behind)| {
        let import = modules[at].imports.iter().find(|import| import.name == *name)?;
        let path = [import.path.as_slice(), behind].concat();
        resolve(modules, by_path, at, &path, steps - 1)
    });
    Some(followed.unwrap_or(at))
}

impl<'a> Module<'a> {
    /// A file of the engine, unless it is one of tests.
    fn read(source: &'a Source) -> Option<Self> {
        if source.test.iter().all(|test| *test) {
            return None;
        }
        Some(Self { source, path: module(&source.path), imports: imports(source) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn sets(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let read = |(path, text): &(&str, &str)| {
            Source::read(&Path::new("core/engine/src").join(path), text)
        };
        let core: Vec<Source> = files.iter().map(read).collect();
        let name = |place: Place| {
            let path = place.path.strip_prefix("core/engine/src").expect("it is of the engine");
            path.display().to_string()
        };
        cycles(&core).into_iter().map(|set| set.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_import_each_other_are_found() {
        let two = [
            ("a.rs", "use crate::b::c::C;"),
            ("b/c.rs", "fn a() {\n    crate::a::f();\n}"),
            ("b/mod.rs", "mod c;"),
        ];
        assert_eq!(sets(&two), [["a.rs", "b/c.rs"]]);
        let list = [
            ("a.rs", "pub(crate) use crate::{\n    d::D,\n    b::{self, B as C},\n};"),
            ("b.rs", "use crate::a;"),
        ];
        assert_eq!(sets(&list), [["a.rs", "b.rs"]]);
        let three = ["b", "c", "a"].map(|next| format!("use crate::{next};"));
        let three = [("a.rs", &*three[0]), ("b.rs", &*three[1]), ("c.rs", &*three[2])];
        assert_eq!(sets(&three), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn the_head_of_a_list_is_no_import_of_its_own() {
        let head = [
            ("a.rs", "use crate::b::{c::C, d::D};"),
            ("b/c.rs", "struct C;"),
            ("b/d.rs", "struct D;"),
            ("b/mod.rs", "use crate::a;"),
        ];
        assert!(sets(&head).is_empty());
    }

    #[test]
    fn imports_in_one_direction_and_those_of_tests_are_no_cycle() {
        assert!(sets(&[("a.rs", "use crate::b::B;"), ("b.rs", "use alloc::vec;")]).is_empty());
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\nfn b() {}";
        assert!(sets(&[("a.rs", "use crate::b::B;"), ("b.rs", tests)]).is_empty());
        let story =
            [("a.rs", "use crate::engine::stories;"), ("engine/stories.rs", "use crate::a::A;")];
        assert!(sets(&story).is_empty());
    }

    #[test]
    fn a_path_from_super_or_a_module_below_counts() {
        let family =
            [("a.rs", "mod b;\nfn f() {\n    b::g();\n}"), ("a/b.rs", "use super::{A, B};")];
        assert_eq!(sets(&family), [["a.rs", "a/b.rs"]]);
        let room = [("a/b.rs", "fn g() {\n    super::f();\n}"), ("a/mod.rs", "pub use b::B;")];
        assert_eq!(sets(&room), [["a/b.rs", "a/mod.rs"]]);
        assert!(sets(&[("a.rs", "use b::B;"), ("b.rs", "use crate::a;")]).is_empty());
    }

    #[test]
    fn a_name_that_is_exported_again_leads_to_where_it_comes_from() {
        let through = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;"),
            ("a.rs", "use crate::B;"),
            ("b.rs", "use helio_units::Bytes;"),
        ];
        assert!(sets(&through).is_empty());
        let back = [through[0], through[1], ("b.rs", "fn b() -> crate::A {}")];
        assert_eq!(sets(&back), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn the_largest_cycle_and_the_files_of_large_ones_are_counted() {
        let ring = |names: &[&str]| {
            let next = names.iter().cycle().skip(1);
            let files = names.iter().zip(next).map(|(name, next)| {
                let path = Path::new("core/engine/src").join(name).with_extension("rs");
                Source::read(&path, &format!("use crate::{next};"))
            });
            files.collect::<Vec<Source>>()
        };
        let number = |counts: Vec<Count>| counts.iter().map(Count::number).sum::<usize>();
        let mut core = ring(&["a", "b", "c", "d"]);
        assert_eq!((number(largest(&core)), number(beyond_four(&core))), (4, 0));
        core.extend(ring(&["e", "f", "g", "h", "i"]));
        core.extend(ring(&["j", "k", "l", "m", "n", "o"]));
        assert_eq!((number(largest(&core)), number(beyond_four(&core))), (6, 11));
    }
}
