//! Finding, making and configuring connections.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use urgo::net::{TcpListener, TcpStream};

use crate::side::{listen, on_both, pair};

/// An address on which nobody listens.
fn dead_address() -> SocketAddr {
    // Bound but not listening, and kept for ever: nobody else can be given the port.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    std::mem::forget(socket);
    address
}

#[test]
fn connect_tries_each_address() {
    on_both(|side| {
        let listener = listen();
        let good = listener.local_addr().unwrap();
        let addresses = [dead_address(), good];
        let client = TcpStream::connect(&addresses[..]).unwrap();
        assert_eq!(client.peer_addr().unwrap(), good, "{side:?}");
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert_eq!(server.local_addr().unwrap(), good);
    });
}

#[test]
fn the_last_error_is_kept_when_all_addresses_fail() {
    on_both(|side| {
        let addresses = [dead_address(), dead_address()];
        assert_eq!(
            TcpStream::connect(&addresses[..]).unwrap_err().kind(),
            ErrorKind::ConnectionRefused,
            "{side:?}"
        );
        let error = TcpStream::connect_timeout(&addresses[0], Duration::from_secs(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{side:?}");
        let nowhere: &[SocketAddr] = &[];
        assert_eq!(
            TcpStream::connect(nowhere).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            TcpListener::bind(nowhere).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let taken = listen();
        assert_eq!(
            TcpListener::bind(taken.local_addr().unwrap())
                .unwrap_err()
                .kind(),
            ErrorKind::AddrInUse
        );
    });
}

#[test]
fn names_are_looked_up() {
    on_both(|_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for _ in 0..2 {
            TcpStream::connect(("localhost", port)).unwrap();
            TcpStream::connect(format!("localhost:{port}")).unwrap();
        }
        assert!(TcpStream::connect("no port").is_err());
    });
}

#[test]
fn connections_work_over_ipv6() {
    on_both(|_| {
        // A host without IPv6 has nothing to show here.
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            return;
        };
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (server, peer) = listener.accept().unwrap();
        assert!(peer.is_ipv6());
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    });
}

#[test]
fn options_are_kept() {
    on_both(|_| {
        let (client, _server) = pair();
        for on in [true, false] {
            client.set_nodelay(on).unwrap();
            assert_eq!(client.nodelay().unwrap(), on);
        }
        client.set_ttl(42).unwrap();
        assert_eq!(client.ttl().unwrap(), 42);
        assert_eq!(client.linger().unwrap(), None);
        client.set_linger(Some(Duration::from_secs(2))).unwrap();
        assert_eq!(client.linger().unwrap(), Some(Duration::from_secs(2)));
        client.set_linger(None).unwrap();
        assert!(client.take_error().unwrap().is_none());
        let listener = listen();
        listener.set_ttl(41).unwrap();
        assert_eq!(listener.ttl().unwrap(), 41);
        assert!(listener.take_error().unwrap().is_none());
        assert_eq!(listener.accept_timeout().unwrap(), None);
        listener
            .set_accept_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        assert_eq!(
            listener.accept_timeout().unwrap(),
            Some(Duration::from_secs(1))
        );
        let shown = format!("{client:?} {listener:?}");
        assert!(
            shown.starts_with("TcpStream { addr: 127.0.0.1:")
                && shown.contains("TcpListener { addr: 127.0.0.1:")
        );
        assert!(shown.contains("peer: 127.0.0.1:") && shown.contains("fd: "));
    });
}

#[test]
fn a_dead_connection_reports_its_reset() {
    use std::io::{Read, Write};

    on_both(|side| {
        let (mut client, server) = pair();
        server.set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        let error = client.read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{side:?}");
        assert!(client.write(b"x").is_err());
    });
}
