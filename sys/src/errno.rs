//! Names of kernel errors. A kernel may return a number that this table does not know: then the name is `"E?"`, never
//! undefined behaviour. All functions may be called by a signal handler.

/// The calling thread's errno, as the C library left it.
pub(crate) fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

macro_rules! table {
    ($($name:ident $text:literal)*) => {
        const NAMED: &[i32] = &[$(libc::$name),*];

        /// The symbol of an errno, such as `"ECONNRESET"`; `"E?"` for a number that Linux does not define. A negative number, as
        /// in a completion, is read as its absolute value.
        ///
        /// # Examples
        /// ```
        /// assert_eq!(urgo_sys::errno::name(104), "ECONNRESET");
        /// assert_eq!(urgo_sys::errno::name(-11), "EAGAIN");
        /// ```
        pub const fn name(errno: i32) -> &'static str {
            match errno.saturating_abs() {
                $(libc::$name => stringify!($name),)*
                // Not part of the user interface, but known to escape from drivers and interrupted calls.
                512 => "ERESTARTSYS",
                513 => "ERESTARTNOINTR",
                514 => "ERESTARTNOHAND",
                516 => "ERESTART_RESTARTBLOCK",
                524 => "ENOTSUPP",
                _ => "E?",
            }
        }

        /// A few words on an errno; `"unknown error"` for a number that Linux does not define.
        ///
        /// # Examples
        /// ```
        /// assert_eq!(urgo_sys::errno::describe(104), "connection reset by the peer");
        /// ```
        pub const fn describe(errno: i32) -> &'static str {
            match errno.saturating_abs() {
                $(libc::$name => $text,)*
                512..=514 | 516 => "interrupted by a signal (kernel-internal)",
                524 => "operation not supported (kernel-internal)",
                _ => "unknown error",
            }
        }
    };
}

table! {
    EPERM "not permitted"
    ENOENT "no such file or directory"
    ESRCH "no such process"
    EINTR "interrupted by a signal"
    EIO "input/output error"
    ENXIO "no such device or address"
    E2BIG "argument list too long"
    ENOEXEC "not an executable format"
    EBADF "bad file descriptor"
    ECHILD "no child process"
    EAGAIN "not now, try again"
    ENOMEM "out of memory"
    EACCES "permission denied"
    EFAULT "bad address"
    ENOTBLK "not a block device"
    EBUSY "device or resource busy"
    EEXIST "already exists"
    EXDEV "crosses file systems"
    ENODEV "no such device"
    ENOTDIR "not a directory"
    EISDIR "is a directory"
    EINVAL "invalid argument"
    ENFILE "too many open files in the system"
    EMFILE "too many open files in the process"
    ENOTTY "not a terminal, or no such ioctl"
    ETXTBSY "executable file is in use"
    EFBIG "file too large"
    ENOSPC "no space left"
    ESPIPE "cannot seek here"
    EROFS "read-only file system"
    EMLINK "too many links"
    EPIPE "the reading end is closed"
    EDOM "argument out of the function's domain"
    ERANGE "result out of range"
    EDEADLK "would deadlock"
    ENAMETOOLONG "name too long"
    ENOLCK "no locks available"
    ENOSYS "no such system call"
    ENOTEMPTY "directory not empty"
    ELOOP "too many symbolic links"
    ENOMSG "no message of that type"
    EIDRM "identifier removed"
    ECHRNG "channel number out of range"
    EL2NSYNC "level 2 not synchronised"
    EL3HLT "level 3 halted"
    EL3RST "level 3 reset"
    ELNRNG "link number out of range"
    EUNATCH "protocol driver not attached"
    ENOCSI "no CSI structure available"
    EL2HLT "level 2 halted"
    EBADE "invalid exchange"
    EBADR "invalid request descriptor"
    EXFULL "exchange full"
    ENOANO "no anode"
    EBADRQC "invalid request code"
    EBADSLT "invalid slot"
    EBFONT "bad font file format"
    ENOSTR "not a stream device"
    ENODATA "no data available"
    ETIME "timer expired"
    ENOSR "out of stream resources"
    ENONET "machine is not on the network"
    ENOPKG "package not installed"
    EREMOTE "object is remote"
    ENOLINK "link severed"
    EADV "advertise error"
    ESRMNT "srmount error"
    ECOMM "communication error on send"
    EPROTO "protocol error"
    EMULTIHOP "multihop attempted"
    EDOTDOT "RFS-specific error"
    EBADMSG "bad message"
    EOVERFLOW "value too large for its type"
    ENOTUNIQ "name not unique on the network"
    EBADFD "descriptor in a bad state"
    EREMCHG "remote address changed"
    ELIBACC "cannot access a shared library"
    ELIBBAD "shared library is corrupt"
    ELIBSCN ".lib section is corrupt"
    ELIBMAX "too many shared libraries"
    ELIBEXEC "cannot execute a shared library"
    EILSEQ "invalid byte sequence"
    ERESTART "call should be restarted"
    ESTRPIPE "streams pipe error"
    EUSERS "too many users"
    ENOTSOCK "not a socket"
    EDESTADDRREQ "destination address required"
    EMSGSIZE "message too long"
    EPROTOTYPE "wrong protocol type for the socket"
    ENOPROTOOPT "no such protocol option"
    EPROTONOSUPPORT "protocol not supported"
    ESOCKTNOSUPPORT "socket type not supported"
    EOPNOTSUPP "operation not supported"
    EPFNOSUPPORT "protocol family not supported"
    EAFNOSUPPORT "address family not supported"
    EADDRINUSE "address already in use"
    EADDRNOTAVAIL "address not available"
    ENETDOWN "network is down"
    ENETUNREACH "network unreachable"
    ENETRESET "network dropped the connection"
    ECONNABORTED "connection aborted"
    ECONNRESET "connection reset by the peer"
    ENOBUFS "no buffer space"
    EISCONN "already connected"
    ENOTCONN "not connected"
    ESHUTDOWN "socket was shut down"
    ETOOMANYREFS "too many references"
    ETIMEDOUT "timed out"
    ECONNREFUSED "connection refused"
    EHOSTDOWN "host is down"
    EHOSTUNREACH "no route to the host"
    EALREADY "already in progress"
    EINPROGRESS "now in progress"
    ESTALE "stale file handle"
    EUCLEAN "structure needs cleaning"
    ENOTNAM "not a XENIX named type file"
    ENAVAIL "no XENIX semaphores available"
    EISNAM "is a named type file"
    EREMOTEIO "remote input/output error"
    EDQUOT "disk quota exceeded"
    ENOMEDIUM "no medium"
    EMEDIUMTYPE "wrong medium type"
    ECANCELED "cancelled"
    ENOKEY "key not available"
    EKEYEXPIRED "key expired"
    EKEYREVOKED "key revoked"
    EKEYREJECTED "key rejected"
    EOWNERDEAD "owner died"
    ENOTRECOVERABLE "state not recoverable"
    ERFKILL "radio is switched off"
    EHWPOISON "memory page has a hardware error"
}

/// Every errno of the table, in ascending order.
pub const fn all() -> &'static [i32] {
    NAMED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_of_linux_has_a_name_of_its_own() {
        // 41 and 58 were never given out; 133 is the last.
        let expected: Vec<i32> = (1..=133)
            .filter(|errno| ![41, 58].contains(errno))
            .collect();
        assert_eq!(all(), expected);
        let names: std::collections::BTreeSet<_> = all().iter().map(|&errno| name(errno)).collect();
        assert_eq!(names.len(), all().len());
        let texts: std::collections::BTreeSet<_> =
            all().iter().map(|&errno| describe(errno)).collect();
        assert_eq!(texts.len(), all().len());
    }

    #[test]
    fn the_c_library_knows_the_same_numbers() {
        for &errno in all() {
            let text = std::io::Error::from_raw_os_error(errno).to_string();
            assert!(!text.starts_with("Unknown error"), "{errno}: {text}");
        }
    }

    #[test]
    fn numbers_from_nowhere_are_named_without_harm() {
        for errno in [0, 41, 134, 4095, i32::MAX, i32::MIN] {
            assert_eq!(name(errno), "E?");
            assert_eq!(describe(errno), "unknown error");
        }
        assert_eq!(name(-512), "ERESTARTSYS");
    }
}
