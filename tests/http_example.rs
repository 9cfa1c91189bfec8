//! The promises of `examples/http`, checked from outside: the real program, over real sockets, with real signals.
//!
//! # Safety
//!
//! `unsafe` is here for `kill(2)` only: no safe call of std sends a signal other than SIGKILL to a child.

#![allow(unsafe_code)]

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Long enough to be reached by a hang only.
const PATIENCE: Duration = Duration::from_secs(30);
const GET: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

// --- What a client sees ---------------------------------------------------------------------------------------------

#[test]
fn hello_is_served_and_the_connection_is_kept() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..100 {
        client.send(GET);
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (200, &b"Hello, World!\n"[..])
        );
    }
}

#[test]
fn head_tells_the_length_of_get_and_has_no_body() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&format!("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n{GET}"));
    let head = client.answer_without_body();
    let get = client.answer();
    assert_eq!(head.status, 200);
    assert_eq!(
        head.field("content-length"),
        Some(get.body.len().to_string().as_str())
    );
    assert_eq!(get.body, b"Hello, World!\n");
}

#[test]
fn unknown_pages_and_methods_are_refused_and_the_connection_is_kept() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /none HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.answer().status, 404);
    client.send("DELETE / HTTP/1.1\r\nHost: test\r\n\r\n");
    let refused = client.answer();
    assert_eq!(
        (refused.status, refused.field("allow")),
        (405, Some("GET, HEAD"))
    );
    client.send("GET /echo HTTP/1.1\r\nHost: test\r\n\r\n");
    let refused = client.answer();
    assert_eq!(
        (refused.status, refused.field("allow")),
        (405, Some("POST"))
    );
    client.send("GET http://test/?query HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn status_counts_connections_and_goroutines() {
    let server = Server::start();
    let mut others: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for other in &mut others {
        other.send(GET);
        assert_eq!(other.answer().status, 200);
    }
    let mut client = server.connect();
    client.send("GET /status HTTP/1.1\r\nHost: test\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    let status: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(status["connections"], 4);
    assert!(status["goroutines"].as_u64() >= Some(5), "{status}");
    let workers = status["workers"].as_array().expect("workers");
    assert!(!workers.is_empty());
    for worker in workers {
        assert!(worker["ring"]["operations"].as_u64() > Some(0), "{status}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let bodies: Vec<String> = (0..500)
        .map(|number| "x".repeat(number % 40) + &number.to_string())
        .collect();
    let requests: String = bodies.iter().map(|body| echo_request(body)).collect();
    client.send(&requests);
    for body in &bodies {
        assert_eq!(client.answer().body, body.as_bytes());
    }
}

#[test]
fn a_request_may_arrive_in_two_parts_cut_anywhere() {
    let server = Server::start();
    let length = echo_request("abcde");
    let chunked = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n3\r\ncde\r\n0\r\nT: v\r\n\r\n";
    for request in [length.as_str(), chunked] {
        for cut in 1..request.len() {
            let mut client = server.connect();
            // The answer to the first request proves that the first part was read alone, or is about to be.
            client.send(&format!("{GET}{}", &request[..cut]));
            assert_eq!(client.answer().status, 200);
            client.send(&request[cut..]);
            assert_eq!(
                client.answer().body,
                b"abcde",
                "cut at {cut} of {request:?}"
            );
        }
    }
}

#[test]
fn chunked_bodies_come_back_whole() {
    let server = Server::start();
    let mut client = server.connect();
    let body: Vec<u8> = (0..300_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let mut request =
        b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let mut rest = body.as_slice();
    for size in (1..).map(|number: usize| number * 37 % 5000 + 1) {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        request.extend(format!("{:X};ext=\"1\"\r\n", chunk.len()).bytes());
        request.extend(chunk);
        request.extend(b"\r\n");
        rest = after;
        if chunk.is_empty() {
            break;
        }
    }
    client.send_bytes(&request);
    assert_eq!(client.answer().body, body);
    client.send(GET);
    assert_eq!(client.answer().status, 200);
}

#[test]
fn earlier_answers_do_not_wait_for_a_body_that_is_on_its_way() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&format!(
        "{GET}{GET}POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nab"
    ));
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.answer().status, 200);
    client.send("cd");
    assert_eq!(client.answer().body, b"abcd");
}

#[test]
fn continue_is_said_before_the_body_is_sent() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.answer_without_body().status, 100);
    client.send("hi");
    assert_eq!(client.answer().body, b"hi");
}

#[test]
fn a_client_that_is_done_sending_gets_its_answers() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&format!("{GET}{}", echo_request("last")));
    client.stream().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer().status, 200);
    assert_eq!(client.answer().body, b"last");
    client.expect_end();
}

#[test]
fn the_connection_ends_when_the_client_asks_for_it() {
    let server = Server::start();
    for request in [
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: Close\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: x, close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.field("connection")),
            (200, Some("close"))
        );
        client.expect_end();
    }
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.answer().field("connection"), Some("keep-alive"));
    }
}

// --- Limits and refusals --------------------------------------------------------------------------------------------

#[test]
fn too_much_is_refused_by_name_and_the_answer_is_not_cut() {
    let server = Server::start();
    let long_line = format!(
        "GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n",
        "a".repeat(70_000)
    );
    let many_lines = format!(
        "GET / HTTP/1.1\r\nHost: test\r\n{}\r\n",
        "X: y\r\n".repeat(200)
    );
    let declared =
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 99999999999999999999999\r\n\r\n"
            .to_owned();
    // One byte more than 8 MiB, in nine chunks; the server gives up at the ninth and must still be heard.
    let mut grown =
        "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for _ in 0..8 {
        grown += &format!("100000\r\n{}\r\n", "b".repeat(1 << 20));
    }
    grown += "1\r\nb\r\n0\r\n\r\n";
    for (request, status) in [
        (long_line, 431),
        (many_lines, 431),
        (declared, 413),
        (grown, 413),
    ] {
        let mut client = server.connect();
        // Unread input, were it there at the close, would turn the answer into a reset.
        client.send(&(request + &"c".repeat(100_000)));
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.field("connection")),
            (status, Some("close"))
        );
        client.expect_end();
    }
}

#[test]
fn the_largest_allowed_is_served() {
    let server = Server::start();
    let mut client = server.connect();
    let frame = "GET / HTTP/1.1\r\nHost: test\r\nX: \r\n\r\n".len();
    client.send(&format!(
        "GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n",
        "a".repeat((64 << 10) - frame)
    ));
    assert_eq!(client.answer().status, 200);
    client.send(&format!(
        "GET / HTTP/1.1\r\nHost: test\r\n{}\r\n",
        "X: y\r\n".repeat(100)
    ));
    assert_eq!(client.answer().status, 200);
    let body = "b".repeat(8 << 20);
    client.send(&echo_request(&body));
    assert!(
        client.answer().body == body.as_bytes(),
        "8 MiB come back as they were"
    );
}

#[test]
fn a_head_that_never_ends_is_refused_however_lively_it_is() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n");
    let mut dripping = client.stream().try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        // Ends when the server has closed: each read of the server finds something, none finds the end.
        while dripping
            .write_all(b"X: y\r\nX")
            .and_then(|()| dripping.write_all(b"z: y\r\n"))
            .is_ok()
        {
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    assert_eq!(client.answer().status, 408);
    client.expect_end();
    drop(client);
    drop(server);
    drip.join().unwrap();
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let server = Server::start();
    let post = "POST /echo HTTP/1.1\r\nHost: test\r\n";
    let chunked = format!("{post}Transfer-Encoding: chunked\r\n\r\n");
    for (request, status) in [
        ("\x16\x03\x01\x02\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(),
            400,
        ),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        (format!("{post}Content-Length: -1\r\n\r\n"), 400),
        (format!("{post}Content-Length: +1\r\n\r\na"), 400),
        (format!("{post}Content-Length: 0x1\r\n\r\na"), 400),
        (format!("{post}Content-Length: 1, 1\r\n\r\na"), 400),
        (format!("{post}Content-Length:\r\n\r\n"), 400),
        (
            format!("{post}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
            400,
        ),
        (
            format!("{post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            400,
        ),
        (
            format!(
                "{post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            400,
        ),
        (
            format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            501,
        ),
        (
            "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
            400,
        ),
        (format!("{chunked}zz\r\n"), 400),
        (format!("{chunked}\r\n\r\n"), 400),
        (format!("{chunked};ext\r\n\r\n"), 400),
        (format!("{chunked}-1\r\n"), 400),
        (format!("{chunked}1\r\nab\r\n0\r\n\r\n"), 400),
        (format!("{chunked}1;a\nb\r\na\r\n0\r\n\r\n"), 400),
        (format!("{chunked}0\r\nno field\r\n\r\n"), 400),
        (format!("{chunked}ffffffffffffffff\r\n"), 413),
        (format!("{chunked}10000000000000000\r\n"), 400),
    ] {
        let mut client = server.connect();
        // What stands behind a refused request is never taken for a request.
        client.send(&format!("{request}{GET}"));
        let answer = client.answer();
        assert_eq!(answer.status, status, "{request:?}");
        client.expect_end();
    }
}

#[test]
fn a_client_that_does_not_read_stops_nobody_else() {
    let server = Server::start();
    let lazy = server.connect();
    lazy.stream().set_nonblocking(true).unwrap();
    // Until both directions are full: the server waits in its write, and so do we.
    let requests = GET.repeat(1000);
    let mut refusals = 0;
    while refusals < 20 {
        match (&mut lazy.stream()).write(requests.as_bytes()) {
            Ok(_) => refusals = 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refusals += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    }
    for _ in 0..50 {
        let mut client = server.connect();
        client.send(GET);
        assert_eq!(client.answer().status, 200);
    }
}

// --- Start and end --------------------------------------------------------------------------------------------------

#[test]
fn a_port_in_use_is_one_clear_message_and_status_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let output = Command::new(example())
        .args(["--addr", &addr])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains(&addr) && message.contains("in use"),
        "{message}"
    );
}

#[test]
fn out_of_descriptors_new_clients_wait_and_are_served_when_others_leave() {
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(example());
    let mut server = Server::start_by(limited.stderr(Stdio::piped()));
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap());

    // They connect all the same: the kernel's queue takes those that the server cannot.
    let clients: Vec<Client> = (0..100).map(|_| server.connect()).collect();
    let mut message = String::new();
    stderr.read_line(&mut message).unwrap();
    assert!(message.contains("cannot accept for now"), "{message}");
    let mut waiting = server.connect();
    waiting.send(GET);
    drop(clients);
    assert_eq!(waiting.answer().status, 200);
    drop(waiting);

    server.signal(libc::SIGTERM);
    assert_eq!(server.wait().code(), Some(0));
    stderr.read_to_string(&mut message).unwrap();
    assert!(
        message.lines().count() <= 4,
        "a message now and then, not for each attempt: {message}"
    );
}

#[test]
fn sigterm_finishes_what_is_in_flight_frees_the_port_and_exits_0() {
    let mut server = Server::start();
    // One waits for its next request, one is in the middle of a head, one in the middle of a body.
    let mut idle = server.connect();
    idle.send(GET);
    assert_eq!(idle.answer().status, 200);
    let mut in_head = server.connect();
    in_head.send(&format!("{GET}GET / HT"));
    assert_eq!(in_head.answer().status, 200);
    let mut in_body = server.connect();
    in_body.send(
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(in_body.answer_without_body().status, 100);

    server.signal(libc::SIGTERM);
    idle.expect_end();
    // The idle one is told after the port was freed, so it is free now, while the others are still in work.
    let successor = TcpListener::bind(server.addr).expect("the port is free at once");
    assert!(
        server.child.try_wait().unwrap().is_none(),
        "requests in flight keep the server alive"
    );

    in_head.send("TP/1.1\r\nHost: test\r\n\r\n");
    let answer = in_head.answer();
    assert_eq!(
        (answer.status, answer.field("connection")),
        (200, Some("close"))
    );
    in_head.expect_end();
    in_body.send("last");
    let answer = in_body.answer();
    assert_eq!(
        (answer.body.as_slice(), answer.field("connection")),
        (&b"last"[..], Some("close"))
    );
    in_body.expect_end();
    drop((in_head, in_body));

    assert_eq!(server.wait().code(), Some(0));
    drop(successor);
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let mut server = Server::start();
        let mut idle = server.connect();
        idle.send(GET);
        assert_eq!(idle.answer().status, 200);
        let mut in_flight = server.connect();
        in_flight.send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(in_flight.answer_without_body().status, 100);

        server.signal(libc::SIGINT);
        idle.expect_end();
        assert!(
            server.child.try_wait().unwrap().is_none(),
            "the first signal waits for the request in flight"
        );
        server.signal(signal);
        assert_eq!(server.wait().code(), Some(code));
    }
}

// --- The program under test, and a small client ---------------------------------------------------------------------

/// A running example. Dropping it kills it.
struct Server {
    child: Child,
    addr: SocketAddr,
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Server {
        Server::start_by(&mut Command::new(example()))
    }

    fn start_by(command: &mut Command) -> Server {
        let mut child = command
            .args(["--addr", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let addr = line
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|addr| addr.parse().ok());
        let Some(addr) = addr else {
            let _ = child.kill();
            panic!("no address in {line:?}; ended with {:?}", child.wait());
        };
        Server {
            child,
            addr,
            _stdout: stdout,
        }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(BufReader::new(stream))
    }

    fn signal(&mut self, signal: i32) {
        assert!(self.child.try_wait().unwrap().is_none(), "the server runs");
        // SAFETY: the pid is our child's and not reused, because only `wait` gives it back; established by the
        // `try_wait` above, until the next wait, which needs `&mut self`. The call touches no memory of ours.
        let result = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// Waits for the end of the process, and fails rather than hangs.
    fn wait(&mut self) -> ExitStatus {
        let begin = std::time::Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("the server does not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(BufReader<TcpStream>);

struct Answer {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|field| field.0 == name)
            .map(|field| field.1.as_str())
    }
}

impl Client {
    fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    /// Sends from a second thread while it is not all gone, so that a server which answers early is not held up; what a
    /// refusing server does not take is not an error.
    fn send_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() < 16 * 1024 {
            self.0.get_mut().write_all(bytes).unwrap();
            return;
        }
        let mut stream = self.stream().try_clone().unwrap();
        let bytes = bytes.to_vec();
        std::thread::spawn(move || {
            let _ = stream.write_all(&bytes);
        });
    }

    fn answer(&mut self) -> Answer {
        let mut answer = self.answer_without_body();
        let length: usize = answer
            .field("content-length")
            .expect("a length")
            .parse()
            .unwrap();
        answer.body = vec![0; length];
        self.0.read_exact(&mut answer.body).expect("the whole body");
        answer
    }

    fn answer_without_body(&mut self) -> Answer {
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut answer = Answer {
            status: status.unwrap_or_else(|| panic!("no status in {line:?}")),
            fields: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let line = self.line();
            if line.is_empty() {
                return answer;
            }
            let (name, value) = line.split_once(':').expect("a field");
            answer
                .fields
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line.strip_suffix("\r\n")
            .unwrap_or_else(|| panic!("no whole line: {line:?}"))
            .to_owned()
    }

    /// The server says that it is done: an orderly end, nothing before it, and not a reset.
    fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest)),
            Err(error) => panic!("no orderly end: {error}"),
        }
    }
}

fn echo_request(body: &str) -> String {
    format!(
        "POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Path of the example. `cargo test` builds it before it runs tests; `cargo test --test http_example` does not, so it
/// is built here if need be (a moment's work if it is up to date).
fn example() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile_dir = test.ancestors().nth(2).unwrap(); // target/debug/deps/http_example-...
        let path = profile_dir.join("examples/http");
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build
                .args(["build", "--quiet", "--example", "http", "--target-dir"])
                .arg(profile_dir.parent().unwrap());
            if profile_dir.ends_with("release") {
                build.arg("--release");
            }
            let status = build
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(
                status.success() && path.exists(),
                "the example could not be built"
            );
        }
        path
    })
}
