// SPDX-License-Identifier: Apache-2.0
//! Bounds of figures, and the hooks of their alerts.

use super::*;

fn with(line: &str) -> Result<Config, ConfigError> {
    parse(&GOOD.replace("mode = \"async\"", line))
}

#[test]
fn bounds_have_defaults_and_can_be_switched_off() {
    let of = |line: &str| with(line).expect("reads").groups["db"].alerts;
    assert_eq!(of("mode = \"async\""), AlertsConfig::default());
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(
        of(
            "alerts = { lag-above = \"5s\", queue-full-within = \"off\", protection-lost = \"2min\" }"
        ),
        AlertsConfig {
            lag_above: LagBound::Above(Duration::from_secs(5)),
            queue_full_within: None,
            resync_not_converging: seconds(10),
            protection_lost: seconds(120),
        }
    );
    let auto = of("alerts = { lag-above = \"auto\" }").lag_above;
    assert_eq!(auto.age(None), seconds(30));
    assert_eq!(auto.age(seconds(3600)), seconds(7230), "in mode periodic");
    assert_eq!(of("alerts = { lag-above = \"off\" }").lag_above.age(None), None);
}

#[test]
fn what_is_no_bound_is_refused_with_a_hint() {
    for (line, message, hint) in [
        (
            "alerts = { lag-above = \"500ms\" }",
            "8:24: group db, alerts: `lag-above` 500ms is out of range",
            "use \"off\", or a time from \"1s\" to \"168h\"",
        ),
        (
            "alerts = { protection-lost = \"200h\" }",
            "8:30: group db, alerts: `protection-lost` 720000s is out of range",
            "use \"off\", or a time from \"1s\" to \"168h\"",
        ),
        (
            "alerts = { lag = \"5s\" }",
            "8:12: group db, alerts: unknown key `lag`",
            "known here: lag-above, queue-full-within, resync-not-converging, protection-lost",
        ),
        (
            "hooks = { lag-above = \"page-me\" }",
            "8:23: group db, hooks: `lag-above` = \"page-me\" is not an absolute path",
            "start it with `/`",
        ),
    ] {
        let said = with(line).expect_err(line).to_string();
        assert_eq!(said, format!("helio.toml:{message}\n  hint: {hint}"));
    }
    let said = with("alerts = { queue-full-within = \"never\" }").expect_err("refused");
    assert!(said.hint.contains("write a time with its unit"), "{said}");
}

#[test]
fn bounds_and_the_hooks_of_alerts_change_while_the_daemon_runs() {
    let before = with("hooks = { fence = \"/bin/fence\" }").expect("reads");
    let after = with(
        "alerts = { lag-above = \"5s\" }\nhooks = { fence = \"/bin/fence\", lag-above = \"/bin/page\" }",
    );
    let after = after.expect("reads");
    let mut running = before;
    let changes = diff(&running, &after, "paris");
    assert_eq!(changes.online.len(), 1);
    assert_eq!(changes.online[0].setting, Setting::Alerts(after.groups["db"].alerts));
    assert_eq!(changes.online[0].text, "group db: lag-above auto -> 5s");
    assert_eq!(changes.hooks, ["group db: hook lag-above none -> /bin/page"]);
    assert_eq!(changes.restart, Vec::<String>::new());
    running.retain_as(&after);
    let hooks = &running.groups["db"].hooks;
    assert!(hooks.alerts.contains_key(&Alert::LagAbove) && hooks.fence.is_some());
    assert_eq!(diff(&running, &after, "paris").hooks, Vec::<String>::new());
}
