//! Many clients in one thread: connections with TLS, requests printed before the clock starts, answers not read
//! further than to their end.
//!
//! The clients share the machine with the server. What they spend is missing there, and counts for both servers
//! alike, so that a thread for each would make a fast server look more like a slow one.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use real_tests::Api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Where a server is, and who asks.
#[derive(Clone)]
pub(super) struct Target {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

/// One connection that is kept.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    /// What came of the answer that is being read.
    answer: Vec<u8>,
}

/// Counts the lines of a watch in its bytes.
#[derive(Default)]
pub(super) struct Lines {
    last: u8,
}

/// A request as it goes over the wire.
pub(super) fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Target {
    pub(super) fn of(api: &Api) -> Target {
        let (address, tls) = api.endpoint();
        Target { address, tls }
    }

    pub(super) async fn connect(&self) -> Result<Connection> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, socket);
        Ok(Connection {
            stream: stream.await?,
            answer: Vec::with_capacity(16 * 1024),
        })
    }
}

impl Connection {
    /// Sends a request and reads its answer; the status.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.send(request).await?;
        self.answer.clear();
        while !is_whole(&self.answer)? {
            self.read().await?;
        }
        status(&self.answer)
    }

    /// Begins a watch, and fails unless the server does as well.
    pub(super) async fn watch(&mut self, request: &[u8]) -> Result<()> {
        self.send(request).await?;
        self.answer.clear();
        while head_end(&self.answer).is_none() {
            self.read().await?;
        }
        let status = status(&self.answer)?;
        ensure!(status == 200, "a watch answered {status}");
        let end = head_end(&self.answer).unwrap_or(0);
        self.answer.drain(..end);
        Ok(())
    }

    /// The next bytes of a watch.
    pub(super) async fn more(&mut self) -> Result<&[u8]> {
        self.answer.clear();
        self.read().await?;
        Ok(&self.answer)
    }

    async fn send(&mut self, request: &[u8]) -> Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        Ok(())
    }

    async fn read(&mut self) -> Result<()> {
        let count = self.stream.read_buf(&mut self.answer).await?;
        ensure!(count > 0, "the server closed the connection");
        Ok(())
    }
}

impl Lines {
    /// Lines end with a bare line feed; those around a chunk have a carriage return before it.
    pub(super) fn count(&mut self, bytes: &[u8]) -> usize {
        let mut count = 0;
        for byte in bytes {
            count += usize::from(*byte == b'\n' && self.last != b'\r');
            self.last = *byte;
        }
        count
    }
}

fn head_end(answer: &[u8]) -> Option<usize> {
    answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|start| start + 4)
}

fn status(answer: &[u8]) -> Result<u16> {
    let code = answer.get(9..12).and_then(|code| str::from_utf8(code).ok());
    code.and_then(|code| code.parse().ok())
        .context("not an HTTP answer")
}

/// Whether an answer has come to its end, in either of the two ways that HTTP/1.1 has for saying so.
fn is_whole(answer: &[u8]) -> Result<bool> {
    let Some(end) = head_end(answer) else {
        return Ok(false);
    };
    for line in answer[..end].split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length: usize = str::from_utf8(value)?.parse()?;
            return Ok(answer.len() - end >= length);
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // JSON has no bare line breaks, so this is the last chunk and nothing else.
            return Ok(answer.ends_with(b"\r\n0\r\n\r\n"));
        }
    }
    bail!("the answer has neither a length nor chunks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_at_its_end() {
        let check = |answer: &str, whole: bool| {
            assert_eq!(is_whole(answer.as_bytes()).unwrap(), whole, "{answer:?}");
        };
        check("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n", false);
        check("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{", false);
        check("HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}", true);
        let chunked = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}";
        check(chunked, false);
        check(&format!("{chunked}\r\n0\r\n\r\n"), true);
        assert!(is_whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert_eq!(status(b"HTTP/1.1 201 Created\r\n").unwrap(), 201);
    }

    #[test]
    fn lines_are_told_from_chunks() {
        let mut lines = Lines::default();
        assert_eq!(lines.count(b"3\r\n{}\n\r\n6\r\n{}\n{}\n\r"), 3);
        assert_eq!(lines.count(b"\n"), 0);
    }
}
