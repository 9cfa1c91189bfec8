//! Operations answered by number: whatever number comes, nothing breaks.

use std::time::Duration;

use urgo::host::{FaultKind, Operation, Token};

use crate::answers::{fault_of, here, submitted};
use crate::support::{Drops, Random, runtime, seed, wait_until};

#[test]
fn host_token_answers_once() {
    runtime(1).run(|| {
        let (waiting, completer) = submitted::<u32>();
        let raw = completer.into_token().into_raw();
        std::thread::spawn(move || {
            Token::from_raw(raw).complete(1_u32);
            Token::from_raw(raw).complete(2_u32);
            Token::from_raw(raw).fault("too late");
        })
        .join()
        .unwrap();
        assert_eq!(here().dup, 2);
        assert_eq!(waiting.wait().unwrap(), 1);
        Token::from_raw(raw).complete(3_u32);
        let counters = here();
        assert_eq!(
            (counters.dup, counters.stale, counters.completed),
            (2, 1, 1)
        );
    });
}

#[test]
fn host_token_with_a_value_of_another_type_is_a_fault() {
    let drops = Drops::default();
    runtime(1).run(|| {
        let (waiting, completer) = submitted::<u32>();
        completer.into_token().complete(drops.guard());
        let fault = fault_of(waiting.wait());
        assert_eq!(fault.kind(), FaultKind::WrongType);
        assert!(fault.to_string().contains("DropGuard"), "{fault}");
        assert_eq!((drops.count(), here().faulted, here().out()), (1, 1, 0));
    });
}

#[test]
fn host_token_of_what_only_its_completer_may_answer_is_foreign() {
    runtime(1).run(|| {
        let (first, completer) = submitted::<u32>();
        let raw = completer.into_token().into_raw();
        let (second, completer) = submitted::<u32>();
        // The next slot, in its first generation.
        let guessed = raw + (1 << 22);
        Token::from_raw(guessed).complete(13_u32);
        assert_eq!(here().foreign, 1);
        completer.complete(2);
        Token::from_raw(raw).complete(1_u32);
        assert_eq!((first.wait().unwrap(), second.wait().unwrap()), (1, 2));
    });
}

#[test]
fn host_token_can_say_what_a_completer_can() {
    runtime(1).run(|| {
        let (waiting, completer) = submitted::<u32>();
        completer.into_token().fault("broken");
        assert!(waiting.wait().unwrap_err().to_string().contains("broken"));
        let (waiting, completer) = submitted::<u32>();
        let token = completer.into_token();
        std::thread::spawn(move || {
            wait_until("called off", || token.is_cancelled());
            token.ack();
        });
        assert!(waiting.wait_timeout(Duration::from_millis(1)).is_err());
        assert!(!token.is_cancelled());
    });
}

#[test]
fn host_random_numbers_resume_nobody() {
    let seed = seed();
    runtime(1).run(move || {
        let mut random = Random::new(seed);
        let (waiting, completer) = submitted::<u64>();
        let raw = completer.into_token().into_raw();
        let (kept, completer) = submitted::<u64>();
        for _ in 0..100_000 {
            let number = match random.below(4) {
                // An owner that there has never been: tests beside this one count what comes to theirs.
                0 => random.next() | (1 << 63),
                // One or two bits beside a real one.
                1 => raw ^ (1 << random.below(44)),
                2 => raw ^ (1 << random.below(44)) ^ (1 << random.below(44)),
                // Of plain threads.
                _ => random.below(1 << 23),
            };
            if number != raw {
                match random.below(3) {
                    0 => Token::from_raw(number).complete(13_u64),
                    1 => Token::from_raw(number).fault("guessed"),
                    _ => Token::from_raw(number).ack(),
                }
            }
        }
        urgo::sleep(Duration::from_millis(1));
        assert!(!waiting.is_finished() && !kept.is_finished());
        assert_eq!(here().dup, 0);
        Token::from_raw(raw).complete(1_u64);
        assert_eq!(waiting.wait().unwrap(), 1);
        drop(completer);
        kept.wait().unwrap_err();
    });
}

#[test]
fn host_tokens_of_runtimes_side_by_side_do_not_mix() {
    let runtimes = [runtime(1), runtime(2)];
    let handles: Vec<_> = runtimes.iter().map(|runtime| runtime.handle()).collect();
    let (send, tokens) = std::sync::mpsc::channel::<(Token, usize)>();
    let outside = std::thread::spawn(move || {
        for (token, value) in tokens {
            token.complete(value);
        }
    });
    std::thread::scope(|scope| {
        for (base, runtime) in runtimes.into_iter().enumerate() {
            let send = send.clone();
            scope.spawn(move || {
                runtime.run(move || {
                    let goroutines: Vec<_> = (0..50)
                        .map(|n| {
                            let send = send.clone();
                            urgo::spawn(move || {
                                for step in 0..20 {
                                    let value = base * 1_000_000 + n * 1000 + step;
                                    let outcome = Operation::<usize>::register()
                                        .unwrap()
                                        .submit(|completer| {
                                            send.send((completer.into_token(), value)).unwrap()
                                        })
                                        .wait();
                                    assert_eq!(outcome.unwrap(), value);
                                }
                            })
                        })
                        .collect();
                    for goroutine in goroutines {
                        goroutine.join().unwrap();
                    }
                });
            });
        }
    });
    drop(send);
    outside.join().unwrap();
    for handle in handles {
        let counters = handle.metrics().host;
        assert_eq!(counters.completed, 1000);
        assert_eq!(
            counters.dup + counters.stale + counters.foreign + counters.retired,
            0
        );
    }
}

#[test]
fn host_token_of_a_runtime_that_is_gone_is_retired() {
    let (raw, completer) = runtime(1).run(|| {
        let (waiting, completer) = submitted::<u32>();
        let token = completer.into_token();
        token.complete(1_u32);
        waiting.wait().unwrap();
        let mut kept = None;
        drop(
            Operation::<u32>::register()
                .unwrap()
                .without_ack()
                .submit(|completer| kept = Some(completer)),
        );
        (token.into_raw(), kept.unwrap())
    });
    // Its record is there as long as a completer is.
    Token::from_raw(raw).complete(1_u32);
    completer.complete(2);
    let before = urgo::host::counters();
    Token::from_raw(raw).complete(1_u32);
    let after = urgo::host::counters();
    assert!(after.retired > before.retired && before.retired >= 2);
}
