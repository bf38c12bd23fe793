// SPDX-License-Identifier: Apache-2.0
//! SQLite with `synchronous=FULL`, through Python's own module: with a write-ahead log, and with a journal that is
//! truncated. (One that is deleted would not do: with FULL, SQLite does not make the deletion durable, which is its
//! commit, and says so.)

use super::{Database, Writer};
use helio_testkit::{PYTHON, run};
use std::path::Path;
use std::process::Command;

/// Commits one transaction after the other, and prints each one's number.
const CLIENT: &str = "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute('pragma journal_mode=' + sys.argv[2])
base.execute('pragma synchronous=full')
n = int(sys.argv[3])
while True:
    base.execute('begin immediate')
    base.execute('insert into t values (?, ?)', (n, str(n) * (n % 300)))
    base.execute('update last set n = ?', (n,))
    base.execute('commit')
    print(n, flush=True)
    n += 1
";

/// Looks at everything, and prints the last number.
const CHECK: &str = "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
assert base.execute('pragma integrity_check').fetchall() == [('ok',)]
rows = base.execute('select n, body from t order by n').fetchall()
assert [n for n, _ in rows] == list(range(1, len(rows) + 1)), 'there are gaps'
assert all(body == str(n) * (n % 300) for n, body in rows), 'a row is not whole'
assert base.execute('select n from last').fetchone()[0] == len(rows), 'half a transaction'
print(len(rows))
";

const MAKE: &str = "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1])
base.execute('pragma journal_mode=' + sys.argv[2])
base.executescript('create table t(n integer primary key, body text); create index b on t(body);'
                   'create table last(n integer); insert into last values (0);')
";

/// One file, and how it keeps its journal.
#[derive(Debug)]
pub(super) struct Sqlite {
    journal: &'static str,
}

impl Sqlite {
    pub(super) fn new(seed: u64) -> Self {
        Self { journal: if seed.is_multiple_of(2) { "wal" } else { "truncate" } }
    }
}

fn python(script: &str, place: &Path) -> Command {
    let mut python = Command::new(PYTHON);
    python.args(["-c", script]).arg(place.join("base"));
    python
}

impl Database for Sqlite {
    const CLIENTS: u64 = 1;

    fn make(&mut self, place: &Path) {
        // Every stage has the other kind.
        self.journal = if self.journal == "wal" { "truncate" } else { "wal" };
        run(python(MAKE, place).arg(self.journal)).expect_success();
    }

    fn open(&mut self, _: &Path) {}

    fn end(&mut self) {}

    fn client(&self, place: &Path, _: u64, from: u64) -> Writer {
        Writer::start(python(CLIENT, place).arg(self.journal).arg(from.to_string()))
    }

    fn check(&self, place: &Path) -> Vec<u64> {
        let told = run(&mut python(CHECK, place)).expect_success();
        vec![told.trim().parse().expect("a number")]
    }
}
