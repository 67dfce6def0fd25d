//! Connections that want nothing but to be there.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use real_tests::Api;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

/// A handshake with a busy server takes less.
const PATIENCE: Duration = Duration::from_secs(10);
/// The beginning of a connection that speaks HTTP/2, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// What is sent of a body that is announced as a little larger.
const HALF_A_BODY: usize = 2_900_000;

#[derive(Clone, Copy)]
pub(super) enum On {
    ApiServer,
    /// An API server that may have so many files open, sockets included.
    FewFiles(u32),
    Manager,
}

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) on: On,
    /// By the administrator; otherwise by a stranger, who gets less time.
    pub(super) is_known: bool,
    pub(super) count: usize,
    pub(super) open: fn(&Api, usize) -> Result<Vec<Held>>,
}

pub(super) const ATTACKS: [Attack; 7] = [
    Attack {
        name: "half-bodies",
        on: On::ApiServer,
        is_known: true,
        count: 100,
        open: half_bodies,
    },
    Attack {
        name: "no-handshake",
        on: On::ApiServer,
        is_known: false,
        count: 300,
        open: |api, count| several(count, || bare(api)),
    },
    Attack {
        name: "idle-tls",
        on: On::ApiServer,
        is_known: false,
        count: 300,
        open: |api, count| several(count, || sent(api, b"")),
    },
    Attack {
        name: "half-prefaces",
        on: On::ApiServer,
        is_known: false,
        count: 300,
        open: |api, count| several(count, || sent(api, &PREFACE[..10])),
    },
    Attack {
        name: "idle-http2",
        on: On::ApiServer,
        is_known: false,
        count: 300,
        open: |api, count| several(count, || sent(api, PREFACE)),
    },
    Attack {
        name: "few-open-files",
        on: On::FewFiles(220),
        is_known: false,
        count: 250,
        open: |api, count| several(count, || bare(api)),
    },
    Attack {
        name: "manager-no-handshake",
        on: On::Manager,
        is_known: false,
        count: 300,
        open: |api, count| several(count, || bare(api)),
    },
];

/// A connection that is held.
pub(super) enum Held {
    Bare(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Whether the server still keeps it. All that it has said is read and forgotten: its end comes after that.
pub(super) fn is_open(held: &mut Held) -> bool {
    let mut said = [0; 4096];
    loop {
        let read = match held {
            Held::Bare(stream) => stream.read(&mut said),
            Held::Tls(stream) => stream.read(&mut said),
        };
        match read {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Those that the server refuses are not held.
fn several(count: usize, open: impl Fn() -> Result<Held>) -> Result<Vec<Held>> {
    Ok((0..count).filter_map(|_| open().ok()).collect())
}

fn bare(api: &Api) -> Result<Held> {
    let stream = TcpStream::connect_timeout(&api.endpoint().0, PATIENCE)?;
    stream.set_nonblocking(true)?;
    Ok(Held::Bare(stream))
}

/// A handshake, and then these bytes.
fn sent(api: &Api, bytes: &[u8]) -> Result<Held> {
    let (address, tls) = api.endpoint();
    let mut tls = (*tls).clone();
    if bytes.starts_with(b"PRI") {
        tls.alpn_protocols = vec![b"h2".to_vec()];
    }
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let session = ClientConnection::new(Arc::new(tls), ServerName::try_from("localhost")?)?;
    let mut stream = StreamOwned::new(session, socket);
    stream.conn.complete_io(&mut stream.sock)?;
    stream.write_all(bytes)?;
    stream.flush()?;
    stream.sock.set_nonblocking(true)?;
    Ok(Held::Tls(Box::new(stream)))
}

/// Writes of somebody who may write, most of which come and then nothing. A server that reads no further is not waited for.
fn half_bodies(api: &Api, count: usize) -> Result<Vec<Held>> {
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        HALF_A_BODY + 1000
    );
    let request = Arc::new([head.into_bytes(), vec![b' '; HALF_A_BODY]].concat());
    let (address, tls) = api.endpoint();
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (request, tls) = (Arc::clone(&request), Arc::clone(&tls));
            std::thread::spawn(move || -> Result<Held> {
                let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                let session = ClientConnection::new(tls, ServerName::try_from("localhost")?)?;
                let mut stream = StreamOwned::new(session, socket);
                let _ = stream.write_all(&request);
                stream.sock.set_nonblocking(true)?;
                Ok(Held::Tls(Box::new(stream)))
            })
        })
        .collect();
    let opened = threads.into_iter().filter_map(|thread| thread.join().ok());
    Ok(opened.flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_end_does_not_hide_it() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut held = Held::Bare(stream);
        let (mut server, _) = listener.accept().unwrap();
        assert!(is_open(&mut held), "nothing was said yet");
        server.write_all(b"HTTP/1.1 408").unwrap();
        drop(server);
        assert!(!is_open(&mut held));
    }
}
