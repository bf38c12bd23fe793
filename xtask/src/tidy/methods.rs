// SPDX-License-Identifier: Apache-2.0
//! Rules `engine-methods` and `engine-borrow`: how much of the engine's code can change all of its state.

use super::length::function;
use super::ratchet::{Count, Place};
use super::source::{Source, end_of_item, is_word};
use std::ops::RangeInclusive;
use std::path::Path;

const ENGINE: &str = "core/engine/src/engine.rs";

/// The engine's sources; its stories are tests.
pub(super) fn engine(core: &[Source]) -> impl Iterator<Item = &Source> {
    core.iter().filter(|it| it.path.starts_with("core/engine/src") && !is_story(&it.path))
}

/// Whether a file is of the engine's stories.
pub(super) fn is_story(path: &Path) -> bool {
    let stories = Path::new("core/engine/src/engine/stories");
    path.starts_with(stories) || path == stories.with_extension("rs")
}

/// The methods of `Engine`, inside and outside the file that composes the rooms.
pub(super) fn of_engine(core: &[Source]) -> Vec<Count> {
    let places = |inside: bool| {
        let files = engine(core).filter(move |it| (it.path == Path::new(ENGINE)) == inside);
        files.map(|it| Place::new(&it.path, 1, methods(it), ""))
    };
    vec![
        Count::new("methods of Engine outside engine.rs", places(false)),
        Count::new("methods of Engine in engine.rs", places(true)),
    ]
}

/// The lines of each `impl` block of `Engine`, counted from 0, tests apart.
fn blocks(source: &Source) -> impl Iterator<Item = RangeInclusive<usize>> + '_ {
    let begun =
        source.lines().filter(|(_, code, test)| !test && code.trim_start().starts_with("impl"));
    let blocks = begun.map(|(line, ..)| line - 1..=end_of_item(&source.code, line - 1, 0));
    blocks.filter(|block| {
        let text = source.code[block.clone()].join("\n");
        let head = text.split('{').next().unwrap_or_default().trim_end();
        head.rsplit(|c| !is_word(c)).next() == Some("Engine")
    })
}

/// How many functions stand in the `impl` blocks of `Engine`, tests apart.
fn methods(source: &Source) -> usize {
    let counted = blocks(source).map(|block| {
        let mut depth = 0_usize;
        let lines = source.code[block.clone()].iter().zip(&source.test[block]);
        let direct = lines.filter(|(code, test)| {
            let within = depth;
            depth = depth + code.matches('{').count() - code.matches('}').count();
            within == 1 && !**test && function(code).is_some()
        });
        direct.count()
    });
    counted.sum()
}

/// Every `&mut Engine` other than as `self` or as a result: with it a function can change the state of all rooms.
pub(super) fn that_borrow_engine(core: &[Source]) -> Vec<Count> {
    let places = engine(core).map(|source| {
        let blocks: Vec<_> = blocks(source).collect();
        let lines = source.lines().filter(|(.., test)| !test);
        let uses = lines.flat_map(|(line, code, _)| {
            let own = blocks.iter().any(|block| block.contains(&(line - 1)));
            let number = borrows(code, "Engine") + if own { borrows(code, "Self") } else { 0 };
            vec![line; number]
        });
        let uses: Vec<usize> = uses.collect();
        Place::new(&source.path, uses.first().copied().unwrap_or(1), uses.len(), "")
    });
    vec![Count::new("uses of `&mut Engine`", places)]
}

/// How often a line borrows a type to change it, under a lifetime or by a path too. Results and `self` do not count.
fn borrows(code: &str, kind: &str) -> usize {
    let found = code.match_indices(kind).filter(|(at, name)| {
        let behind = &code[at + name.len()..];
        // Before `::` it is part of an expression.
        let whole = !behind.starts_with(is_word) && !behind.starts_with("::");
        let path = code[..*at].trim_end_matches(|c| is_word(c) || c == ':');
        // What stands between is the path of the type, and not the end of another name.
        let own = path.len() == *at || code[..*at].ends_with("::");
        let borrowed = path.trim_end().strip_suffix("mut").unwrap_or_default().trim_end();
        let behind_lifetime = borrowed.trim_end_matches(is_word).trim_end_matches('\'');
        let before = borrowed.strip_suffix('&').or_else(|| behind_lifetime.strip_suffix('&'));
        let is_self =
            |before: &str| before.strip_suffix("self:").is_some_and(|it| !it.ends_with(is_word));
        let counts = |before: &str| !before.ends_with("->") && !is_self(before);
        whole && own && before.is_some_and(|before| counts(before.trim_end()))
    });
    found.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        methods(&Source::read(Path::new(path), text))
    }

    #[test]
    fn the_methods_of_the_engine_are_counted() {
        let text = "impl Engine {\n    const A: u8 = 1;\n    pub(crate) fn a(&self) {\n        fn inner() {}\n    }\n\n    \
                    fn b(&self) -> fn(u8) -> u8 {\n        c\n    }\n}\nimpl fmt::Debug for crate::Engine {\n    fn d() {}\n}\n";
        assert_eq!(found("core/engine/src/role/mod.rs", text), 3);
    }

    #[test]
    fn functions_methods_of_others_and_tests_do_not_count() {
        let other = "fn a(engine: &mut Engine) {}\nimpl Seed {\n    fn a() {}\n}\nimpl From<Engine> for Seed {\n    fn a() {}\n}\n";
        assert_eq!(found("core/engine/src/role/mod.rs", other), 0);
        let tests = "impl Engine {\n    #[cfg(test)]\n    fn a() {\n    }\n    fn b() {}\n}\n#[cfg(test)]\nmod tests {\nimpl Engine {\n    fn c() {}\n}\n}\n";
        assert_eq!(found("core/engine/src/role/mod.rs", tests), 1);
    }

    #[test]
    fn the_engine_has_its_own_count_and_stories_have_none() {
        let text = "impl Engine {\n    fn a() {}\n}\n";
        let paths = [
            "engine.rs",
            "role/mod.rs",
            "local/lack.rs",
            "engine/stories.rs",
            "engine/stories/roles.rs",
        ];
        let core = paths.map(|at| Source::read(&Path::new("core/engine/src").join(at), text));
        let places: Vec<usize> = of_engine(&core).iter().map(|it| it.places.len()).collect();
        assert_eq!(places, [2, 1]);
    }

    #[test]
    fn borrows_of_a_type_are_counted_and_other_names_are_not() {
        let of_engine = |code| borrows(code, "Engine");
        assert_eq!(of_engine("fn a(e: &mut Engine, f: &'a mut Engine) {"), 2);
        assert_eq!(of_engine("fn a(e: &mut crate::engine::Engine)"), 1);
        assert_eq!(of_engine("    engine: &'a mut Engine,"), 1);
        assert_eq!(of_engine("fn a(f: impl FnOnce(&mut Engine))"), 1);
        assert_eq!(of_engine("fn a(e: &Engine, f: &mut EngineId, g: &mut NotEngine)"), 0);
        assert_eq!(of_engine("fn a(self: &mut Engine, b: u8) -> &mut Engine {"), 0);
        assert_eq!(of_engine("fn a(itself: &mut Engine)"), 1);
        assert_eq!(of_engine("let mut e = Engine::new();"), 0);
        assert_eq!(of_engine("let e = &mut Engine::new();"), 0);
        assert_eq!(of_engine("impl Engine {"), 0);
    }

    #[test]
    fn an_engine_that_is_handed_on_is_found_and_self_and_stories_are_not() {
        let found = |path: &str, text: &str| {
            that_borrow_engine(&[Source::read(Path::new(path), text)])[0].number()
        };
        let bag = "fn a(\n    engine: &mut Engine,\n) {\n}\n";
        assert_eq!(found("core/engine/src/role/mod.rs", bag), 1);
        assert_eq!(found("core/engine/src/engine.rs", bag), 1);
        assert_eq!(found("core/engine/src/engine/stories/roles.rs", bag), 0);
        assert_eq!(found("core/engine/src/role/mod.rs", &format!("#[cfg(test)]\n{bag}")), 0);
        let methods = "{\n    fn a(&mut self) -> &mut Self {}\n    fn b(other: &mut Self) {}\n}\n";
        assert_eq!(found("core/engine/src/role/mod.rs", &format!("impl Engine {methods}")), 1);
        assert_eq!(found("core/engine/src/role/mod.rs", &format!("impl Role {methods}")), 0);
    }
}
