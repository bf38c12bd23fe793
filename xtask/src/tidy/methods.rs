// SPDX-License-Identifier: Apache-2.0
//! Rules `engine-methods` and `shared-bag`: how much of the engine's code can change all of its state.

use super::length::function;
use super::ratchet::{Count, Place};
use super::source::{Source, end_of_item, is_word};
use std::path::Path;

const ENGINE: &str = "core/engine/src/engine.rs";

/// The engine's sources; its stories are tests.
pub(super) fn engine(core: &[Source]) -> impl Iterator<Item = &Source> {
    core.iter().filter(|source| {
        let inside = source.path.strip_prefix("core/engine/src");
        inside.is_ok_and(|path| !path.starts_with("stories") && path != Path::new("stories.rs"))
    })
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

/// How many functions stand in the `impl` blocks of `Engine`, tests apart.
fn methods(source: &Source) -> usize {
    let blocks =
        source.lines().filter(|(_, code, test)| !test && code.trim_start().starts_with("impl"));
    let counted = blocks.map(|(line, ..)| {
        let last = end_of_item(&source.code, line - 1, 0);
        let block = &source.code[line - 1..=last];
        let text = block.join("\n");
        let head = text.split('{').next().unwrap_or_default().trim_end();
        if head.rsplit(|c| !is_word(c)).next() != Some("Engine") {
            return 0;
        }
        let mut depth = 0_usize;
        let direct = block.iter().zip(&source.test[line - 1..]).filter(|(code, test)| {
            let within = depth;
            depth = depth + code.matches('{').count() - code.matches('}').count();
            within == 1 && !**test && function(code).is_some()
        });
        direct.count()
    });
    counted.sum()
}

/// Every `&mut Shared`: with it a function can change the state of all rooms.
pub(super) fn that_borrow_shared(core: &[Source]) -> Vec<Count> {
    let places = engine(core).map(|source| {
        let lines = source.lines().filter(|(.., test)| !test);
        let uses: Vec<usize> =
            lines.flat_map(|(line, code, _)| vec![line; borrows(code)]).collect();
        Place::new(&source.path, uses.first().copied().unwrap_or(1), uses.len(), "")
    });
    vec![Count::new("uses of `&mut Shared`", places)]
}

/// How often a line borrows `Shared` to change it, under a lifetime or by a path too.
fn borrows(code: &str) -> usize {
    let found = code.match_indices("Shared").filter(|(at, name)| {
        let whole = !code[at + name.len()..].starts_with(is_word);
        let path = code[..*at].trim_end_matches(|c| is_word(c) || c == ':');
        // What stands between is the path of the type, and not the end of another name.
        let own = path.len() == *at || code[..*at].ends_with("::");
        let borrowed = path.trim_end().strip_suffix("mut").unwrap_or_default().trim_end();
        let behind_lifetime = borrowed.trim_end_matches(is_word).trim_end_matches('\'');
        whole && own && (borrowed.ends_with('&') || behind_lifetime.ends_with('&'))
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
        let paths = ["engine.rs", "role/mod.rs", "local/lack.rs", "stories.rs", "stories/roles.rs"];
        let core = paths.map(|at| Source::read(&Path::new("core/engine/src").join(at), text));
        let places: Vec<usize> = of_engine(&core).iter().map(|it| it.places.len()).collect();
        assert_eq!(places, [2, 1]);
    }

    #[test]
    fn borrows_of_shared_are_counted_and_other_names_are_not() {
        assert_eq!(borrows("fn a(s: &mut Shared, t: &'a mut Shared) {"), 2);
        assert_eq!(borrows("fn a(s: &mut crate::shared::Shared)"), 1);
        assert_eq!(borrows("fn a(s: &Shared, t: &mut SharedBytes, u: &mut NotShared)"), 0);
        assert_eq!(borrows("let mut s = Shared::new();"), 0);
        assert_eq!(borrows("impl Shared {"), 0);
    }
}
