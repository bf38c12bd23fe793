// SPDX-License-Identifier: Apache-2.0
//! What a person sees and what a key requests, without a terminal and a daemon.

use super::app::{App, Asked, Input, Key, Polled, Want};
use super::{sample, view};
use crate::request::Request;
use helio_api::{
    Accepted, ApiError, AtStake, Connection, FailedGroup, PromoteRequest, Status, code,
};
use helio_units::{Bytes, Role, State, Verdict, WallTime};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use std::time::Duration;

const SMALL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 50);
const SECOND: Duration = Duration::from_secs(1);

/// A model, and the time that has passed for it.
struct Stage {
    app: App,
    now: Duration,
}

impl Stage {
    fn new(status: Status) -> Self {
        Self::of(App::new(SECOND, true, None), status)
    }

    fn of(app: App, status: Status) -> Self {
        let mut stage = Self { app, now: Duration::ZERO };
        stage.polled(Ok(status));
        stage
    }

    fn polled(&mut self, status: Result<Status, ApiError>) {
        self.now += SECOND;
        let snapshots = self.app.lists().map(|_| Ok(sample::snapshots()));
        let polled = Polled { status, snapshots };
        assert_eq!(self.app.take(Input::Polled(Box::new(polled)), self.now), Want::Nothing);
    }

    fn press(&mut self, key: Key) -> Want {
        self.app.take(Input::Key(key), self.now)
    }

    fn types(&mut self, keys: &str) -> Want {
        keys.chars().map(|c| self.press(Key::Char(c))).last().expect("there is a key")
    }

    fn buffer(&mut self, (width, height): (u16, u16)) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it has no end");
        self.app.pass(self.now);
        let (app, now) = (&mut self.app, self.now);
        terminal.draw(|frame| view::draw(frame, app, now)).expect("it has no end");
        terminal.backend().buffer().clone()
    }

    fn screen(&mut self, size: (u16, u16)) -> String {
        let buffer = self.buffer(size);
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let rows = cells.chunks(usize::from(size.0)).map(|row| row.concat());
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }
}

/// Fails unless all of it is on the screen.
#[track_caller]
fn assert_shows(screen: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(screen.contains(phrase), "`{phrase}` is missing:\n{screen}");
    }
}

#[test]
fn a_small_terminal_shows_the_groups_and_all_of_the_selected_one() {
    let mut stage = Stage::new(sample::three());
    let screen = stage.screen(SMALL);
    assert_shows(
        &screen,
        &[
            "helio top: paris  21:37:20Z  3 groups, 2 not OK  by verdict  every 1 s",
            "GROUP      VERDICT     ROLE      STATE       MODE        RATE/S       LAG QUEUE",
            "db         AT RISK     primary   queuing     async          0 B    12 MiB  18 %",
            "mail       OK          primary   replicating async",
            "── db ───",
            "verdict   AT RISK for 1 min 15 s: no message from lyon for 75 s",
            "do        nothing; the queued writes are sent when the link returns",
            "peer      lyon at 10.0.1.1:7121, connecting",
            "link      round trip 50.2 ms, 11.9 MiB/s delivered, 7 segments sent again",
            "queue     12 MiB of 64 MiB (18 %), most 20 MiB",
            "lag       12 MiB, 1536 writes, 75.2 s",
            "volume    data: 256 MiB, 12 MiB dirty, 1 NBD connections, /dev/vg0/data",
            "q quit",
        ],
    );
    assert_eq!(screen.lines().count(), 24);
}

#[test]
fn a_large_terminal_has_more_columns() {
    let screen = Stage::new(sample::three()).screen(LARGE);
    let heads = screen.lines().nth(1).expect("heads are below the title");
    assert!(heads.contains("RTT NODES") && heads.contains(" TREND"), "{heads}");
    assert_shows(&screen, &["50.2 ms paris* -x- lyon", "paris* -x- lyon"]);
}

#[test]
fn a_resync_shows_its_progress_and_its_end() {
    let mut stage = Stage::new(sample::three());
    stage.press(Key::Down);
    let screen = stage.screen(SMALL);
    let bar = "resync    [########------------] 460 MiB of 1 GiB copied (44 %), 87.74 MiB/s, ";
    assert_shows(&screen, &[bar.trim_end(), "\n          done in 6.4 s"]);
    assert_shows(&stage.screen(LARGE), &[&format!("{bar}done in 6.4 s")]);
}

#[test]
fn a_change_of_state_is_seen_with_the_next_status() {
    let mut status = sample::status();
    let mut stage = Stage::new(status.clone());
    status.groups[0].state = State::Replicating;
    status.groups[0].verdict.word = Verdict::Ok;
    status.groups[0].peer.as_mut().expect("it has one").connection = Connection::Connected;
    status.groups[0].counters.write_bytes = Bytes::mib(5);
    stage.polled(Ok(status));
    assert_shows(
        &stage.screen(SMALL),
        &["db         OK          primary   replicating", "written   5 MiB/s", "1 group, 0 not OK"],
    );
}

#[test]
fn details_scroll_to_their_end_and_list_the_snapshots() {
    let mut stage = Stage::new(sample::three());
    stage.press(Key::Enter);
    assert_eq!(stage.app.lists(), Some("db"));
    stage.polled(Ok(sample::three()));
    assert_shows(
        &stage.screen(SMALL),
        &[
            "written   0 B/s",
            "snapshots 1, 128 KiB preserved; last 2026-11-20 21:36:05Z daily",
            "state      primary, queuing",
            "q quit  Esc back",
        ],
    );
    stage.press(Key::End);
    let screen = stage.screen(SMALL);
    assert_shows(&screen, &["daily  2026-11-20", "1 snapshots of db on paris"]);
    stage.press(Key::Up);
    assert_ne!(stage.screen(SMALL), screen, "the end is the bound, not beyond it");
    stage.press(Key::Escape);
    assert_shows(&stage.screen(SMALL), &["GROUP", "── db ─"]);
}

#[test]
fn a_selection_stays_with_its_group_in_another_order() {
    let mut stage = Stage::new(sample::three());
    stage.press(Key::Down);
    stage.types("s");
    assert_shows(&stage.screen(SMALL), &["by name", "── web ─"]);
    stage.types("o");
    assert_shows(&stage.screen(SMALL), &["by name, reversed", "── web ─"]);
    stage.press(Key::Home);
    stage.press(Key::PageDown);
    assert_shows(&stage.screen(SMALL), &["── db ─"]);
}

#[test]
fn every_action_says_what_it_does_and_only_y_requests_it() {
    for (key, title, stake, request) in [
        ("p", "pause db", "new writes exist only on", Request::Pause),
        ("r", "resume db", "the copy on lyon is inconsistent", Request::Resume),
        ("c", "resync db", "the copy on lyon is inconsistent", Request::Resync(Default::default())),
        (
            "v",
            "verify start db",
            "nothing; both copies are read",
            Request::Verify(Default::default()),
        ),
        (
            "m",
            "promote db",
            "writes that paris does not have",
            Request::Promote(Default::default()),
        ),
        ("w", "switch db", "connection to paris is closed", Request::Switch(Default::default())),
    ] {
        let mut stage = Stage::new(sample::status());
        assert_eq!(stage.types(key), Want::Nothing);
        let screen = stage.screen(SMALL);
        let (question, same) = (format!("{title}? [y/N]"), format!("same as: helio {title}"));
        assert_shows(&screen, &[&question, &same, "at stake: ", stake]);
        assert_eq!(stage.press(Key::Enter), Want::Nothing, "Enter is no yes");
        assert_eq!(stage.types("n"), Want::Nothing);
        assert_shows(&stage.screen(SMALL), &["not confirmed; nothing was changed"]);
        stage.types(key);
        let asked = Asked { group: "db".into(), request };
        assert_eq!(stage.types("y"), Want::Ask(asked), "{title}");
        assert_eq!(stage.types("p"), Want::Nothing);
        assert!(stage.app.dialog().is_none(), "one request at a time");
    }
}

#[test]
fn the_example_in_the_guide_is_what_a_terminal_shows() {
    let guide = include_str!("../../../../docs/operate.md");
    let example = guide.split("```text\n").find(|block| block.starts_with("helio top: "));
    let example = example.and_then(|block| block.split("```").next()).expect("there is one");
    let mut status = sample::status();
    let kib = [150, 170, 90, 160, 210, 180, 160, 120, 150, 240, 170, 130, 160, 190];
    // What is written since lyon is gone waits in the queue.
    let first = status.groups[0].lag.bytes.0 - Bytes::kib(kib.iter().sum()).0;
    let mut show = |written: u64| {
        let group = &mut status.groups[0];
        group.counters.write_bytes.0 += written;
        let bytes = Bytes(first + group.counters.write_bytes.0);
        group.queue.as_mut().expect("it is primary").bytes = bytes;
        group.lag.bytes = bytes;
        status.clone()
    };
    let mut stage = Stage::new(show(0));
    kib.map(Bytes::kib).into_iter().for_each(|written| stage.polled(Ok(show(written.0))));
    let screen = stage.screen(SMALL);
    let rows: Vec<&str> = screen.lines().filter(|row| !row.is_empty()).collect();
    assert_eq!(example.lines().collect::<Vec<_>>(), rows, "{screen}");
}

#[test]
fn a_snapshot_has_a_name_that_can_be_edited() {
    let mut stage = Stage::new(sample::status());
    stage.types("n");
    assert_shows(&stage.screen(SMALL), &["name of the snapshot of db: top-20261120-213720_"]);
    (0..30).for_each(|_| drop(stage.press(Key::Backspace)));
    assert_eq!(stage.press(Key::Enter), Want::Nothing, "a snapshot needs a name");
    stage.types("safe-copy");
    assert_shows(&stage.screen(SMALL), &["this name is reserved"]);
    assert_eq!(stage.press(Key::Enter), Want::Nothing);
    assert_shows(&stage.screen(SMALL), &["name of the snapshot of db: safe-copy_"]);
    (0..30).for_each(|_| drop(stage.press(Key::Backspace)));
    stage.types("-.one q/@\x1b;");
    stage.press(Key::Enter);
    assert_shows(&stage.screen(SMALL), &["helio snapshot create db@oneq", "create db@oneq? [y/N]"]);
    let Want::Ask(Asked { request: Request::SnapshotCreate(wish), .. }) = stage.types("y") else {
        panic!("it is requested");
    };
    assert_eq!((wish.name.as_str(), wish.here, wish.refresh), ("oneq", false, false));
}

#[test]
fn what_the_daemon_reports_at_stake_is_shown_and_confirmed_to_it() {
    let mut stage = Stage::new(sample::status());
    stage.types("m");
    let Want::Ask(asked) = stage.types("y") else { panic!("it is requested") };
    let at_stake = Some(AtStake {
        since_ms: None,
        seconds: None,
        bytes: None,
        writes: None,
        unknown: None,
        last_contact_ms: None,
        text: "12 MiB that only lyon has".into(),
    });
    let asks =
        ApiError { at_stake, ..ApiError::new(code::NEEDS_CONFIRMATION, "it may", "confirm") };
    stage.app.take(Input::Done(asked, Err(asks)), stage.now);
    let screen = stage.screen(SMALL);
    assert_shows(
        &screen,
        &[
            "at stake: 12 MiB that only lyon has",
            "promote db nevertheless?",
            "L: yes, lose these writes   Esc: cancel",
        ],
    );
    // The key that confirmed the action may be held down.
    assert_eq!(stage.types("yYyl"), Want::Nothing);
    assert_eq!(stage.screen(SMALL), screen, "it is still asked");
    let Want::Ask(asked) = stage.types("L") else { panic!("it is confirmed") };
    let confirmed = PromoteRequest { confirmed: true, ..PromoteRequest::default() };
    assert_eq!(asked.request, Request::Promote(confirmed));
}

#[test]
fn the_end_of_a_request_is_shown_and_an_error_stays_with_its_hint() {
    let mut stage = Stage::new(sample::status());
    stage.types("p");
    let Want::Ask(asked) = stage.types("y") else { panic!("it is requested") };
    assert_shows(&stage.screen(SMALL), &["the request for db is in progress…"]);
    let done = Accepted { message: "paused".into(), warnings: Vec::new() };
    stage.app.take(Input::Done(asked.clone(), Ok(done)), stage.now);
    assert_shows(&stage.screen(SMALL), &["paused"]);
    stage.now += SECOND * 60;
    assert!(!stage.screen(SMALL).contains("paused"));
    let refused = ApiError::new("not-primary", "paris is not primary", "`helio pause db` on lyon");
    stage.app.take(Input::Done(asked, Err(refused)), stage.now);
    stage.now += SECOND * 60;
    let text = "paris is not primary; hint: `helio pause db` on lyon";
    assert_shows(&stage.screen(SMALL), &[text]);
    stage.press(Key::Escape);
    assert!(!stage.screen(SMALL).contains(text));
}

#[test]
fn a_daemon_that_is_gone_is_said_and_comes_back() {
    let mut stage = Stage::new(sample::status());
    for _ in 0..3 {
        let gone =
            ApiError::new("no-daemon", "no daemon responds on /run/x", "start `helio daemon`");
        stage.polled(Err(gone));
    }
    let screen = stage.screen(SMALL);
    assert_shows(
        &screen,
        &["no response for 2 s; the last status is shown. no daemon responds on /run/x", "AT RISK"],
    );
    stage.types("p");
    assert!(stage.app.dialog().is_none());
    assert_shows(&stage.screen(SMALL), &["the daemon does not respond; no action is possible"]);
    stage.polled(Ok(sample::status()));
    assert!(!stage.screen(SMALL).contains("no response"));
    stage.now += SECOND * 30;
    assert_shows(&stage.screen(SMALL), &["no response for 30 s"]);
}

#[test]
fn q_and_control_c_end_it_also_in_a_dialog() {
    let mut stage = Stage::new(sample::status());
    assert_eq!(stage.types("q"), Want::Quit);
    stage.types("n");
    assert_eq!(stage.types("q"), Want::Nothing, "it is a letter of the name");
    assert_eq!(stage.press(Key::Interrupt), Want::Quit);
}

#[test]
fn hostile_texts_reach_no_cell() {
    let hostile = "x\x1b[2J\x1b]0;owned\x07\u{9b}31m\r\n\u{202e}\u{200b}y";
    let mut status = sample::three();
    for group in &mut status.groups {
        group.name = format!("{}{hostile}", group.name);
        group.node = hostile.into();
        group.next = hostile.into();
        group.state_reason = hostile.into();
        group.verdict.why = hostile.into();
        group.fault = Some(hostile.into());
        group.volumes[0].name = hostile.into();
        group.volumes[0].member = hostile.into();
        let peer = group.peer.as_mut().expect("it has one");
        (peer.name, peer.address, peer.reason) = (hostile.into(), hostile.into(), hostile.into());
    }
    status.node = hostile.into();
    let mut stage = Stage::new(status.clone());
    let clean = |stage: &mut Stage| {
        for size in [SMALL, LARGE] {
            let buffer = stage.buffer(size);
            let hostile = |c: char| c.is_control() || "\u{202e}\u{200b}".contains(c);
            assert!(buffer.content().iter().all(|cell| !cell.symbol().chars().any(hostile)));
        }
    };
    clean(&mut stage);
    stage.types("p");
    clean(&mut stage);
    let Want::Ask(asked) = stage.types("y") else { panic!("it is requested") };
    stage.app.take(Input::Done(asked, Err(ApiError::new(hostile, hostile, hostile))), stage.now);
    stage.press(Key::Enter);
    let mut list = sample::snapshots();
    list.snapshots[0].name = hostile.into();
    let polled = Polled { status: Ok(status), snapshots: Some(Ok(list)) };
    stage.app.take(Input::Polled(Box::new(polled)), stage.now);
    clean(&mut stage);
    stage.polled(Err(ApiError::new(hostile, hostile, hostile)));
    clean(&mut stage);
}

#[test]
fn without_colours_nothing_is_coloured_and_words_say_the_same() {
    let mut stage = Stage::of(App::new(SECOND, false, None), sample::three());
    stage.polled(Err(ApiError::new("no-daemon", "no daemon responds", "start it")));
    for keys in ["p", "n?", "s"] {
        let buffer = stage.buffer(SMALL);
        assert!(
            buffer.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
        );
        stage.types(keys);
    }
    let coloured = Stage::new(sample::three()).buffer(SMALL);
    assert!(coloured.content().iter().any(|cell| cell.fg == Color::Yellow));
}

#[test]
fn any_size_is_drawn_and_a_tiny_one_says_what_is_needed() {
    let mut status = sample::three();
    for number in 0..100 {
        let mut group = status.groups[0].clone();
        group.name = format!("group-{number}");
        status.groups.push(group);
    }
    status.failed.push(FailedGroup {
        name: "broken".into(),
        since_ms: WallTime(0),
        reason: "its disk is missing".into(),
        hint: "`helio apply`".into(),
        needs_restart: false,
    });
    let mut stage = Stage::new(status);
    stage.press(Key::End);
    for size in [(1, 1), (20, 5), (60, 12), SMALL, (81, 25), LARGE, (400, 100)] {
        for key in ["", "?", "?", "n", "\n"] {
            key.chars().for_each(|c| drop(stage.press(Key::Char(c))));
            stage.screen(size);
        }
        stage.press(Key::Escape);
        stage.press(Key::Escape);
    }
    assert!(stage.screen((59, 12)).starts_with("the terminal is smaller than 60x12; q quits"));
    stage.press(Key::Home);
    assert_shows(&stage.screen(SMALL), &["broken     NOT SERVED", "its disk is missing"]);
    stage.types("p");
    assert_shows(
        &stage.screen(SMALL),
        &["the selected group is not served; no action is possible"],
    );
    let mut empty = sample::status();
    empty.groups.clear();
    assert_shows(&Stage::new(empty).screen(SMALL), &["this node is in no group"]);
}

#[test]
fn a_secondary_shows_what_it_receives() {
    let mut status = sample::status();
    (status.groups[0].role, status.groups[0].queue) = (Role::Secondary, None);
    let mut stage = Stage::new(status.clone());
    status.groups[0].counters.received_bytes = Bytes::kib(64);
    stage.polled(Ok(status));
    assert_shows(&stage.screen(SMALL), &["received  64 KiB/s", "secondary queuing"]);
}
