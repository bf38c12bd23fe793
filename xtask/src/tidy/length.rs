// SPDX-License-Identifier: Apache-2.0
//! Rule `length`: files and functions one can hold in mind. Blank lines and comments do not count.

use super::Finding;
use super::source::{Source, end_of_item, is_word};

/// Lines of code a file may have, its tests apart.
const FILE: usize = 600;
/// Lines of code a function may have, from `fn` to its closing brace.
const FUNCTION: usize = 70;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code = source.lines().filter(|(_, line, test)| !test && !line.trim().is_empty()).count();
    if code > FILE {
        let hint = format!("{code} lines of code, of at most {FILE}: split the room in two");
        findings.push(Finding::new(&source.path, 1, "length", hint));
    }
    for (at, line) in source.code.iter().enumerate() {
        let Some((name, column)) = function(line) else { continue };
        let last = end_of_item(&source.code, at, column);
        let lines = source.code[at..=last].iter().filter(|line| !line.trim().is_empty()).count();
        if lines > FUNCTION {
            let hint = format!(
                "`{name}` has {lines} lines of code, of at most {FUNCTION}: give a step of it a name"
            );
            findings.push(Finding::new(&source.path, at + 1, "length", hint));
        }
    }
    findings
}

/// The function a line of code begins, and the column behind its name.
pub(super) fn function(line: &str) -> Option<(&str, usize)> {
    for (at, _) in line.match_indices("fn ") {
        let alone = line[..at].chars().next_back().is_none_or(|c| !is_word(c));
        let rest = &line[at + 3..];
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        if alone && !name.is_empty() {
            let column = line[..at + 3 + name.len()].chars().count();
            return Some((name, column));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(text: &str) -> Vec<String> {
        check(&Source::read(Path::new("a.rs"), text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_is_found_by_name() {
        let body = "    step();\n".repeat(69);
        let text = format!("\nimpl X {{\n    fn long(a: [u8; 4]) {{\n{body}    }}\n}}\n");
        let told = found(&text);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("a.rs:3: length: `long` has 71 lines"), "{}", told[0]);
    }

    #[test]
    fn comments_blank_lines_and_neighbours_do_not_count() {
        let body = "    // why\n\n    step();\n".repeat(60);
        assert!(found(&format!("fn a() {{\n{body}}}\nfn b();\nfn c() {{\n{body}}}\n")).is_empty());
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_are_not_counted() {
        let many = "const A: u8 = 0;\n".repeat(601);
        assert!(found(&many)[0].contains("601 lines of code"));
        assert!(found(&format!("#[cfg(test)]\nmod tests {{\n{many}}}\n")).is_empty());
    }
}
