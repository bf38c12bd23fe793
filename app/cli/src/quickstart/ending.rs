// SPDX-License-Identifier: Apache-2.0
//! Chapter 7: what was measured, and where to go from here.

use super::plan::{FILES, GROUP, LYON, PARIS};
use super::signals::Listener;
use super::story::{Measured, Story, rate, span};
use anyhow::Result;
use helio_api::Connection;

/// Sums up.
pub(super) fn play(story: &Story<'_>, measured: &Measured) -> Result<()> {
    let screen = story.screen;
    screen.chapter(7, "What was measured")?;
    for (what, value) in rows(measured) {
        screen.line(&format!("{what:<50}{value}"))?;
    }
    screen
        .line(&format!("{:<50}{:.1} s", "duration of the demonstration", screen.elapsed()))
        .map_err(Into::into)
}

/// Tells what to read, behind everything else.
pub(super) fn farewell(story: &Story<'_>) -> Result<()> {
    story.screen.say(
        "Read on: README.md for a tour with volumes of your own, docs/ for modes, states and guarantees, `helio \
         --help` for the commands.",
    )?;
    Ok(())
}

/// What was measured, line by line.
fn rows(measured: &Measured) -> Vec<(String, String)> {
    let Measured { mirrored, latency, survived, failed_over } = measured;
    let mut rows = vec![
        ("image written, data without its zeros".to_owned(), mirrored.data.to_string()),
        ("  acknowledged in async after".to_owned(), span(mirrored.answered)),
        (
            format!("  complete on {LYON} after"),
            format!(
                "{}, {} from end to end",
                span(mirrored.arrived),
                rate(mirrored.data, mirrored.arrived)
            ),
        ),
        ("  most it was behind".to_owned(), mirrored.most_behind.to_string()),
    ];
    rows.extend(latency.iter().map(|row| {
        let (sync, queued) = (span(row.sync), span(row.queued));
        (format!("{} write, sync / async, median", row.size), format!("{sync} / {queued}"))
    }));
    rows.extend([
        ("records written through a cut".to_owned(), survived.records.to_string()),
        ("  longest wait for an acknowledgement".to_owned(), span(survived.longest)),
        ("  most seen in the queue".to_owned(), survived.most_queued.to_string()),
        ("  in sync again after the link was restored".to_owned(), span(survived.caught_up)),
        ("  checks of the write order on the secondary".to_owned(), survived.looks.to_string()),
        (
            "records acknowledged before the kill".to_owned(),
            format!("{}, none lost", failed_over.answered),
        ),
        ("  in flight then, which may be lost".to_owned(), failed_over.in_flight.to_string()),
        ("  from --force to the first read".to_owned(), span(failed_over.took)),
    ]);
    rows
}

/// Leaves everything running for a look, until a signal ends it.
pub(super) fn keep(story: &mut Story<'_>, listener: &Listener) -> Result<()> {
    let Story { screen, stage, paris, lyon, .. } = story;
    screen.chapter(8, "It stays, as you asked")?;
    screen.say(&format!("{PARIS} returns; its peer was promoted:"))?;
    paris.start()?;
    paris.wait("a message of the other node", |group| {
        group.peer.as_ref().is_some_and(|peer| peer.connection == Connection::Refused)
    })?;
    paris.show(&["status", GROUP])?;
    let folder = stage.folder().display();
    screen
        .say("Both daemons and the link stay until you press Ctrl-C here. In another terminal:")?;
    screen.line(&format!("cd {folder}"))?;
    for node in [&*paris, &*lyon] {
        screen.line(&format!("helio status {GROUP} --state {}", node.name()))?;
    }
    let export = FILES.export();
    screen.line(&format!("nbdinfo 'nbd+unix:///{export}?socket={folder}/{LYON}/nbd.sock'"))?;
    screen.line(&format!("cat {} {}", paris.log(), lyon.log()))?;
    screen.say("Ctrl-C ends the daemons and removes the directory.")?;
    listener.welcome();
    loop {
        // The signal's thread ends the process.
        std::thread::park();
    }
}
