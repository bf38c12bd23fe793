// SPDX-License-Identifier: Apache-2.0
//! A Rust file taken apart far enough for the rules: code without the text of strings and comments, the
//! comments alone, and which lines are tests. Not a parser: it knows tokens and braces, no grammar.

use std::path::{Path, PathBuf};

/// One Rust file, line by line. The lists are of one length.
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// The code; the text of strings, characters and comments is blanked, so columns and lines stay.
    pub(super) code: Vec<String>,
    /// The comments; everything else is blanked.
    pub(super) comments: Vec<String>,
    /// The text of strings; everything else is blanked.
    pub(super) texts: Vec<String>,
    /// Whether the line is compiled for tests alone.
    pub(super) test: Vec<bool>,
}

impl Source {
    pub(super) fn read(path: &Path, text: &str) -> Self {
        let [code, comments, texts] = split(text);
        let code: Vec<String> = code.lines().map(str::to_owned).collect();
        let comments = comments.lines().map(str::to_owned).collect();
        let texts = texts.lines().map(str::to_owned).collect();
        let test = test_lines(path, &code);
        Self { path: path.to_owned(), code, comments, texts, test }
    }

    /// The lines of code, counted from 1, each with whether it is for tests alone.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str, bool)> {
        let numbered = self.code.iter().zip(&self.test).enumerate();
        numbered.map(|(at, (line, test))| (at + 1, line.as_str(), *test))
    }
}

/// What the scanner is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(usize),
    Text,
    /// A raw string ends at a quote and as many hashes as it began with.
    RawText(usize),
}

/// Three texts of the same shape: the code with strings and comments blanked, the comments alone, and the strings alone.
fn split(text: &str) -> [String; 3] {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut comments = String::with_capacity(text.len());
    let mut texts = String::with_capacity(text.len());
    let mut inside = Inside::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, length) = step(&chars, at, inside);
        let begins_comment = matches!(next, Inside::LineComment | Inside::BlockComment(_));
        let comment = begins_comment || matches!(inside, Inside::BlockComment(_));
        let string = matches!(inside, Inside::Text | Inside::RawText(_));
        let plain = inside == Inside::Code && next == Inside::Code && length == 1;
        for &c in &chars[at..at + length] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            code.push(if plain { c } else { blank });
            comments.push(if comment { c } else { blank });
            texts.push(if string { c } else { blank });
        }
        inside = next;
        at += length;
    }
    [code, comments, texts]
}

/// What stands at `at`: what the scanner is inside of behind it, and how many characters it takes.
fn step(chars: &[char], at: usize, inside: Inside) -> (Inside, usize) {
    let here = chars[at];
    let after = chars.get(at + 1).copied();
    match inside {
        Inside::Code => step_in_code(chars, at),
        Inside::LineComment if here == '\n' => (Inside::Code, 1),
        Inside::BlockComment(depth) => match (here, after) {
            ('/', Some('*')) => (Inside::BlockComment(depth + 1), 2),
            ('*', Some('/')) if depth == 1 => (Inside::Code, 2),
            ('*', Some('/')) => (Inside::BlockComment(depth - 1), 2),
            _ => (inside, 1),
        },
        Inside::Text if here == '\\' && after.is_some() => (Inside::Text, 2),
        Inside::Text if here == '"' => (Inside::Code, 1),
        Inside::RawText(hashes) if here == '"' => {
            let closed = (1..=hashes).all(|n| chars.get(at + n) == Some(&'#'));
            if closed { (Inside::Code, 1 + hashes) } else { (inside, 1) }
        }
        Inside::LineComment | Inside::Text | Inside::RawText(_) => (inside, 1),
    }
}

/// As `step`, where the scanner is in code.
fn step_in_code(chars: &[char], at: usize) -> (Inside, usize) {
    let after = chars.get(at + 1).copied();
    match chars[at] {
        '/' if after == Some('/') => (Inside::LineComment, 2),
        '/' if after == Some('*') => (Inside::BlockComment(1), 2),
        '"' => (Inside::Text, 1),
        'r' if at == 0
            || !is_word(chars[at - 1])
            || chars[at - 1] == 'b'
            || chars[at - 1] == 'c' =>
        {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if chars.get(at + 1 + hashes) == Some(&'"') {
                (Inside::RawText(hashes), 2 + hashes)
            } else {
                (Inside::Code, 1)
            }
        }
        // A character, unless it is a lifetime: 'a is not followed by a quote.
        '\'' if after == Some('\\') => {
            let close = chars[at + 3..].iter().position(|c| *c == '\'').unwrap_or(0);
            (Inside::Code, close + 4)
        }
        '\'' if chars.get(at + 2) == Some(&'\'') => (Inside::Code, 3),
        _ => (Inside::Code, 1),
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Which lines only a test build compiles: all of a test file, else the items under `#[cfg(test)]`.
fn test_lines(path: &Path, code: &[String]) -> Vec<bool> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let in_folder = path.iter().any(|part| part == "tests" || part == "benches");
    let mut test = vec![in_folder || stem == "tests" || stem.ends_with("_tests"); code.len()];
    for (at, line) in code.iter().enumerate() {
        if line.contains("#[cfg(test)]") {
            let column = line.find(']').map_or(0, |found| found + 1);
            let last = end_of_item(code, at, column);
            test[at..=last].fill(true);
        }
    }
    test
}

/// The line on which the item beginning at a place ends: at its closing brace, or at `;` before any.
pub(super) fn end_of_item(code: &[String], line: usize, column: usize) -> usize {
    let mut braces = 0usize;
    let mut round = 0isize;
    for (at, text) in code.iter().enumerate().skip(line) {
        let skip = if at == line { column } else { 0 };
        for c in text.chars().skip(skip) {
            match c {
                '(' | '[' => round += 1,
                ')' | ']' => round -= 1,
                '{' => braces += 1,
                '}' if braces <= 1 => return at,
                '}' => braces -= 1,
                // Inside brackets it belongs to an array's type.
                ';' if braces == 0 && round == 0 => return at,
                _ => {}
            }
        }
    }
    code.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        let [code, ..] = split(text);
        code
    }

    #[test]
    fn strings_characters_and_comments_are_blanked_in_place() {
        assert_eq!(code_of("a(\"x\\\"{\"); // {\nb"), "a(      );     \nb".to_owned());
        assert_eq!(code_of("m('{', '\\'', '\\u{7b}', &'a x)"), "m(   ,     ,         , &'a x)");
        assert_eq!(code_of("r#\"a\"}\"# /* { /* { */ */ z"), format!("{}z", " ".repeat(25)));
        assert_eq!(code_of("br\"{\" for\"}\""), "b     for   ");
    }

    #[test]
    fn comments_stand_alone_in_their_own_text() {
        let [_, comments, _] = split("x(\"// no\"); // yes\n/* and\nthis */ y");
        let trimmed: Vec<&str> = comments.lines().map(str::trim).collect();
        assert_eq!(trimmed, ["// yes", "/* and", "this */"]);
    }

    #[test]
    fn the_items_under_cfg_test_are_tests_and_what_follows_is_not() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}";
        let source = Source::read(Path::new("src/a.rs"), text);
        let expected = [false, true, true, true, true, false, true, true, false];
        assert_eq!(source.test, expected);
        assert!(Source::read(Path::new("src/tests.rs"), "fn a() {}").test[0]);
        assert!(Source::read(Path::new("core/x/tests/story.rs"), "fn a() {}").test[0]);
    }
}
