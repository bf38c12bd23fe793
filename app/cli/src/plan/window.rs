// SPDX-License-Identifier: Apache-2.0
//! `helio plan window`: what a link needs under way, and what windows let through.

use super::span;
use super::table::table;
use crate::args::Window;
use crate::render::line;
use helio_plan::{buffer, doubled, hiccup_room, product, throughput};
use helio_units::{Bandwidth, Bytes, Rate};
use serde_json::{Value, json};
use std::time::Duration;

/// The round trips of Sun's TABLE B-1, in milliseconds.
const ROUND_TRIPS: [u64; 5] = [10, 20, 50, 100, 200];
/// Its windows, in KiB.
const WINDOWS: [u64; 2] = [24, 256];

/// What to ask for: twice the product, as the search by doubling would find it.
fn advised(wish: &Window) -> Bytes {
    doubled(buffer(wish.rate, wish.rtt))
}

fn windows(wish: &Window) -> Vec<Bytes> {
    let mut windows = wish.windows.clone();
    if windows.is_empty() {
        windows = WINDOWS.map(Bytes::kib).to_vec();
        windows.push(advised(wish));
    }
    windows.sort_unstable();
    windows.dedup();
    windows
}

fn round_trips(wish: &Window) -> Vec<Duration> {
    let mut trips = ROUND_TRIPS.map(Duration::from_millis).to_vec();
    trips.push(wish.rtt);
    trips.sort_unstable();
    trips.dedup();
    trips
}

fn room(wish: &Window) -> Option<(Duration, Rate, Bytes)> {
    let load = wish.load.unwrap_or(wish.rate);
    wish.hiccup.map(|hiccup| (hiccup, load, hiccup_room(load, hiccup)))
}

pub(super) fn text(wish: &Window) -> String {
    let product = product(wish.rate, wish.rtt);
    let link = format!("{}, {}, round trip {}", Bandwidth(wish.rate), wish.rate, span(wish.rtt));
    let mut out = String::new();
    line(&mut out, "link", &link);
    line(
        &mut out,
        "product",
        &format!("{product} ({} bytes): the window that fills the link", product.0),
    );
    let twice = buffer(wish.rate, wish.rtt);
    let text = format!("{twice}: twice the product; {} by the search by doubling", advised(wish));
    line(&mut out, "buffer", &text);
    if let Some((hiccup, load, room)) = room(wish) {
        let text = format!(
            "{room} ({} bytes) for {} at {load}; it has no effect in sync and nearsync, and is lost with the host",
            room.0,
            span(hiccup)
        );
        line(&mut out, "hiccup", &text);
    }
    let windows = windows(wish);
    let head = std::iter::once("round trip".to_owned()).chain(windows.iter().map(Bytes::to_string));
    let mut rows = vec![head.collect::<Vec<_>>()];
    rows.extend(round_trips(wish).into_iter().map(|rtt| {
        let cells =
            windows.iter().map(|window| Bandwidth(throughput(*window, rtt, wish.rate)).to_string());
        std::iter::once(span(rtt)).chain(cells).collect()
    }));
    format!("{out}\n  throughput of one connection with a window of\n{}", table(&rows))
}

pub(super) fn json(wish: &Window) -> Value {
    let rows = round_trips(wish).into_iter().map(|rtt| {
        let cells = windows(wish).into_iter().map(|window| {
            let rate = throughput(window, rtt, wish.rate);
            json!({ "window_bytes": window.0, "bytes_per_second": rate.0 })
        });
        json!({ "rtt_seconds": rtt.as_secs_f64(), "windows": cells.collect::<Vec<_>>() })
    });
    let hiccup = room(wish).map(|(hiccup, load, room)| {
        json!({
            "seconds": hiccup.as_secs_f64(),
            "load_bytes_per_second": load.0,
            "room_bytes": room.0,
        })
    });
    json!({
        "rate_bytes_per_second": wish.rate.0,
        "rtt_seconds": wish.rtt.as_secs_f64(),
        "product_bytes": product(wish.rate, wish.rtt).0,
        "buffer_bytes": buffer(wish.rate, wish.rtt).0,
        "advised_buffer_bytes": advised(wish).0,
        "hiccup": hiccup,
        "table": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portland() -> Window {
        let (rate, rtt) = (Rate(4_800_000), Duration::from_millis(32));
        Window { rate, rtt, windows: Vec::new(), hiccup: None, load: None, json: false }
    }

    #[test]
    fn portland_needs_half_a_mebibyte() {
        let shown = text(&portland());
        assert!(shown.contains("150 KiB (153600 bytes)"), "{shown}");
        assert!(shown.contains("300 KiB: twice the product; 512 KiB by the search"), "{shown}");
        assert!(shown.contains("  32 ms       6.14 Mbit/s"), "{shown}");
    }

    #[test]
    fn ten_seconds_at_three_megabytes_need_thirty() {
        let load = Some(Rate(3_000_000));
        let wish = Window { hiccup: Some(Duration::from_secs(10)), load, ..portland() };
        assert!(text(&wish).contains("(30000000 bytes) for 10 s at 2.86 MiB/s"), "{}", text(&wish));
        assert_eq!(json(&wish)["hiccup"]["room_bytes"], 30_000_000);
    }
}
