// SPDX-License-Identifier: Apache-2.0
//! A connection to the dashboard's server. Until it has sent the token it is a guest, and is closed if too many newer ones are open.

use crate::door::Token;
use helio_daemon::control::Place;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is known of a connection.
enum Standing {
    /// It sent these bytes, which do not show yet whether it has the token.
    Unknown { head: Vec<u8>, token: Token, place: Place },
    /// It sent another path. It receives a refusal, and keeps its place among the connections without the token.
    WrongToken(Place),
    /// It sent the token.
    RightToken,
    /// A newer connection has its place.
    Replaced,
}

/// See the module.
pub(crate) struct Guest<S> {
    stream: S,
    standing: Standing,
}

impl<S> Guest<S> {
    pub(crate) fn new(stream: S, token: Token, place: Place) -> Self {
        Self { stream, standing: Standing::Unknown { head: Vec::new(), token, place } }
    }

    /// Fails if a newer connection has its place. Reads and writes check it: while a client does not read its responses, nothing else is
    /// read from it.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let replaced = match &mut self.standing {
            Standing::Unknown { place, .. } | Standing::WrongToken(place) => {
                Pin::new(place).poll(context).is_ready()
            }
            Standing::RightToken => false,
            Standing::Replaced => true,
        };
        if replaced {
            self.standing = Standing::Replaced;
            return Err(io::Error::other("a newer connection replaced it"));
        }
        Ok(())
    }

    /// These bytes came.
    fn received(&mut self, bytes: &[u8]) {
        let Standing::Unknown { head, token, .. } = &mut self.standing else { return };
        head.extend_from_slice(bytes);
        let Some(begins) = token.begins(head) else { return };
        let before = std::mem::replace(&mut self.standing, Standing::RightToken);
        if let (false, Standing::Unknown { place, .. }) = (begins, before) {
            self.standing = Standing::WrongToken(place);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guest<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        self.received(&into.filled()[before..]);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guest<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_daemon::control::Places;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    /// A connection, and its other end.
    fn guest(token: &Token, places: &mut Places) -> (Guest<DuplexStream>, DuplexStream) {
        let (stream, other) = duplex(512);
        (Guest::new(stream, token.clone(), places.take()), other)
    }

    /// Sends that from the other end, and reads it.
    async fn sends((guest, other): &mut (Guest<DuplexStream>, DuplexStream), text: &str) -> bool {
        other.write_all(text.as_bytes()).await.expect("there is room");
        guest.read_exact(&mut vec![0; text.len()]).await.is_ok()
    }

    #[tokio::test]
    async fn a_newer_connection_ends_the_oldest_that_did_not_send_the_token_and_no_other() {
        let token = Token::new().expect("the kernel has random numbers");
        let mut places = Places::new(2);
        let mut owner = guest(&token, &mut places);
        let path = format!("GET /{token}/ HTTP/1.1");
        let (first, rest) = path.split_at(9);
        assert!(sends(&mut owner, first).await && sends(&mut owner, rest).await);
        let mut other_path = guest(&token, &mut places);
        assert!(sends(&mut other_path, "GET /guessed/ HTTP/1.1").await, "it gets a response");
        let mut silent = guest(&token, &mut places);
        let _newer = guest(&token, &mut places);
        assert!(!sends(&mut other_path, "GET /guessed/ HTTP/1.1").await, "it is the oldest");
        let _newer = guest(&token, &mut places);
        assert!(!sends(&mut silent, &path).await, "it is the oldest now");
        assert!(sends(&mut owner, &path).await, "it is no guest");
    }

    #[tokio::test]
    async fn a_newer_connection_ends_one_whose_client_does_not_read() {
        let token = Token::new().expect("the kernel has random numbers");
        let mut places = Places::new(1);
        let mut other_path = guest(&token, &mut places);
        assert!(sends(&mut other_path, "GET /guessed/ HTTP/1.1").await);
        let (mut other_path, _does_not_read) = other_path;
        let writing = tokio::spawn(async move {
            let written = other_path.write_all(&[0; 1024]).await;
            (other_path, written)
        });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished(), "its buffer is full");
        let _newer = guest(&token, &mut places);
        let (mut other_path, written) = writing.await.expect("no panic");
        assert!(written.is_err());
        assert!(other_path.flush().await.is_err() && other_path.read_u8().await.is_err());
    }
}
