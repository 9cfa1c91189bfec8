//! How operations fail, as operations.

use crate::ambient::ContextError;
use crate::limits::{HOST_OWNERS_MAX, HOST_SLOT_BITS};
use crate::sched::outside::RegisterRefused;
use std::error::Error;
use std::fmt;

/// The operation itself has failed. What the outside has to say about the request is a value, not a fault.
///
/// ```
/// use urgo::host::{Fault, FaultKind, Operation, WaitError};
///
/// urgo::run(|| {
///     let submitted = Operation::<u32>::register().unwrap().submit(|completer| {
///         completer.fault("the device is gone");
///     });
///     match submitted.wait() {
///         Err(WaitError::Fault(fault)) => {
///             assert_eq!(fault.kind(), FaultKind::Reported);
///             assert_eq!(fault.to_string(), "the device is gone");
///         }
///         other => panic!("{other:?}"),
///     }
/// });
/// ```
#[derive(Debug)]
pub struct Fault {
    kind: FaultKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// Where a [`Fault`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The outside has reported it.
    Reported,
    /// The [`Completer`](super::Completer) was dropped without an answer, perhaps because its thread panicked.
    Abandoned,
    /// The outside has let go ([`Completer::ack`](super::Completer::ack)), though nobody had called the operation off.
    LetGo,
    /// A [`Token`](super::Token) was answered with a value that is not of the operation's type.
    WrongType,
}

impl Fault {
    /// A fault with a message for people.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Fault {
        Fault {
            kind: FaultKind::Reported,
            message: message.into(),
            source: None,
        }
    }

    /// A fault with the error that has led to it, which becomes its [`source`](Error::source).
    #[must_use]
    pub fn caused_by(
        message: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Fault {
        Fault {
            source: Some(source.into()),
            ..Fault::new(message)
        }
    }

    pub(super) fn abandoned() -> Fault {
        let message = if std::thread::panicking() {
            "the outside panicked before it answered"
        } else {
            "the outside dropped its completer without an answer"
        };
        Fault {
            kind: FaultKind::Abandoned,
            ..Fault::new(message)
        }
    }

    pub(super) fn let_go() -> Fault {
        Fault {
            kind: FaultKind::LetGo,
            ..Fault::new("the outside let go of an operation that nobody had called off")
        }
    }

    pub(super) fn wrong_type(given: &str) -> Fault {
        Fault {
            kind: FaultKind::WrongType,
            ..Fault::new(format!(
                "the outside answered with a {given}, which is not the operation's type"
            ))
        }
    }

    /// Where it comes from.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault::new(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Fault {
        Fault::new(message)
    }
}

/// Why a wait for an operation has brought no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline passed before the answer stood. The outside has let go since, unless the operation was
    /// [`without_ack`](super::Operation::without_ack).
    TimedOut,
    /// The caller's [context](crate::context) was over before the answer stood. The outside has let go, as above.
    Context(ContextError),
    /// The operation has failed.
    Fault(Fault),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::TimedOut => f.write_str("the operation took too long and was called off"),
            WaitError::Context(error) => write!(f, "the operation was called off: {error}"),
            WaitError::Fault(fault) => write!(f, "the operation failed: {fault}"),
        }
    }
}

impl Error for WaitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            WaitError::TimedOut => None,
            WaitError::Context(error) => Some(error),
            WaitError::Fault(fault) => Some(fault),
        }
    }
}

/// Why no operation could be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The goroutine's worker (or the plain threads of the process, together) has 4,194,304 operations out.
    TooMany,
    /// The process has had 1,048,575 workers with such operations, over all its runtimes.
    NoMoreOwners,
}

const _: () = assert!(1 << HOST_SLOT_BITS == 4_194_304 && HOST_OWNERS_MAX == 1_048_575);

impl RegisterError {
    pub(super) fn from_refused(refused: RegisterRefused) -> RegisterError {
        match refused {
            RegisterRefused::TableFull => RegisterError::TooMany,
            RegisterRefused::NoMoreOwners => RegisterError::NoMoreOwners,
        }
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::TooMany => f.write_str(
                "4,194,304 operations of one worker are out: wait for some, or spread the goroutines over workers",
            ),
            RegisterError::NoMoreOwners => f.write_str(
                "1,048,575 workers of this process have had operations: keep runtimes instead of building new ones",
            ),
        }
    }
}

impl Error for RegisterError {}
