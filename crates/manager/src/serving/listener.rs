//! Binding the port.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

use crate::error::Error;
use crate::options::ServingOptions;

/// Connections that wait to be accepted, as Go's listener allows at least.
const BACKLOG: u32 = 128;

/// Listens on the address. Must be called inside a runtime.
pub fn bind(options: &ServingOptions, address: SocketAddr) -> Result<TcpListener, Error> {
    let failed = |source| Error::Listen { address, source };
    // UPSTREAM: 0.0.0.0 means every address of both families where the system has both.
    if address.ip() == IpAddr::from([0, 0, 0, 0]) {
        let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
        match listen(options, both) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(failed(error)),
            Err(_) => {}
        }
    }
    listen(options, address).map_err(failed)
}

fn listen(options: &ServingOptions, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // UPSTREAM: Go always sets this, so that a restart does not wait for connections to fade; the flag
    // --permit-address-sharing adds nothing to it on Linux.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(options.reuse_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
