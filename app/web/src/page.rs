// SPDX-License-Identifier: Apache-2.0
//! The files of the page, as `npm run build` in `app/web/page` made them.

/// A file of the page.
pub(crate) struct File {
    /// Its name; the page itself has none.
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
}

macro_rules! built {
    ($name:literal) => {
        include_bytes!(concat!("../dist/", $name))
    };
}

/// All of them, and the notice of whose work they contain.
pub(crate) const FILES: [File; 4] = [
    File { name: "", kind: "text/html; charset=utf-8", bytes: built!("index.html") },
    File { name: "app.js", kind: "text/javascript; charset=utf-8", bytes: built!("app.js") },
    File { name: "app.css", kind: "text/css; charset=utf-8", bytes: built!("app.css") },
    File { name: "NOTICE.txt", kind: "text/plain; charset=utf-8", bytes: built!("NOTICE.txt") },
];

/// What the page may load and do: its own files, its own server, nothing else.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes of all files together.
    const BYTES_MAX: usize = 200 << 10;

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let all: usize = FILES.iter().map(|file| file.bytes.len()).sum();
        assert!(all <= BYTES_MAX, "{all} bytes");
        let page = std::str::from_utf8(FILES[0].bytes).expect("it is a text");
        assert!(page.contains("app.js") && page.contains("app.css"), "{page}");
        for elsewhere in ["http:", "https:", "src=\"/", "href=\"/", " style=", "onclick"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
    }
}
