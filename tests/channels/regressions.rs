//! Faults that were found by reading, each with the schedule that showed it.

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
