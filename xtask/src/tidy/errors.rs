// SPDX-License-Identifier: Apache-2.0
//! Rule `error-without-hint`: an error of the command line says what to do about it. `helio_api::form` judges the form of
//! those that are printed; this rule finds those that no test meets.

use super::Finding;
use super::source::Source;

/// Makers of an error, whose text must have a hint.
const MAKERS: [&str; 2] = ["anyhow!(", "bail!("];
/// What adds a text to an error, and no hint.
const BARE: [&str; 2] = [".context(", ".with_context("];
/// The quickstart plays a story: an error in it is a defect, and what to do about each is the same.
const EXEMPT: &str = "app/cli/src/quickstart";
/// Makes the errors that have their hint from elsewhere.
const HOME: &str = "app/cli/src/failure.rs";

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("app/cli/src")
        || source.path.starts_with(EXEMPT)
        || source.path.ends_with(HOME)
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, code, test) in source.lines() {
        if test {
            continue;
        }
        if BARE.iter().any(|call| code.contains(call)) {
            let hint =
                "a context has no hint: use map_err with failure::failed, unreadable or unwritable";
            findings.push(Finding::new(&source.path, line, "error-without-hint", hint));
        }
        let made =
            MAKERS.iter().filter_map(|maker| code.find(maker).map(|at| at + maker.len() - 1));
        if made.into_iter().any(|open| !text_of(source, line - 1, open).contains("hint: ")) {
            let hint = "end its text with \"\\n  hint: …\", a command or a step that helps";
            findings.push(Finding::new(&source.path, line, "error-without-hint", hint));
        }
    }
    findings
}

/// The text inside the parentheses that open there.
fn text_of(source: &Source, first: usize, open: usize) -> String {
    let (mut text, mut depth) = (String::new(), 0_usize);
    for (code, texts) in source.code.iter().zip(&source.texts).skip(first) {
        let from = if text.is_empty() && depth == 0 { open } else { 0 };
        let chars = code
            .chars()
            .zip(texts.chars())
            .enumerate()
            .skip(code[..from.min(code.len())].chars().count());
        for (_, (code, letter)) in chars {
            text.push(letter);
            match code {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return text;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let found = check(&Source::read(Path::new(path), text));
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_error_without_a_hint_is_found_and_one_with_a_hint_is_not() {
        let bare = "fn a() {\n    bail!(\n        \"no {}\",\n        name(1)\n    );\n}";
        assert_eq!(found("app/cli/src/a.rs", bare), [2]);
        let hinted = bare.replace("no {}", "no {}\\n  hint: try");
        assert_eq!(found("app/cli/src/a.rs", &hinted), Vec::<usize>::new());
        assert_eq!(found("app/cli/src/a.rs", "fn a() { b.context(\"no\") }"), [1]);
        assert_eq!(found("app/daemon/src/a.rs", bare), Vec::<usize>::new());
    }

    #[test]
    fn the_hint_of_another_error_does_not_count() {
        let two = "fn a() { anyhow!(\"no\"); }\nfn b() { anyhow!(\"no\\n  hint: try\"); }";
        assert_eq!(found("app/cli/src/a.rs", two), [1]);
    }
}
