//! How the clients speak HTTP/1.1: they learn what a server answers, and then know every byte of it.
//!
//! Servers differ in their header lines. So the first answer is parsed, and all later ones are compared with it, but for the
//! time in `Date`.

use super::Exchange;
use crate::net::hash::fnv;
use crate::net::servers::HELLO;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

/// What is asked.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// A server that has not answered its first request by then does not work.
const START_TIME: Duration = Duration::from_secs(10);
/// And one of the later ones.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What the server answers, learned from one answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    /// The time in the `Date` header.
    date: Range<usize>,
}

impl Answer {
    /// Asks until there is an answer. Those servers that cannot take a listener bind its port again; a connection made before
    /// that is refused or reset.
    ///
    /// # Panics
    /// If there is none in time, or not the right one.
    pub(crate) fn learn(address: SocketAddr) -> Answer {
        let deadline = Instant::now() + START_TIME;
        loop {
            match first_answer(address) {
                Ok(bytes) => return Answer::parse(bytes),
                Err(error) if Instant::now() >= deadline => panic!("no answer: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn parse(bytes: Vec<u8>) -> Answer {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let head = head_bytes(&bytes).expect("a whole answer");
        assert!(
            bytes.starts_with(b"HTTP/1.1 200 ") && bytes[head..] == *HELLO.as_bytes(),
            "a wrong answer: {text}"
        );
        let date = "\r\ndate: ";
        let start = text.find(date).expect("a Date header") + date.len();
        let length = text[start..].find("\r\n").expect("the end of its line");
        Answer {
            bytes,
            date: start..start + length,
        }
    }

    /// `depth` requests sent at once, and their answers.
    pub(crate) fn exchange(&self, depth: usize) -> Exchange {
        let mut mask = vec![0xff; self.bytes.len()];
        mask[self.date.clone()].fill(0);
        let request = REQUEST.repeat(depth);
        Exchange::new(request, self.bytes.repeat(depth), mask.repeat(depth))
    }

    /// A connection on which one request was answered.
    ///
    /// # Panics
    /// If it was not, or wrongly.
    pub(crate) fn connect(&self, address: SocketAddr) -> TcpStream {
        let mut stream = connect(address).expect("the server listens");
        let mut received = vec![0; self.bytes.len()];
        let answered = stream
            .write_all(REQUEST)
            .and_then(|()| stream.read_exact(&mut received));
        answered.expect("the server answers");
        assert!(
            self.exchange(1).is_answer(0, &received),
            "a wrong answer: {}",
            received.escape_ascii()
        );
        stream
    }

    /// A hash of the body (FNV-1a), the part that all servers have in common.
    pub(crate) fn checksum(&self) -> u64 {
        let body = head_bytes(&self.bytes).map_or(&[][..], |head| &self.bytes[head..]);
        fnv(body, 1)
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    Ok(stream)
}

/// Reads one answer, up to the end of its body as `Content-Length` says.
fn first_answer(address: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = connect(address)?;
    stream.write_all(REQUEST)?;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..count]);
        if let Some(head) = head_bytes(&bytes)
            && bytes.len() >= head + content_length(&bytes[..head])
        {
            return Ok(bytes);
        }
    }
}

/// Length of the head with its empty line.
fn head_bytes(answer: &[u8]) -> Option<usize> {
    let end = b"\r\n\r\n";
    let at = answer.windows(end.len()).position(|part| part == end)?;
    Some(at + end.len())
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let value = value.unwrap_or_else(|| panic!("no Content-Length in {head:?}"));
    value.trim().parse().expect("a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_differ_in_its_date_only() {
        let first = b"HTTP/1.1 200 OK\r\ndate: NOW\r\nContent-Length: 14\r\n\r\nHello, World!\n";
        let later = first.map(|byte| if byte == b'N' { b'X' } else { byte });
        let answer = Answer::parse(first.to_vec());
        let exchange = answer.exchange(2);
        assert_eq!(exchange.answer_bytes(), 2 * first.len());
        assert!(exchange.is_answer(0, &[*first, later].concat()));
        assert!(!exchange.is_answer(0, &later[1..]));
        let head = head_bytes(first).unwrap();
        assert_eq!(
            (content_length(&first[..head]), head),
            (14, first.len() - 14)
        );
    }
}
