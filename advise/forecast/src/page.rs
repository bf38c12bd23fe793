// SPDX-License-Identifier: Apache-2.0
//! One HTML page that needs nothing beside itself: the answer, plots of the runs, and the grid as a table.
//!
//! The runs lie in the page as JSON; a short script draws what the reader chooses of them as SVG. Nothing is computed
//! there that was not run. Without scripts the answer and the table remain.

use crate::answer::Answer;
use crate::grid::Cell;
use crate::report::{cell_json, table_rows};
use core::fmt::Write;
use helio_netmodel::Outage;
use helio_units::Moment;
use serde_json::{Value, json};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How every page begins.
pub const PAGE_HEAD: &str =
    "<!doctype html>\n<html lang=\"en\"><head><title>Heliograph forecast</title>";

/// The page. `about` is a few lines of what was run, `outages` when the link was down meanwhile.
#[must_use]
pub fn page(
    about: &[String],
    outages: &[Outage],
    cells: &[Cell],
    answer: Option<&Answer>,
) -> String {
    let mut out = format!(
        "{PAGE_HEAD}\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>\n{STYLE}</style></head><body><main>\n<h1>Forecast</h1>\n<ul class=\"about\">"
    );
    list(&mut out, about);
    out.push_str("</ul>\n");
    if let Some(answer) = answer {
        verdict(&mut out, cells, answer);
    }
    out.push_str("<form id=\"choice\"></form>\n<div id=\"plots\"></div>\n<h2>Every run</h2>\n<div class=\"wide\"><table>\n");
    let rows = table_rows(cells);
    let chosen = answer.and_then(|answer| answer.cell);
    let millis = |at: Moment| at.since(Moment::ZERO).as_millis() as u64;
    for (at, row) in rows.iter().enumerate() {
        let tag = if at == 0 { "th" } else { "td" };
        let mark = if chosen.is_some_and(|cell| cell + 1 == at) { " class=\"chosen\"" } else { "" };
        let cells = row
            .iter()
            .fold(String::new(), |all, cell| all + &format!("<{tag}>{}</{tag}>", escape(cell)));
        let _infallible = writeln!(out, "<tr{mark}>{cells}</tr>");
    }
    let data = json!({
        "cells": cells.iter().map(cell_json).collect::<Vec<Value>>(),
        "chosen": chosen,
        "outages": outages.iter().map(|o| [o.from, o.to].map(millis)).collect::<Vec<_>>(),
    });
    // Nothing in a string may end the script.
    let data = data.to_string().replace('<', "\\u003c");
    let _infallible = write!(
        out,
        "</table></div>\n<p class=\"about\">Times are virtual: the engine of Heliograph ran with modelled disks and a \
         modelled link.</p>\n</main>\n<script>\nconst DATA = {data};\n{SCRIPT}</script></body></html>\n"
    );
    out
}

fn verdict(out: &mut String, cells: &[Cell], answer: &Answer) {
    let title = match answer.cell.and_then(|at| cells.get(at)) {
        Some(Cell { point, .. }) => format!(
            "<b>{}</b>, queue {}, buffers {}, one stream, no compression",
            point.mode, point.queue, point.buffer
        ),
        None => "No run meets the goals".into(),
    };
    let _infallible = write!(out, "<section class=\"answer\"><p class=\"title\">{title}</p><ul>");
    list(out, &answer.reasons);
    list(out, &answer.hints);
    out.push_str("</ul></section>\n");
}

fn list(out: &mut String, lines: &[String]) {
    for line in lines {
        let _infallible = write!(out, "<li>{}</li>", escape(line));
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_beside_itself_and_nothing_in_it_breaks_out() {
        let wicked = ["</script><script>alert(1)</script>".to_owned()];
        let answer = Answer { cell: None, reasons: wicked.to_vec(), hints: Vec::new() };
        let page = page(&wicked, &[], &[], Some(&answer));
        assert_eq!(page.matches("<script").count(), 1);
        for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
            // The name of SVG is no address that anybody fetches.
            let found = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(outside), "{outside} is fetched from elsewhere");
        }
    }
}
