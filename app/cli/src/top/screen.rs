// SPDX-License-Identifier: Apache-2.0
//! The terminal: another screen while it is open, and the one before it afterwards, also after an error, a signal or a
//! panic. Only what differs from the frame before is written, in one piece.

use super::app::Key;
use crate::failure::failed;
use anyhow::Result;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use ratatui::{Frame, Terminal};
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// The other screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
/// Plain characters, a cursor, the screen of before.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// A frame of a large terminal.
const FRAME_BYTES: usize = 64 << 10;

static OPEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal while `helio top` has it.
pub(super) struct Screen {
    terminal: Terminal<Ansi<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It refuses.
    pub(super) fn open() -> Result<Self> {
        let refused = || {
            failed("cannot use the terminal", "run it in a terminal, or use `helio status --watch`")
        };
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                close();
                before(info);
            }));
        });
        terminal::enable_raw_mode().map_err(refused())?;
        OPEN.store(true, Ordering::SeqCst);
        let out = BufWriter::with_capacity(FRAME_BYTES, io::stdout());
        let screen = Terminal::new(Ansi { out }).map(|terminal| Self { terminal });
        let entered = screen.and_then(|mut screen| {
            let out = &mut screen.terminal.backend_mut().out;
            out.write_all(ENTER.as_bytes())?;
            // What stays in the buffer would be written after `LEAVE`.
            out.flush()?;
            Ok(screen)
        });
        entered.map_err(|why| {
            close();
            refused()(why)
        })
    }

    /// Draws a frame. False if a panic of another thread has restored the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> io::Result<bool> {
        if !OPEN.load(Ordering::SeqCst) {
            return Ok(false);
        }
        self.terminal.draw(draw)?;
        Ok(true)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        close();
    }
}

/// Gives the terminal back, once.
fn close() {
    if OPEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        // A terminal that is gone needs nothing.
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        let _ = terminal::disable_raw_mode();
    }
}

/// What came from the terminal.
pub(super) enum FromTerminal {
    Key(Key),
    /// It has another size.
    Resized,
}

/// Waits for a key or another size. What means nothing here is passed over.
///
/// # Errors
/// The terminal is gone.
pub(super) fn read() -> io::Result<FromTerminal> {
    loop {
        match crossterm::event::read()? {
            Event::Resize(..) => return Ok(FromTerminal::Resized),
            Event::Key(event) => {
                if let Some(key) = key(&event) {
                    return Ok(FromTerminal::Key(key));
                }
            }
            _ => {}
        }
    }
}

fn key(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    Some(match event.code {
        KeyCode::Char('c') if control => Key::Interrupt,
        KeyCode::Char(_) if control || event.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

/// A terminal that understands the sequences of ECMA-48. The frames use a few colours and attributes.
struct Ansi<W> {
    out: W,
}

impl<W: Write> Ansi<W> {
    fn put(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }
}

/// The sequence for the style of a cell.
fn style(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    for (modifier, code) in
        [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")]
    {
        if cell.modifier.contains(modifier) {
            codes.push_str(code);
        }
    }
    codes.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    codes + "m"
}

impl<W: Write> Backend for Ansi<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let (mut at, mut set) = (None, String::new());
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                write!(self.out, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            let wanted = style(cell);
            if wanted != set {
                self.put(&wanted)?;
                set = wanted;
            }
            // Texts are clean; nothing else may reach the terminal, whatever came before.
            let symbol = cell.symbol();
            self.put(if symbol.chars().any(char::is_control) { "?" } else { symbol })?;
            at = Some((x + 1, y));
        }
        if set.is_empty() { Ok(()) } else { self.put("\x1b[0m") }
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.put("\x1b[?25l")
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.put("\x1b[?25h")
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        write!(self.out, "\x1b[{};{}H", y + 1, x + 1)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.put("\x1b[2J")
    }

    fn clear_region(&mut self, _all: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        // Of what is drawn to, which may be another terminal than the controlling one.
        let size = rustix::termios::tcgetwinsize(io::stdout())?;
        Ok(match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => Size { width: 80, height: 24 },
            (width, height) => Size { width, height },
        })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Style;
    use rustix::fs::OFlags;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    use std::process::{Command, Stdio};

    /// Set in the process that has a terminal.
    const ON_A_TERMINAL: &str = "HELIO_TEST_ON_A_TERMINAL";

    #[test]
    fn a_screen_that_ends_before_its_first_frame_gives_the_terminal_back() {
        if std::env::var_os(ON_A_TERMINAL).is_some() {
            drop(Screen::open().expect("it has a terminal"));
            return;
        }
        let mut master =
            File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there is a pty"));
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it can be opened");
        let path = ptsname(&master, Vec::new()).expect("it has a name").into_string();
        let no_control = i32::try_from(OFlags::NOCTTY.bits()).unwrap_or_default();
        let slave = File::options()
            .read(true)
            .write(true)
            .custom_flags(no_control)
            .open(path.expect("its name is text"))
            .expect("it can be opened");
        let end = || Stdio::from(slave.try_clone().expect("it can be shared"));
        let test =
            "top::screen::tests::a_screen_that_ends_before_its_first_frame_gives_the_terminal_back";
        let mut itself = Command::new(std::env::current_exe().expect("a test is a program"));
        itself.args(["--exact", test, "--nocapture"]).env(ON_A_TERMINAL, "1");
        let status = itself.stdin(end()).stdout(end()).stderr(end()).status();
        assert!(status.is_ok_and(|status| status.success()));
        let (mut bytes, mut written) = ([0; 4096], String::new());
        // The last line of the test's process.
        while !written.contains("test result") {
            let count = master.read(&mut bytes).expect("it was written");
            written.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        let (_, entered) = written.split_once(ENTER).unwrap_or_else(|| panic!("{written:?}"));
        let (_, left) = entered.split_once(LEAVE).unwrap_or_else(|| panic!("{written:?}"));
        assert!(!left.contains("\x1b[?1049h"), "{written:?}");
        let modes = tcgetattr(&slave).expect("it is a terminal").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    }

    #[test]
    fn cells_are_written_with_their_place_and_style_and_without_control_characters() {
        let mut ansi = Ansi { out: Vec::new() };
        let cell = |symbol: &'static str, style: Style| {
            let mut cell = Cell::new(symbol);
            cell.set_style(style);
            cell
        };
        let bold = Style::new().red().bold();
        let cells =
            [(0, 0, cell("a", Style::new())), (1, 0, cell("b", bold)), (5, 2, cell("\x1b", bold))];
        ansi.draw(cells.iter().map(|(x, y, cell)| (*x, *y, cell))).expect("a vector takes it");
        let text = String::from_utf8(ansi.out).expect("it is text");
        assert_eq!(text, "\x1b[1;1H\x1b[0ma\x1b[0;1;31mb\x1b[3;6H?\x1b[0m");
    }

    #[test]
    fn a_frame_like_the_one_before_writes_no_cell() {
        let area = ratatui::layout::Rect::new(0, 0, 20, 2);
        let viewport = ratatui::TerminalOptions { viewport: ratatui::Viewport::Fixed(area) };
        let backend = Ansi { out: Vec::new() };
        let mut terminal = Terminal::with_options(backend, viewport).expect("it has no end");
        let mut drawn = |text: &str| {
            terminal.backend_mut().out.clear();
            terminal.draw(|frame| frame.render_widget(text, frame.area())).expect("it has no end");
            String::from_utf8(terminal.backend().out.clone()).expect("it is text")
        };
        assert!(drawn("one two").contains("one"));
        assert_eq!(drawn("one two"), "\x1b[?25l");
        assert_eq!(drawn("one too"), "\x1b[1;6H\x1b[0mo\x1b[0m\x1b[?25l");
    }

    #[test]
    fn control_c_is_no_letter() {
        let event = |code, modifiers| KeyEvent::new(code, modifiers);
        let c = KeyCode::Char('c');
        assert_eq!(key(&event(c, KeyModifiers::CONTROL)), Some(Key::Interrupt));
        assert_eq!(key(&event(c, KeyModifiers::NONE)), Some(Key::Char('c')));
        assert_eq!(key(&event(KeyCode::Char('y'), KeyModifiers::ALT)), None);
    }
}
