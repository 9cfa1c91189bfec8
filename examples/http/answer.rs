//! What we say: the pages, the refusals, and how an answer is put into bytes.

use super::date;
use super::request::{Head, Method, Page};
use super::server::Server;
use super::status;

const HELLO: &[u8] = b"Hello, World!\n";

// Header lines that depend on the page.
const TEXT: &str = "Content-Type: text/plain\r\n";
const BYTES: &str = "Content-Type: application/octet-stream\r\n";
const JSON: &str = "Content-Type: application/json\r\nCache-Control: no-store\r\n";
const GET_ONLY: &str = "Content-Type: text/plain\r\nAllow: GET, HEAD\r\n";
const POST_ONLY: &str = "Content-Type: text/plain\r\nAllow: POST\r\n";

// Header lines that say what becomes of the connection. What the version of the request implies is not said.
const CLOSE: &str = "Connection: close\r\n";
const KEEP_ALIVE: &str = "Connection: keep-alive\r\n";

/// The final statuses this server uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    ContentTooLarge,
    ExpectationFailed,
    HeadersTooLarge,
    NotImplemented,
    VersionNotSupported,
}

impl Status {
    /// Code and reason, as in the status line.
    fn text(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::RequestTimeout => "408 Request Timeout",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::ExpectationFailed => "417 Expectation Failed",
            Status::HeadersTooLarge => "431 Request Header Fields Too Large",
            Status::NotImplemented => "501 Not Implemented",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// Appends the answer to the request of `head` with `body`; `closing`: it is the last one of its connection.
pub(crate) fn respond(out: &mut Vec<u8>, server: &Server, head: &Head, body: &[u8], closing: bool) {
    let connection = match (closing, head.is_http_1_0) {
        (true, _) => CLOSE,
        (false, true) => KEEP_ALIVE,
        (false, false) => "",
    };
    let json;
    let (status, fields, body): (Status, &str, &[u8]) = match (head.page, head.method) {
        (Page::Hello, Method::Get | Method::Head) => (Status::Ok, TEXT, HELLO),
        (Page::Echo, Method::Post) => (Status::Ok, BYTES, body),
        (Page::Status, Method::Get | Method::Head) => {
            json = status::json(server.connections());
            (Status::Ok, JSON, &json)
        }
        (Page::Hello | Page::Status, _) => {
            (Status::MethodNotAllowed, GET_ONLY, b"GET and HEAD only\n")
        }
        (Page::Echo, _) => (Status::MethodNotAllowed, POST_ONLY, b"POST only\n"),
        (Page::Unknown, _) => (Status::NotFound, TEXT, b"no such page\n"),
    };
    let with_body = head.method != Method::Head;
    push(out, status, connection, fields, body, with_body);
}

/// Appends the last answer to a peer whose request we do not take.
pub(crate) fn refuse(out: &mut Vec<u8>, status: Status) {
    push(out, status, CLOSE, TEXT, status.text().as_bytes(), true);
}

/// Appends the word that a client waits for before it sends a body.
pub(crate) fn push_continue(out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// One answer: status line, headers, body. `fields` and `connection` are whole header lines.
fn push(
    out: &mut Vec<u8>,
    status: Status,
    connection: &str,
    fields: &str,
    body: &[u8],
    with_body: bool,
) {
    // One check for room instead of a dozen; exact for the first answer, as most connections never batch.
    let sent = if with_body { body.len() } else { 0 };
    let bytes = 160 + connection.len() + fields.len() + sent;
    if out.is_empty() {
        out.reserve_exact(bytes);
    } else {
        out.reserve(bytes);
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.text().as_bytes());
    out.extend_from_slice(b"\r\nDate: ");
    date::push(out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(connection.as_bytes());
    out.extend_from_slice(fields.as_bytes());
    out.extend_from_slice(b"Content-Length: ");
    push_decimal(out, body.len());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(&body[..sent]);
}

fn push_decimal(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; 20]; // usize::MAX has 20
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
