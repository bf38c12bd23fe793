// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL where it is installed, run as its own user.

use super::{Database, PATIENCE, Writer};
use helio_testkit::{Group, TempDir, Told, eventually, run, say_skipped};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SETTINGS: &str = "
listen_addresses = ''
shared_buffers = 16MB
max_connections = 10
max_wal_size = 32MB
restart_after_crash = off
fsync = on
synchronous_commit = on
";

const TABLES: &str = "
create table t(client int, n bigint, body text, primary key (client, n));
create index b on t(md5(body));
create table last(client int primary key, n bigint);
insert into last select c, 0 from generate_series(0, 2) c;
create extension amcheck;
";

/// Each client's last transaction, and what is wrong: gaps, rows that are not whole, halves of transactions.
const CHECK: &str = "
select l.n, (select count(*) <> l.n or coalesce(max(n), 0) <> l.n
                 or count(*) filter (where body <> repeat(md5(n::text), (n % 40)::int)) > 0
             from t where t.client = l.client)
from last l order by l.client;
";

/// The programs, where the sockets are, and the server while it runs.
#[derive(Debug)]
pub(super) struct Postgres {
    programs: PathBuf,
    user: (u32, u32),
    folder: TempDir,
    server: Option<Group>,
}

impl Postgres {
    /// The newest that is installed; says so where none is, or no user for it.
    pub(super) fn find() -> Option<Self> {
        let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = installed.map(|version| version.path().join("bin"));
        let programs = programs.filter(|at| at.join("pg_amcheck").exists()).max();
        let Some((programs, user)) = programs.zip(user()) else {
            say_skipped("PostgreSQL (package postgresql) and its user");
            return None;
        };
        let folder = TempDir::new();
        chown(folder.path(), Some(user.0), Some(user.1)).expect("root may");
        Some(Self { programs, user, folder, server: None })
    }

    /// One of its programs, as its user.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={}", self.user.0)).arg(format!("--regid={}", self.user.1));
        command.arg("--clear-groups").arg(self.programs.join(name));
        command.current_dir(self.folder.path()).env("PGHOST", self.folder.path());
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres").env("LC_ALL", "C");
        command
    }

    fn ask(&self, sql: &str) -> Told {
        run(self.program("psql").args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql]))
    }
}

/// The numbers of user and group `postgres`.
fn user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().find(|line| line.starts_with("postgres:"))?.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

impl Database for Postgres {
    const CLIENTS: u64 = 3;

    fn make(&mut self, place: &Path) {
        let data = place.join("data");
        fs::create_dir(&data).expect("room");
        chown(&data, Some(self.user.0), Some(self.user.1)).expect("root may");
        let mut init = self.program("initdb");
        init.args(["-k", "--no-sync", "--wal-segsize=1", "-A", "trust", "-E", "UTF8", "-D"]);
        run(init.arg(&data)).expect_success();
        let file = File::options().append(true).open(data.join("postgresql.conf"));
        file.and_then(|mut file| write!(file, "{SETTINGS}")).expect("room");
        self.open(place);
        self.ask(TABLES).expect_success();
    }

    fn open(&mut self, place: &Path) {
        if self.server.is_some() {
            return;
        }
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        let mut server = self.program("postgres");
        server.arg("-D").arg(place.join("data")).arg("-k").arg(self.folder.path());
        let server = server.stdin(Stdio::null()).stdout(Stdio::null());
        let server = server.stderr(log.expect("a folder of our own"));
        self.server = Some(Group::spawn(server).expect("it is installed"));
        eventually(PATIENCE, "PostgreSQL to recover and be ready", || {
            let ready = run(&mut self.program("pg_isready")).status.success();
            let ended = self.server.as_mut().and_then(Group::ended);
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(ended.is_none(), "PostgreSQL does not start: {}", log());
            ready.then_some(())
        });
    }

    fn end(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
    }

    fn client(&self, _: &Path, client: u64, from: u64) -> Writer {
        let mut psql = self.program("psql");
        let mut writer = Writer::start(psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1"]));
        let mut asked = writer.process.take_input().expect("piped");
        writer.threads.push(std::thread::spawn(move || {
            // Ends with the client, which the pipe tells.
            let _broken = (from..).try_for_each(|n| {
                writeln!(
                    asked,
                    "with row as (insert into t values ({client}, {n}, repeat(md5('{n}'), {}))) \
                     update last set n = {n} where client = {client} returning n;",
                    n % 40
                )
            });
        }));
        writer
    }

    fn check(&self, _: &Path) -> Vec<u64> {
        let told = self.ask(CHECK).expect_success();
        run(self.program("pg_amcheck").args(["--heapallindexed", "-d", "postgres"]))
            .expect_success();
        let clients = told.lines().map(|line| match line.split_once('|') {
            Some((n, "f")) => n.parse().expect("a number"),
            _ => panic!("a client's transactions are not whole: {told}"),
        });
        clients.collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
    }
}
