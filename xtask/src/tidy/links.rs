// SPDX-License-Identifier: Apache-2.0
//! Rule `dead-link`: a relative link in a page points at a file that exists.

use super::Finding;
use std::path::{Component, Path, PathBuf};

pub(super) fn check(path: &Path, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            for target in targets(line) {
                if !resolve(folder, &target).is_some_and(|file| exists(&file)) {
                    let hint = format!("`{target}` does not exist; correct the link or remove it");
                    findings.push(Finding::new(path, at + 1, "dead-link", hint));
                }
            }
        }
    }
    findings
}

/// The files a line links to: `[text](target)` and `[name]: target`, without anchors and other sites.
fn targets(line: &str) -> Vec<String> {
    let prose = without_code(line);
    let mut raw: Vec<&str> =
        prose.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or("")).collect();
    if prose.starts_with('[')
        && let Some((_, target)) = prose.split_once("]: ")
    {
        raw.push(target);
    }
    let file = |target: &str| {
        let target = target.trim().split(' ').next().unwrap_or("").trim_matches(['<', '>']);
        target.split('#').next().unwrap_or("").to_owned()
    };
    let elsewhere = |target: &String| target.contains("://") || target.starts_with("mailto:");
    raw.into_iter().map(file).filter(|target| !target.is_empty() && !elsewhere(target)).collect()
}

/// The line without what stands between back ticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The file a link means, relative to the repository's top; nothing if it leaves the repository.
fn resolve(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut file = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => file.push(name),
            Component::CurDir => {}
            Component::ParentDir if file.pop() => {}
            _ => return None,
        }
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(path: &str, text: &str) -> Vec<usize> {
        let exists =
            |file: &Path| [Path::new("README.md"), Path::new("docs/modes.md")].contains(&file);
        check(Path::new(path), text, exists).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_link_to_a_missing_file_is_found() {
        assert_eq!(dead("README.md", "a\n[x](docs/nothing.md)\n"), [2]);
        assert_eq!(dead("docs/modes.md", "[x](README.md)"), [1]);
        assert_eq!(dead("README.md", "[x]: gone.md"), [1]);
        assert_eq!(dead("README.md", "[x](../outside.md)"), [1]);
    }

    #[test]
    fn living_links_other_sites_and_code_are_left_alone() {
        assert!(dead("README.md", "[a](docs/modes.md#sync) and [b](#here)").is_empty());
        assert!(dead("docs/modes.md", "[a](../README.md \"title\")").is_empty());
        assert!(dead("README.md", "[a](https://example.org/x.md)").is_empty());
        assert!(dead("README.md", "`[a](no.md)`\n```\n[a](no.md)\n```\n").is_empty());
    }

    /// Rows `| hop | `file` | `function`, `function` |` of a page.
    fn hops(page: &str) -> Vec<(&str, Vec<&str>)> {
        let rows = page.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [_, file, functions] = cells[..] else { return None };
            let file = file.strip_prefix('`')?.strip_suffix(".rs`")?;
            let named = functions.split('`').skip(1).step_by(2).collect();
            Some((file, named))
        });
        rows.collect()
    }

    #[test]
    fn each_function_on_the_way_of_a_write_stands_where_the_page_says() {
        let read = |path: &str| std::fs::read_to_string(crate::repo::root().join(path));
        let page = read("ARCHITECTURE.md").expect("the page exists");
        let hops = hops(&page);
        let table = page.split("| hop | file |").nth(1).expect("the table is there");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|')).count();
        assert_eq!(hops.len(), rows, "a row has another form: {hops:?}");
        for (file, functions) in hops {
            assert!(!functions.is_empty(), "{file}.rs: no function is named");
            let source = read(&format!("{file}.rs")).expect("the file exists");
            for function in functions {
                let defined =
                    ["(", "<"].iter().any(|end| source.contains(&format!("fn {function}{end}")));
                assert!(defined, "{file}.rs has no function {function}");
            }
        }
    }
}
