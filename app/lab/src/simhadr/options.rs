// SPDX-License-Identifier: Apache-2.0
//! simhadr's command line: options with one dash, in any case, each with its values behind it.

use crate::wire::{MOST_FLUSH, Mode};
use std::str::FromStr;

/// Bytes of a log page.
pub(crate) const PAGE: u64 = 4096;
/// Seconds of a run where nothing is said.
const SECONDS: f64 = 4.0;
/// Pages of a flush where nothing is said.
const FLUSH: u64 = 16;

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Standby,
}

/// Everything that can be said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) role: Option<Role>,
    pub(crate) lhost: Option<String>,
    pub(crate) lport: Option<u16>,
    pub(crate) rhost: Option<String>,
    pub(crate) rport: Option<u16>,
    pub(crate) flushes: Option<u64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) mode: Option<Mode>,
    pub(crate) flush_pages: Option<u64>,
    pub(crate) buffer_pages: Option<u64>,
    pub(crate) target: Option<f64>,
    pub(crate) verbose: bool,
    pub(crate) send_buffer: Option<u64>,
    pub(crate) receive_buffer: Option<u64>,
    pub(crate) nagle: bool,
    pub(crate) block: bool,
    pub(crate) bind: bool,
    pub(crate) write: Option<String>,
    pub(crate) read: Option<String>,
    pub(crate) cache: bool,
    pub(crate) disk: Option<(f64, f64)>,
    pub(crate) spin: Option<f64>,
    pub(crate) test_sleep: Option<f64>,
}

/// The values behind an option.
struct Values<'a> {
    option: &'a str,
    rest: std::slice::Iter<'a, String>,
}

impl<'a> Values<'a> {
    fn text(&mut self, what: &str) -> Result<String, String> {
        let value = self.rest.next().ok_or_else(|| format!("{} needs {what}", self.option))?;
        Ok(value.clone())
    }

    fn parsed<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let value = self.text(what)?;
        value.parse().map_err(|_| format!("{} needs {what}, and `{value}` is none", self.option))
    }

    /// A number that is something.
    fn count(&mut self, what: &str) -> Result<u64, String> {
        match self.parsed(what)? {
            0 => Err(format!("{} needs {what}, and 0 is none", self.option)),
            n => Ok(n),
        }
    }

    /// Pages of a flush.
    fn pages(&mut self) -> Result<u64, String> {
        const MOST: u64 = MOST_FLUSH / PAGE;
        match self.count("a number of pages")? {
            n if n > MOST => Err(format!("{} is at most {MOST} pages, not {n}", self.option)),
            n => Ok(n),
        }
    }

    /// A rate that is ever reached.
    fn target(&mut self) -> Result<f64, String> {
        match self.measure("MBytes/sec")? {
            0.0 => Err(format!("{} is above 0; without it there is no limit", self.option)),
            rate => Ok(rate),
        }
    }

    /// A measure: finite, and not negative.
    fn measure(&mut self, what: &str) -> Result<f64, String> {
        match self.parsed::<f64>(what)? {
            n if n.is_finite() && (0.0..=1e12).contains(&n) => Ok(n),
            n => Err(format!("{} needs {what}, and {n} is none", self.option)),
        }
    }

    fn role(&mut self) -> Result<Role, String> {
        let word = self.text("PRIMARY or STANDBY")?;
        match word.to_ascii_lowercase().as_str() {
            "primary" => Ok(Role::Primary),
            "standby" => Ok(Role::Standby),
            _ => Err(format!("{} is PRIMARY or STANDBY, not `{word}`", self.option)),
        }
    }

    fn mode(&mut self) -> Result<Mode, String> {
        const WORDS: &str = "SYNC, NEARSYNC, ASYNC or SUPERASYNC";
        let word = self.text(WORDS)?;
        Mode::from_word(&word).ok_or_else(|| format!("{} is {WORDS}, not `{word}`", self.option))
    }

    fn port(&mut self) -> Result<u16, String> {
        match self.parsed("a port number, not a service's name")? {
            0 => Err(format!("{} needs a port number from 1 on", self.option)),
            port => Ok(port),
        }
    }
}

impl Options {
    /// Reads a command line, without the program's name.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut values = Values { option: "", rest: words.iter() };
        while let Some(option) = values.rest.next() {
            values.option = option;
            options.take(option, &mut values)?;
        }
        options.check()?;
        Ok(options)
    }

    fn take(&mut self, option: &str, values: &mut Values<'_>) -> Result<(), String> {
        match option.to_ascii_lowercase().as_str() {
            "-role" => self.role = Some(values.role()?),
            "-lhost" => self.lhost = Some(values.text("a host")?),
            "-lport" => self.lport = Some(values.port()?),
            "-rhost" => self.rhost = Some(values.text("a host")?),
            "-rport" => self.rport = Some(values.port()?),
            "-n" => self.flushes = Some(values.count("a number of flushes")?),
            "-t" => self.seconds = Some(values.measure("seconds")?),
            "-syncmode" => self.mode = Some(values.mode()?),
            "-rcu" => self.mode = Some(Mode::SuperAsync),
            "-flushsize" => self.flush_pages = Some(values.pages()?),
            "-hadrbufsize" => self.buffer_pages = Some(values.count("a number of pages")?),
            "-target" => self.target = Some(values.target()?),
            "-verbose" => self.verbose = true,
            "-socksndbuf" => self.send_buffer = Some(values.count("a number of bytes")?),
            "-sockrcvbuf" => self.receive_buffer = Some(values.count("a number of bytes")?),
            "-nagle" => self.nagle = true,
            "-block" => self.block = true,
            "-bind" => self.bind = true,
            "-write" => self.write = Some(values.text("a file")?),
            "-read" => self.read = Some(values.text("a file")?),
            "-cache" => self.cache = true,
            "-disk" => {
                let rate = values.measure("MBytes/sec and seconds of overhead")?;
                self.disk = Some((rate, values.measure("MBytes/sec and seconds of overhead")?));
            }
            "-spin" => self.spin = Some(values.measure("seconds")?),
            "-testsleep" => self.test_sleep = Some(values.measure("seconds")?),
            _ => return Err(format!("{option} is no option; without any, all are listed")),
        }
        Ok(())
    }

    /// What is missing, or does not go together.
    fn check(&self) -> Result<(), String> {
        if self.write.is_some() && self.read.is_some() {
            return Err("-write and -read are two tests: one at a time".to_owned());
        }
        if self.write.is_some() || self.read.is_some() || self.test_sleep.is_some() {
            return Ok(());
        }
        let role = self.role.ok_or("-role is needed: PRIMARY or STANDBY")?;
        let named = [
            ("-lhost", self.lhost.is_some()),
            ("-lport", self.lport.is_some()),
            ("-rhost", self.rhost.is_some()),
            ("-rport", self.rport.is_some()),
        ];
        if let Some((missing, _)) = named.iter().find(|(_, there)| !there) {
            return Err(format!("{missing} is needed"));
        }
        let primary_only = [
            ("-n", self.flushes.is_some()),
            ("-t", self.seconds.is_some()),
            ("-syncmode and -rcu", self.mode.is_some()),
            ("-flushSize", self.flush_pages.is_some()),
            ("-target", self.target.is_some()),
        ];
        match primary_only.iter().find(|(_, there)| *there && role == Role::Standby) {
            Some((option, _)) => Err(format!(
                "{option} is an option of the primary, which sends its value to the standby"
            )),
            None => Ok(()),
        }
    }

    /// What was said and changes nothing here, a sentence each: simhadr passes it over, too.
    pub(crate) fn ignored(&self) -> Vec<String> {
        let tests = self.write.is_some() || self.read.is_some();
        let sleeps = self.test_sleep.is_some();
        let (alone, primary) = (tests || sleeps, self.role == Some(Role::Primary));
        let ends = "an option of the two ends, which this test has not";
        let said = |there: bool, option: &'static str, why| there.then_some((option, why));
        [
            said(sleeps && tests, "a -write or -read", "not done together with -testSleep"),
            said(self.cache && (!tests || sleeps), "-cache", "an option of -write and -read"),
            said(!alone && primary && self.buffer_pages.is_some(), "-hadrBufSize", "the standby's"),
            said(!alone && primary && self.bind, "-bind", "the standby's"),
            said(sleeps && self.flushes.is_some(), "-n", "no option of -testSleep"),
            said(sleeps && self.seconds.is_some(), "-t", "no option of -testSleep"),
            said(sleeps && self.flush_pages.is_some(), "-flushSize", "no option of -testSleep"),
            said(alone && self.role.is_some(), "-role", ends),
            said(alone && self.lhost.is_some(), "-lhost", ends),
            said(alone && self.lport.is_some(), "-lport", ends),
            said(alone && self.rhost.is_some(), "-rhost", ends),
            said(alone && self.rport.is_some(), "-rport", ends),
            said(alone && self.mode.is_some(), "-syncmode", ends),
            said(alone && self.buffer_pages.is_some(), "-hadrBufSize", ends),
            said(alone && self.target.is_some(), "-target", ends),
            said(alone && self.send_buffer.is_some(), "-sockSndBuf", ends),
            said(alone && self.receive_buffer.is_some(), "-sockRcvBuf", ends),
            said(alone && self.nagle, "-nagle", ends),
            said(alone && self.block, "-block", ends),
            said(alone && self.bind, "-bind", ends),
            said(alone && self.disk.is_some(), "-disk", ends),
        ]
        .into_iter()
        .flatten()
        .map(|(option, why)| format!("{option} changes nothing here: it is {why}"))
        .collect()
    }

    /// Pages of a flush.
    pub(crate) fn flush(&self) -> u64 {
        self.flush_pages.unwrap_or(FLUSH)
    }

    /// Seconds of a run; none where it ends by number alone.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.seconds.or((self.flushes.is_none()).then_some(SECONDS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn the_command_lines_of_both_sources_are_understood() {
        let sample = parse(
            "-role primary -lhost brant -lport 46000 -rhost auklet -rport 46000 \
             -sockSndBuf 64000 -sockRcvBuf 64000 -flushSize 32",
        )
        .expect("the first source's");
        assert_eq!(sample.role, Some(Role::Primary));
        assert_eq!((sample.lhost.as_deref(), sample.lport), (Some("brant"), Some(46_000)));
        assert_eq!((sample.rhost.as_deref(), sample.rport), (Some("auklet"), Some(46_000)));
        assert_eq!((sample.send_buffer, sample.receive_buffer), (Some(64_000), Some(64_000)));
        assert_eq!((sample.flush(), sample.limit(), sample.mode), (32, Some(4.0), None));
        let primary = parse(
            "-lhost portland.ibm.com -lport 4000 -rhost sanfrancisco.ibm.com -rport 4000 \
             -sockSndBuf 65536 -sockRcvBuf 65536 -role primary -syncmode ASYNC -t 60",
        )
        .expect("the second source's primary");
        assert_eq!((primary.mode, primary.limit()), (Some(Mode::Async), Some(60.0)));
        let standby = parse(
            "-lhost sanfrancisco.ibm.com -lport 4000 -rhost portland.ibm.com -rport 4000  \
             -sockSndBuf 65536 -sockRcvBuf 65536 -role standby",
        )
        .expect("the second source's standby");
        assert_eq!(standby.role, Some(Role::Standby));
    }

    #[test]
    fn every_option_is_read_in_any_case() {
        let all = parse(
            "-ROLE Primary -LHOST a -lPort 1 -rhost b -RPORT 2 -N 7 -T 0.5 -SYNCMODE superasync -FLUSHSIZE 1 \
             -HadrBufSize 9 -TARGET 1.5 -Verbose -SOCKSNDBUF 1 -sockrcvbuf 2 -NAGLE -Block -BIND -CACHE \
             -Disk 50 0.0005 -SPIN 0.001",
        )
        .expect("all are options");
        assert_eq!(
            (all.flushes, all.seconds, all.mode),
            (Some(7), Some(0.5), Some(Mode::SuperAsync))
        );
        assert_eq!(
            (all.target, all.disk, all.spin),
            (Some(1.5), Some((50.0, 0.0005)), Some(0.001))
        );
        assert!(all.verbose && all.nagle && all.block && all.bind && all.cache);
        assert_eq!(all.buffer_pages, Some(9));
        let rcu =
            parse("-role primary -lhost a -lport 1 -rhost b -rport 2 -rcu -n 5").expect("it is");
        assert_eq!((rcu.mode, rcu.limit()), (Some(Mode::SuperAsync), None));
        assert!(parse("-write trial -flushSize 1000 -cache").is_ok(), "a disk needs no hosts");
        assert_eq!(parse("-testSleep 0.01").map(|o| o.test_sleep), Ok(Some(0.01)));
    }

    #[test]
    fn what_changes_nothing_is_told_and_accepted() {
        let told = |line: &str| parse(line).expect("it is accepted").ignored().join("\n");
        let ends = "-lhost a -lport 1 -rhost b -rport 2";
        let primary = told(&format!("-role primary {ends} -hadrBufSize 64 -bind -cache"));
        assert_eq!(
            primary,
            "-cache changes nothing here: it is an option of -write and -read\n\
             -hadrBufSize changes nothing here: it is the standby's\n\
             -bind changes nothing here: it is the standby's"
        );
        let standby = format!("-role standby {ends} -hadrBufSize 64 -bind -disk 50 0.001 -spin 0");
        assert_eq!(told(&standby), "");
        assert_eq!(told("-write trial -flushSize 1000 -cache -n 5"), "");
        let trial = told("-read trial -role standby -syncmode SYNC -disk 5 0");
        assert_eq!(trial.lines().count(), 3, "{trial}");
        let sleep = told("-testSleep 0.01 -t 4 -write trial");
        assert!(
            sleep.starts_with("a -write or -read") && sleep.contains("\n-t changes"),
            "{sleep}"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let says = |line: &str| parse(line).expect_err("it is wrong");
        let ends = "-lhost a -lport 1 -rhost b -rport 2";
        assert!(says(ends).contains("-role"));
        assert!(says("-role primary -lhost a -lport 1 -rhost b").contains("-rport"));
        assert!(says(&format!("-role tertiary {ends}")).contains("tertiary"));
        assert!(says("-lport http").contains("http"));
        assert!(says("-lport 70000").contains("70000") && says("-lport 0").contains("from 1"));
        assert!(says("-t").contains("-t needs seconds") && says("-t -1").contains("-1"));
        assert!(says("-flushSize 16385").contains("at most 16384 pages, not 16385"));
        assert!(says("-target 0").contains("above 0"));
        assert!(says("-t NaN").contains("NaN") && says("-target inf").contains("inf"));
        assert!(
            says("-disk 50").contains("overhead") && says("-flushSize 0").contains("0 is none")
        );
        assert!(
            says(&format!("-role standby {ends} -n 5")).contains("-n is an option of the primary")
        );
        assert!(says("-write a -read b").contains("one at a time"));
        assert!(says("--role primary").contains("no option"));
    }
}
