//! What a request may look like: heads and chunk lines through `httparse`, and on top of it the rules that keep two
//! parties from reading the same bytes as different requests.

use std::mem::MaybeUninit;

use super::answer::Status;

/// A head (request line and headers) may have this many bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A body may have this many bytes.
pub(crate) const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A chunk-size line with its extension may have this many bytes.
const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// Headers of a usual request: 1 KiB of stack, so that parsing stays in the page the goroutine has anyway.
const HEADERS_USUAL: usize = 32;
/// Headers of any request.
const HEADERS_MAX: usize = 128;

/// What we need to know of a request's head, with nothing borrowed from the buffer it was read in.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// Length of the head in bytes.
    pub(crate) bytes: usize,
    pub(crate) method: Method,
    pub(crate) page: Page,
    pub(crate) body: Body,
    pub(crate) is_http_1_0: bool,
    /// The client wants to go on after this request.
    pub(crate) keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Other,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Page {
    Hello,
    Echo,
    Status,
    Unknown,
}

/// How the end of the body is found.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Body {
    None,
    Length(usize),
    Chunked,
}

/// Reads the head at the start of `bytes`; `None`: not all of it is there yet.
///
/// Never inlined: the header table is on the stack only while this runs, not while the connection waits.
#[inline(never)]
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<Head>, Status> {
    match parse_with_room_for::<HEADERS_USUAL>(bytes) {
        Err(Status::HeadersTooLarge) => parse_many_headers(bytes),
        parsed => parsed,
    }
}

#[cold]
#[inline(never)]
fn parse_many_headers(bytes: &[u8]) -> Result<Option<Head>, Status> {
    parse_with_room_for::<HEADERS_MAX>(bytes)
}

fn parse_with_room_for<const N: usize>(bytes: &[u8]) -> Result<Option<Head>, Status> {
    let mut headers = [const { MaybeUninit::uninit() }; N];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Status::HeadersTooLarge);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::Version) => return Err(Status::VersionNotSupported),
        Err(_) => return Err(Status::BadRequest),
    };

    let is_http_1_0 = request.version == Some(0);
    let mut fields = Fields::default();
    for header in request.headers.iter() {
        fields.read(header.name, header.value)?;
    }
    // A request for HTTP/1.1 names exactly one host; an old one may leave it out.
    if fields.hosts > 1 || (fields.hosts == 0 && !is_http_1_0) {
        return Err(Status::BadRequest);
    }
    Ok(Some(Head {
        bytes: length,
        method: method(request.method.unwrap_or_default()),
        page: page(request.path.unwrap_or_default()),
        body: fields.body(is_http_1_0)?,
        is_http_1_0,
        keep_alive: !fields.close && (!is_http_1_0 || fields.keep_alive),
        expects_continue: fields.expects_continue && !is_http_1_0,
    }))
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        _ => Method::Other,
    }
}

fn page(target: &str) -> Page {
    // A proxy's form of the target, `http://host/path?query`, means `/path` here.
    let path = match target.get(..7) {
        Some(scheme) if scheme.eq_ignore_ascii_case("http://") => {
            let rest = &target[7..];
            rest.find(['/', '?']).map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    match path.split('?').next() {
        Some("/") => Page::Hello,
        Some("/echo") => Page::Echo,
        Some("/status") => Page::Status,
        _ => Page::Unknown,
    }
}

/// The headers that decide where a request ends and what happens after it.
#[derive(Default)]
struct Fields {
    hosts: usize,
    lengths: usize,
    length: usize,
    encodings: usize,
    is_chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Fields {
    #[inline]
    fn read(&mut self, name: &str, value: &[u8]) -> Result<(), Status> {
        // The length tells most headers apart from ours without looking at a letter.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => self.hosts += 1,
            6 if name.eq_ignore_ascii_case("expect") => {
                if !value.trim_ascii().eq_ignore_ascii_case(b"100-continue") {
                    return Err(Status::ExpectationFailed);
                }
                self.expects_continue = true;
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in value.split(|&byte| byte == b',') {
                    self.close |= option.trim_ascii().eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                self.lengths += 1;
                self.length = body_length(value)?;
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.encodings += 1;
                self.is_chunked = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
        Ok(())
    }

    /// How long the body is must be said in one way and once, even if it is the same twice: parties that disagree about
    /// the end of a body take the rest of it for a request. HTTP/1.0 knows no chunks.
    fn body(&self, is_http_1_0: bool) -> Result<Body, Status> {
        match (self.encodings, self.lengths) {
            (0, 0) => Ok(Body::None),
            (0, 1) if self.length == 0 => Ok(Body::None),
            (0, 1) if self.length > BODY_BYTES_MAX => Err(Status::ContentTooLarge),
            (0, 1) => Ok(Body::Length(self.length)),
            (1, 0) if is_http_1_0 => Err(Status::BadRequest),
            (1, 0) if self.is_chunked => Ok(Body::Chunked),
            (1, 0) => Err(Status::NotImplemented),
            _ => Err(Status::BadRequest),
        }
    }
}

/// Digits and nothing else. What is too long for the type is too long for us: it counts as the longest.
fn body_length(value: &[u8]) -> Result<usize, Status> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Status::BadRequest);
    }
    Ok(digits.iter().fold(0_usize, |length, digit| {
        length
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'))
    }))
}

/// Reads a chunk-size line: its length in bytes, and the size of the chunk. `None`: not all of it is there yet.
pub(crate) fn parse_chunk_line(bytes: &[u8]) -> Result<Option<(usize, usize)>, Status> {
    // Two things that httparse allows and other parties read differently: a line without digits, and a lone line feed
    // inside of an extension.
    match bytes.first() {
        None => return Ok(None),
        Some(first) if !first.is_ascii_hexdigit() => return Err(Status::BadRequest),
        Some(_) => {}
    }
    match httparse::parse_chunk_size(bytes) {
        Ok(httparse::Status::Complete((length, size))) => {
            if length > CHUNK_LINE_BYTES_MAX || bytes[..length - 2].contains(&b'\n') {
                return Err(Status::BadRequest);
            }
            Ok(Some((length, usize::try_from(size).unwrap_or(usize::MAX))))
        }
        Ok(httparse::Status::Partial) if bytes.len() < CHUNK_LINE_BYTES_MAX => Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => Err(Status::BadRequest),
    }
}

/// Reads the trailer behind the last chunk, up to and with its empty line: its length in bytes. We have no use for its
/// fields, but they must be fields.
#[inline(never)]
pub(crate) fn parse_trailer(bytes: &[u8]) -> Result<Option<usize>, Status> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_USUAL];
    match httparse::parse_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete((length, _))) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Err(Status::HeadersTooLarge)
        }
        Err(_) => Err(Status::BadRequest),
    }
}
