//! The end of a stack: reported where it is one, not where it is something else, and not before it is reached.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;

use urgo::go::Builder;

use crate::support::{in_child, runtime};

/// Uses about `bytes` of stack, in frames of about 512 bytes.
#[inline(never)]
fn use_stack(bytes: usize) -> usize {
    let here = 0_u8;
    descend(std::ptr::from_ref(&here) as usize, bytes)
}

#[inline(never)]
fn descend(top: usize, bytes: usize) -> usize {
    let frame = black_box([1_u8; 256]);
    let used = top - std::ptr::from_ref(&frame) as usize;
    if used + 1024 >= bytes {
        return used;
    }
    let deepest = descend(top, bytes);
    black_box(&frame);
    deepest
}

fn overflow() {
    black_box(use_stack(usize::MAX));
}

#[test]
fn an_overflow_names_the_goroutine_and_aborts() {
    let line = line!() + 6;
    let output = in_child!(|| {
        // One worker: the goroutine starts when main waits for it, after the id was said.
        let runtime = runtime(1);
        runtime.run(|| {
            let builder = Builder::new().name("deep thought");
            let handle = builder.spawn(overflow).unwrap();
            println!("id={}", handle.id());
            let _ = handle.join();
        });
    });
    let Some(output) = output else { return };
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    let id = stdout.split("id=").nth(1).unwrap().lines().next().unwrap();
    for part in [
        format!("goroutine {id} 'deep thought'"),
        format!("overflow.rs:{line}"),
        "stack overflow".to_owned(),
        "256 KiB".to_owned(),
    ] {
        assert!(stderr.contains(&part), "{part:?} is not in:\n{stderr}");
    }
}

#[test]
fn an_overflow_of_an_unnamed_goroutine_with_a_stack_of_its_own_size_is_reported() {
    let output = in_child!(|| {
        runtime(1).run(|| {
            let builder = Builder::new().stack_size(32 * 1024);
            let _ = builder.spawn(overflow).unwrap().join();
        });
    });
    let Some(output) = output else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("stack overflow (32 KiB)"), "{stderr}");
}

#[test]
fn a_wild_write_in_a_goroutine_is_not_called_a_stack_overflow() {
    let output = in_child!(|| {
        runtime(1).run(|| {
            let _ = urgo::spawn(|| {
                let nowhere = black_box(8_usize) as *mut u8;
                // SAFETY: deliberately none: the fault is what the test is about, in a process made for it.
                unsafe { nowhere.write_volatile(1) };
            })
            .join();
        });
    });
    let Some(output) = output else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert!(!stderr.contains("overflow"), "{stderr}");
}

/// The overflow of a plain thread beside a runtime is std's to report, as before.
#[test]
fn an_overflow_of_a_plain_thread_is_reported_as_ever() {
    let output = in_child!(|| {
        runtime(1).run(|| {
            let thread = std::thread::Builder::new().name("plain one".into());
            let thread = thread.stack_size(256 * 1024).spawn(overflow).unwrap();
            let _ = thread.join();
        });
    });
    let Some(output) = output else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(
        stderr.contains("plain one") && stderr.contains("overflowed its stack"),
        "{stderr}"
    );
    assert!(!stderr.contains("goroutine"), "{stderr}");
}

/// The process's first thread has the stack that the kernel gave it.
#[test]
fn an_overflow_of_the_main_thread_is_reported_as_ever() {
    let output = in_child!(|| {
        runtime(1).run(|| ());
        // The harness runs a lone test on the main thread when it has one thread; either way it is no goroutine.
        overflow();
    });
    let Some(output) = output else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("overflowed its stack"), "{stderr}");
    assert!(!stderr.contains("goroutine"), "{stderr}");
}

#[test]
fn stacks_of_every_size_can_be_used_to_near_their_end() {
    runtime(2).run(|| {
        for kib in [16, 32, 64, 128, 256, 512, 1024, 8 * 1024, 64 * 1024] {
            let bytes = kib * 1024;
            let builder = Builder::new().stack_size(bytes);
            // The first frames, which are the runtime's, take some of it.
            let usable = bytes - bytes / 16 - 3 * 1024;
            let handle = builder.spawn(move || {
                let before = use_stack(usable);
                urgo::yield_now();
                before.min(use_stack(usable))
            });
            let used = handle.unwrap().join().unwrap();
            assert!(used + 2048 >= usable, "{kib} KiB: {used} of {usable}");
        }
    });
}

#[test]
fn the_runtimes_default_size_holds_for_every_goroutine() {
    let runtime = urgo::Runtime::builder().workers(1).stack_size(4 << 20);
    runtime.build().unwrap().run(|| {
        use_stack(3 << 20);
        urgo::spawn(|| use_stack(3 << 20)).join().unwrap();
    });
}

/// A stack that another goroutine has used to its end holds nothing of it that matters.
#[test]
fn a_stack_is_used_again_by_the_next_goroutine() {
    runtime(1).run(|| {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let handle = urgo::spawn(|| {
                let here = 0_u8;
                use_stack(100 * 1024);
                std::ptr::from_ref(&here) as usize / (256 * 1024)
            });
            seen.insert(handle.join().unwrap());
        }
        assert!(
            seen.len() <= 4,
            "{} stacks for one goroutine at a time",
            seen.len()
        );
    });
}
