//! Ctrl-C: the first one ends the run in order, the second one at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants the run to end.
#[derive(Debug)]
pub(crate) struct Interrupt {
    set: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on SIGINT and SIGTERM are noted; a second one ends the process with status 130.
    pub(super) fn install() -> Interrupt {
        let set = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and then raises it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&set))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&set)))
                .expect("SIGINT and SIGTERM can be handled");
        }
        Interrupt { set }
    }

    /// One that no signal reaches.
    #[cfg(test)]
    pub(super) fn none() -> Interrupt {
        Interrupt {
            set: Arc::new(AtomicBool::new(false)),
        }
    }

    /// One that is set already.
    #[cfg(test)]
    pub(super) fn raised() -> Interrupt {
        Interrupt {
            set: Arc::new(AtomicBool::new(true)),
        }
    }

    /// True from the first signal on.
    pub(super) fn is_set(&self) -> bool {
        // Publishes nothing but itself.
        self.set.load(Ordering::Relaxed)
    }
}
