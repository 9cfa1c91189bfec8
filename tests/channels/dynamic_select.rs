//! `Select`, whose operations are put together at run time: as crossbeam-channel's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::chan::{
    Receiver, RecvError, Select, SendError, Sender, TryRecvError, TrySendError, bounded, never,
    unbounded,
};

use crate::go_rules::{CAPACITIES, channel};
use crate::grounds::{Crew, everywhere, spawn};
use crate::support::{Drops, hush_planned_panics, panic_of, wait_until};

const MOMENT: Duration = Duration::from_millis(3);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn the_chosen_operation_is_completed_on_its_channel() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel::<i32>(capacity);
            let (out, outs) = channel::<i32>(capacity);
            let partner = spawn(move || {
                s.send(1).unwrap();
                let got = outs.recv().unwrap();
                (got, s, outs)
            });
            let mut select = Select::new();
            let receive = select.recv(&r);
            assert_eq!(receive, 0);
            let operation = select.select();
            assert_eq!(operation.index(), receive);
            assert_eq!(operation.recv(&r), Ok(1));
            let send = select.send(&out);
            assert_eq!(send, 1);
            let operation = select.select();
            assert_eq!(operation.index(), send);
            assert_eq!(operation.send(&out, 2), Ok(()));
            let (got, s, outs) = partner.join();
            assert_eq!(got, 2);
            drop(s);
            let operation = select.select_timeout(HOUR).unwrap();
            // What has ended is ready; the way out may be, too.
            if operation.index() == receive {
                assert_eq!(operation.recv(&r), Err(RecvError));
            } else {
                assert_eq!(operation.send(&out, 3), Ok(()));
            }
            drop(outs);
            let mut select = Select::new();
            select.send(&out);
            assert_eq!(select.select().send(&out, 4), Err(SendError(4)));
        }
    });
}

#[test]
fn nothing_ready_is_an_error_at_once_or_after_a_time() {
    everywhere(|_| {
        let (s, r) = bounded::<i32>(0);
        let nil = never::<u8>();
        let mut select = Select::new();
        select.recv(&r);
        select.send(&s);
        select.recv(&nil);
        assert!(select.try_select().is_err());
        assert!(select.try_ready().is_err());
        for way in 0..4 {
            let began = Instant::now();
            match way {
                0 => assert!(select.select_timeout(MOMENT).is_err()),
                1 => assert!(select.select_deadline(began + MOMENT).is_err()),
                2 => assert!(select.ready_timeout(MOMENT).is_err()),
                _ => assert!(select.ready_deadline(began + MOMENT).is_err()),
            }
            assert!(began.elapsed() >= MOMENT);
        }
        // A deadline that has passed still finds what is ready.
        let past = Instant::now();
        drop(s);
        let mut select = Select::new();
        select.recv(&nil);
        let ended = select.recv(&r);
        assert_eq!(select.ready_deadline(past), Ok(ended));
        let operation = select.select_deadline(past).unwrap();
        assert_eq!(operation.recv(&r), Err(RecvError));
    });
}

#[test]
fn a_select_without_operations_finds_none() {
    everywhere(|_| {
        let mut select = Select::default();
        assert!(select.try_select().is_err() && select.try_ready().is_err());
        let began = Instant::now();
        assert!(select.select_timeout(MOMENT).is_err());
        assert!(select.ready_timeout(MOMENT).is_err());
        assert!(began.elapsed() >= 2 * MOMENT);
    });
}

/// To wait for ever for nothing is a mistake.
#[test]
fn a_select_without_operations_does_not_wait_for_ever() {
    crate::support::hush_planned_panics();
    everywhere(|_| {
        panic_of(|| Select::new().select().index());
        panic_of(|| Select::new().ready());
    });
}

#[test]
fn removed_operations_are_not_chosen_and_their_indices_not_used_again() {
    everywhere(|_| {
        let channels: Vec<_> = (0..4).map(|_| unbounded::<usize>()).collect();
        for (i, (s, _)) in channels.iter().enumerate() {
            (0..100).for_each(|_| s.send(i).unwrap());
        }
        let mut select = Select::new();
        for (_, r) in &channels {
            select.recv(r);
        }
        select.remove(1);
        let again = select.recv(&channels[1].1);
        assert_eq!(again, 4);
        select.remove(2);
        for _ in 0..100 {
            let operation = select.select();
            let index = operation.index();
            let from = if index == again { 1 } else { index };
            assert!([0, 3, 4].contains(&index));
            assert_eq!(operation.recv(&channels[from].1), Ok(from));
        }
        assert_eq!(channels[2].1.len(), 100);
        // All of them away again.
        for index in [0, 3, 4] {
            select.remove(index);
        }
        assert!(select.try_select().is_err());
    });
}

#[test]
fn removing_what_is_not_there_panics() {
    hush_planned_panics();
    let (_s, r) = unbounded::<i32>();
    let mut select = Select::new();
    panic_of(|| select.remove(0));
    let mut select = Select::new();
    let index = select.recv(&r);
    select.remove(index);
    panic_of(|| select.remove(index));
}

#[test]
fn operations_are_chosen_fairly() {
    everywhere(|ground| {
        let rounds = ground.rounds(10_000);
        let (s, r) = unbounded();
        (0..rounds).for_each(|_| s.send(()).unwrap());
        let (ended, _) = bounded::<()>(3);
        let mut select = Select::new();
        // The same operation twice counts twice.
        select.recv(&r);
        select.recv(&r);
        select.send(&ended);
        let mut counts = [0; 3];
        for _ in 0..rounds {
            let operation = select.select();
            counts[operation.index()] += 1;
            match operation.index() {
                2 => assert!(operation.send(&ended, ()).is_err()),
                _ => assert!(operation.recv(&r).is_ok()),
            }
        }
        for count in counts {
            assert!(count >= rounds / 6, "{counts:?}");
        }
    });
}

#[test]
fn ready_operations_are_named_fairly() {
    everywhere(|ground| {
        let rounds = ground.rounds(4_000);
        let channels: [_; 4] = std::array::from_fn(|_| bounded::<()>(1));
        let mut select = Select::new();
        for (s, _) in &channels {
            select.send(s);
        }
        let mut counts = [0; 4];
        for _ in 0..rounds {
            counts[select.ready()] += 1;
        }
        for count in counts {
            assert!(count >= rounds / 8, "{counts:?}");
        }
    });
}

#[test]
fn a_biased_select_prefers_who_was_added_first() {
    everywhere(|_| {
        let (s, r) = unbounded();
        let (s2, r2) = unbounded();
        (0..50).for_each(|i| s.send(i).unwrap());
        (50..100).for_each(|i| s2.send(i).unwrap());
        let mut select = Select::new_biased();
        select.recv(&r);
        select.recv(&r2);
        for i in 0..100 {
            assert_eq!(select.ready(), usize::from(i >= 50));
            let operation = select.select();
            let got = match operation.index() {
                0 => operation.recv(&r),
                _ => operation.recv(&r2),
            };
            assert_eq!(got, Ok(i));
        }
    });
}

/// `ready` names an operation and does nothing: the value is still there.
#[test]
fn ready_takes_nothing() {
    everywhere(|_| {
        let (s, r) = bounded(1);
        let mut to_send = Select::new();
        to_send.send(&s);
        let mut to_receive = Select::new();
        to_receive.recv(&r);
        for i in 0..50 {
            assert_eq!((to_send.ready(), to_send.try_ready()), (0, Ok(0)));
            assert!(to_receive.try_ready().is_err());
            s.try_send(i).unwrap();
            assert_eq!((to_receive.ready(), to_receive.try_ready()), (0, Ok(0)));
            assert!(to_send.try_ready().is_err());
            assert_eq!(r.try_recv(), Ok(i));
        }
    });
}

/// Who waits in `ready` hears of a partner, a value, room, or the end.
#[test]
fn ready_hears_of_everything_that_makes_an_operation_possible() {
    everywhere(|_| {
        for capacity in CAPACITIES {
            let (s, r) = channel::<u8>(capacity);
            let waiter = spawn({
                let r = r.clone();
                move || {
                    let nil = never::<u8>();
                    let mut select = Select::new();
                    select.recv(&nil);
                    let index = select.recv(&r);
                    assert_eq!(select.ready(), index);
                    // Another may have been faster in general; here there is none.
                    r.recv()
                }
            });
            urgo::sleep(MOMENT);
            s.send(1).unwrap();
            assert_eq!(waiter.join(), Ok(1));
            if let Some(capacity) = capacity {
                (0..capacity).for_each(|_| s.send(2).unwrap());
                let waiter = spawn({
                    let s = s.clone();
                    move || {
                        let mut select = Select::new();
                        select.send(&s);
                        assert_eq!(select.ready_timeout(HOUR), Ok(0));
                        s.send(3)
                    }
                });
                urgo::sleep(MOMENT);
                assert_eq!(r.iter().take(capacity + 1).count(), capacity + 1);
                assert_eq!(waiter.join(), Ok(()));
            }
            let waiter = spawn({
                let r = r.clone();
                move || {
                    let mut select = Select::new();
                    select.recv(&r);
                    (select.ready(), r.try_recv())
                }
            });
            urgo::sleep(MOMENT);
            drop(s);
            assert_eq!(waiter.join(), (0, Err(TryRecvError::Disconnected)));
        }
    });
}

/// Many who wait in `ready` for one channel: none sleeps through, because each who is woken in vain looks again.
#[test]
fn many_who_wait_in_ready_share_all_values() {
    everywhere(|ground| {
        for capacity in [Some(0), Some(1), None] {
            let (s, r) = channel::<usize>(capacity);
            let rounds = ground.rounds(300);
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let r = r.clone();
                    spawn(move || {
                        let mut got = Vec::new();
                        let mut select = Select::new();
                        select.recv(&r);
                        loop {
                            select.ready();
                            match r.try_recv() {
                                Ok(value) => got.push(value),
                                Err(TryRecvError::Empty) => {}
                                Err(TryRecvError::Disconnected) => return got,
                            }
                        }
                    })
                })
                .collect();
            let mut senders = Crew::new();
            for number in 0..2 {
                let s = s.clone();
                senders.spawn(move || {
                    let mut select = Select::new();
                    select.send(&s);
                    for i in 0..rounds {
                        let value = number * rounds + i;
                        // At a rendezvous two who only look never meet: one has to stay.
                        if capacity == Some(0) {
                            s.send(value).unwrap();
                            continue;
                        }
                        loop {
                            select.ready();
                            match s.try_send(value) {
                                Ok(()) => break,
                                Err(TrySendError::Full(_)) => {}
                                Err(TrySendError::Disconnected(_)) => panic!("they live"),
                            }
                        }
                    }
                });
            }
            drop(s);
            senders.join();
            let mut all: Vec<_> = receivers.into_iter().flat_map(|r| r.join()).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..2 * rounds));
        }
    });
}

/// A list of channels of which one after the other ends, as a server has it.
#[test]
fn a_growing_and_shrinking_list_is_served_to_its_end() {
    everywhere(|ground| {
        let each = ground.rounds(60);
        let mut crew = Crew::new();
        let receivers: Vec<Receiver<usize>> = (0..40)
            .map(|number| {
                let (s, r) = channel([Some(0), Some(2), None][number % 3]);
                crew.spawn(move || {
                    for i in 0..each + number {
                        s.send(i).unwrap();
                    }
                });
                r
            })
            .collect();
        let mut select = Select::new();
        for r in &receivers {
            select.recv(r);
        }
        let mut next = vec![0; receivers.len()];
        let mut open = receivers.len();
        while open > 0 {
            let operation = select.select();
            let index = operation.index();
            match operation.recv(&receivers[index]) {
                Ok(value) => {
                    assert_eq!(value, next[index]);
                    next[index] += 1;
                }
                Err(RecvError) => {
                    select.remove(index);
                    open -= 1;
                }
            }
        }
        assert!(next.into_iter().eq((0..40).map(|number| each + number)));
        crew.join();
    });
}

/// Hundreds of operations in one select.
#[test]
fn a_select_may_have_hundreds_of_operations() {
    everywhere(|_| {
        let channels: Vec<(Sender<usize>, Receiver<usize>)> =
            (0..500).map(|i| bounded(i % 2)).collect();
        let mut select = Select::new();
        for (_, r) in &channels {
            select.recv(r);
        }
        for round in 0..20 {
            let at = (round * 37) % channels.len();
            let s = channels[at].0.clone();
            let sender = spawn(move || s.send(round).unwrap());
            let operation = select.select();
            assert_eq!(operation.index(), at);
            assert_eq!(operation.recv(&channels[at].1), Ok(round));
            sender.join();
        }
        assert!(select.try_select().is_err());
        assert!(select.select_timeout(MOMENT).is_err());
    });
}

#[test]
fn selects_that_both_send_and_receive_on_many_channels_conserve_the_values() {
    everywhere(|ground| {
        let channels: Vec<(Sender<u64>, Receiver<u64>)> = (0..3).map(bounded).collect();
        let sum = Arc::new(AtomicUsize::new(0));
        let rounds = ground.rounds(600);
        let mut crew = Crew::new();
        for number in 0..4u64 {
            let channels = channels.clone();
            let sum = sum.clone();
            crew.spawn(move || {
                let mut select = Select::new();
                for (s, r) in &channels {
                    select.send(s);
                    select.recv(r);
                }
                for i in 0..rounds as u64 {
                    let operation = select.select();
                    let (s, r) = &channels[operation.index() / 2];
                    if operation.index() % 2 == 0 {
                        let value = number * 1_000_000 + i;
                        operation.send(s, value).unwrap();
                        sum.fetch_add(value as usize, Ordering::SeqCst);
                    } else {
                        let value = operation.recv(r).unwrap();
                        sum.fetch_sub(value as usize, Ordering::SeqCst);
                    }
                    if i % 16 == 0 {
                        urgo::yield_now();
                    }
                }
            });
        }
        crew.join();
        let left: u64 = channels.iter().flat_map(|(_, r)| r.try_iter()).sum();
        assert_eq!(sum.load(Ordering::SeqCst), left as usize);
    });
}

// --- an operation that is not completed ---

/// Dropping a chosen operation is a mistake that panics; the channel goes on working.
#[test]
fn dropping_a_chosen_operation_panics() {
    hush_planned_panics();
    everywhere(|_| {
        for capacity in [Some(1), None] {
            let (s, r) = channel(capacity);
            s.send(1).unwrap();
            panic_of(|| {
                let mut select = Select::new();
                select.recv(&r);
                drop(select.select());
            });
            let _ = r.try_recv();
            s.try_send(2).unwrap();
            assert_eq!(r.try_recv(), Ok(2));
            panic_of(|| {
                let mut select = Select::new();
                select.send(&s);
                drop(select.select());
            });
            s.try_send(3).unwrap();
            assert_eq!(r.try_recv(), Ok(3));
        }
    });
}

/// Completing it on another channel is a mistake that panics.
#[test]
fn completing_on_another_channel_panics() {
    hush_planned_panics();
    everywhere(|_| {
        let (s, r) = unbounded::<i32>();
        let (s2, r2) = unbounded::<i32>();
        s.send(1).unwrap();
        let text = panic_of(|| {
            let mut select = Select::new();
            select.recv(&r);
            let _ = select.select().recv(&r2);
        });
        assert!(!text.is_empty());
        panic_of(|| {
            let mut select = Select::new();
            select.send(&s);
            let _ = select.select().send(&s2, 5);
        });
        assert_eq!(r2.try_recv(), Err(TryRecvError::Empty));
    });
}

/// On a rendezvous a chosen send holds its receiver until it is completed or given up; a receiver that was given up is free
/// for the next sender.
#[test]
fn a_rendezvous_survives_operations_that_are_given_up() {
    hush_planned_panics();
    everywhere(|_| {
        let (s, r) = bounded::<i32>(0);
        let given_up = Arc::new(AtomicUsize::new(0));
        let receiver = spawn(move || (r.recv(), r));
        let quitter = spawn({
            let (s, given_up) = (s.clone(), given_up.clone());
            move || {
                panic_of(|| {
                    let mut select = Select::new();
                    select.send(&s);
                    drop(select.select());
                });
                given_up.fetch_add(1, Ordering::SeqCst);
            }
        });
        wait_until("it has given up", || given_up.load(Ordering::SeqCst) == 1);
        quitter.join();
        s.send(7).unwrap();
        let (got, r) = receiver.join();
        assert_eq!(got, Ok(7));
        // A receive that is given up has taken its value: it is dropped, once.
        let drops = Drops::default();
        let (s2, r2) = bounded(0);
        let sender = spawn({
            let guard = drops.guard();
            move || s2.send(guard).is_ok()
        });
        panic_of(|| {
            let mut select = Select::new();
            select.recv(&r2);
            drop(select.select());
        });
        drop(r2);
        sender.join();
        assert_eq!(drops.count(), 1);
        drop(r);
    });
}
