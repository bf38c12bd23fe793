// SPDX-License-Identifier: Apache-2.0
//! Who may use the dashboard. Each request must pass all of these, in this order:
//!
//! | check | against |
//! |---|---|
//! | none of the headers below is repeated, and the path names no host of its own | two readings of one request |
//! | `Host` names loopback: `localhost`, `127.0.0.1` or `[::1]`, with any port | DNS rebinding: a page of another host whose name leads to 127.0.0.1. Any port, so that a port can be forwarded by ssh |
//! | `Origin`, if there is one, is `http://` and that `Host` | requests from pages of other origins |
//! | `Sec-Fetch-Site`, if there is one, is `same-origin`, or `none` with GET | the same, where a browser sends no `Origin` |
//! | the first segment of the path is the token | other users of this host |
//! | the body of a POST is `application/json` | forms, which other pages can send without permission |

use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::{self, Write as _};
use std::io;

/// Bytes of chance in a token.
const TOKEN_BYTES: usize = 16;

/// No method of HTTP that is served is longer.
const METHOD_BYTES_MOST: usize = 4;

/// What the URL must contain; drawn at each start.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        let drawn = getrandom(&mut bytes[..], GetRandomFlags::empty())?;
        if drawn < TOKEN_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self(bytes.iter().fold(String::new(), |mut text, byte| {
            // A string takes everything.
            let _ = write!(text, "{byte:02x}");
            text
        })))
    }

    /// Whether the head of a request begins with a method and a path in the token; none: it depends on bytes that did not arrive yet. No
    /// other check is made.
    pub(crate) fn begins(&self, head: &[u8]) -> Option<bool> {
        let mut parts = head.split(|byte| matches!(byte, b' ' | b'/'));
        let (method, before, given, rest) =
            (parts.next(), parts.next(), parts.next(), parts.next());
        if rest.is_none() {
            return (head.len() > METHOD_BYTES_MOST + self.0.len() + 3).then_some(false);
        }
        let given = given.and_then(|given| std::str::from_utf8(given).ok());
        let is_path = method.is_some() && before == Some(b"");
        Some(is_path && given.is_some_and(|given| self.is(given)))
    }

    /// Whether a text is the token; how long that takes does not depend on where they differ.
    fn is(&self, text: &str) -> bool {
        let pairs = self.0.bytes().zip(text.bytes());
        text.len() == self.0.len() && pairs.fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Not the token: it may be in a log.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) StatusCode, pub(crate) &'static str);

const TWICE: Closed = Closed(
    StatusCode::BAD_REQUEST,
    "the request names its host, origin or type twice\n  hint: open the address that `helio dashboard` printed\n",
);
const ANOTHER_HOST: Closed = Closed(
    StatusCode::MISDIRECTED_REQUEST,
    "the request is for another host\n  hint: open the dashboard by the name localhost, or by 127.0.0.1\n",
);
const ANOTHER_PAGE: Closed = Closed(
    StatusCode::FORBIDDEN,
    "the request comes from another page\n  hint: open the address that `helio dashboard` printed\n",
);
const NO_TOKEN: Closed = Closed(
    StatusCode::FORBIDDEN,
    "the token in the address is missing or wrong\n  hint: open the address that `helio dashboard` printed\n",
);
const NO_JSON: Closed = Closed(
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "the body is not declared as application/json\n  hint: set the header content-type\n",
);

/// What is left of the path behind the token.
pub(crate) fn enter<'a>(
    token: &Token,
    method: &Method,
    uri: &'a Uri,
    headers: &HeaderMap,
) -> Result<&'a str, Closed> {
    let [host, origin, site, kind] =
        [HOST.as_str(), ORIGIN.as_str(), "sec-fetch-site", CONTENT_TYPE.as_str()]
            .map(|name| only(headers, name));
    let (host, origin, site, kind) = (host?.unwrap_or_default(), origin?, site?, kind?);
    if !is_loopback(host) || uri.authority().is_some() {
        return Err(ANOTHER_HOST);
    }
    let own = format!("http://{host}");
    let is_from_here = match site {
        None | Some("same-origin") => true,
        Some("none") => method == Method::GET,
        Some(_) => false,
    };
    if origin.is_some_and(|origin| origin != own) || !is_from_here {
        return Err(ANOTHER_PAGE);
    }
    let path = uri.path().strip_prefix('/').and_then(|path| path.split_once('/'));
    let (given, rest) = path.unwrap_or_default();
    if !token.is(given) {
        return Err(NO_TOKEN);
    }
    if method == Method::POST && kind != Some("application/json") {
        return Err(NO_JSON);
    }
    Ok(rest)
}

/// The value of a header that may be there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Closed> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().unwrap_or("?"));
    if values.next().is_some() { Err(TWICE) } else { Ok(value) }
}

/// Whether a `Host` is loopback, with any port or none.
fn is_loopback(host: &str) -> bool {
    let is_port = |port: &str| {
        port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok()
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        host.strip_prefix(name)
            .is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| {
                let value = HeaderValue::from_str(value).expect("a value");
                (HeaderName::from_static(name), value)
            })
            .collect()
    }

    fn enters(method: Method, path: &str, all: &[(&'static str, &str)]) -> Result<String, u16> {
        let uri: Uri = path.parse().expect("a path");
        let entered = enter(&Token("0a1b".into()), &method, &uri, &headers(all));
        entered.map(str::to_owned).map_err(|Closed(status, _)| status.as_u16())
    }

    #[test]
    fn only_loopback_names_with_the_token_get_in() {
        for host in ["localhost", "localhost:7180", "127.0.0.1:1", "[::1]:65535"] {
            assert_eq!(enters(Method::GET, "/0a1b/", &[("host", host)]), Ok(String::new()));
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com:80",
            "localhost:x",
            "localhost:+80",
            "127.0.0.2",
        ] {
            assert_eq!(enters(Method::GET, "/0a1b/", &[("host", host)]), Err(421), "{host}");
        }
        assert_eq!(enters(Method::GET, "/0a1b/", &[]), Err(421));
        for twice in [("host", "example.com"), ("host", "localhost")] {
            let twice = [("host", "localhost"), twice];
            assert_eq!(enters(Method::GET, "/0a1b/", &twice), Err(400));
        }
        let elsewhere = enters(Method::GET, "http://example.com/0a1b/", &[("host", "localhost")]);
        assert_eq!(elsewhere, Err(421));
        for path in
            ["/", "/0a1b", "/0a1/live", "/0a1c/live", "//live", "/0A1B/", "/x/0a1b/", "/0a1b0/"]
        {
            assert_eq!(enters(Method::GET, path, &[("host", "localhost")]), Err(403), "{path}");
        }
        assert_eq!(enters(Method::GET, "/0a1b/live", &[("host", "localhost")]), Ok("live".into()));
    }

    #[test]
    fn a_head_is_the_owners_once_its_path_has_the_token() {
        let token = Token("0a1b".into());
        for (head, begins) in [
            ("GET /0a1b/", Some(true)),
            ("POST /0a1b/act HTTP/1.1\r\n", Some(true)),
            ("", None),
            ("GET", None),
            ("GET /0a1b", None),
            ("GET /0a1c/", Some(false)),
            ("GET /0a1b HTTP/1.1", Some(true)),
            ("GET //0a1b/", Some(false)),
            ("GET /x/0a1b/", Some(false)),
            ("GET http://0a1b/", Some(false)),
            ("GETGETGETGET", Some(false)),
        ] {
            assert_eq!(token.begins(head.as_bytes()), begins, "{head}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_refused_although_it_has_the_token() {
        let local = ("host", "localhost:7180");
        let enters = |method, more| enters(method, "/0a1b/live", &[local, more]);
        assert!(enters(Method::GET, ("origin", "http://localhost:7180")).is_ok());
        for origin in
            ["http://example.com", "https://localhost:7180", "http://localhost:7181", "null", ""]
        {
            assert_eq!(enters(Method::GET, ("origin", origin)), Err(403), "{origin}");
        }
        assert!(enters(Method::GET, ("sec-fetch-site", "same-origin")).is_ok());
        assert!(enters(Method::GET, ("sec-fetch-site", "none")).is_ok());
        assert_eq!(enters(Method::POST, ("sec-fetch-site", "none")), Err(403));
        for site in ["cross-site", "same-site", "?"] {
            assert_eq!(enters(Method::GET, ("sec-fetch-site", site)), Err(403), "{site}");
        }
    }

    #[test]
    fn a_form_is_no_action() {
        let local = ("host", "localhost");
        for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
            let sent = enters(Method::POST, "/0a1b/act", &[local, ("content-type", kind)]);
            assert_eq!(sent, Err(415), "{kind}");
        }
        assert_eq!(enters(Method::POST, "/0a1b/act", &[local]), Err(415));
        let json = ("content-type", "application/json");
        assert_eq!(enters(Method::POST, "/0a1b/act", &[local, json]), Ok("act".into()));
    }

    #[test]
    fn two_tokens_differ_and_neither_is_printed_by_chance() {
        let [one, other] = [(); 2].map(|()| Token::new().expect("the kernel has random numbers"));
        assert!(one.is(&one.to_string()) && !one.is(&other.to_string()));
        assert_eq!((one.to_string().len(), format!("{one:?}")), (2 * TOKEN_BYTES, "Token".into()));
    }
}
