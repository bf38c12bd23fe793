// SPDX-License-Identifier: Apache-2.0
//! Everything about one group: its bars, the text of `helio status -v`, its snapshots.

use super::panel::{Fact, fact, flow};
use super::row;
use super::text::{brief, fold};
use crate::render::{self, Colour, Detail};
use crate::snapshot;
use crate::top::app::App;
use crate::top::rows::Row;
use helio_api::{SnapshotList, Status};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

/// Draws it from that row on; returns from which row on the end is shown.
pub(super) fn draw(frame: &mut Frame, area: Rect, app: &App, scroll: usize) -> usize {
    let (Some(selected), Some(status)) = (app.selected(), app.status()) else { return 0 };
    let width = usize::from(area.width);
    let head = head(&selected, app).into_iter().flat_map(|fact| fact.lines(width));
    let head: Vec<Line> = head.collect();
    let rows = rows(&selected, status, app, width);
    let used = u16::try_from(head.len()).unwrap_or_default();
    for (at, line) in (0..).zip(head) {
        row(frame, area, at, line);
    }
    let room = usize::from(area.height.saturating_sub(used));
    let most = rows.len().saturating_sub(room);
    for (at, text) in (used..).zip(rows.into_iter().skip(scroll.min(most))) {
        row(frame, area, at, Line::raw(text));
    }
    most
}

/// Throughput, queue and lag, and how many snapshots there are.
fn head<'a>(selected: &Row, app: &'a App) -> Vec<Fact<'a>> {
    let Row::Served(g) = selected else { return Vec::new() };
    let mut facts = app.track(&g.name).map(|track| flow(g, track)).unwrap_or_default();
    facts.extend(app.snapshots().and_then(|listed| listed.as_ref().ok()).map(copies));
    facts
}

/// The snapshots in a row; all of them are listed below everything else.
fn copies<'a>(list: &SnapshotList) -> Fact<'a> {
    let of_operators = list.snapshots.iter().filter(|snapshot| !snapshot.safe_copy);
    let last = of_operators.clone().next_back();
    let last = last.map_or_else(String::new, |it| format!("; last {} {}", it.at_ms, it.name));
    let text = format!("{}, {} preserved{last}", of_operators.count(), brief(list.preserved_bytes));
    fact("snapshots", text)
}

/// The texts, folded.
fn rows(selected: &Row, status: &Status, app: &App, width: usize) -> Vec<String> {
    let mut only = Status { groups: Vec::new(), failed: Vec::new(), ..status.clone() };
    match selected {
        Row::Served(group) => only.groups.push((*group).clone()),
        Row::Failed(failed) => only.failed.push((*failed).clone()),
    }
    let mut text = render::status(&only, Detail::All, Colour::default());
    match app.snapshots() {
        Some(Ok(list)) => {
            text.push('\n');
            text.push_str(&snapshot::text(list));
        }
        Some(Err(why)) => text.push_str(&format!("\nsnapshots cannot be listed: {why}\n")),
        None => {}
    }
    text.lines().flat_map(|line| fold(line, width)).collect()
}
