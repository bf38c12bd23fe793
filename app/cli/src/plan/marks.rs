// SPDX-License-Identifier: Apache-2.0
//! `helio plan marks`: what a map of changed regions takes, and what a copy by it comes to.

use super::span;
use super::table::table;
use crate::args::MarksPlan;
use crate::render::line;
use helio_plan::{GRAINS, Map, map, most_copied, shadow_memory};
use helio_units::Bytes;
use serde_json::{Value, json};
use std::time::Duration;

/// One granularity.
pub(super) struct Row {
    grain: Bytes,
    who: &'static str,
    map: Map,
    copied: Option<Bytes>,
    time: Option<Duration>,
}

/// The map at each granularity asked for; of a volume so large that its regions cannot be counted, none.
pub(super) fn rows(wish: &MarksPlan) -> Vec<Row> {
    let asked = wish.granularity.map(|grain| vec![(grain, "")]);
    let all = Bytes(wish.volume.0.saturating_mul(wish.volumes));
    let of = |(grain, who): (Bytes, &'static str)| {
        let one = map(wish.volume, grain)?;
        let copied = wish.writes.map(|writes| most_copied(writes, grain, all));
        let time = wish.rate.zip(copied).map(|(rate, copied)| rate.time_for(copied));
        let times = |bytes: Bytes| Bytes(bytes.0.saturating_mul(wish.volumes));
        let regions = one.regions.saturating_mul(wish.volumes);
        let map = Map { regions, bits: times(one.bits), most: times(one.most) };
        Some(Row { grain, who, map, copied, time })
    };
    asked.unwrap_or_else(|| GRAINS.to_vec()).into_iter().filter_map(of).collect()
}

/// OpenVMS's rule counts gigabytes.
fn shadow(wish: &MarksPlan) -> Bytes {
    let gigabytes = wish.volume.0.saturating_mul(wish.volumes).div_ceil(1_000_000_000);
    shadow_memory(wish.volumes, gigabytes)
}

pub(super) fn text(wish: &MarksPlan, rows: &[Row]) -> String {
    let mut head =
        ["granularity", "regions", "bits", "in memory at most"].map(str::to_owned).to_vec();
    head.extend(wish.writes.map(|writes| format!("copied after {writes} scattered writes")));
    head.push(String::new());
    let mut lines = vec![head];
    lines.extend(rows.iter().map(|row| {
        let map = row.map;
        let mut cells = [row.grain, map.bits, map.most].map(|bytes| bytes.to_string()).to_vec();
        cells.insert(1, map.regions.to_string());
        cells.extend(row.copied.map(|copied| match row.time {
            Some(time) => format!("at most {copied}, {}", span(time)),
            None => format!("at most {copied}"),
        }));
        cells.push(row.who.to_owned());
        cells
    }));
    let mut out = String::new();
    line(&mut out, "volumes", &format!("{} of {}", wish.volumes, wish.volume));
    out = format!("{out}\n{}\n", table(&lines));
    let rule = format!(
        "{} KB on each node: 24 KB, 4.5 KB a shadow set, 2.1 KB a gigabyte",
        super::decimals(shadow(wish).0 as f64 / 1e3, 1)
    );
    line(&mut out, "OpenVMS", &rule);
    out
}

pub(super) fn json(wish: &MarksPlan, rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        json!({
            "granularity_bytes": row.grain.0,
            "used_by": row.who,
            "regions": row.map.regions,
            "bits_bytes": row.map.bits.0,
            "memory_most_bytes": row.map.most.0,
            "copied_most_bytes": row.copied.map(|copied| copied.0),
            "copy_seconds": row.time.map(|time| time.as_secs_f64()),
        })
    });
    json!({
        "volume_bytes": wish.volume.0,
        "volumes": wish.volumes,
        "granularities": rows.collect::<Vec<_>>(),
        "openvms_rule_bytes": shadow(wish).0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_volumes_of_fifty_gigabytes_cost_what_the_talk_says() {
        let wish = MarksPlan {
            volume: Bytes(50_000_000_000),
            volumes: 10,
            granularity: None,
            writes: Some(1000),
            rate: None,
            json: false,
        };
        let rows = rows(&wish);
        let shown = text(&wish, &rows);
        assert!(shown.contains("OpenVMS    1119 KB on each node"), "{shown}");
        assert!(shown.contains("at most 62.50 MiB"), "{shown}");
        assert_eq!(rows.len(), GRAINS.len());
    }
}
