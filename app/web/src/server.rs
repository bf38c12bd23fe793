// SPDX-License-Identifier: Apache-2.0
//! The server of the page: its files, its stream, its actions.

use crate::door::{Closed, Token, enter};
use crate::guest::Guest;
use crate::live::Live;
use crate::page::{FILES, POLICY};
use crate::view::Act;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use helio_api::{ApiError, code};
use helio_daemon::control::{self, Limits, Listener, Places};
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

/// The most bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Connections at once that did not send the token yet. Any process of this host can open them.
const GUESTS_MOST: usize = 16;

/// A browser opens at most six connections to one server.
const LIMITS: Limits = Limits {
    connections: 64,
    head_within: Duration::from_secs(2),
    write_within: Duration::from_secs(10),
};

/// A listener on loopback.
struct Local {
    listener: TcpListener,
    token: Token,
    guests: Places,
}

impl Listener for Local {
    type Stream = Guest<TcpStream>;
    type Greeting = Ready<io::Result<Self::Stream>>;

    async fn accept(&mut self) -> io::Result<Self::Greeting> {
        let (stream, _) = self.listener.accept().await?;
        let (token, place) = (self.token.clone(), self.guests.take());
        Ok(ready(stream.set_nodelay(true).map(|()| Guest::new(stream, token, place))))
    }
}

/// What a request is answered from.
#[derive(Clone)]
struct Desk {
    live: Arc<Live>,
    token: Token,
    stop: watch::Receiver<bool>,
}

/// Serves the page until `stop` says so.
pub async fn serve(
    listener: TcpListener,
    live: Arc<Live>,
    token: Token,
    stop: watch::Receiver<bool>,
) {
    let listener = Local { listener, token: token.clone(), guests: Places::new(GUESTS_MOST) };
    let desk = Desk { live, token, stop: stop.clone() };
    let app = Router::new().fallback(answer).with_state(desk);
    control::serve(listener, app, LIMITS, stop).await;
}

async fn answer(State(desk): State<Desk>, request: Request) -> Response {
    let mut response = answered(desk, request).await.unwrap_or_else(|Closed(status, why)| {
        (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], why).into_response()
    });
    let always = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in always {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn answered(desk: Desk, request: Request) -> Result<Response, Closed> {
    let (parts, body) = request.into_parts();
    let path = enter(&desk.token, &parts.method, &parts.uri, &parts.headers)?;
    Ok(match (&parts.method, path) {
        (&Method::GET, "live") => {
            Sse::new(events(&desk)).keep_alive(KeepAlive::new()).into_response()
        }
        (&Method::POST, "act") => match read::<Act>(body).await {
            Ok(act) => {
                let (status, body) = desk.live.act(&act).await;
                json(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), body)
            }
            Err(error) => refused(&error),
        },
        (&Method::POST, "simulate") => simulate(&desk, body).await,
        (&Method::GET, name) => match FILES.iter().find(|file| file.name == name) {
            Some(file) => ([(CONTENT_TYPE, file.kind)], file.bytes).into_response(),
            None => return Err(Closed(StatusCode::NOT_FOUND, "there is no such file\n")),
        },
        _ => return Err(Closed(StatusCode::METHOD_NOT_ALLOWED, "GET reads, POST changes\n")),
    })
}

async fn simulate(desk: &Desk, body: Body) -> Response {
    let Some(simulation) = desk.live.simulation() else {
        let error = ApiError::new(
            code::NOT_FOUND,
            "these daemons are real",
            "start `helio dashboard --simulate`",
        );
        return refused(&error);
    };
    let changed = match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(change) => simulation.change(change.to_vec()).await,
        Err(error) => Err(invalid(&error)),
    };
    desk.live.refresh();
    match changed {
        Ok(message) => {
            json(StatusCode::OK, serde_json::json!({ "message": message }).to_string().into())
        }
        Err(error) => refused(&error),
    }
}

async fn read<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| invalid(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| invalid(&error))
}

fn invalid(why: &dyn std::fmt::Display) -> ApiError {
    let text = format!("the request is invalid: {why}");
    ApiError::new(code::BAD_REQUEST, text, "reload the page")
}

fn refused(error: &ApiError) -> Response {
    json(StatusCode::BAD_REQUEST, serde_json::to_vec(error).unwrap_or_default())
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}

/// What a page that is open receives.
struct Stage {
    views: watch::Receiver<Arc<str>>,
    kept: std::vec::IntoIter<Arc<str>>,
    happenings: broadcast::Receiver<Arc<str>>,
    stop: watch::Receiver<bool>,
    ended: bool,
}

/// Views and happenings, until the server ends.
fn events(desk: &Desk) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
    let (kept, happenings) = desk.live.happenings();
    let (views, kept) = (desk.live.views(), kept.into_iter());
    let stage = Stage { views, kept, happenings, stop: desk.stop.clone(), ended: false };
    stream::unfold(stage, async |mut stage| {
        let event = stage.next().await?;
        Some((Ok(event), stage))
    })
}

impl Stage {
    async fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let happening = |text: Arc<str>| Event::default().event("happening").data(&*text);
        if let Some(text) = self.kept.next() {
            return Some(happening(text));
        }
        loop {
            tokio::select! {
                _told_or_gone = self.stop.wait_for(|stop| *stop) => {
                    self.ended = true;
                    return Some(Event::default().event("gone").data("{}"));
                }
                changed = self.views.changed() => {
                    changed.ok()?;
                    return Some(Event::default().event("view").data(&**self.views.borrow_and_update()));
                }
                received = self.happenings.recv() => match received {
                    Ok(text) => return Some(happening(text)),
                    // This page was too slow; the next ones follow.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                },
            }
        }
    }
}
