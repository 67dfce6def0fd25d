//! A small blocking HTTPS client for the API server: HTTP/1.1, kept-alive connections, JSON.
//!
//! The harness judges our own client, so it must not be built on it.

use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::certificates::Identity;

/// Longer than any request that is not a watch may take on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// No single answer of a test is near this; a larger one is a defect, not data.
const BODY_LIMIT: usize = 1 << 30;

type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// An API server as one user sees it. Clones share the connections.
#[derive(Clone)]
pub struct Api {
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    /// A header with its line end, or nothing.
    authorization: String,
    idle: Mutex<Vec<Connection>>,
}

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in the order of the answer.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// All values of a header, whose name is given in lower case.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = self.headers.iter().filter(move |(key, _)| key == name);
        same.map(|(_, value)| value.as_str())
    }
}

impl Api {
    /// A client that trusts `authority` (PEM) and shows `identity`, or is anonymous without one.
    pub fn new(address: SocketAddr, authority: &str, identity: Option<&Identity>) -> Result<Api> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(
                certificate.map_err(|error| anyhow!("bad authority certificate: {error:?}"))?,
            )?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let tls = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| anyhow!("bad client certificate: {error:?}"))?;
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
                    .map_err(|error| anyhow!("bad client key: {error:?}"))?;
                builder.with_client_auth_cert(chain, key)?
            }
        };
        Ok(Api {
            shared: Arc::new(Shared {
                address,
                tls: Arc::new(tls),
                authorization: String::new(),
                idle: Mutex::default(),
            }),
        })
    }

    /// A client that shows a token: for a server it is cheaper to look that up than to verify a certificate.
    pub fn with_token(address: SocketAddr, authority: &str, token: &str) -> Result<Api> {
        let anonymous = Api::new(address, authority, None)?;
        Ok(Api {
            shared: Arc::new(Shared {
                address,
                tls: anonymous.shared.tls.clone(),
                authorization: format!("Authorization: Bearer {token}\r\n"),
                idle: Mutex::default(),
            }),
        })
    }

    /// The server's address and how to connect to it as this user, for clients of another make.
    pub fn endpoint(&self) -> (SocketAddr, Arc<ClientConfig>) {
        (self.shared.address, self.shared.tls.clone())
    }

    /// Sends a request and reads the whole answer, whatever its status.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Answer> {
        let headers = [
            ("Accept", "application/json"),
            ("Content-Type", content_type),
        ];
        self.send_with(method, path, &headers, body)
    }

    /// As `send`, with headers of your choice.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer> {
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: real-tests\r\n\
             {}{headers}Content-Length: {}\r\n\r\n",
            self.shared.authorization,
            body.len()
        );
        let request = [head.as_bytes(), body].concat();
        let kept = self.shared.idle.lock().pop();
        if let Some(mut connection) = kept
            && let Ok(answer) = exchange(&mut connection, &request)
        {
            self.keep(connection);
            return Ok(answer);
        }
        // A kept connection may have been closed by the server in between: once more on a new one.
        let mut connection = self.connect(ANSWER_TIMEOUT)?;
        let answer =
            exchange(&mut connection, &request).with_context(|| format!("{method} {path}"))?;
        self.keep(connection);
        Ok(answer)
    }

    /// Sends a request that must succeed; the error carries the server's own words.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value> {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body)?
        };
        let answer = self.send(method, path, content_type, &bytes)?;
        if !(200..300).contains(&answer.status) {
            bail!(
                "{method} {path} answered {}: {}",
                answer.status,
                message_of(&answer.body)
            );
        }
        serde_json::from_slice(&answer.body)
            .with_context(|| format!("{method} {path}: no JSON in the answer"))
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, "application/json", &Value::Null)
    }

    /// The object, or `None` where there is none.
    pub fn find(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.send("GET", path, "application/json", &[])?;
        match answer.status {
            200 => Ok(Some(serde_json::from_slice(&answer.body)?)),
            404 => Ok(None),
            status => bail!("GET {path} answered {status}: {}", message_of(&answer.body)),
        }
    }

    /// The items of a list.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        match self.get(path)?.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => Ok(items),
            _ => bail!("GET {path} is not a list"),
        }
    }

    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.call("POST", path, "application/json", object)
    }

    pub fn merge_patch(&self, path: &str, patch: &Value) -> Result<Value> {
        self.call("PATCH", path, "application/merge-patch+json", patch)
    }

    pub fn strategic_patch(&self, path: &str, patch: &Value) -> Result<Value> {
        self.call(
            "PATCH",
            path,
            "application/strategic-merge-patch+json",
            patch,
        )
    }

    /// Deletes with the given options; an object that is gone already is fine.
    pub fn delete(&self, path: &str, options: &Value) -> Result<()> {
        let answer = self.send(
            "DELETE",
            path,
            "application/json",
            &serde_json::to_vec(options)?,
        )?;
        match answer.status {
            200 | 202 | 404 => Ok(()),
            status => bail!(
                "DELETE {path} answered {status}: {}",
                message_of(&answer.body)
            ),
        }
    }

    /// Reads a watch line by line until `each` returns false, the server ends it or nothing comes
    /// for `quiet`.
    pub fn watch(
        &self,
        path: &str,
        quiet: Duration,
        mut each: impl FnMut(&Value) -> bool,
    ) -> Result<()> {
        let mut unreadable = None;
        self.watch_lines(path, quiet, |line| match serde_json::from_slice(line) {
            Ok(event) => each(&event),
            Err(error) => {
                unreadable = Some(error);
                false
            }
        })?;
        unreadable.map_or(Ok(()), |error| Err(error.into()))
    }

    /// As `watch`, with lines as they come.
    pub fn watch_lines(
        &self,
        path: &str,
        quiet: Duration,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let mut connection = self.connect(quiet)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nUser-Agent: real-tests\r\n{}\r\n",
            self.shared.authorization
        );
        connection.get_mut().write_all(request.as_bytes())?;
        let head = read_head(&mut connection)?;
        if head.status != 200 {
            bail!("GET {path} answered {}", head.status);
        }
        let mut pending = Vec::new();
        loop {
            match read_chunk(&mut connection) {
                Ok(chunk) if chunk.is_empty() => return Ok(()),
                Ok(chunk) => pending.extend(chunk),
                Err(error) if is_timeout(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                if !each(&line) {
                    return Ok(());
                }
            }
        }
    }

    /// The certificate (DER) that the server shows to someone who connects now.
    pub fn server_certificate(&self) -> Result<Vec<u8>> {
        let mut tls = ClientConfig::clone(&self.shared.tls);
        // A session that is resumed still has the certificate it began with.
        tls.resumption = Resumption::disabled();
        let mut connection = self.connect_with(Arc::new(tls), ANSWER_TIMEOUT)?;
        let stream = connection.get_mut();
        stream.conn.complete_io(&mut stream.sock)?;
        let shown = stream.conn.peer_certificates().unwrap_or_default();
        Ok(shown.first().context("no certificate was shown")?.to_vec())
    }

    fn connect(&self, timeout: Duration) -> Result<Connection> {
        self.connect_with(Arc::clone(&self.shared.tls), timeout)
    }

    fn connect_with(&self, tls: Arc<ClientConfig>, timeout: Duration) -> Result<Connection> {
        let address = self.shared.address;
        let socket = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let name = ServerName::try_from("localhost")?;
        let session = ClientConnection::new(tls, name)?;
        Ok(BufReader::new(StreamOwned::new(session, socket)))
    }

    fn keep(&self, connection: Connection) {
        self.shared.idle.lock().push(connection);
    }
}

struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    headers: Vec<(String, String)>,
}

fn exchange(connection: &mut Connection, request: &[u8]) -> Result<Answer> {
    connection.get_mut().write_all(request)?;
    connection.get_mut().flush()?;
    let head = read_head(connection)?;
    let mut body = Vec::new();
    if head.chunked {
        loop {
            let chunk = read_chunk(connection)?;
            if chunk.is_empty() {
                break;
            }
            body.extend(chunk);
            anyhow::ensure!(
                body.len() <= BODY_LIMIT,
                "the answer is larger than {BODY_LIMIT} bytes"
            );
        }
    } else {
        let length = head
            .length
            .context("the answer has neither a length nor chunks")?;
        anyhow::ensure!(
            length <= BODY_LIMIT,
            "the answer is larger than {BODY_LIMIT} bytes"
        );
        body.resize(length, 0);
        connection.read_exact(&mut body)?;
    }
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
    })
}

fn read_head(connection: &mut impl BufRead) -> Result<Head> {
    let status_line = read_line(connection)?;
    let status = status_line
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("not an HTTP answer: {status_line:?}"))?;
    let mut head = Head {
        status,
        length: None,
        chunked: false,
        headers: Vec::new(),
    };
    loop {
        let line = read_line(connection)?;
        if line.is_empty() {
            return Ok(head);
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => head.length = value.parse().ok(),
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
        head.headers.push((name, value.to_owned()));
    }
}

/// The next chunk of a chunked body; empty at its end.
fn read_chunk(connection: &mut impl BufRead) -> Result<Vec<u8>> {
    let line = read_line(connection)?;
    let length = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16)
        .with_context(|| format!("bad chunk length {line:?}"))?;
    anyhow::ensure!(
        length <= BODY_LIMIT,
        "a chunk is larger than {BODY_LIMIT} bytes"
    );
    let mut chunk = vec![0; length];
    connection.read_exact(&mut chunk)?;
    read_line(connection)?;
    Ok(chunk)
}

fn read_line(connection: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        bail!("the server closed the connection");
    }
    Ok(line.trim_end().to_owned())
}

fn is_timeout(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| matches!(error.kind(), TimedOut | WouldBlock))
}

/// The message of a `Status`, or the beginning of whatever else was answered.
fn message_of(body: &[u8]) -> String {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    match status
        .as_ref()
        .and_then(|status| status["message"].as_str())
    {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_to_their_end() {
        let mut wire = &b"5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n"[..];
        let chunks: Vec<Vec<u8>> = (0..3).map(|_| read_chunk(&mut wire).unwrap()).collect();
        assert_eq!(chunks, [b"hello".to_vec(), b"!".to_vec(), Vec::new()]);
    }

    #[test]
    fn garbage_instead_of_http_is_an_error_that_shows_it() {
        let failure = read_head(&mut &b"hello\r\n\r\n"[..]).err().unwrap();
        assert_eq!(failure.to_string(), "not an HTTP answer: \"hello\"");
    }
}
