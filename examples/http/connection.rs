//! One client, from hello to hang-up.
//!
//! Everything here is a plain blocking call; what waits is the goroutine. Requests are taken from the read buffer as
//! long as whole ones are in it, their answers collect in `out`, and `out` is written in one go before the connection
//! waits for more. So sixteen pipelined requests cost one read and one write.

use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::answer::{self, Status};
use super::date;
use super::input::Input;
use super::request::{self, BODY_BYTES_MAX, Body, HEAD_BYTES_MAX, Head};
use super::server::Guest;

/// From a request's first byte to the end of its head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// From the end of the head to the end of the body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// A connection without a request is closed, silently, after this time...
const IDLE_TIME: Duration = Duration::from_secs(60);
/// ...and gives back what its buffers had grown to after this.
const QUIET_TIME: Duration = Duration::from_secs(1);
/// A peer that takes none of our bytes for this long is given up.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long, and for how many bytes, we go on listening after the last answer.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 * 1024 * 1024;
/// Answers are written when this much of them has collected, even if more whole requests are there.
const BATCH_BYTES: usize = 16 * 1024;
/// What the buffers may keep from one request to the next.
const KEPT_BYTES: usize = 64 * 1024;

/// Why a connection ends before its client or we said so.
enum End {
    /// The peer is gone, or as good as gone: nobody is there to hear an answer.
    Gone,
    /// The peer gets one last answer.
    Refused(Status),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

impl From<Status> for End {
    fn from(status: Status) -> End {
        End::Refused(status)
    }
}

/// Serves a connection to its end. Whatever goes wrong is between us and this client, so nothing is returned.
pub(crate) fn serve(guest: &Guest) {
    // Without this, the last packet of a batch would wait for the acknowledgement of the one before.
    let is_set_up = guest
        .stream
        .set_nodelay(true)
        .and_then(|()| guest.stream.set_write_timeout(Some(WRITE_TIME)));
    if is_set_up.is_err() {
        return;
    }
    let mut talk = Talk {
        guest,
        input: Input::new(),
        body: Vec::new(),
        out: Vec::new(),
    };
    match talk.converse() {
        Ok(()) => {}
        Err(End::Refused(status)) => answer::refuse(&mut talk.out, status),
        Err(End::Gone) => return,
    }
    talk.hang_up();
}

struct Talk<'a> {
    guest: &'a Guest,
    input: Input,
    /// The body of the request in work.
    body: Vec<u8>,
    /// Answers not yet written.
    out: Vec<u8>,
}

impl Talk<'_> {
    /// Request, answer, request, answer... `Ok` when the last answer is in `out`.
    fn converse(&mut self) -> Result<(), End> {
        loop {
            let head = self.next_head()?;
            self.receive_body(&head)?;
            // When the server stops, pipelined requests that are here already still get their answers.
            let closing = !head.keep_alive || (self.guest.is_stopping() && self.input.is_empty());
            answer::respond(
                &mut self.out,
                &self.guest.server,
                &head,
                &self.body,
                closing,
            );
            if closing {
                return Ok(());
            }
            if self.out.len() >= BATCH_BYTES {
                self.flush()?;
            }
        }
    }

    /// The next request's head, taken from the read buffer; waits for it if need be, after all answers are written.
    fn next_head(&mut self) -> Result<Head, End> {
        loop {
            self.skip_blank_lines();
            if !self.input.is_empty() {
                break;
            }
            self.flush()?;
            self.await_request()?;
        }
        match self.take_head()? {
            Some(head) => Ok(head),
            None => self.rest_of_head(),
        }
    }

    /// The head has begun and is not all here. Its time runs from now, however many reads the client makes us do.
    #[cold]
    fn rest_of_head(&mut self) -> Result<Head, End> {
        let deadline = Instant::now() + HEAD_TIME;
        self.flush()?;
        loop {
            if self.input.unread().len() >= HEAD_BYTES_MAX {
                return Err(Status::HeadersTooLarge.into());
            }
            let count = self.receive(deadline)?;
            // Without the end of a line, parsing again would find nothing new: a head sent byte by byte stays cheap.
            let unread = self.input.unread();
            if unread[unread.len() - count..].contains(&b'\n')
                && let Some(head) = self.take_head()?
            {
                return Ok(head);
            }
        }
    }

    fn take_head(&mut self) -> Result<Option<Head>, End> {
        let head = request::parse_head(self.input.unread())?;
        if let Some(head) = &head {
            self.input.consume(head.bytes);
        }
        Ok(head)
    }

    /// Old clients send an empty line behind a body. It is not the start of a request.
    fn skip_blank_lines(&mut self) {
        loop {
            match self.input.unread() {
                [b'\n', ..] => self.input.consume(1),
                [b'\r', b'\n', ..] => self.input.consume(2),
                _ => return,
            }
        }
    }

    /// Receives the whole body of the request into `self.body`.
    fn receive_body(&mut self, head: &Head) -> Result<(), End> {
        self.body.clear();
        self.body.shrink_to(KEPT_BYTES);
        if head.body == Body::None {
            return Ok(());
        }
        if head.expects_continue && self.input.is_empty() {
            answer::push_continue(&mut self.out);
        }
        let deadline = Instant::now() + BODY_TIME;
        match head.body {
            Body::None => Ok(()),
            Body::Length(length) => self.receive_exactly(length, deadline),
            Body::Chunked => self.receive_chunks(deadline),
        }
    }

    fn receive_chunks(&mut self, deadline: Instant) -> Result<(), End> {
        loop {
            let (line, size) = self.receive_parsed(deadline, request::parse_chunk_line)?;
            self.input.consume(line);
            if size == 0 {
                break;
            }
            if size > BODY_BYTES_MAX - self.body.len() {
                return Err(Status::ContentTooLarge.into());
            }
            self.receive_exactly(size, deadline)?;
            while self.input.unread().len() < 2 {
                self.receive_more(deadline)?;
            }
            if !self.input.unread().starts_with(b"\r\n") {
                return Err(Status::BadRequest.into());
            }
            self.input.consume(2);
        }
        let trailer = self.receive_parsed(deadline, request::parse_trailer)?;
        self.input.consume(trailer);
        Ok(())
    }

    /// Receives until `parse` finds what it looks for at the start of the read buffer.
    fn receive_parsed<T>(
        &mut self,
        deadline: Instant,
        parse: impl Fn(&[u8]) -> Result<Option<T>, Status>,
    ) -> Result<T, End> {
        loop {
            if let Some(found) = parse(self.input.unread())? {
                return Ok(found);
            }
            self.receive_more(deadline)?;
        }
    }

    /// Moves `count` bytes of the body from the read buffer to `self.body`, waiting for those that are not here.
    fn receive_exactly(&mut self, mut count: usize, deadline: Instant) -> Result<(), End> {
        loop {
            let unread = self.input.unread();
            let here = unread.len().min(count);
            self.body.extend_from_slice(&unread[..here]);
            self.input.consume(here);
            count -= here;
            if count == 0 {
                return Ok(());
            }
            self.receive_more(deadline)?;
        }
    }

    /// One read in the middle of a request. The client may be waiting for earlier answers, so these go out first.
    fn receive_more(&mut self, deadline: Instant) -> Result<(), End> {
        self.flush()?;
        self.receive(deadline)?;
        Ok(())
    }

    /// One read in the middle of a request, until `deadline`.
    fn receive(&mut self, deadline: Instant) -> Result<usize, End> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Status::RequestTimeout.into());
        }
        match self.read(left) {
            Ok(0) => Err(End::Gone),
            Ok(count) => Ok(count),
            Err(error) if is_timeout(&error) => Err(Status::RequestTimeout.into()),
            Err(_) => Err(End::Gone),
        }
    }

    /// Waits for the first bytes of a request. This is where a connection spends its life.
    fn await_request(&mut self) -> Result<(), End> {
        if !self.guest.start_waiting() {
            // The server stops: what has arrived is still read, and nothing is waited for.
            self.guest.stream.shutdown(Shutdown::Read)?;
        }
        let mut arrived = self.read(QUIET_TIME);
        if arrived.as_ref().is_err_and(is_timeout) {
            self.input.shrink();
            self.body = Vec::new();
            self.out = Vec::new();
            arrived = self.read(IDLE_TIME - QUIET_TIME);
        }
        self.guest.end_waiting();
        match arrived {
            Ok(0) | Err(_) => Err(End::Gone),
            Ok(_) => Ok(()),
        }
    }

    fn read(&mut self, timeout: Duration) -> io::Result<usize> {
        self.guest.stream.set_read_timeout(Some(timeout))?;
        let arrived = self.input.read_from(&self.guest.stream);
        date::refresh();
        arrived
    }

    /// Writes the answers that have collected. A peer that does not read them stops only its own connection.
    fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            (&self.guest.stream).write_all(&self.out)?;
            self.out.clear();
            self.out.shrink_to(KEPT_BYTES);
        }
        Ok(())
    }

    /// Writes the last answer and closes without cutting it off: a close with unread input would reset the connection,
    /// and the reset can overtake the answer. So we say that we are done and read on until the peer is done too.
    fn hang_up(&mut self) {
        let deadline = Instant::now() + LINGER_TIME;
        let mut left = LINGER_BYTES;
        if self.flush().is_err() || self.guest.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        loop {
            self.input.consume(self.input.unread().len());
            match self.receive(deadline) {
                Ok(count) if count < left => left -= count,
                _ => return,
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut
}
