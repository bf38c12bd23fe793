// SPDX-License-Identifier: Apache-2.0
//! Old forms of command lines, and the new form of each. `helio log` has none: it is refused.

use super::drbd;
use std::ffi::OsString;

/// Commands with a new name.
const NAMES: [(&str, &[&str]); 3] =
    [("update", &["resync"]), ("full", &["resync", "--full"]), ("recorder", &["debug", "events"])];
/// Options with a new name, of the commands that begin so.
const OPTIONS: [(&[&str], &str, &str); 2] =
    [(&["verify", "start"], "--anew", "--restart"), (&["lab"], "--key", "--own-key")];
/// Global options that take a value in a word of its own.
const VALUES: [&str; 5] = ["--state", "--host", "--key", "--server-key", "--timeout"];

/// A command line in its new form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) line: Vec<OsString>,
    /// What to say about it, if the form was old.
    pub(super) notice: Option<String>,
}

/// Rewrites an old form; leaves everything else as it is.
///
/// # Errors
/// The command has no new form: the message.
pub(super) fn rewrite(line: Vec<OsString>) -> Result<Rewritten, String> {
    // What is not UTF-8 is no old form.
    let Some(words) = line.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>() else {
        return Ok(Rewritten { line, notice: None });
    };
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let before = words.clone();
    let Some(verb) = positional(&words, 1) else { return Ok(Rewritten { line, notice: None }) };
    match words[verb].as_str() {
        "log" => return Err(refusal(positional(&words, verb + 1).map(|at| words[at].as_str()))),
        "queue" => queue(&mut words, verb),
        "verify" => verify(&mut words, verb),
        "attach" | "lab" => wait(&mut words, verb),
        name => {
            let object = positional(&words, verb + 1).map(|at| words[at].as_str());
            if let Some(refusal) = drbd::refusal(name, object) {
                return Err(refusal);
            }
            if let Some((_, new)) = NAMES.iter().find(|(old, _)| *old == name) {
                words.splice(verb..=verb, new.iter().map(|word| (*word).to_owned()));
            }
        }
    }
    for (command, old, new) in OPTIONS {
        if words[verb..].iter().zip(command).filter(|(word, name)| *word == *name).count()
            == command.len()
        {
            for word in &mut words[verb..] {
                if word == old {
                    *word = new.to_owned();
                }
            }
        }
    }
    if words == before {
        return Ok(Rewritten { line, notice: None });
    }
    let shown = words[1..].join(" ");
    let notice = Some(format!("this form is old; the new one is `helio {shown}`"));
    Ok(Rewritten { line: words.into_iter().map(Into::into).collect(), notice })
}

/// The first word at or behind `from` that is neither an option nor the value of a global option.
pub(crate) fn positional(words: &[String], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "--" => return None,
            option if VALUES.contains(&option) => at += 2,
            option if option.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
    None
}

/// `queue GROUP`, `queue GROUP set`, `queue GROUP reset`.
fn queue(words: &mut Vec<String>, verb: usize) {
    let Some(group) = positional(words, verb + 1) else {
        if !asks_for_help(words) {
            words.insert(verb + 1, "show".to_owned());
        }
        return;
    };
    if ["show", "set", "reset", "help"].contains(&words[group].as_str()) {
        return;
    }
    let command = positional(words, group + 1)
        .filter(|at| ["set", "reset"].contains(&words[*at].as_str()))
        .map_or_else(|| "show".to_owned(), |at| words.remove(at));
    words.insert(verb + 1, command);
}

/// `verify GROUP`, `verify GROUP --stop`, `verify GROUP --status`.
fn verify(words: &mut Vec<String>, verb: usize) {
    let object = positional(words, verb + 1).map(|at| words[at].as_str());
    if matches!(object, Some("start" | "stop" | "show" | "help"))
        || (object.is_none() && asks_for_help(words))
    {
        return;
    }
    let mut command = "start";
    words.retain(|word| match word.as_str() {
        "--stop" => {
            command = "stop";
            false
        }
        "--status" => {
            command = "show";
            false
        }
        _ => true,
    });
    words.insert(verb + 1, command.to_owned());
}

/// `--wait TIME` of `attach` and `lab`.
fn wait(words: &mut Vec<String>, verb: usize) {
    let keeps = words[verb] == "attach";
    let is_time = |word: &str| helio_units::parse_duration(word).is_ok();
    let next = |words: &[String], at: usize| words.get(at + 1).is_some_and(|word| is_time(word));
    let Some(at) = words.iter().position(|word| word == "--wait" || word.starts_with("--wait="))
    else {
        return;
    };
    let time = match words[at].split_once('=') {
        Some((_, time)) => Some(time.to_owned()),
        None if next(words, at) => Some(words.remove(at + 1)),
        None => None,
    };
    if let Some(time) = time {
        let new = ["--wait".to_owned(), "--timeout".to_owned(), time];
        words.splice(at..=at, new.into_iter().skip(usize::from(!keeps)));
    }
}

fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "--help" || word == "-h")
}

fn refusal(group: Option<&str>) -> String {
    let of = group.map_or_else(String::new, |group| format!(" {group}"));
    format!(
        "helio has no command `log`; nothing was changed\n  hint: to read the log of the daemon: `journalctl -u \
         helio`; to stop replication: `helio pause{of}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> Rewritten {
        rewrite(line.split(' ').map(OsString::from).collect()).expect(line)
    }

    #[test]
    fn an_old_form_becomes_the_new_one_and_is_named() {
        for (old, new) in [
            ("helio update db --wait", "helio resync db --wait"),
            ("helio --state /a update db", "helio --state /a resync db"),
            ("helio full db --yes", "helio resync --full db --yes"),
            ("helio recorder db --json", "helio debug events db --json"),
            ("helio queue db", "helio queue show db"),
            ("helio queue", "helio queue show"),
            ("helio queue --json db", "helio queue show --json db"),
            ("helio queue db set --memory 1MiB", "helio queue set db --memory 1MiB"),
            ("helio queue db --state /a reset", "helio queue reset db --state /a"),
            ("helio verify db/data --repair", "helio verify start db/data --repair"),
            ("helio verify db --anew", "helio verify start db --restart"),
            ("helio verify db --stop", "helio verify stop db"),
            ("helio verify db --status", "helio verify show db"),
            ("helio attach db/data --wait 30s", "helio attach db/data --wait --timeout 30s"),
            ("helio attach db/data --wait=30s", "helio attach db/data --wait --timeout 30s"),
            ("helio lab link primary --wait 1s", "helio lab link primary --timeout 1s"),
            ("helio lab link primary --key k", "helio lab link primary --own-key k"),
        ] {
            let Rewritten { line, notice } = rewritten(old);
            let line: Vec<_> = line.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(line.join(" "), new);
            assert!(notice.is_some_and(|notice| notice.contains(new)), "{old}");
        }
    }

    #[test]
    fn a_new_form_stays_as_it_is() {
        for line in [
            "helio resync db --full --wait",
            "helio queue set db --memory 1MiB",
            "helio queue show",
            "helio queue --help",
            "helio verify start db --wait",
            "helio verify --help",
            "helio attach --wait db/data --timeout 30s",
            "helio attach --wait",
            "helio status log",
            "helio --state update status",
            "helio",
        ] {
            let Rewritten { line: same, notice } = rewritten(line);
            let same: Vec<_> = same.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!((same.join(" ").as_str(), notice), (line, None));
        }
    }

    #[test]
    fn log_is_refused_and_names_the_journal_and_pause() {
        let line = ["helio", "--state", "/a", "log", "db"].map(OsString::from).to_vec();
        let why = rewrite(line).expect_err("it has no new form");
        assert!(why.contains("journalctl -u helio") && why.contains("`helio pause db`"), "{why}");
    }
}
