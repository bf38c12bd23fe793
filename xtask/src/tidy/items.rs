// SPDX-License-Identifier: Apache-2.0
//! Structs, enums and lists of a Rust file, as far as the rules need them: names, fields and variants as text.

use super::source::{Source, is_word};
use std::path::Path;

/// A struct or an enum outside tests.
pub(super) struct Item<'a> {
    pub(super) path: &'a Path,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) visibility: &'a str,
    pub(super) name: &'a str,
    /// The fields or variants, without their attributes.
    pub(super) parts: Vec<String>,
    /// The fields have names.
    named: bool,
}

/// A field of a struct.
pub(super) struct Field<'a> {
    pub(super) visibility: &'a str,
    /// Its type, on one line.
    pub(super) kind: &'a str,
}

impl Item<'_> {
    /// The fields, if this is a struct.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.parts.iter().map(|part| {
            let (visibility, rest) = visibility(part);
            let kind = if self.named { rest.split_once(':').map_or("", |it| it.1) } else { rest };
            Field { visibility, kind: kind.trim() }
        })
    }
}

/// The items of a file that begin with this keyword (`struct` or `enum`), tests apart.
pub(super) fn items<'a>(source: &'a Source, keyword: &str) -> Vec<Item<'a>> {
    let lines = source.lines().filter(|(.., test)| !test);
    let begun = lines.filter_map(|(line, code, _)| {
        let (visibility, rest) = visibility(code);
        let rest = rest.strip_prefix(keyword)?.strip_prefix(' ')?;
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        let behind = code.len() - rest.len() + name.len();
        let (named, body) = body(source, line - 1, behind);
        let parts = pieces(&body).into_iter().map(bare).collect();
        Some(Item { path: &source.path, line, visibility, name, parts, named })
    });
    begun.collect()
}

/// Splits a declaration into its visibility (`pub`, `pub(…)` or nothing) and the rest.
pub(super) fn visibility(code: &str) -> (&str, &str) {
    let code = code.trim();
    let Some(rest) = code.strip_prefix("pub") else { return ("", code) };
    let length = match rest.chars().next() {
        Some('(') => 3 + rest.find(')').map_or(0, |close| close + 1),
        Some(' ') => 3,
        _ => 0,
    };
    (&code[..length], code[length..].trim_start())
}

/// The text between the braces or parentheses of an item whose name ends there, and whether these are braces.
fn body(source: &Source, line: usize, column: usize) -> (bool, String) {
    let mut text = source.code[line][column..].to_owned();
    for code in &source.code[line + 1..] {
        text.push('\n');
        text.push_str(code);
    }
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '{' | '(' if depth == 0 => {
                let inside = &text[at + 1..];
                return (c == '{', inside[..closing(inside)].to_owned());
            }
            ';' if depth == 0 => break,
            _ => {}
        }
    }
    (false, String::new())
}

/// The place of the bracket that closes the one before this text.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return at,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The parts of a list between commas, those within brackets apart.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut depth, mut from, mut before) = (Vec::new(), 0_usize, 0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                pieces.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    pieces.push(&text[from..]);
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// A part of an item on one line and without its attributes.
fn bare(part: &str) -> String {
    let mut rest = part.trim();
    while let Some(attribute) = rest.strip_prefix("#[") {
        rest = attribute.get(closing(attribute) + 1..).unwrap_or_default().trim_start();
    }
    rest.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let source = Source::read(Path::new("a.rs"), text);
        let structs = items(&source, "struct");
        let shown = structs.iter().map(|it| {
            let fields: Vec<_> =
                it.fields().map(|field| format!("{}|{}", field.visibility, field.kind)).collect();
            format!("{}:{}{}({})", it.line, it.visibility, it.name, fields.join(";"))
        });
        shown.collect()
    }

    #[test]
    fn the_fields_of_structs_are_found_with_visibility_and_type() {
        let text = "#[derive(A, B)]\npub struct One<T: Into<u8>> {\n    /// Why, and how.\n    #[a(b, c)]\n    \
                    pub(crate) a: BTreeMap<T, bool>,\n    b: fn(u8, u8) -> u8,\n    pub c: (u8,\n        bool),\n}\n";
        assert_eq!(
            shown(text),
            ["2:pubOne(pub(crate)|BTreeMap<T, bool>;|fn(u8, u8) -> u8;pub|(u8, bool))"]
        );
        assert_eq!(shown("struct Two(pub u64, [u8; 4]);"), ["1:Two(pub|u64;|[u8; 4])"]);
        assert_eq!(shown("struct Three;\nstruct Four {}"), ["1:Three()", "2:Four()"]);
    }

    #[test]
    fn structs_of_tests_are_not_found_and_enums_are_no_structs() {
        assert!(
            shown("#[cfg(test)]\nmod tests {\n    struct A {\n        b: bool,\n    }\n}")
                .is_empty()
        );
        assert!(shown("enum A {\n    B,\n}\nfn structure() {}").is_empty());
    }

    #[test]
    fn the_variants_of_enums_are_found() {
        let text = "pub(crate) enum A {\n    #[default]\n    B,\n    C { d: u8, e: u8 },\n}";
        let source = Source::read(Path::new("a.rs"), text);
        assert_eq!(items(&source, "enum")[0].parts, ["B", "C { d: u8, e: u8 }"]);
    }
}
