// SPDX-License-Identifier: Apache-2.0
//! A TLS session over one of tokio's streams: what operators' commands travel on between hosts, at both ends. The
//! shard, whose connections are not tokio's, has its own. Absent on purpose: who is trusted, and how long to wait.

use helio_tls::{PublicKey, Session, TlsError};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Bytes taken from the wire, opened and sealed at once: a record's.
const STEP: usize = 16 << 10;

/// A caller that was refused.
pub struct Refused<S> {
    /// Why.
    pub error: io::Error,
    /// The connection, on which it was told so.
    pub parting: Parting<S>,
}

/// A connection whose last words are on their way. Closed at once, with bytes of the caller's that nobody read, it
/// would take them back.
pub struct Parting<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> Parting<S> {
    /// Says no more, and listens until the other end is gone; whoever waits for it says for how long.
    pub async fn end(mut self) {
        if self.0.shutdown().await.is_ok() {
            let mut unheard = [0; 1024];
            while self.0.read(&mut unheard).await.is_ok_and(|count| count > 0) {}
        }
    }
}

/// A stream under TLS, its handshake done.
pub struct Sealed<S> {
    stream: S,
    session: Session,
    wire: Box<[u8]>,
    /// The part of `wire` not opened yet.
    arrived: Range<usize>,
    plain: Box<[u8]>,
    /// The part of `plain` not read yet.
    unread: Range<usize>,
    /// Sealed, and the first `sent` bytes of it sent.
    out: Vec<u8>,
    sent: usize,
    closing: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Sealed<S> {
    /// Shakes hands with whoever called.
    ///
    /// # Errors
    /// The stream broke, or TLS refuses ([`tls_error`] tells why).
    pub async fn accept(stream: S, session: Session) -> Result<Self, Refused<S>> {
        let mut sealed = Self::new(stream, session);
        match sealed.shake_hands().await {
            Ok(()) => Ok(sealed),
            Err(error) => Err(Refused { error, parting: Parting(sealed.stream) }),
        }
    }

    /// Shakes hands with somebody called. Whether our key is taken shows only in what is read then.
    ///
    /// # Errors
    /// The stream broke, or TLS refuses ([`tls_error`] tells why).
    pub async fn connect(stream: S, session: Session) -> io::Result<Self> {
        let mut sealed = Self::new(stream, session);
        sealed.shake_hands().await?;
        Ok(sealed)
    }

    /// The key the other end proved to hold.
    #[must_use]
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.session.peer_key()
    }

    fn new(stream: S, session: Session) -> Self {
        Self {
            stream,
            session,
            wire: vec![0; STEP].into(),
            arrived: 0..0,
            plain: vec![0; STEP].into(),
            unread: 0..0,
            out: Vec::new(),
            sent: 0,
            closing: false,
        }
    }

    async fn shake_hands(&mut self) -> io::Result<()> {
        self.session.take_output(&mut self.out);
        while self.session.is_handshaking() {
            poll_fn(|context| self.poll_drain(context)).await?;
            if let Err(error) = poll_fn(|context| self.poll_open(context)).await {
                // What is left to say is why; that it cannot be said adds nothing.
                let _unsaid = poll_fn(|context| self.poll_drain(context)).await;
                return Err(error);
            }
        }
        poll_fn(|context| self.poll_drain(context)).await
    }

    /// Opens what arrived, or what arrives next. There may be nothing to read after it; at the end of the stream
    /// there never is.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let did = self.session.open(&self.wire[self.arrived.clone()], &mut self.plain);
            self.session.take_output(&mut self.out);
            let did = did.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.arrived.start += did.used;
            self.unread = 0..did.written;
            if did.used > 0 || did.written > 0 || self.session.is_closed() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut self.wire);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
            self.arrived = 0..buffer.filled().len();
            if self.arrived.is_empty() {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Sends what is sealed.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let stream = Pin::new(&mut self.stream);
            let count = ready!(stream.poll_write(context, &self.out[self.sent..]))?;
            if count == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.sent += count;
        }
        self.out.clear();
        self.sent = 0;
        Pin::new(&mut self.stream).poll_flush(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Sealed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let sealed = self.get_mut();
        while sealed.unread.is_empty() && !sealed.session.is_closed() {
            ready!(sealed.poll_open(context))?;
        }
        let count = sealed.unread.len().min(into.remaining());
        into.put_slice(&sealed.plain[sealed.unread.start..][..count]);
        sealed.unread.start += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Sealed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sealed = self.get_mut();
        // One record waits at most: whoever writes more waits for it to be sent.
        ready!(sealed.poll_drain(context))?;
        let count = bytes.len().min(STEP);
        sealed.session.seal(&bytes[..count]);
        sealed.session.take_output(&mut sealed.out);
        match sealed.poll_drain(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_drain(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sealed = self.get_mut();
        if !sealed.closing {
            sealed.closing = true;
            sealed.session.close();
            sealed.session.take_output(&mut sealed.out);
        }
        ready!(sealed.poll_drain(context))?;
        Pin::new(&mut sealed.stream).poll_shutdown(context)
    }
}

/// Why TLS ended a conversation, where it is TLS that did: found among an error's causes.
#[must_use]
pub fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a TlsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let found = inner.and_then(|inner| inner.downcast_ref());
        if found.is_some() {
            return found;
        }
        // An input error's own source is its content's: the content itself may be one more error of the kind.
        next = inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or(error.source());
    }
    None
}
