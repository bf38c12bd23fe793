// SPDX-License-Identifier: Apache-2.0
//! What `helio top` draws: the groups, below them the selected one, or its details; at the end messages and keys.

mod details;
mod panel;
mod table;
mod text;

use super::app::App;
use super::dialog::Dialog;
use crate::plan;
use helio_units::Verdict;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Clear;
use std::time::Duration;
use text::{fold, since};

/// The smallest terminal that is drawn to.
const LEAST: (u16, u16) = (60, 12);
/// Most rows of a message.
const NOTICE_ROWS: usize = 4;
const KEYS: &str = "? keys  q quit  Enter details  s sort  p pause  r resume  c resync  n snapshot";
const KEYS_DETAILS: &str =
    "? keys  q quit  Esc back  Up Down scroll  p pause  r resume  n snapshot";

/// How things look, with or without colours.
#[derive(Clone, Copy)]
struct Look {
    colour: bool,
}

impl Look {
    fn verdict(self, verdict: Option<Verdict>) -> Style {
        let (colour, bold) = match verdict {
            Some(Verdict::Ok) => (Color::Green, Modifier::empty()),
            Some(Verdict::AtRisk | Verdict::Unknown) => (Color::Yellow, Modifier::BOLD),
            _ => (Color::Red, Modifier::BOLD),
        };
        self.of(colour).add_modifier(bold)
    }

    fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}

const TITLE: Style = Style::new().add_modifier(Modifier::REVERSED);
const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame, app: &mut App, now: Duration) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (width, height) = LEAST;
        let text = format!("the terminal is smaller than {width}x{height}; q quits");
        row(frame, area, 0, Line::raw(text));
        return;
    }
    let look = Look { colour: app.colour() };
    row(frame, area, 0, Line::styled(fill(title(app), area.width), TITLE));
    let notices = notices(app, now, (area.width, look));
    let (from, end) = (1, area.height - 1 - u16::try_from(notices.len()).unwrap_or_default());
    let body = Rect { y: area.y + from, height: end - from, ..area };
    if let Some(scroll) = app.details() {
        let most = details::draw(frame, body, app, scroll);
        app.bound_scroll(most);
    } else {
        let panel = app.selected().map_or(0, |selected| panel::height(&selected, app, area.width));
        let rows = u16::try_from(app.rows().len()).unwrap_or(u16::MAX).saturating_add(1);
        // The selected group gets what the others leave, and at least three fifths if there are many.
        let panel = panel.min(body.height.saturating_sub(rows).max(body.height * 3 / 5));
        let above = Rect { height: body.height - panel, ..body };
        table::draw(frame, above, app, look);
        let below = Rect { y: above.bottom(), height: panel, ..body };
        panel::draw(frame, below, app, look);
    }
    for (at, (text, style)) in (end..).zip(notices) {
        row(frame, area, at, Line::styled(text, style));
    }
    let keys = if app.details().is_some() { KEYS_DETAILS } else { KEYS };
    row(frame, area, area.height - 1, Line::styled(fill(keys.to_owned(), area.width), TITLE));
    if let Some(dialog) = app.dialog() {
        draw_dialog(frame, area, dialog);
    }
}

/// One row of the screen.
fn row(frame: &mut Frame, area: Rect, at: u16, line: Line) {
    if at < area.height {
        frame.render_widget(line, Rect { y: area.y + at, height: 1, ..area });
    }
}

fn fill(text: String, width: u16) -> String {
    format!("{text:<width$}", width = usize::from(width))
}

/// The node, the time and how many groups need attention.
fn title(app: &App) -> String {
    let Some(status) = app.status() else { return "helio top".to_owned() };
    let rows = app.rows();
    let bad = rows.iter().filter(|row| row.title() != "OK").count();
    let groups = match rows.len() {
        1 => "1 group".to_owned(),
        count => format!("{count} groups"),
    };
    let (sort, reversed) = app.sort();
    let reversed = if reversed { ", reversed" } else { "" };
    format!(
        "helio top: {}  {}  {groups}, {bad} not OK  by {}{reversed}  every {}",
        status.node,
        status.at_ms.time(),
        sort.word(),
        plan::span(app.interval())
    )
}

/// Messages: that the daemon does not respond, and how the last request ended.
fn notices(app: &App, now: Duration, (width, look): (u16, Look)) -> Vec<(String, Style)> {
    let width = usize::from(width);
    let mut rows = Vec::new();
    if let Some((error, since_when)) = app.gone() {
        let hint = error.hint.as_deref().map_or_else(String::new, |hint| format!("; hint: {hint}"));
        let node = app.status().map_or("", |status| status.node.as_str());
        let text = format!(
            "no response for {}; the last status is shown. {}{}; tries again every {}",
            since(*since_when, now),
            error.error,
            crate::typed::runnable_on(&hint, node),
            plan::span(app.interval())
        );
        rows.extend(
            fold(&text, width).into_iter().map(|row| (row, look.of(Color::Red).patch(HEAD))),
        );
    } else if now.saturating_sub(app.seen_at()) > app.interval() * 3 + Duration::from_secs(2) {
        let text = format!("no response for {}", since(app.seen_at(), now));
        rows.push((text, look.of(Color::Yellow).patch(HEAD)));
    }
    if let Some(notice) = app.notice() {
        rows.extend(fold(&notice, width).into_iter().map(|row| (row, HEAD)));
    }
    rows.truncate(NOTICE_ROWS);
    rows
}

/// Draws a dialog in the centre of the screen.
fn draw_dialog(frame: &mut Frame, area: Rect, dialog: &Dialog) {
    let width = (area.width - 4).min(76);
    let inner = usize::from(width) - 4;
    let mut rows: Vec<String> = Vec::new();
    for text in dialog.texts() {
        let text = if text.is_empty() { vec![text] } else { fold(&text, inner) };
        rows.extend(text);
    }
    let height = u16::try_from(rows.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let rule = "─".repeat(usize::from(width) - 2);
    let title: String =
        format!("─ {} {rule}", dialog.title()).chars().take(usize::from(width) - 2).collect();
    row(frame, place, 0, Line::styled(format!("┌{title}┐"), HEAD));
    // The question is last: it is shown also if the texts do not fit.
    let room = usize::from(height) - 2;
    let skipped = rows.len().saturating_sub(room);
    for (at, text) in (1..).zip(rows.into_iter().skip(skipped)) {
        row(frame, place, at, Line::raw(format!("│ {}", fill(text, width - 4))));
        let edge = Rect { x: place.right() - 1, y: place.y + at, width: 1, height: 1 };
        frame.render_widget(Line::raw("│"), edge);
    }
    row(frame, place, height - 1, Line::styled(format!("└{rule}┘"), HEAD));
}
