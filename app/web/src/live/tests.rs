// SPDX-License-Identifier: Apache-2.0
//! Stories of two daemons and a page, in time that passes only here.

use super::*;
use crate::daemon::{Answer, Following, Looks};
use crate::view::Choice;
use crate::view::Forecast;
use helio_api::GroupStatus;
use serde_json::Value;
use std::future::pending;

/// How a daemon responds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Responds,
    Hangs,
    /// Responds after two seconds.
    Slow,
    Gone,
}

struct Fake {
    node: &'static str,
    mood: Mutex<Mood>,
}

impl Fake {
    fn is(&self, mood: Mood) {
        *lock(&self.mood) = mood;
    }

    fn status(&self) -> Status {
        let sample = include_str!("../../../cli/src/render_sample.json");
        let mut status: Status = serde_json::from_str(sample).expect("the sample is a status");
        status.node = self.node.into();
        status.groups[0].node = self.node.into();
        status
    }
}

impl Daemon for Arc<Fake> {
    fn label(&self) -> String {
        self.node.into()
    }

    fn command(&self, line: &str) -> String {
        format!("{line} --state {}", self.node)
    }

    fn ask(&self, ask: Ask) -> Answer<'_> {
        Box::pin(async move {
            let mood = *lock(&self.mood);
            match mood {
                Mood::Hangs => pending().await,
                Mood::Slow => _ = timeout(Duration::from_secs(2), pending::<()>()).await,
                Mood::Gone => return Err(ApiError::new("no-daemon", "gone", "start it")),
                Mood::Responds => {}
            }
            match ask.path.as_str() {
                paths::STATUS => Ok((200, json!(self.status()).to_string().into_bytes())),
                // The list of snapshots never comes.
                _ => pending().await,
            }
        })
    }

    fn follow(&self, _since: Option<u64>, _into: mpsc::Sender<Event>) -> Following<'_> {
        Box::pin(pending())
    }
}

/// Offers one action for each other node whose status it gets.
struct Others;

impl Guide for Others {
    fn offers(&self, _status: &Status, _group: &GroupStatus, others: &[&Status]) -> Vec<Offer> {
        let offer = |other: &&Status| Offer {
            action: format!("advised by {}", other.node),
            label: String::new(),
            command: "helio pause db".into(),
            effect: String::new(),
            stake: String::new(),
            input: None,
            advised: true,
            common: true,
            takes_over: false,
            only_step: false,
        };
        others.iter().map(offer).collect()
    }

    fn advised(&self, _text: &str, _status: &Status, _group: &GroupStatus) -> Vec<Offer> {
        Vec::new()
    }

    fn choices(&self, _group: &GroupStatus, _others: &[&Status]) -> Vec<Choice> {
        Vec::new()
    }

    fn request(&self, _act: &Act) -> Result<Ask, ApiError> {
        Ok(Ask { path: "/act".into(), body: Some(Vec::new()) })
    }

    fn forecast(&self, looks: &Looks, _group: &GroupStatus) -> Option<Forecast> {
        Some(Forecast { lag_bytes: Some(looks.len() as u64), ..Forecast::default() })
    }
}

struct Stage {
    nodes: [Arc<Fake>; 2],
    live: Arc<Live>,
}

fn stage() -> Stage {
    let fake = |node| Arc::new(Fake { node, mood: Mutex::new(Mood::Responds) });
    let nodes = [fake("paris"), fake("lyon")];
    let daemons = nodes.iter().map(|node| Arc::new(Arc::clone(node)) as Arc<dyn Daemon>);
    let live = Live::new(daemons.collect(), Box::new(Others), None, Duration::from_secs(1));
    tokio::spawn(Arc::clone(&live).run());
    Stage { nodes, live }
}

async fn next(views: &mut watch::Receiver<Arc<str>>) -> Value {
    views.changed().await.expect("there are views");
    serde_json::from_str(&views.borrow_and_update()).expect("a view is JSON")
}

/// Views until that much time has passed; the last one.
async fn after(views: &mut watch::Receiver<Arc<str>>, span: Duration) -> Value {
    let ends = Instant::now() + span;
    loop {
        let view = next(views).await;
        if Instant::now() >= ends {
            return view;
        }
    }
}

fn offers(view: &Value, node: usize) -> Vec<&str> {
    let offers = view["nodes"][node]["groups"]["db"]["offers"].as_array();
    offers.into_iter().flatten().filter_map(|offer| offer["action"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_hangs_grows_old_and_delays_the_other_one_by_less_than_a_second() {
    let stage = stage();
    let mut views = stage.live.views();
    let first = next(&mut views).await;
    assert_eq!(first["nodes"][0]["status"]["node"], "paris");
    assert_eq!(offers(&first, 1), ["advised by paris"]);
    stage.nodes[0].is(Mood::Hangs);
    let view = after(&mut views, Duration::from_secs(5)).await;
    let age = |view: &Value, node: usize| view["nodes"][node]["age_ms"].as_u64().expect("an age");
    assert!((4000..7000).contains(&age(&view, 0)), "{}", age(&view, 0));
    assert!(age(&view, 1) < 1000, "{}", age(&view, 1));
    let view = after(&mut views, STALE).await;
    assert_eq!((offers(&view, 0), offers(&view, 1)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_a_node_recommended_before_it_was_gone_is_offered_no_more() {
    let stage = stage();
    let mut views = stage.live.views();
    assert_eq!(offers(&next(&mut views).await, 1), ["advised by paris"]);
    stage.nodes[0].is(Mood::Gone);
    let view = after(&mut views, Duration::from_secs(2)).await;
    assert_eq!(view["nodes"][0]["error"]["code"], "no-daemon");
    assert_eq!(view["nodes"][0]["status"]["node"], "paris", "the last one stays");
    assert_eq!(offers(&view, 1), Vec::<&str>::new());
    stage.nodes[0].is(Mood::Responds);
    let view = after(&mut views, Duration::from_secs(2)).await;
    assert_eq!(offers(&view, 1), ["advised by paris"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_opened_later_sees_what_is_there_then() {
    let stage = stage();
    stage.nodes[0].is(Mood::Slow);
    let mut views = stage.live.views();
    let view = after(&mut views, Duration::from_secs(9)).await;
    assert_eq!(view["nodes"][1]["groups"]["db"]["forecast"]["lag_bytes"], LOOKS);
    let age = view["nodes"][0]["age_ms"].as_u64().expect("an age");
    assert!(age < 4000, "it is as old as its arrival: {age}");
    drop(views);
    let _passed = timeout(Duration::from_secs(60), pending::<()>()).await;
    let mut views = stage.live.views();
    let view = next(&mut views).await;
    assert!(view["nodes"][0]["status"].is_null(), "{}", view["nodes"][0]);
    assert_eq!(view["nodes"][1]["groups"]["db"]["forecast"]["lag_bytes"], 1);
    assert!(view["nodes"][1]["age_ms"].as_u64().is_some_and(|age| age < 1000), "{view}");
}

#[tokio::test(start_paused = true)]
async fn a_command_reaches_the_daemon_that_is_shown() {
    let stage = stage();
    let view = next(&mut stage.live.views()).await;
    let command = &view["nodes"][1]["groups"]["db"]["offers"][0]["command"];
    assert_eq!(command, "helio pause db --state lyon");
}
