// SPDX-License-Identifier: Apache-2.0
//! Who may use the dashboard. Each request must pass all of these, in this order:
//!
//! | check | against |
//! |---|---|
//! | `Host` names loopback: `localhost`, `127.0.0.1` or `[::1]`, with any port | DNS rebinding: a page of another host whose name leads to 127.0.0.1. Any port, so that a port can be forwarded by ssh |
//! | `Origin`, if there is one, is `http://` and that `Host` | requests from pages of other origins |
//! | `Sec-Fetch-Site`, if there is one, is `same-origin`, or `none` with GET | the same, where a browser sends no `Origin` |
//! | the first segment of the path is the token | other users of this host |
//! | the body of a POST is `application/json` | forms, which other pages can send without permission |

use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::{self, Write as _};
use std::io;

/// Bytes of chance in a token.
const TOKEN_BYTES: usize = 16;

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

/// What is left of the path behind the token.
pub(crate) fn enter<'a>(
    token: &Token,
    method: &Method,
    path: &'a str,
    headers: &HeaderMap,
) -> Result<&'a str, Closed> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST.as_str()).unwrap_or_default();
    if !is_loopback(host) || headers.get_all(HOST).iter().count() > 1 {
        let why = "the request is for another host\n  hint: open the dashboard by the name localhost, or by 127.0.0.1\n";
        return Err(Closed(StatusCode::MISDIRECTED_REQUEST, why));
    }
    let another = "the request comes from another page\n  hint: open the address that `helio dashboard` printed\n";
    let own = format!("http://{host}");
    if text(ORIGIN.as_str()).is_some_and(|origin| origin != own) {
        return Err(Closed(StatusCode::FORBIDDEN, another));
    }
    let is_from_here = match text("sec-fetch-site") {
        None | Some("same-origin") => true,
        Some("none") => method == Method::GET,
        Some(_) => false,
    };
    if !is_from_here {
        return Err(Closed(StatusCode::FORBIDDEN, another));
    }
    let (given, rest) =
        path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
    if !token.is(given) {
        let why = "the token in the address is missing or wrong\n  hint: open the address that `helio dashboard` printed\n";
        return Err(Closed(StatusCode::FORBIDDEN, why));
    }
    if method == Method::POST && text(CONTENT_TYPE.as_str()) != Some("application/json") {
        let why =
            "the body is not declared as application/json\n  hint: set the header content-type\n";
        return Err(Closed(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(rest)
}

/// Whether a `Host` is loopback, with any port or none.
fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        host.strip_prefix(name).is_some_and(|port| {
            port.is_empty()
                || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        })
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
        let entered = enter(&Token("0a1b".into()), &method, path, &headers(all));
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
            "127.0.0.2",
        ] {
            assert_eq!(enters(Method::GET, "/0a1b/", &[("host", host)]), Err(421), "{host}");
        }
        assert_eq!(enters(Method::GET, "/0a1b/", &[]), Err(421));
        let twice = [("host", "localhost"), ("host", "example.com")];
        assert_eq!(enters(Method::GET, "/0a1b/", &twice), Err(421));
        for path in
            ["/", "/0a1b", "/0a1/live", "/0a1c/live", "//live", "/0A1B/", "/x/0a1b/", "/0a1b0/"]
        {
            assert_eq!(enters(Method::GET, path, &[("host", "localhost")]), Err(403), "{path}");
        }
        assert_eq!(enters(Method::GET, "/0a1b/live", &[("host", "localhost")]), Ok("live".into()));
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
