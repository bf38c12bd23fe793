// SPDX-License-Identifier: Apache-2.0
//! The thread: time that is paced, paused, and stopped while the pair is not watched; events.

use super::*;
use crate::Play;
use helio_api::event::{Event, What};
use std::time::Instant;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::interval;

fn played(story: impl AsyncFnOnce(&Play)) {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(story(&Play::start(1).expect("a pair")));
}

async fn now(play: &Play) -> u64 {
    play.simulation().await.expect("it responds").time_ms
}

/// The next event that is no sign of life.
async fn next(events: &mut mpsc::Receiver<Vec<u8>>) -> Event {
    loop {
        let row = events.recv().await.expect("the stream goes on");
        let event: Event = serde_json::from_slice(&row).expect("a row is an event");
        if event.event != What::Alive {
            return event;
        }
    }
}

#[test]
fn time_passes_at_the_chosen_speed_and_not_while_it_is_paused() {
    played(async |play| {
        play.change(Change::Speed(60.0)).await.expect("set");
        let began = now(play).await;
        while now(play).await < began + 1000 {}
        for paused in [true, false] {
            if paused {
                play.change(Change::Speed(0.0)).await.expect("set");
            } else {
                play.change(Change::Speed(60.0)).await.expect("set");
                play.watched(false).expect("it responds");
            }
            let stopped = now(play).await;
            // Requests that only read need no time.
            let (status, body) =
                play.request(PARIS, "GET", paths::STATUS, Vec::new()).await.expect("a response");
            assert_eq!(status, 200);
            let status: Status = serde_json::from_slice(&body).expect("a status");
            assert_eq!(status.groups[0].name, GROUP);
            assert_eq!(now(play).await, stopped);
        }
        // Others get the time that they need.
        let mode = json!({ "mode": "sync" }).to_string().into_bytes();
        let path = paths::of_group(paths::MODE, GROUP);
        let (status, _) = play.request(PARIS, "POST", &path, mode).await.expect("a response");
        assert_eq!(status, 200);
        play.watched(true).expect("it responds");
        let again = now(play).await;
        while now(play).await < again + 1000 {}
    });
}

#[test]
fn the_reached_speed_is_measured_while_time_passes() {
    played(async |play| {
        let shown = async || play.simulation().await.expect("it responds");
        play.change(Change::Speed(2.0)).await.expect("set");
        let (real, began) = (Instant::now(), now(play).await);
        let mut looks = interval(Duration::from_millis(20));
        let (reached, end) = loop {
            looks.tick().await;
            if let Simulation { reached: Some(reached), time_ms, .. } = shown().await {
                break (reached, time_ms);
            }
        };
        // Of nearly the same time: a busy machine is slower in both.
        let expected = (end - began) as f64 / 1000.0 / real.elapsed().as_secs_f64();
        assert!((0.8..1.25).contains(&(reached / expected)), "{reached}, not {expected}");
        play.change(Change::Speed(0.0)).await.expect("set");
        assert_eq!(shown().await.reached, None);
    });
}

#[test]
fn the_events_of_a_node_go_on_with_its_next_daemon_and_its_next_pair() {
    played(async |play| {
        play.change(Change::Speed(10.0)).await.expect("set");
        let mut events = play.events(LYON).expect("it responds");
        for again in [
            [Change::Press(Button::Kill(LYON)), Change::Press(Button::Start(LYON))].as_slice(),
            [Change::Press(Button::Restart)].as_slice(),
            &[],
        ] {
            while next(&mut events).await.event != What::Exists {}
            for change in again {
                // Operations that a killed daemon left under way keep its files locked for a moment.
                let starts = matches!(change, Change::Press(Button::Start(_)));
                while let Err(why) = play.change(change.clone()).await {
                    assert!(starts && why.code == "refused", "{why:?}");
                }
            }
        }
    });
}

#[test]
fn wrong_numbers_and_ended_daemons_are_errors() {
    played(async |play| {
        let request = |node| play.request(node, "GET", paths::STATUS, Vec::new());
        assert_eq!(request(2).await.expect_err("no such node").code, "bad-request");
        assert!(play.events(2).is_err());
        assert!(play.change(Change::Speed(61.0)).await.is_err());
        play.change(Change::Press(Button::Kill(PARIS))).await.expect("killed");
        assert_eq!(request(PARIS).await.expect_err("no daemon").code, "no-daemon");
        let shown = play.simulation().await.expect("it responds");
        assert!(!shown.nodes[PARIS].running && shown.nodes[LYON].running);
    });
}
