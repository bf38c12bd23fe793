// SPDX-License-Identifier: Apache-2.0
//! Chapter 6: the primary dies, the secondary takes its place, and nothing that was answered is missing.

use super::digest::{self, Checksum};
use super::image;
use super::journal::{self, RECORD, Run};
use super::latency::set_mode;
use super::plan::{FILES, GROUP, JOURNAL, LYON, PARIS};
use super::story::{FailedOver, Mirrored, Story};
use super::traffic::{Request, Tally, send_all};
use anyhow::{Context, Result, anyhow, bail};
use helio_nbd::Client;
use helio_netmodel::Dice;
use helio_units::{Bytes, Mode, Role};
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Marks this chapter's records.
const RUN: Run = Run(2);
/// Writes in flight: the application of this chapter does not wait for each.
const DEPTH: usize = 8;
/// The primary lives for that long and as much again at most, by chance.
const LIVES: Duration = Duration::from_millis(1_000);
/// One read of the proof, in bytes.
const READ: usize = 1 << 20;
/// The file the image is read back into.
const READBACK: &str = "readback.ext4";

/// What the writer saw before its connection broke.
struct Witness {
    answered: Vec<u64>,
    submitted: u64,
}

/// Kills the primary under load and proves what is left.
pub(super) fn play(story: &mut Story<'_>, mirrored: &Mirrored) -> Result<FailedOver> {
    let screen = story.screen;
    screen.chapter(6, "The primary is killed, and the other node is promoted")?;
    set_mode(story, Mode::Sync)?;
    screen.say(&format!(
        "In mode sync a write is acknowledged when both nodes have completed it. The application now keeps {DEPTH} \
         records in flight and records which were acknowledged. At a random moment the daemon of {PARIS} is killed \
         with SIGKILL.",
    ))?;
    let witness = write_until_killed(story)?;
    let (answered, in_flight) =
        (witness.answered.len(), witness.submitted - witness.answered.len() as u64);
    screen.say(&format!(
        "{answered} records were acknowledged and {in_flight} were in flight. Only {LYON} is left."
    ))?;
    let took = take_over(story)?;
    let mut client = story.lyon.open(JOURNAL)?;
    prove_records(story, &mut client, &witness)?;
    client.disconnect()?;
    prove_image(story, mirrored)?;
    Ok(FailedOver { answered, in_flight, took })
}

/// Writes records to the primary until it dies by our hand.
fn write_until_killed(story: &mut Story<'_>) -> Result<Witness> {
    let client = story.paris.open(JOURNAL)?;
    let tally = Tally::default();
    let numbers = 0..journal::slots(JOURNAL.size);
    let requests = numbers.map(|n| Ok(Request::Write(journal::offset(n), journal::record(RUN, n))));
    let (end, ended) = sync_channel(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Whoever waits for it may have given up.
            let _ = end.send(send_all(client, DEPTH, requests, &tally));
        });
        let lives = LIVES + LIVES.mul_f64(Dice::new(by_the_clock()).uniform());
        match ended.recv_timeout(lives) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Err(why)) => return Err(why).context("the application's writes failed"),
            _ => bail!("the application stopped writing before {PARIS} was killed"),
        }
        let process = story.paris.process().unwrap_or_default();
        story.screen.command(&["kill", "-KILL", &process.to_string()])?;
        let status = story.paris.kill()?;
        if status.signal() != Some(rustix::process::Signal::KILL.as_raw()) {
            bail!("the daemon of {PARIS} ended by itself before it was killed: {status}");
        }
        Ok(())
    })?;
    Ok(Witness { submitted: tally.sent(), answered: tally.into_answered() })
}

fn by_the_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_nanos())
}

/// Promotes the secondary, first without and then with force; how long from the forced order to the first read.
fn take_over(story: &Story<'_>) -> Result<Duration> {
    let Story { screen, lyon, .. } = story;
    lyon.wait("it to notice", |group| !group.is_connected())?;
    lyon.show(&["status", GROUP])?;
    screen.say(&format!(
        "Promote {LYON}. It cannot find out whether {PARIS} is down or only unreachable:"
    ))?;
    let refused = lyon.show(&["promote", GROUP])?;
    screen.promise(
        "a promotion that could lose writes is not done without --force",
        !refused.status.success(),
        &format!("refused, {}", refused.status),
    )?;
    screen.say(
        "Here it is certainly down. With --force the command shows what is at stake, and promotes:",
    )?;
    let began = Instant::now();
    lyon.order(&["promote", GROUP, "--force", "--yes"])?;
    lyon.wait("its new role", |group| group.role == Role::Primary)?;
    let mut client = lyon.open(JOURNAL)?;
    client.read(0, &mut [0; RECORD])?;
    let took = began.elapsed();
    client.disconnect()?;
    Ok(took)
}

/// Every answered record is read from the new primary.
fn prove_records(story: &Story<'_>, client: &mut Client, witness: &Witness) -> Result<()> {
    let mut journal = vec![0; witness.submitted as usize * RECORD];
    for (number, part) in (0..).zip(journal.chunks_mut(READ)) {
        client.read(number * READ as u64, part)?;
    }
    let there = |number: u64| {
        let at = journal::offset(number) as usize;
        journal.get(at..at + RECORD).is_some_and(|slot| journal::holds(slot, RUN, number))
    };
    let missing: Vec<u64> =
        witness.answered.iter().copied().filter(|number| !there(*number)).collect();
    let more = (0..witness.submitted).filter(|number| there(*number)).count();
    let answered = witness.answered.len();
    let found = match missing.first() {
        None => format!(
            "all {answered} acknowledged records, and {} of those in flight",
            more.saturating_sub(answered)
        ),
        Some(first) => {
            format!(
                "{} of {answered} records are missing, the first is {}",
                missing.len(),
                first + 1
            )
        }
    };
    let promised = format!("every acknowledged record is on {LYON}");
    story.screen.promise(&promised, missing.is_empty() && answered > 0, &found)
}

/// The file system is read from the new primary, compared, and checked.
fn prove_image(story: &Story<'_>, mirrored: &Mirrored) -> Result<()> {
    let Story { screen, stage, .. } = story;
    let found = read_back(story, mirrored.image.length)?;
    screen.promise(
        &format!("the file system on {LYON} is what was written on {PARIS}"),
        found == mirrored.checksum,
        &format!("CRC-64 {found} of {}, read through NBD", mirrored.image.length),
    )?;
    let Some(e2fsck) = image::find("e2fsck") else {
        return Ok(screen.say(
            "Its check with e2fsck is skipped: there is no e2fsck here (package e2fsprogs).",
        )?);
    };
    screen.command(&["e2fsck", "-fn", READBACK])?;
    let mut command = Command::new(e2fsck);
    command.args(["-fn", READBACK]);
    let told = stage.run(command)?;
    screen.output(&told.text)?;
    let code = told.status.code().ok_or_else(|| anyhow!("e2fsck was ended by a signal"))?;
    let promised = "the file system is clean";
    screen.promise(promised, code == 0, &format!("e2fsck ended with exit code {code}"))
}

/// Copies the image's extent from the new primary into a file.
fn read_back(story: &Story<'_>, length: Bytes) -> Result<Checksum> {
    let mut client = story.lyon.open(FILES)?;
    let path = story.stage.folder().join(READBACK);
    let mut file = File::create_new(&path)?;
    let (mut buffer, mut at) = (vec![0; READ], 0);
    while at < length.0 {
        let part = &mut buffer[..(length.0 - at).min(READ as u64) as usize];
        client.read(at, part)?;
        file.write_all(part)?;
        at += part.len() as u64;
    }
    client.disconnect()?;
    digest::of_file(&path, length)
}
