// SPDX-License-Identifier: Apache-2.0
//! The table of the groups. A wide terminal has more columns.

use super::text::{brief, latency, percent};
use super::{HEAD, Look};
use crate::render;
use crate::top::app::App;
use crate::top::history::fill;
use crate::top::rows::{Row, rate};
use helio_api::GroupStatus;
use helio_units::Bytes;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Group,
    Verdict,
    Role,
    State,
    Mode,
    Rate,
    Lag,
    Queue,
    RoundTrip,
    Nodes,
    Trend,
}

/// On every terminal.
const ALWAYS: [Column; 8] = [
    Column::Group,
    Column::Verdict,
    Column::Role,
    Column::State,
    Column::Mode,
    Column::Rate,
    Column::Lag,
    Column::Queue,
];
/// If there is space, in this order.
const MORE: [Column; 3] = [Column::RoundTrip, Column::Nodes, Column::Trend];

impl Column {
    const fn head(self) -> &'static str {
        match self {
            Self::Group => "GROUP",
            Self::Verdict => "VERDICT",
            Self::Role => "ROLE",
            Self::State => "STATE",
            Self::Mode => "MODE",
            Self::Rate => "RATE/S",
            Self::Lag => "LAG",
            Self::Queue => "QUEUE",
            Self::RoundTrip => "RTT",
            Self::Nodes => "NODES",
            Self::Trend => "TREND",
        }
    }

    const fn width(self) -> u16 {
        match self {
            Self::Group => 10,
            Self::Verdict | Self::State => 11,
            Self::Role | Self::Rate | Self::Lag => 9,
            Self::Mode | Self::RoundTrip => 8,
            Self::Queue => 5,
            Self::Nodes => 24,
            Self::Trend => 30,
        }
    }

    const fn is_number(self) -> bool {
        matches!(self, Self::Rate | Self::Lag | Self::Queue | Self::RoundTrip)
    }

    fn text(self, g: &GroupStatus, app: &App) -> String {
        let track = app.track(&g.name);
        match self {
            Self::Group => g.name.clone(),
            Self::Verdict => render::title(g.verdict.word).to_owned(),
            Self::Role => g.role.to_string(),
            Self::State => g.state.to_string(),
            Self::Mode => g.mode.effective.unwrap_or(g.mode.requested).to_string(),
            Self::Rate => {
                track.map_or_else(String::new, |track| brief(Bytes(rate(g, track).last())))
            }
            Self::Lag => brief(g.lag.bytes),
            Self::Queue => g.queue.as_ref().map_or_else(String::new, |_| percent(fill(g))),
            Self::RoundTrip => {
                let link = g.peer.as_ref().and_then(|peer| peer.link.as_ref());
                link.map_or_else(String::new, |link| latency(link.rtt_us))
            }
            Self::Nodes => render::topology(g, 10),
            Self::Trend => track.map_or_else(String::new, |track| {
                rate(g, track).bars(usize::from(self.width()), None)
            }),
        }
    }
}

/// The columns with their widths; the name of the group gets what is left, up to a limit.
fn columns(width: u16) -> Vec<(Column, u16)> {
    let mut columns: Vec<(Column, u16)> = ALWAYS.map(|column| (column, column.width())).into();
    let used = |columns: &[(Column, u16)]| columns.iter().map(|(_, width)| width + 1).sum::<u16>();
    for column in MORE {
        if used(&columns) + column.width() <= width {
            columns.push((column, column.width()));
        }
    }
    columns[0].1 += width.saturating_sub(used(&columns)).min(22);
    columns
}

/// Draws the heads and the rows around the selected one.
pub(super) fn draw(frame: &mut Frame, area: Rect, app: &App, look: Look) {
    let columns = columns(area.width);
    if area.height == 0 {
        return;
    }
    let heads = columns.iter().map(|(column, _)| column.head().to_owned()).collect();
    put(frame, Rect { height: 1, ..area }, &columns, heads, &|_| HEAD);
    let rows = app.rows();
    let (place, room) = (app.place(), usize::from(area.height) - 1);
    let first = (place + 1).saturating_sub(room);
    for (at, row) in rows.iter().enumerate().skip(first).take(room) {
        let y = area.y + 1 + u16::try_from(at - first).unwrap_or_default();
        let line = Rect { y, height: 1, ..area };
        let chosen = if at == place { Modifier::REVERSED } else { Modifier::empty() };
        let style = |column| match (column, row) {
            (Column::Verdict, Row::Served(g)) => look.verdict(Some(g.verdict.word)),
            (Column::Verdict, Row::Failed(_)) => look.verdict(None),
            _ => Style::new(),
        };
        let texts = match row {
            Row::Served(g) => columns.iter().map(|(column, _)| column.text(g, app)).collect(),
            Row::Failed(failed) => vec![failed.name.clone(), row.title().to_owned()],
        };
        if at == place {
            frame.buffer_mut().set_style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
        put(frame, line, &columns, texts, &|column| style(column).add_modifier(chosen));
    }
    if rows.is_empty() && area.height > 1 {
        let line = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(ratatui::text::Line::raw("this node is in no group"), line);
    }
}

/// One row of cells.
fn put(
    frame: &mut Frame,
    line: Rect,
    columns: &[(Column, u16)],
    texts: Vec<String>,
    style: &dyn Fn(Column) -> Style,
) {
    let mut x = line.x;
    for ((column, width), text) in columns.iter().zip(texts) {
        let most = usize::from(*width);
        let text = if column.is_number() { format!("{text:>most$}") } else { text };
        frame.buffer_mut().set_stringn(x, line.y, text, most, style(*column));
        x += width + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_and_a_wide_terminal_has_all() {
        for width in [60, 80, 100, 120, 200] {
            let all = columns(width);
            let used: u16 = all.iter().map(|(_, width)| width + 1).sum();
            assert!(used <= width + 1 || width < 80, "{width}: {used}");
            assert_eq!(all.len() == ALWAYS.len() + MORE.len(), width >= 150, "{width}");
        }
    }
}
