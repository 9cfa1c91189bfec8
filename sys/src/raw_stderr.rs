//! What a signal handler or a dying runtime may say: `write(2)` on descriptor 2, no allocation, no lock, no errno.
//!
//! [`Line`] gathers text in a buffer on the caller's stack and writes it in one call, so that lines of several threads do
//! not mix. Every function here may be called by a signal handler.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

const LINE_BYTES: usize = 256;

/// A text under construction on the stack. Full buffers are written out at once; the rest at [`Line::end`] or on drop.
///
/// # Examples
/// ```
/// use urgo_sys::raw_stderr::Line;
/// Line::new().str("goroutine ").dec(17).str(" overflowed at ").hex(0xdead_beef).end();
/// ```
#[derive(Debug)]
pub struct Line {
    bytes: [u8; LINE_BYTES],
    len: usize,
}

impl Line {
    /// An empty line.
    #[inline]
    pub const fn new() -> Line {
        Line {
            bytes: [0; LINE_BYTES],
            len: 0,
        }
    }

    /// Appends text.
    pub fn str(&mut self, text: &str) -> &mut Line {
        self.bytes(text.as_bytes())
    }

    /// Appends raw bytes, as they are.
    pub fn bytes(&mut self, mut rest: &[u8]) -> &mut Line {
        while !rest.is_empty() {
            if self.len == LINE_BYTES {
                self.flush();
            }
            let fits = rest.len().min(LINE_BYTES - self.len);
            self.bytes[self.len..self.len + fits].copy_from_slice(&rest[..fits]);
            self.len += fits;
            rest = &rest[fits..];
        }
        self
    }

    /// Appends an unsigned number in decimal.
    pub fn dec(&mut self, value: u64) -> &mut Line {
        self.radix(value, 10)
    }

    /// Appends a signed number in decimal.
    pub fn int(&mut self, value: i64) -> &mut Line {
        if value < 0 {
            self.bytes(b"-");
        }
        self.dec(value.unsigned_abs())
    }

    /// Appends an address or mask in hexadecimal, with `0x`.
    pub fn hex(&mut self, value: usize) -> &mut Line {
        self.bytes(b"0x").radix(value as u64, 16)
    }

    /// Ends the line with a newline and writes it.
    pub fn end(&mut self) {
        self.bytes(b"\n");
        self.flush();
    }

    /// Writes what has been gathered, without a newline.
    pub fn flush(&mut self) {
        write_all(&self.bytes[..self.len]);
        self.len = 0;
    }

    fn radix(&mut self, mut value: u64, base: u64) -> &mut Line {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b"0123456789abcdef"[(value % base) as usize];
            value /= base;
            if value == 0 {
                break;
            }
        }
        let digits = digits;
        self.bytes(&digits[at..])
    }
}

impl Default for Line {
    fn default() -> Line {
        Line::new()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.flush();
    }
}

/// `write(2, bytes)` until all is written. `EINTR` is repeated; any other failure ends it silently, as there is nobody left
/// to tell.
pub fn write_all(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(stderr(), bytes) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// A broken invariant of the runtime: says so on descriptor 2 with the errno's name, then aborts. Unwinds nothing.
#[cold]
#[inline(never)]
pub fn fatal(what: &str, errno: i32) -> ! {
    Line::new()
        .str("urgo: fatal: ")
        .str(what)
        .str(": ")
        .str(crate::errno::name(errno))
        .str(" (")
        .int(i64::from(errno))
        .str(")")
        .end();
    std::process::abort()
}

fn stderr() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &Line) -> &str {
        core::str::from_utf8(&line.bytes[..line.len]).unwrap()
    }

    #[test]
    fn numbers_are_written_as_the_standard_formatter_writes_them() {
        for value in [0, 1, 9, 10, 4095, 1 << 40, u64::MAX] {
            let mut line = Line::new();
            line.dec(value).str(" ").hex(value as usize);
            assert_eq!(text(&line), format!("{value} {:#x}", value as usize));
            line.len = 0;
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut line = Line::new();
            line.int(value);
            assert_eq!(text(&line), value.to_string());
            line.len = 0;
        }
    }

    #[test]
    fn a_child_that_dies_of_a_broken_invariant_has_said_why() {
        let long = "x".repeat(LINE_BYTES * 2 + 17);
        let Some(child) = crate::testing::child(
            "raw_stderr::tests::a_child_that_dies_of_a_broken_invariant_has_said_why",
            "",
        ) else {
            crate::testing::no_core_file();
            Line::new().str(&long).end();
            fatal("test of the last words", libc::EPROTO);
        };
        let stderr = String::from_utf8_lossy(&child.stderr);
        assert!(stderr.contains(&format!("{long}\n")));
        assert!(
            stderr.contains("urgo: fatal: test of the last words: EPROTO (71)\n"),
            "{stderr}"
        );
        assert_eq!(crate::testing::death(&child), Some(libc::SIGABRT));
    }
}
