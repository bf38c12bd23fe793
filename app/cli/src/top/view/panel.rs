// SPDX-License-Identifier: Apache-2.0
//! The selected group below the table, the most urgent first.

use super::text::{brief, fold, latency, percent};
use super::{HEAD, Look, row};
use crate::top::app::App;
use crate::top::history::{FULL, Series, Track, fill};
use crate::top::rows::{Row, rate};
use crate::{progress, render, typed};
use helio_api::{FailedGroup, GroupStatus, PeerStatus, Status};
use helio_units::{Bytes, Role, Verdict};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns of a label, and of a text that has bars behind it.
const LABEL: usize = 10;
const TEXT: usize = 38;

/// A labelled row, with bars behind a short text.
pub(super) struct Fact<'a> {
    label: &'static str,
    text: String,
    bars: Option<(&'a Series, Option<u64>)>,
    style: Style,
}

pub(super) fn fact<'a>(label: &'static str, text: impl Into<String>) -> Fact<'a> {
    Fact { label, text: text.into(), bars: None, style: Style::new() }
}

/// Rows that it needs: its rule, and the facts.
pub(super) fn height(selected: &Row, app: &App, width: u16) -> u16 {
    let look = Look { colour: false };
    let rows = app.status().map_or(0, |status| lines(selected, status, app, (look, width)).len());
    u16::try_from(rows + 1).unwrap_or(u16::MAX)
}

pub(super) fn draw(frame: &mut Frame, area: Rect, app: &App, look: Look) {
    let (Some(selected), Some(status)) = (app.selected(), app.status()) else { return };
    let rule = format!("── {} {}", selected.name(), "─".repeat(usize::from(area.width)));
    row(frame, area, 0, Line::styled(rule, HEAD));
    for (at, line) in (1..).zip(lines(&selected, status, app, (look, area.width))) {
        row(frame, area, at, line);
    }
}

fn lines(
    selected: &Row,
    status: &Status,
    app: &App,
    (look, width): (Look, u16),
) -> Vec<Line<'static>> {
    let facts = facts(selected, status, app, look);
    facts.into_iter().flat_map(|fact| fact.lines(usize::from(width))).collect()
}

impl Fact<'_> {
    /// One row if it has bars, otherwise as many as the text needs.
    pub(super) fn lines(self, width: usize) -> Vec<Line<'static>> {
        let label = |text: &str| Span::styled(format!("{text:<LABEL$}"), HEAD);
        if let Some((series, full)) = self.bars {
            let bars = series.bars(width.saturating_sub(LABEL + TEXT + 1), full);
            let text: String = self.text.chars().take(TEXT).collect();
            let text = Span::raw(format!("{text:<TEXT$} "));
            return vec![Line::from(vec![label(self.label), text, Span::raw(bars)])];
        }
        let rows = fold(&self.text, width.saturating_sub(LABEL)).into_iter().enumerate();
        rows.map(|(at, text)| {
            let label = label(if at == 0 { self.label } else { "" });
            Line::from(vec![label, Span::styled(text, self.style)])
        })
        .collect()
    }
}

fn facts<'a>(selected: &Row, status: &Status, app: &'a App, look: Look) -> Vec<Fact<'a>> {
    match selected {
        Row::Failed(failed) => of_failed(failed, look),
        Row::Served(g) => {
            let mut facts = condition(g, status, look);
            if let Some(track) = app.track(&g.name) {
                facts.extend(flow(g, track));
            }
            facts.extend(g.peer.iter().flat_map(of_peer));
            facts.extend(volumes(g));
            facts
        }
    }
}

fn of_failed<'a>(failed: &FailedGroup, look: Look) -> Vec<Fact<'a>> {
    vec![
        Fact { style: look.verdict(None), ..fact("verdict", "NOT SERVED") },
        fact("why", failed.reason.clone()),
        fact("do", typed::runnable(&failed.hint)),
    ]
}

/// Verdict, state, what to do, and a resync that runs.
fn condition<'a>(g: &GroupStatus, status: &Status, look: Look) -> Vec<Fact<'a>> {
    let now = status.at_ms;
    let verdict = format!(
        "{} for {}: {}",
        render::title(g.verdict.word),
        render::ago(g.verdict.since_ms, now),
        g.verdict.why
    );
    let effective = g.mode.effective.map_or_else(|| "none".to_owned(), |mode| mode.to_string());
    let mut facts =
        vec![Fact { style: look.verdict(Some(g.verdict.word)), ..fact("verdict", verdict) }];
    if g.verdict.word != Verdict::Ok {
        facts.push(fact("do", typed::runnable_on(&g.next, &g.node)));
    }
    let state = format!(
        "{}, {} for {}, mode {} (effective {effective})",
        g.role,
        g.state,
        render::ago(g.state_since_ms, now),
        g.mode.requested
    );
    facts.push(fact("state", state));
    if let Some(fault) = &g.fault {
        facts.push(Fact { style: look.verdict(None), ..fact("fault", fault.clone()) });
    }
    if let Some(sync) = &g.sync {
        facts.push(fact("resync", progress::bar(sync)));
    }
    if let Some(run) = &g.verify.run {
        let (done, all) = (run.compared_bytes, run.total_bytes);
        facts.push(fact("verify", format!("at volume {}, {done} of {all}", run.volume)));
    }
    facts
}

fn of_peer<'a>(peer: &PeerStatus) -> Vec<Fact<'a>> {
    let text = format!("{} at {}, {}: {}", peer.name, peer.address, peer.connection, peer.reason);
    let mut facts = vec![fact("peer", text)];
    if let Some(link) = &peer.link {
        let heartbeat = peer
            .heartbeat_us
            .map_or_else(String::new, |time| format!(", heartbeat {}", latency(time)));
        let text = format!(
            "round trip {}{heartbeat}, {}/s delivered, {} segments sent again",
            latency(link.rtt_us),
            brief(Bytes(link.delivery_rate_bytes_per_second.0)),
            link.retransmits
        );
        facts.push(fact("link", text));
    }
    facts
}

/// Throughput, queue and lag with their bars.
pub(super) fn flow<'a>(g: &GroupStatus, track: &'a Track) -> Vec<Fact<'a>> {
    let speed = |label, series: &'a Series| Fact {
        bars: Some((series, None)),
        ..fact(label, format!("{}/s", brief(Bytes(series.last()))))
    };
    let mut facts = match g.role {
        Role::Primary => vec![speed("written", rate(g, track)), speed("sent", track.sent())],
        Role::Secondary => vec![speed("received", rate(g, track))],
    };
    if let Some(queue) = &g.queue {
        let text = format!(
            "{} of {} ({}), most {}",
            brief(queue.bytes),
            brief(queue.bound_bytes),
            percent(fill(g)),
            brief(queue.bytes_high_water)
        );
        facts.push(Fact { bars: Some((track.queue(), Some(FULL))), ..fact("queue", text) });
        if g.throttle.waiting.0 > 0 {
            facts.push(fact("", format!("{} writes wait", g.throttle.waiting)));
        }
    }
    if g.peer.is_some() {
        let lag = format!(
            "{}, {} writes, {}",
            brief(g.lag.bytes),
            g.lag.writes,
            render::seconds(g.lag.seconds)
        );
        facts.push(Fact { bars: Some((track.lag(), None)), ..fact("lag", lag) });
    }
    facts
}

fn volumes<'a>(g: &GroupStatus) -> Vec<Fact<'a>> {
    let mut facts = Vec::new();
    for volume in &g.volumes {
        let text = format!(
            "{}: {}, {} dirty, {} NBD connections, {}",
            volume.name,
            brief(volume.size_bytes),
            brief(volume.dirty_bytes),
            volume.clients,
            if volume.members.is_empty() { volume.member.as_str() } else { "" }
        );
        facts.push(fact("volume", text.trim_end_matches(", ").to_owned()));
        for member in &volume.members {
            let share = member.percent.map_or_else(String::new, |percent| format!(" {percent} %"));
            let text = format!("  {}: {}{share}: {}", member.number, member.state, member.path);
            facts.push(fact("  member", text));
        }
    }
    facts
}
