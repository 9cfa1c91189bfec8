//! Ends of runtimes some of whose goroutines do not want to end: the others end all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{runtime, wait_until};

/// Short for a wait, and long for a machine that is busy with other things.
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_goroutine_that_spawns_for_ever_does_not_keep_the_shutdown() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (begun, released) = (AtomicBool::new(false), AtomicBool::new(false));
        let flags = Arc::new((begun, released));
        let of = flags.clone();
        let spawner = runtime.handle().spawn(move || {
            urgo::uncancellable(|| {
                while !of.1.load(Ordering::SeqCst) {
                    drop(urgo::spawn(|| ()));
                    of.0.store(true, Ordering::SeqCst);
                    urgo::sleep(Duration::from_millis(1));
                }
            });
        });
        wait_until("it spawns", || flags.0.load(Ordering::SeqCst));
        let report = runtime.shutdown(SHORT);
        assert!(!report.is_complete());
        assert_eq!(report.not_ended().len(), 1, "{report}");
        assert_eq!(report.not_ended()[0].id(), spawner.id());
        flags.1.store(true, Ordering::SeqCst);
        drop(spawner.join());
    }
}
