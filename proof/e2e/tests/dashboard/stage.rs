// SPDX-License-Identifier: Apache-2.0
//! A dashboard of a pair, and requests to it without a browser.

use helio_testkit::{Group, Pair, helio_binary};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A dashboard that runs. It is killed when this is dropped.
pub(crate) struct Dashboard {
    pub(crate) process: Group,
    pub(crate) url: String,
}

impl Dashboard {
    /// Of both nodes of a pair, the first one first.
    #[track_caller]
    pub(crate) fn start(pair: &Pair, nodes: [&str; 2], arguments: &[&str]) -> Self {
        let [first, other] = nodes.map(|node| pair.state(node));
        let mut command = Command::new(helio_binary());
        command.arg("dashboard").args(["--interval", "200ms", "--state"]).arg(first);
        command.arg("--with").arg(other).args(arguments);
        Self::begin(&mut command)
    }

    /// Of a simulated pair.
    #[track_caller]
    pub(crate) fn simulated(arguments: &[&str]) -> Self {
        let mut command = Command::new(helio_binary());
        command.args(["dashboard", "--simulate", "--interval", "200ms"]).args(arguments);
        Self::begin(&mut command)
    }

    #[track_caller]
    fn begin(command: &mut Command) -> Self {
        command.stdout(Stdio::piped());
        let mut process = Group::spawn(command).expect("it can be started");
        let output = process.take_output().0.expect("it is piped");
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url).expect("it prints its address");
        let url = url.trim_end().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url:?}");
        Self { process, url }
    }

    /// Host and port, and the token.
    pub(crate) fn parts(&self) -> (&str, &str) {
        let bare = self.url.trim_start_matches("http://").trim_end_matches('/');
        bare.split_once('/').expect("host and token")
    }

    /// Sends one request as it is written here, and returns the head and the body of the response.
    #[track_caller]
    pub(crate) fn send(&self, request: &str) -> (String, String) {
        let (host, token) = self.parts();
        let request = request.replace("HOST", host).replace("TOKEN", token).replace('\n', "\r\n");
        let mut stream = TcpStream::connect(host).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it responds, and closes");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_owned(), body.to_owned())
    }
}
