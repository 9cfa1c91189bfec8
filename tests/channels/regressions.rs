//! Faults that were found by reading, each with the schedule that showed it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use urgo::chan::{RecvError, Select, SendError, Sender, bounded, never, oneshot};

use crate::grounds::{everywhere, spawn};

/// Two wait for a oneshot's message. One gets it, and the other has to hear that nothing more comes.
#[test]
fn a_oneshot_leaves_no_receiver_waiting() {
    everywhere(|_| {
        let (s, r) = oneshot::<i32>();
        let (began, begun) = bounded(3);
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (r, began) = (r.clone(), began.clone());
                spawn(move || {
                    began.send(()).unwrap();
                    r.recv()
                })
            })
            .collect();
        begun.iter().take(3).for_each(drop);
        // So that most of them are in the line by now; it holds wherever they are.
        urgo::sleep(Duration::from_millis(2));
        s.send(7).unwrap();
        drop(s);
        let mut ends: Vec<_> = waiting.into_iter().map(|task| task.join()).collect();
        ends.sort_by_key(Result::is_err);
        assert_eq!(ends, [Ok(7), Err(RecvError), Err(RecvError)]);
    });
}

/// A select has chosen to send on a oneshot; who wants to send as well must not wait for a receiver once it has sent.
#[test]
fn a_oneshot_leaves_no_sender_waiting_behind_a_select() {
    everywhere(|_| {
        let (s, r) = oneshot::<i32>();
        let mut select = Select::new();
        select.send(&s);
        let operation = select.select();
        let (began, begun) = bounded(1);
        let other = spawn({
            let s = s.clone();
            move || {
                began.send(()).unwrap();
                s.send(2)
            }
        });
        begun.recv().unwrap();
        urgo::sleep(Duration::from_millis(2));
        operation.send(&s, 1).unwrap();
        assert_eq!(other.join(), Err(SendError(2)));
        assert_eq!(r.recv(), Ok(1));
    });
}

/// A select was promised a oneshot's place and thinks better of it. Of those who waited for that one sends, and the others have to
/// hear of it, though nobody receives.
#[test]
fn a_oneshot_leaves_no_sender_waiting_behind_a_sender() {
    everywhere(|_| {
        let (s, r) = oneshot::<i32>();
        let mut select = Select::new();
        select.send(&s);
        let operation = select.select();
        let (began, begun) = bounded(3);
        let waiting: Vec<_> = (0..3)
            .map(|n| {
                let (s, began) = (s.clone(), began.clone());
                spawn(move || {
                    began.send(()).unwrap();
                    s.send(n)
                })
            })
            .collect();
        begun.iter().take(3).for_each(drop);
        urgo::sleep(Duration::from_millis(2));
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(operation)));
        assert!(
            dropped.is_err(),
            "an operation that was chosen is to be done"
        );
        let sent = waiting.into_iter().map(|task| task.join());
        assert_eq!(sent.filter(Result::is_ok).count(), 1);
        assert!(r.recv().is_ok() && r.recv().is_err());
    });
}

/// A queue is made without touching each of its places, of which there may be more than anyone can count to.
#[test]
fn a_large_capacity_takes_no_time() {
    let (s, r) = bounded::<()>(1 << 44);
    s.send(()).unwrap();
    assert_eq!((r.len(), r.capacity()), (1, Some(1 << 44)));
    assert_eq!(r.recv(), Ok(()));
}

/// Messages may ask for any alignment, also for more than a block of a queue is long. On the stack there is hardly room for
/// one: that a send of it can be compiled is what counts.
#[test]
fn messages_may_be_aligned_more_than_a_block_is_long() {
    #[repr(align(0x8_0000))]
    struct Aligned;
    let send: fn(&Sender<Aligned>, Aligned) -> Result<(), SendError<Aligned>> = Sender::send;
    assert_ne!(send as usize, 0);
}

/// A select has claimed a receiver and makes its message for ever. At the end of the runtime the receiver, which is older, cannot
/// be unwound before the select has been.
#[test]
fn a_runtime_ends_while_a_select_makes_its_message() {
    for workers in [1, 2] {
        crate::support::runtime(workers).run(|| {
            let (s, r) = bounded::<i32>(0);
            let (claimed, is_claimed) = bounded(1);
            urgo::spawn(move || r.recv());
            urgo::spawn(move || {
                urgo::select! {
                    send(s, {
                        claimed.send(()).unwrap();
                        never::<i32>().recv().unwrap()
                    }) -> _ => unreachable!("there is no message"),
                }
            });
            is_claimed.recv().unwrap();
        });
    }
}

/// A loop whose operations never have to wait depends on goroutines of its own worker all the same.
#[test]
fn loops_that_never_wait_let_the_others_run() {
    crate::support::runtime(1).run(|| {
        // A clock that is always due.
        let clock = urgo::chan::tick(Duration::from_nanos(1));
        let (s, r) = bounded::<u32>(0);
        urgo::spawn(move || {
            urgo::sleep(Duration::from_micros(50));
            s.send(1).unwrap();
        });
        loop {
            urgo::select! {
                recv(r) -> got => { got.unwrap(); break }
                recv(clock) -> _ => {}
            }
        }
        // Polling.
        let (s, r) = bounded::<u32>(1);
        urgo::spawn(move || s.send(2).unwrap());
        while r.try_recv().is_err() {}
        let (s, r) = bounded::<u32>(1);
        s.send(1).unwrap();
        urgo::spawn(move || r.recv().unwrap());
        while s.try_send(2).is_err_and(|error| error.is_full()) {}
        let (s, r) = bounded::<u32>(1);
        urgo::spawn(move || s.send(3).unwrap());
        loop {
            urgo::select! {
                recv(r) -> got => { got.unwrap(); break }
                default => {}
            }
        }
        let mut select = Select::new();
        let (s, r) = bounded::<u32>(1);
        urgo::spawn(move || s.send(4).unwrap());
        select.recv(&r);
        while select.try_ready().is_err() {}
        // A queue that is never full, and one that is never empty.
        let (s, r) = urgo::chan::unbounded::<u32>();
        let (stop, stopped) = bounded::<()>(1);
        urgo::spawn(move || stop.send(()).unwrap());
        while stopped.is_empty() {
            s.send(0).unwrap();
        }
        let (stop, stopped) = bounded::<()>(1);
        urgo::spawn(move || stop.send(()).unwrap());
        while stopped.is_empty() {
            s.send(r.recv().unwrap()).unwrap();
        }
    });
}
