// SPDX-License-Identifier: Apache-2.0
//! Rule `banned-word`: words that have no plain sense here, in what users read: pages, manual pages, and the texts of the
//! program. The glossary names them; which sense of a common word is ours, a reviewer decides.

use super::Finding;
use super::source::{Source, is_word};
use std::path::Path;

/// Each word with what to write in its place.
const WORDS: [(&str, &str); 16] = [
    ("weather", "recording (of a link)"),
    ("whoever", "the node, client or process that is meant"),
    ("farewell", "the last message"),
    ("errand", "task"),
    ("errands", "tasks"),
    ("rota", "schedule"),
    ("seat", "slot"),
    ("plug", "attach, or a block device's request queue by its kernel name"),
    ("mend", "repair"),
    ("mended", "repaired"),
    ("mends", "repairs"),
    ("anew", "again, or from zero"),
    ("nobody", "no node, client or process"),
    ("somebody", "the node, client or process that is meant"),
    ("anybody", "any node, client or process"),
    ("haggling", "negotiation"),
];

/// Where the texts of the program are.
const FLOORS: [&str; 5] = ["app", "core", "edge", "advise", "words"];
/// Pages that may name the words: those that say what not to write, and what was written before.
const EXEMPT: [&str; 2] = ["docs/glossary.md", "CHANGELOG.md"];

/// The texts of a file of the program; of the command line also its comments, which are its help.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let floor = source.path.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
    // Stories are tests: the folder, and files such as `switch_stories.rs`.
    let name = source.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let story = source.path.iter().any(|part| part == "stories") || name.ends_with("stories");
    if story || !FLOORS.contains(&floor) {
        return Vec::new();
    }
    let help = source.path.starts_with("app/cli/src/args");
    // The table of old options names them.
    let old = source.path.ends_with("args/old.rs");
    let rows = source.texts.iter().zip(&source.comments).zip(&source.test).enumerate();
    rows.filter(|(_, (_, test))| !**test && !old)
        .flat_map(|(at, ((text, comment), _))| {
            let comment = if help { comment.as_str() } else { "" };
            [text.as_str(), comment]
                .into_iter()
                .filter_map(move |text| find(text))
                .map(move |it| (at, it))
        })
        .map(|(at, (word, better))| finding(&source.path, at + 1, word, better))
        .collect()
}

/// A page.
pub(super) fn check_page(path: &Path, text: &str) -> Vec<Finding> {
    let read = path.starts_with("docs") || path == Path::new("README.md");
    if !read || EXEMPT.iter().any(|page| path == Path::new(page)) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| find(line).map(|(word, better)| (at, word, better)))
        .map(|(at, word, better)| finding(path, at + 1, word, better))
        .collect()
}

fn finding(path: &Path, line: usize, word: &str, better: &str) -> Finding {
    Finding::new(path, line, "banned-word", format!("users read `{word}`: write {better}"))
}

/// The first such word; one that is part of a name, with a hyphen, a dot or a slash at it, is none.
fn find(text: &str) -> Option<(&'static str, &'static str)> {
    let lower = text.to_lowercase();
    WORDS.into_iter().find(|(word, _)| {
        lower.match_indices(word).any(|(at, _)| {
            let joins = |c: char| is_word(c) || matches!(c, '-' | '.' | '/');
            let before = lower[..at].chars().next_back();
            let mut after = lower[at + word.len()..].chars();
            // A full stop or a hyphen ends the word only where no letter follows.
            let ends = match (after.next(), after.next()) {
                (Some('.' | '-' | '/'), Some(next)) => !next.is_alphanumeric(),
                (Some(next), _) => !is_word(next),
                (None, _) => true,
            };
            before.is_none_or(|c| !joins(c)) && ends
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Source::read(Path::new(path), text))
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn texts_of_the_program_and_help_are_read_and_code_is_not() {
        let text = "// mend\nlet mend = \"Mend it.\";\nlet a = r#\"written anew\"#;\n";
        assert_eq!(found("core/engine/src/a.rs", text), [2, 3]);
        assert_eq!(found("app/cli/src/args/a.rs", text), [1, 2, 3]);
        assert_eq!(found("proof/sim/src/a.rs", text), Vec::<usize>::new());
        for story in ["core/engine/src/engine/stories/a.rs", "core/engine/src/switch_stories.rs"] {
            assert_eq!(found(story, text), Vec::<usize>::new());
        }
    }

    #[test]
    fn pages_are_read_and_names_are_no_words() {
        let lines = |path: &str, text: &str| check_page(Path::new(path), text).len();
        assert_eq!(lines("docs/operate.md", "Mend it.\nwhoever\nfine"), 2);
        assert_eq!(lines("docs/operate.md", "#helio-weather,1 `src/weather.rs` weathered"), 0);
        assert_eq!(lines("docs/glossary.md", "anew"), 0);
        assert_eq!(lines("xtask/README.md", "anew"), 0);
    }
}
