// SPDX-License-Identifier: Apache-2.0
//! Rule `licence`: every source file says its licence on its first line (behind `#!` where there is one).

use super::Finding;
use std::path::Path;

const LICENCE: &str = "SPDX-License-Identifier: Apache-2.0";

/// How a comment opens in files of this name; nothing for files that carry no licence line.
fn opening(path: &Path, text: &str) -> Option<&'static str> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("rs" | "js") => Some("// "),
        Some("toml" | "sh" | "py" | "yml" | "yaml") => Some("# "),
        Some("css") => Some("/* "),
        Some("html") => Some("<!-- "),
        _ if text.starts_with("#!") => Some("# "),
        _ => None,
    }
}

pub(super) fn check(path: &Path, text: &str) -> Vec<Finding> {
    let Some(opening) = opening(path, text) else { return Vec::new() };
    let at = usize::from(text.starts_with("#!") && !text.starts_with("#!["));
    let line = text.lines().nth(at).unwrap_or_default();
    if line.strip_prefix(opening).is_some_and(|rest| rest.starts_with(LICENCE)) {
        return Vec::new();
    }
    vec![Finding::new(path, at + 1, "licence", format!("put `{opening}{LICENCE}` on this line"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(Path::new(path), text).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_source_file_without_its_licence_is_found() {
        assert_eq!(found("a.rs", "//! A room.\n"), [1]);
        assert_eq!(found("a.rs", ""), [1]);
        assert_eq!(found(".ci/run", "#!/usr/bin/env bash\nset -e\n"), [2]);
        assert_eq!(found("a.rs", "#![no_std]\n"), [1]);
    }

    #[test]
    fn each_kind_of_file_has_its_own_comment() {
        assert!(found("a.rs", "// SPDX-License-Identifier: Apache-2.0\n").is_empty());
        assert!(found("a.toml", "# SPDX-License-Identifier: Apache-2.0\n").is_empty());
        assert!(found("run", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n").is_empty());
        assert!(found("a.html", "<!-- SPDX-License-Identifier: Apache-2.0 -->\n").is_empty());
        assert!(found("a.md", "# A page\n").is_empty());
    }
}
