// SPDX-License-Identifier: Apache-2.0
//! A program in a terminal: what a person sees of it, and keys.

use crate::process::Group;
use crate::wait;
use rustix::fs::OFlags;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU16;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long something may take to be seen; far longer than it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a pseudo-terminal. It is killed when this is dropped.
pub struct Terminal {
    process: Group,
    /// The program's end, which also outlives the program: how it left the terminal can be read.
    slave: File,
    master: File,
    parser: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Starts a command in a terminal of so many columns and rows.
    ///
    /// # Panics
    /// Where the system refuses.
    #[must_use]
    #[track_caller]
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let started = Self::try_start(command, columns, rows);
        started.unwrap_or_else(|why| panic!("cannot start {command:?} in a terminal: {why}"))
    }

    fn try_start(command: &mut Command, columns: u16, rows: u16) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let no_control = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or_default();
        let slave = File::options()
            .read(true)
            .write(true)
            .custom_flags(no_control)
            .open(name.to_string_lossy().as_ref())?;
        tcsetwinsize(
            &slave,
            Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 },
        )?;
        let [input, output, error] = [slave.try_clone()?, slave.try_clone()?, slave.try_clone()?];
        command.env("TERM", "xterm-256color").stdin(input).stdout(output).stderr(error);
        let process = Group::spawn(command)?;
        let master = File::from(master);
        let least = |count| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
        let parser = vt100::Parser::new(least(rows), least(columns), 0);
        let parser = Arc::new(Mutex::new(parser));
        let (mut reader, seen) = (master.try_clone()?, Arc::clone(&parser));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Ends with an error when the last program has closed its end.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
            }
        });
        Ok(Self { process, slave, master, parser })
    }

    fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.parser.lock().unwrap_or_else(PoisonError::into_inner).screen())
    }

    /// The text on the screen.
    #[must_use]
    pub fn screen(&self) -> String {
        self.look(vt100::Screen::contents)
    }

    /// Whether a cell has a colour.
    #[must_use]
    pub fn is_coloured(&self) -> bool {
        self.look(|screen| {
            let (rows, columns) = screen.size();
            let (rows, columns) = (rows.get(), columns.get());
            let mut cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            cells.any(|(row, column)| {
                let cell = screen.cell(row, column);
                cell.is_some_and(|cell| cell.fgcolor() != vt100::Color::Default)
            })
        })
    }

    /// Whether the terminal is as a shell leaves it: lines are edited and echoed, the first screen, a cursor.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.slave).map(|state| state.local_modes);
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        modes.is_ok_and(|modes| modes.contains(cooked))
            && self.look(|screen| !screen.alternate_screen() && !screen.hide_cursor())
    }

    /// Types keys: letters, `\r` for Enter, `\x1b[A` for Up.
    ///
    /// # Panics
    /// Where the terminal is gone.
    #[track_caller]
    pub fn press(&mut self, keys: &str) {
        if let Err(why) = self.master.write_all(keys.as_bytes()) {
            panic!("cannot type {keys:?}: {why}");
        }
    }

    /// Waits until the screen is as the test wants it, and returns its text.
    ///
    /// # Panics
    /// As SLOW if that does not come; with what was seen last.
    #[track_caller]
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        wait::eventually_from(PATIENCE, what, || {
            let screen = self.screen();
            if wanted(&screen) { Ok(screen) } else { Err(screen) }
        })
    }

    /// Waits until all of these texts are seen.
    ///
    /// # Panics
    /// As `wait`.
    #[track_caller]
    pub fn wait_for(&self, texts: &[&str]) -> String {
        self.wait(&format!("{texts:?}"), |seen| texts.iter().all(|text| seen.contains(text)))
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the end of the program, and until the terminal is as it was before.
    ///
    /// # Panics
    /// As SLOW if either does not come.
    #[track_caller]
    pub fn wait_end(&mut self) -> ExitStatus {
        let Some(status) = self.process.wait(PATIENCE) else {
            wait::slow(format_args!("it does not end; seen:\n{}", self.screen()));
        };
        // What the program wrote last may still be on its way to the parser.
        wait::eventually_from(PATIENCE, "the terminal as it was", || {
            if self.is_restored() { Ok(()) } else { Err(self.screen()) }
        });
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_seen_as_on_a_screen_and_gets_keys() {
        let script = "printf 'one\\033[2;3Htwo\\033[31m!'; read line; echo \"got $line\"; exit 3";
        let mut terminal = Terminal::start(Command::new("sh").args(["-c", script]), 20, 4);
        assert_eq!(terminal.wait_for(&["two!"]), "one\n  two!");
        assert!(terminal.is_coloured() && terminal.is_restored());
        terminal.press("x\r");
        terminal.wait_for(&["got x"]);
        assert_eq!(terminal.wait_end().code(), Some(3));
    }

    #[test]
    fn a_terminal_that_is_left_raw_is_seen() {
        let script = "stty -icanon -echo; echo raw; read line";
        let mut terminal = Terminal::start(Command::new("sh").args(["-c", script]), 20, 4);
        terminal.wait_for(&["raw"]);
        assert!(!terminal.is_restored());
        terminal.signal(Signal::KILL);
    }
}
