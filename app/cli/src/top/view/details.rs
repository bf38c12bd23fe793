// SPDX-License-Identifier: Apache-2.0
//! Everything about one group: bars over the whole width, the text of `helio status -v`, its snapshots.

use super::text::{brief, fold, percent};
use super::{HEAD, row};
use crate::render::{self, Colour, Detail};
use crate::snapshot;
use crate::top::app::App;
use crate::top::history::FULL;
use crate::top::rows::Row;
use helio_api::{SnapshotList, Status};
use helio_units::Bytes;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

/// Columns of the name and the value of bars.
const VALUE: usize = 22;

/// Draws it from that row on; returns from which row on the end is shown.
pub(super) fn draw(frame: &mut Frame, area: Rect, app: &App, scroll: usize) -> usize {
    let (Some(selected), Some(status)) = (app.selected(), app.status()) else { return 0 };
    let mut head = bars(&selected, app, usize::from(area.width));
    head.extend(app.snapshots().and_then(|listed| listed.as_ref().ok()).map(copies));
    let rows = rows(&selected, status, app, usize::from(area.width));
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

fn bars<'a>(selected: &Row, app: &App, width: usize) -> Vec<Line<'a>> {
    let Row::Served(g) = selected else { return Vec::new() };
    let Some(track) = app.track(&g.name) else { return Vec::new() };
    let speed = |label: &str, bytes: u64| format!("{label:<9}{}/s", brief(Bytes(bytes)));
    let mut all = if g.queue.is_some() {
        vec![
            (speed("written", track.written().last()), track.written(), None),
            (speed("sent", track.sent().last()), track.sent(), None),
            (format!("{:<9}{}", "queue", percent(track.queue().last())), track.queue(), Some(FULL)),
        ]
    } else {
        vec![(speed("received", track.received().last()), track.received(), None)]
    };
    all.push((format!("{:<9}{}", "lag", brief(g.lag.bytes)), track.lag(), None));
    let line = |(value, series, full): (String, &crate::top::history::Series, Option<u64>)| {
        let bars = series.bars(width.saturating_sub(VALUE), full);
        Line::from(vec![Span::styled(format!("{value:<VALUE$}"), HEAD), Span::raw(bars)])
    };
    all.into_iter().map(line).collect()
}

/// The snapshots in a row; all of them are listed below everything else.
fn copies<'a>(list: &SnapshotList) -> Line<'a> {
    let of_operators = list.snapshots.iter().filter(|snapshot| !snapshot.safe_copy);
    let last = of_operators.clone().next_back();
    let last = last.map_or_else(String::new, |it| format!("; last {} {}", it.at_ms, it.name));
    let text = format!("{}, {} preserved{last}", of_operators.count(), brief(list.preserved_bytes));
    let label = Span::styled(format!("{:<VALUE$}", "snapshots"), HEAD);
    Line::from(vec![label, Span::raw(text)])
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
