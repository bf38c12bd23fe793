// SPDX-License-Identifier: Apache-2.0
//! The form of commands: omitted names, old names, `--json`, `--wait` that is interrupted, a closed pipe, completion.

use crate::common::{PATIENCE, assert_says, promote, replicating};
use helio_testkit::{Pair, Plan, Told, eventually, handles, helio_binary, run};
use helio_units::{Bytes, Mode};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

fn pair() -> Pair {
    let pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(8)).start();
    promote(&pair, "paris");
    pair
}

#[track_caller]
fn assert_ended(told: &Told, code: i32, phrases: &[&str]) {
    assert_eq!(told.status.code(), Some(code), "{told}");
    assert_says(&format!("{}{}", told.stdout, told.stderr), phrases);
}

/// Starts a command of paris whose output is read by this test.
fn start(pair: &Pair, words: &[&str]) -> Child {
    let mut command = Command::new(helio_binary());
    command.args(words).arg("--state").arg(pair.state("paris"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("helio runs")
}

/// The exit code of a command, and its standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut text = String::new();
    child.stderr.take().expect("is piped").read_to_string(&mut text).expect("is text");
    (child.wait().expect("it ends").code(), text)
}

#[test]
fn an_omitted_group_is_the_only_one_and_resume_ends_a_pause() {
    let pair = pair();
    let told = pair.helio("paris", &["resume"]);
    assert_ended(&told, 1, &["db is not paused", "hint: `helio resync db`"]);
    let paused = pair.helio("paris", &["pause", "--json"]).json();
    assert_eq!(paused["warnings"], serde_json::json!([]), "{paused}");
    assert_says(paused["message"].as_str().expect("text"), &["db is paused", "`helio resume db`"]);
    assert_eq!(pair.status("paris")["groups"][0]["state"], "logging");
    assert_ended(&pair.helio("paris", &["resume", "--wait"]), 0, &["db is replicating"]);
    assert_ended(&pair.helio("paris", &["mode", "async"]), 0, &["the mode of db is async"]);
    assert_eq!(pair.helio("paris", &["queue", "show", "--json"]).json()["group"], "db");
    assert_ended(&pair.helio("paris", &["verify", "start", "--wait"]), 0, &["data: 0 B differed"]);
    assert_eq!(pair.helio("paris", &["verify", "show", "--json"]).json()["group"], "db");
    assert_ended(&pair.helio("paris", &["attach", "db/none"]), 1, &["none"]);
    assert_ended(&pair.helio("paris", &["promote", "--wait"]), 0, &["db is replicating"]);
}

/// The commands of a printed error or status, without their backticks.
fn commands(text: &str) -> Vec<&str> {
    let all = text.split('`').skip(1).step_by(2);
    all.filter(|command| command.starts_with("helio ") && !command.contains("--help")).collect()
}

#[test]
fn an_advised_command_runs_as_printed_where_the_daemon_was_named_by_an_option() {
    let pair = pair();
    pair.helio("paris", &["pause"]).expect_success();
    let state = pair.state("paris");
    let typed = ["--state", &state.to_string_lossy()];
    for line in [&["status", "db"][..], &["pause", "db"]] {
        let told = helio_testkit::helio(&[line, &typed].concat());
        let advised = commands(&told.stdout);
        assert!(!advised.is_empty(), "{told}");
        for command in advised {
            let words: Vec<&str> = command.split(' ').skip(1).collect();
            // No environment names the daemon: only what is printed does.
            helio_testkit::helio(&words).expect_success();
            pair.helio("paris", &["pause"]);
        }
    }
    // What the environment names is not repeated.
    let told = pair.helio("paris", &["status", "db"]);
    assert_says(&told.stdout, &["`helio resume db` ends the pause"]);
}

#[test]
fn an_old_name_works_and_prints_the_new_one_and_log_is_refused() {
    let pair = pair();
    let told = pair.helio("paris", &["log", "db"]);
    assert_ended(&told, 2, &["nothing was changed", "journalctl -u helio", "`helio pause db`"]);
    assert_eq!(pair.status("paris")["groups"][0]["state"], "replicating");
    for (old, new) in [
        (&["update", "db", "--wait"][..], "`helio resync db --wait"),
        (&["recorder", "db"], "`helio debug events db"),
        (&["queue", "db"], "`helio queue show db"),
        (&["queue", "db", "set", "--memory", "1MiB"], "`helio queue set db --memory 1MiB"),
        (&["verify", "db", "--status"], "`helio verify show db"),
    ] {
        let told = pair.helio("paris", old);
        assert_ended(&told, 0, &[]);
        assert_says(&told.stderr, &["this form is old; the new one is", new]);
        assert_eq!(told.stderr.matches("helio: ").count(), 1, "{told}");
    }
}

#[test]
fn what_risks_data_or_drops_clients_needs_yes_and_is_not_done_without() {
    let pair = pair();
    for line in [
        &["resync", "db", "--full"][..],
        &["resync", "db", "--reverse"],
        &["switch", "db", "--force"],
        &["verify", "start", "db", "--repair"],
        &["detach", "db/data", "--force"],
        &["release", "db"],
    ] {
        let told = pair.helio("paris", line);
        assert_ended(&told, 4, &["hint: ", "--yes"]);
        let told = pair.helio("paris", &[line, &["--json"]].concat());
        assert_eq!(told.status.code(), Some(4), "{told}");
        let error: serde_json::Value = serde_json::from_str(&told.stderr).expect("one object");
        assert_eq!(error["code"], "needs-confirmation", "{error}");
    }
    let told = pair.helio("paris", &["verify", "start", "db", "--repair"]);
    assert_says(
        &told.stderr,
        &["at stake: where the copies of db differ, the blocks of paris overwrite those of lyon"],
    );
    let group = &pair.status("paris")["groups"][0];
    assert_eq!((&group["role"], &group["state"]), (&"primary".into(), &"replicating".into()));
}

#[test]
fn a_wait_that_is_interrupted_or_over_says_that_the_work_continues() {
    let pair = pair();
    // It lasts longer than the test.
    let slow = ["verify", "start", "db", "--rate", "4KiB/s", "--wait"];
    let told = pair.helio("paris", &[&slow[..], &["--timeout", "2s", "--json"]].concat());
    assert_eq!(told.status.code(), Some(5), "{told}");
    let error: serde_json::Value = serde_json::from_str(&told.stderr).expect("one object");
    assert_eq!(error["code"], "timeout", "{error}");
    assert_says(
        &told.stderr,
        &["the verify of db did not end", "continues", "`helio verify stop db`"],
    );
    let runs = || pair.status("paris")["groups"][0]["verify"]["run"].is_object();
    assert!(runs(), "the verify goes on");
    pair.helio("paris", &["verify", "stop"]).expect_success();

    let mut waiting = start(&pair, &slow);
    let mut said = BufReader::new(waiting.stdout.take().expect("is piped"));
    said.read_line(&mut String::new()).expect("the verify was accepted");
    eventually(PATIENCE, "its handler", || handles(waiting.id(), Signal::INT).then_some(()));
    run(Command::new("kill").args(["-INT", &waiting.id().to_string()])).expect_success();
    let (code, text) = end(waiting);
    assert_eq!(code, Some(130), "{text}");
    // With the option that was typed, so that it runs as printed.
    let stop = format!("`helio verify stop db --state {}`", pair.state("paris").display());
    let line = format!("helio: the verify of db continues on the daemon; {stop} stops it\n");
    assert_eq!(text, line);
    assert!(runs(), "the verify goes on");
}

#[test]
fn a_closed_pipe_ends_a_command_at_once_and_silently() {
    let pair = pair();
    replicating(&pair, "paris");
    for words in [&["events", "--json"][..], &["status", "--watch=3600"]] {
        let mut child = start(&pair, words);
        let mut said = BufReader::new(child.stdout.take().expect("is piped"));
        let mut row = String::new();
        said.read_line(&mut row).expect("it prints");
        assert!(!row.is_empty(), "{words:?}");
        drop(said);
        assert_eq!(end(child), (Some(141), String::new()), "{words:?}");
    }
}

/// What bash completes for the last of these words.
fn completed(pair: &Pair, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(helio completions bash)
        COMP_WORDS=(helio "$@"); COMP_CWORD=$#
        _helio_names helio "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let folder = helio_binary().parent().expect("has a folder").to_path_buf();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["-c", script, "bash"]).args(words).env("PATH", path);
    let told = run(bash.env("HELIO_STATE_DIR", pair.state("paris")));
    assert!(told.stderr.is_empty(), "{told}");
    told.expect_success().lines().filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_the_names_of_groups_volumes_and_nodes() {
    let mut pair = pair();
    assert_eq!(completed(&pair, &["resy"]), ["resync"]);
    assert_eq!(completed(&pair, &["compl"]), ["completions"]);
    assert_eq!(completed(&pair, &["queue", "se"]), ["set"]);
    assert_eq!(completed(&pair, &["pause", "d"]), ["db"]);
    assert_eq!(completed(&pair, &["queue", "show", "d"]), ["db"]);
    assert_eq!(completed(&pair, &["attach", "db/"]), ["db/data"]);
    assert_eq!(completed(&pair, &["resolve", "db", "--discard", "l"]), ["lyon"]);
    let options = completed(&pair, &["resync", "--fu"]);
    assert_eq!(options, ["--full"]);
    let empty = completed(&pair, &["pause", ""]);
    assert!(
        empty.contains(&"db".to_owned()) && !empty.iter().any(|word| word.starts_with('[')),
        "{empty:?}"
    );
    pair.daemon("paris").kill9();
    assert!(completed(&pair, &["pause", "d"]).is_empty());
}
