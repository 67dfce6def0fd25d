//! A wire between a manager and its API server that a test can cut and fix.

use parking_lot::Mutex;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

/// Passes bytes on, both ways and unseen: TLS is between the ends. Everything ends with it.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    server: SocketAddr,
    cut: AtomicBool,
    stopping: AtomicBool,
    /// Both ends of every connection since the last cut; a closed one stays until then.
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn start(server: SocketAddr) -> Result<Proxy> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free loopback port")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            cut: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    break;
                }
                // Whoever connects to a cut wire, or to a server that is down, is hung up on.
                let _ = accepting.connect(connection);
            }
        });
        Ok(Proxy {
            address,
            shared,
            acceptor: Some(acceptor),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends every connection and lets no other through until it is fixed.
    pub fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
        self.shared.hang_up();
    }

    pub fn fix(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.cut();
        // The acceptor waits for a connection: this is its last.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn connect(&self, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect_timeout(&self.server, Duration::from_secs(1))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut open = self.open.lock();
        // Under the lock, so that a cut either sees this connection or is seen by it.
        if self.cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        open.push(client.try_clone()?);
        open.push(server.try_clone()?);
        pass_on(client.try_clone()?, server.try_clone()?);
        pass_on(server, client);
        Ok(())
    }

    fn hang_up(&self) {
        let mut open = self.open.lock();
        for end in open.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// Copies until one end is closed, which ends the thread too.
fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// A server that gives every byte back.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut reading = connection.try_clone().unwrap();
                    let _ = io::copy(&mut reading, &mut connection);
                });
            }
        });
        address
    }

    fn says(connection: &mut TcpStream, word: &[u8; 4]) -> io::Result<bool> {
        connection.write_all(word)?;
        let mut heard = [0; 4];
        connection.read_exact(&mut heard)?;
        Ok(heard == *word)
    }

    #[test]
    fn a_cut_ends_what_is_open_and_refuses_others_until_it_is_mended() {
        let proxy = Proxy::start(echo()).unwrap();
        let connect = || TcpStream::connect(proxy.address()).unwrap();
        let mut before = connect();
        assert!(says(&mut before, b"ping").unwrap());
        proxy.cut();
        assert!(says(&mut before, b"lost").is_err());
        assert!(says(&mut connect(), b"lost").is_err());
        proxy.fix();
        assert!(says(&mut before, b"lost").is_err());
        assert!(says(&mut connect(), b"pong").unwrap());
    }
}
