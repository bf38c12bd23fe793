// SPDX-License-Identifier: Apache-2.0
//! The two kinds of connection, as one.

use super::ClientError;
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub(super) enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Wire {
    pub(super) fn unix(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|source| ClientError::Io {
            doing: format!("connecting to {}", path.display()),
            source,
        })?;
        Ok(Self::Unix(stream))
    }

    /// A second handle on the same connection.
    pub(super) fn twin(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Sends a header and what belongs behind it with one system call where the socket takes it all.
    pub(super) fn send(&mut self, header: &[u8], data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return self.write_all(header);
        }
        let both = [IoSlice::new(header), IoSlice::new(data)];
        let sent = match self.write_vectored(&both) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        self.write_all(header.get(sent..).unwrap_or_default())?;
        self.write_all(&data[sent.saturating_sub(header.len())..])
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(buffers),
            Self::Tcp(stream) => stream.write_vectored(buffers),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
