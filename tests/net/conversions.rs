//! Handles go to std and descriptors and come back as they were.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use urgo::net::{ClosedError, TcpListener, TcpStream};

use crate::side::{listen, on_both, pair};

#[test]
fn a_stream_goes_to_std_and_back_with_its_settings() {
    on_both(|side| {
        let (client, mut server) = pair();
        client
            .set_read_timeout(Some(Duration::from_millis(40)))
            .unwrap();
        client.set_nodelay(true).unwrap();
        let address = client.local_addr().unwrap();

        let mut client = std::net::TcpStream::from(client);
        assert_eq!(client.local_addr().unwrap(), address);
        assert_eq!(
            client.read_timeout().unwrap(),
            Some(Duration::from_millis(40))
        );
        assert_eq!(client.write_timeout().unwrap(), None);
        client.write_all(b"from std").unwrap();
        client
            .set_write_timeout(Some(Duration::from_secs(3)))
            .unwrap();

        let mut client = TcpStream::from(client);
        assert!(client.nodelay().unwrap());
        assert_eq!(
            client.write_timeout().unwrap(),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            client.read(&mut [0; 1]).unwrap_err().kind(),
            ErrorKind::TimedOut,
            "{side:?}"
        );
        client.set_read_timeout(None).unwrap();
        client.write_all(b"; from us").unwrap();
        assert_eq!(
            std::net::TcpStream::from(client).read_timeout().unwrap(),
            None
        );
        let mut all = String::new();
        server.read_to_string(&mut all).unwrap();
        assert_eq!(all, "from std; from us");
    });
}

#[test]
fn a_listener_goes_to_std_and_back() {
    on_both(|_| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let _first = TcpStream::connect(address).unwrap();
        listener.accept().unwrap();
        let listener = std::net::TcpListener::from(listener);
        // SAFETY: asks for the flags of a number that `listener` owns.
        let flags = unsafe { libc::fcntl(listener.as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0, "std waits on it");
        let _second = TcpStream::connect(address).unwrap();
        listener.accept().unwrap();
    });
}

#[test]
fn a_nonblocking_handle_is_a_nonblocking_one_of_std() {
    on_both(|_| {
        let (client, _server) = pair();
        client.set_nonblocking(true).unwrap();
        let mut client = std::net::TcpStream::from(client);
        assert_eq!(
            client.read(&mut [0; 1]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        let listener = listen();
        listener.set_nonblocking(true).unwrap();
        let listener = std::net::TcpListener::from(listener);
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn calls_wait_on_nonblocking_descriptors_from_outside() {
    on_both(|side| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from(listener);
        let address = listener.local_addr().unwrap();
        let client = side.spawn(move || {
            side.sleep(Duration::from_millis(10));
            let client = std::net::TcpStream::connect(address).unwrap();
            client.set_nonblocking(true).unwrap();
            let mut client = TcpStream::from(client);
            let mut buffer = [0; 5];
            client.read_exact(&mut buffer).unwrap();
            client.write_all(&vec![9; 16 << 20]).unwrap();
            buffer
        });
        let (mut server, _) = listener.accept().unwrap();
        side.sleep(Duration::from_millis(10));
        server.write_all(b"hello").unwrap();
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 16 << 20, "{side:?}");
        assert_eq!(&side.join(client), b"hello");
    });
}

#[test]
fn a_descriptor_goes_through_every_form() {
    on_both(|_| {
        let (client, mut server) = pair();
        let number = client.as_raw_fd();
        assert_eq!(client.as_fd().as_raw_fd(), number);
        let owned = OwnedFd::from(client);
        let raw = TcpStream::from(owned).into_raw_fd();
        assert_eq!(raw, number);
        // SAFETY: `into_raw_fd` gave the number up to us.
        let mut client = unsafe { TcpStream::from_raw_fd(raw) };
        client.write_all(b"same").unwrap();
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"same");
    });
}

#[test]
fn closing_a_handle_from_outside_leaves_the_others_their_connection() {
    on_both(|side| {
        let (mut client, server) = pair();
        let mut outside = std::net::TcpStream::from(server);
        let ours = TcpStream::from(outside.try_clone().unwrap());
        ours.close().unwrap();
        outside.write_all(b"alive").unwrap();
        let mut buffer = [0; 5];
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"alive", "{side:?}");
        assert!(ClosedError::is_in(&ours.local_addr().unwrap_err()));
        // The closed handle does not keep the connection open.
        drop(outside);
        assert_eq!(client.read(&mut buffer).unwrap(), 0, "{side:?}");
        drop(ours);
    });
}

#[test]
fn descriptors_are_closed_on_exec() {
    on_both(|side| {
        let (client, server) = pair();
        let copy = server.try_clone().unwrap();
        let listener = listen();
        for number in [
            client.as_raw_fd(),
            server.as_raw_fd(),
            copy.as_raw_fd(),
            listener.as_raw_fd(),
        ] {
            // SAFETY: asks for the flags of a number that a handle above owns.
            let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
            assert_eq!(flags, libc::FD_CLOEXEC, "{side:?}");
        }
    });
}
