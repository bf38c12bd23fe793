// SPDX-License-Identifier: Apache-2.0
//! What the reader sees. Knows lines, widths and whether a terminal reads along; knows nothing of the story.

use super::promise::Broken;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Lines of our own prose are broken here, so that they read well in any terminal.
const WIDTH: usize = 96;
/// What a chapter takes to read, and the next one waits.
const READING: Duration = Duration::from_secs(5);

/// Standard output, with a clock that began when the story did.
pub(super) struct Screen {
    began: Instant,
    /// A terminal reads along, and so may a person.
    watched: bool,
    colour: bool,
}

/// How a line is set off where a terminal reads along. Every meaning is in the words as well.
#[derive(Clone, Copy)]
enum Ink {
    Plain,
    Bold,
    Green,
    Dim,
}

impl Screen {
    pub(super) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let watched = io::stdout().is_terminal();
        Self { began: Instant::now(), watched, colour: wanted && watched }
    }

    /// Seconds since the story began.
    pub(super) fn elapsed(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Opens a chapter, with time to read the one before where people watch.
    pub(super) fn chapter(&self, number: u32, title: &str) -> io::Result<()> {
        if self.watched && number > 1 {
            std::thread::park_timeout(READING);
        }
        let line = format!("[{:5.1} s]  {number}  {title}", self.elapsed());
        self.put("", Ink::Plain)?;
        self.put(&line, Ink::Bold)
    }

    /// Tells something, as a paragraph.
    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        wrap(text, WIDTH - 2).iter().try_for_each(|line| self.put(&format!("  {line}"), Ink::Plain))
    }

    /// Shows a command as the reader would type it.
    pub(super) fn command(&self, words: &[&str]) -> io::Result<()> {
        self.put(&format!("  $ {}", words.join(" ")), Ink::Bold)
    }

    /// Shows what a program said, or a file's text, as it stands.
    pub(super) fn output(&self, text: &str) -> io::Result<()> {
        text.lines().try_for_each(|line| self.put(&format!("    {line}"), Ink::Dim))
    }

    /// Shows one measured line, such as of a table.
    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        self.put(&format!("    {text}"), Ink::Plain)
    }

    /// Judges a promise: says that it holds, or ends the story with what was found instead.
    pub(super) fn promise(&self, promised: &str, held: bool, found: &str) -> anyhow::Result<()> {
        if !held {
            return Err(Broken { promised: promised.to_owned(), found: found.to_owned() }.into());
        }
        let lines = wrap(&format!("{promised}: {found}"), WIDTH - 9);
        for (index, line) in lines.iter().enumerate() {
            let lead = if index == 0 { "  holds: " } else { "         " };
            self.put(&format!("{lead}{line}"), Ink::Green)?;
        }
        Ok(())
    }

    /// Tells of a promise that was not kept.
    pub(super) fn broken(&self, broken: &Broken) -> io::Result<()> {
        self.put("", Ink::Plain)?;
        broken.to_string().lines().try_for_each(|line| self.put(&format!("  {line}"), Ink::Bold))
    }

    fn put(&self, line: &str, ink: Ink) -> io::Result<()> {
        let line = line.trim_end();
        let code = match ink {
            Ink::Bold => "1",
            Ink::Green => "32",
            Ink::Dim => "2",
            Ink::Plain => "",
        };
        let mut out = io::stdout().lock();
        if line.is_empty() || code.is_empty() || !self.colour {
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "\x1b[{code}m{line}\x1b[0m")?;
        }
        // A pipe is as good a reader as a terminal, and the story is told while it happens.
        out.flush()
    }
}

/// Breaks a paragraph into lines of at most `width` characters; a longer word keeps a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let room = lines.last().map_or(0, |line| width.saturating_sub(line.chars().count()));
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if word.chars().count() < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_broken_between_words() {
        assert_eq!(wrap("a mirror is   a copy", 8), ["a mirror", "is a", "copy"]);
        assert_eq!(wrap("extraordinarily so", 4), ["extraordinarily", "so"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn a_broken_promise_is_an_error_that_tells_both_sides() {
        let error = Screen::new().promise("all is there", false, "half of it").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("all is there") && text.contains("half of it"), "{text}");
    }
}
