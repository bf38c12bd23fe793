// SPDX-License-Identifier: Apache-2.0
//! Automatic snapshots.

use super::*;
use helio_units::WallTime;

/// The good file with these terms.
fn with(terms: &str) -> Result<Config, ConfigError> {
    parse(&GOOD.replace("mode = \"async\"", &format!("retain = \"{terms}\"")))
}

fn retain(terms: &str) -> Retain {
    let config = with(terms).unwrap_or_else(|error| panic!("{error}"));
    config.groups["db"].retain.clone().expect("it is set")
}

/// 2026-11-27 20:47:13 UTC, a Friday.
const FRIDAY: WallTime = WallTime(1_795_812_433_000);

#[test]
fn a_snapshot_is_due_at_the_begin_of_the_shortest_interval() {
    assert_eq!(FRIDAY.to_string(), "2026-11-27 20:47:13Z");
    for (terms, due) in [
        ("12 per minute", "2026-11-27 20:47:10Z"),
        ("1 per minute, 6 per hour", "2026-11-27 20:47:00Z"),
        ("7 daily, 24 hourly,6 per hour", "2026-11-27 20:40:00Z"),
        ("16 per hour", "2026-11-27 20:45:00Z"),
        ("5 per day", "2026-11-27 19:12:00Z"),
        ("12 monthly, 24 hourly", "2026-11-27 20:00:00Z"),
        ("7 daily, 4 weekly", "2026-11-27 00:00:00Z"),
        ("12 monthly, 4  weekly", "2026-11-23 00:00:00Z"),
        ("12 monthly", "2026-11-01 00:00:00Z"),
    ] {
        assert_eq!(retain(terms).due(FRIDAY).to_string(), due, "{terms}");
    }
    let sunday = WallTime(FRIDAY.0 + 2 * 86_400_000);
    assert_eq!(retain("4 weekly").due(sunday).to_string(), "2026-11-23 00:00:00Z");
    for at in [WallTime(0), WallTime(86_400_000), WallTime(u64::MAX)] {
        for terms in ["12 per minute", "1 weekly", "1 monthly"] {
            assert!(retain(terms).due(at) <= at, "{terms}");
        }
    }
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    let kinds = "separate terms by commas, and use N per minute, N per hour, N per day, N hourly, N daily, N weekly, N monthly";
    for (terms, message, hint) in [
        ("", "`retain` has an empty term", kinds),
        ("6 per hour,", "`retain` has an empty term", kinds),
        ("6 per week", "`6 per week` in `retain` is unknown", kinds),
        ("six hourly", "`six hourly` in `retain` is unknown", kinds),
        ("-1 hourly", "`-1 hourly` in `retain` is unknown", kinds),
        ("0 hourly", "`0 hourly` in `retain` keeps nothing", "use at least 1, or leave it out"),
        ("61 per hour", "`61 per hour` in `retain` is too many", "use at most 60 per hour"),
        ("15 per minute", "`15 per minute` in `retain` is too many", "use at most 12 per minute"),
        (
            "7 per hour",
            "`7 per hour` in `retain`: 3600 seconds divided by 7 is not a whole number of seconds",
            "use 6 per hour",
        ),
        (
            "24 hourly, 2 hourly",
            "`24 hourly` and `2 hourly` in `retain` are of the same kind",
            "use only one of them",
        ),
        (
            "24 hourly, 24 per day",
            "`24 hourly` and `24 per day` in `retain` are of the same kind",
            "use only one of them",
        ),
        (
            "60 per hour, 24 hourly, 31 daily",
            "`retain` keeps 115 snapshots; a group can have 126, and 26 of these are not for automatic ones",
            "keep at most 100 in all terms together",
        ),
        (
            "18446744073709551615 daily, 1 hourly",
            "`retain` keeps 18446744073709551615 snapshots; a group can have 126, and 26 of these are not for automatic ones",
            "keep at most 100 in all terms together",
        ),
    ] {
        let refused = with(terms).expect_err(terms).to_string();
        assert_eq!(refused, format!("helio.toml:8:10: group db: {message}\n  hint: {hint}"));
    }
    assert!(with("60 per hour, 24 hourly, 7 daily, 4 weekly, 5 monthly").is_ok(), "100 in all");
}

#[test]
fn terms_change_while_the_daemon_runs() {
    let (none, hourly) =
        (parse(GOOD).expect("reads"), with("6  per hour,24 hourly").expect("reads"));
    let of = |old: &Config, new: &Config| diff(old, new, "paris").retain;
    assert_eq!(of(&none, &hourly), ["group db: retain none -> 6 per hour, 24 hourly"]);
    assert_eq!(of(&hourly, &none), ["group db: retain 6 per hour, 24 hourly -> none"]);
    assert_eq!(diff(&none, &hourly, "paris").restart, Vec::<String>::new());
    let mut running = none.clone();
    running.retain_as(&hourly);
    assert_eq!(
        diff(&running, &hourly, "paris"),
        Changes { online: Vec::new(), ..Changes::default() }
    );
}
