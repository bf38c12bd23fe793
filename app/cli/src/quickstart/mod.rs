// SPDX-License-Identifier: Apache-2.0
//! `helio quickstart`: in about a minute, everything the mirror promises, on real daemons and real files.
//!
//! A story in chapters. Each acts through the verbs of `helio` itself and through ordinary NBD clients, shows
//! what it does, and judges what it finds; every number on the screen was measured in the same run. Knows
//! nothing of the daemon's insides. Needs no root, installs nothing, and leaves nothing behind.

mod begin;
mod cut;
mod digest;
mod ending;
mod failover;
mod image;
mod journal;
mod latency;
mod mirror;
mod node;
mod plan;
mod promise;
mod screen;
mod signals;
mod stage;
mod story;
mod traffic;

use anyhow::Result;
use image::Source;
use promise::Broken;
use screen::Screen;
use signals::Listener;
use stage::Stage;
use std::path::Path;
use std::process::ExitCode;
use story::Measured;

/// Lines of each daemon's log that are shown where the story fails; the log goes with the folder.
const LOG_LINES: usize = 12;

/// Tells the story. `from` is the folder to mirror instead of made-up files; `keep` leaves everything running
/// behind the last chapter until a signal comes.
///
/// # Errors
/// Where it could not be told to its end. A broken promise is no such error: it is told, and the code says so.
pub(crate) fn run(from: Option<&Path>, keep: bool) -> Result<ExitCode> {
    let source = Source::choose(from)?;
    let screen = Screen::new();
    let stage = Stage::new()?;
    let listener = Listener::start(stage.props())?;
    let told = tell(&stage, &screen, &listener, &source, keep);
    if stage.props().is_cleared() {
        // A signal is ending us; what broke in the story by that is no news.
        loop {
            std::thread::park();
        }
    }
    let Err(why) = told else { return Ok(ExitCode::SUCCESS) };
    show_logs(&stage, &screen)?;
    match why.downcast_ref::<Broken>() {
        Some(broken) => {
            screen.broken(broken)?;
            Ok(ExitCode::FAILURE)
        }
        None => Err(why),
    }
}

fn tell(
    stage: &Stage,
    screen: &Screen,
    listener: &Listener,
    source: &Source,
    keep: bool,
) -> Result<()> {
    screen.say(&format!(
        "Heliograph: two nodes, a long link between them, and the same volumes on both. This takes about a minute, \
         needs no root and installs nothing. All files are in {} and are removed at the end. Every number below is \
         measured during this run.",
        stage.folder().display()
    ))?;
    let mut story = begin::prepare(stage, screen)?;
    begin::play(&mut story)?;
    let mirrored = mirror::play(&story, source)?;
    let latency = latency::play(&story)?;
    let survived = cut::play(&story)?;
    let failed_over = failover::play(&mut story, &mirrored)?;
    let measured = Measured { mirrored, latency, survived, failed_over };
    ending::play(&story, &measured)?;
    ending::farewell(&story)?;
    if keep {
        ending::keep(&mut story, listener)?;
    }
    Ok(())
}

/// Shows how each daemon's log ends.
fn show_logs(stage: &Stage, screen: &Screen) -> Result<()> {
    for node in [plan::PARIS, plan::LYON] {
        // A daemon that never started has none.
        let log = std::fs::read_to_string(stage.folder().join(format!("{node}.log")));
        let log = log.unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        if !lines.is_empty() {
            screen.say(&format!("The log of {node} ends with:"))?;
            screen.output(&lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))?;
        }
    }
    Ok(())
}
