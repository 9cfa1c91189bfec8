//! `select!` and `select_biased!`.
//!
//! # Algorithm
//!
//! 1. `@read` takes one arm off the list, whatever its kind, and makes a block of its body.
//! 2. `@arm` checks it by its kind. For a channel it opens a `match` that holds the channel's expression, so that its
//!    temporaries live until the arm's body is done, and reads on inside. The name `channel` is another variable each time:
//!    macro hygiene tells them apart, and so there is no limit to their number but the compiler's recursion limit, two
//!    per arm.
//! 3. `@run` has all arms as `[index kind channel (message) (result) body]`, makes an array of them, and runs the one that
//!    was chosen. A receive alone needs no select.

use super::select::engine;

/// Of a select without arms.
pub fn wait_for_ever() -> ! {
    loop {
        let _ = engine::select(&[], false);
    }
}

/// A select chose an arm that it does not have.
#[cold]
pub fn no_such_arm() -> ! {
    unreachable!("a select has chosen an arm that it does not have")
}

/// Waits for several channel operations and does the one that can go on first.
///
/// ```text
/// select! {
///     recv(receiver) -> result => body,
///     send(sender, message) -> result => body,
///     default => body,            // or: default(timeout) => body
/// }
/// ```
///
/// Each arm begins with an operation. `result` is a pattern for what the operation returned, a `Result` as from
/// [`recv`](crate::chan::Receiver::recv) or [`send`](crate::chan::Sender::send); the body is an expression, and its value is
/// the value of the macro. After a body in braces the comma may be left out. There may be any number of arms, in any order,
/// among them one `default`; up to about 50 of them the compiler's default `recursion_limit` is enough.
///
/// An operation can go on if it need not wait, also if that is because its channel is disconnected. If several can, one of
/// them is chosen by lot; [`select_biased!`](crate::select_biased!) chooses the first in the list. The others do nothing: no
/// message is taken and none is sent. If none can, then
///
/// * with `default`, its body runs at once;
/// * with `default(timeout)`, it waits that long, and then its body runs;
/// * otherwise it waits. A `select! {}` without arms waits for ever.
///
/// Receivers and senders may be any expressions that are, or refer to, one. They are evaluated in the order of the list,
/// once, and then the timeout. A message is evaluated only when its arm has been chosen: the other side may be
/// waiting for it, so it should not wait, and leaving the select from within it, as by `?`, is a panic. A body may
/// `break`, `continue`, `return`, use `?`, and contain another `select!`.
///
/// Blocks the calling goroutine, or plain thread. A goroutine that is cancelled while it waits unwinds, and has taken and
/// sent nothing. No memory is allocated for up to eight operations with messages of up to 64 bytes; beyond that, some is.
///
/// For a list of operations that is not known when the program is written, there is [`Select`](crate::chan::Select).
///
/// ```
/// use std::time::Duration;
/// use urgo::chan::{bounded, unbounded};
/// use urgo::select;
///
/// urgo::run(|| {
///     let (jobs, queue) = bounded(1);
///     let (stop, stopped) = bounded::<()>(0);
///     let worker = urgo::spawn(move || {
///         let mut done = Vec::new();
///         loop {
///             select! {
///                 recv(queue) -> job => match job {
///                     Ok(n) => done.push(n),
///                     Err(_) => break done,
///                 },
///                 recv(stopped) -> _ => break done,
///             }
///         }
///     });
///     jobs.send(1).unwrap();
///     jobs.send(2).unwrap();
///     drop(jobs);
///     assert_eq!(worker.join().unwrap(), [1, 2]);
///     drop(stop);
///
///     let (s, r) = unbounded();
///     let sent = select! {
///         recv(r) -> _ => false,
///         send(s, 5) -> result => result.is_ok(),
///     };
///     assert!(sent);
///     select! {
///         recv(r) -> n => assert_eq!(n, Ok(5)),
///         default => panic!("it was sent"),
///     }
///     select! {
///         recv(r) -> _ => panic!("nothing more was sent"),
///         default(Duration::from_millis(1)) => {}
///     }
/// });
/// ```
///
/// Mistakes are told at compile time:
///
/// ```compile_fail
/// let (_s, r) = urgo::chan::unbounded::<i32>();
/// urgo::select! {
///     recv(r) => {} // no place for the result
/// }
/// ```
#[macro_export]
macro_rules! select {
    ($($arms:tt)*) => {
        $crate::__select!(@read false (0) () () { $($arms)* })
    };
}

/// As [`select!`](crate::select!), but of several operations that can go on it chooses the one that comes first in the list.
///
/// An arm further down may starve: what is read from a channel that always has a message hides everything after it.
///
/// ```
/// use urgo::chan::unbounded;
/// use urgo::select_biased;
///
/// let (urgent, first) = unbounded();
/// let (common, second) = unbounded();
/// common.send("later").unwrap();
/// urgent.send("now").unwrap();
/// let message = select_biased! {
///     recv(first) -> message => message,
///     recv(second) -> message => message,
/// };
/// assert_eq!(message, Ok("now"));
/// ```
#[macro_export]
macro_rules! select_biased {
    ($($arms:tt)*) => {
        $crate::__select!(@read true (0) () () { $($arms)* })
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // One arm: with a comma, the last, or a body in braces without a comma.
    (@read $biased:tt $index:tt $arms:tt $default:tt {}) => {
        $crate::__select!(@run $biased $arms $default)
    };
    (@read $biased:tt $index:tt $arms:tt $default:tt {
        default => $($rest:tt)*
    }) => {
        $crate::__select!(@read $biased $index $arms $default { default() => $($rest)* })
    };
    // Braces are taken off first, so that nobody is told that they are one pair too many.
    (@read $biased:tt $index:tt $arms:tt $default:tt {
        $kind:ident ($($operands:tt)*) $(-> $result:pat)? => { $($body:tt)* } $(, $($rest:tt)*)?
    }) => {
        $crate::__select!(
            @arm $biased $index $arms $default
            $kind ($($operands)*) ($($result)?) { $($body)* } { $($($rest)*)? }
        )
    };
    (@read $biased:tt $index:tt $arms:tt $default:tt {
        $kind:ident ($($operands:tt)*) $(-> $result:pat)? => $body:expr, $($rest:tt)*
    }) => {
        $crate::__select!(
            @arm $biased $index $arms $default
            $kind ($($operands)*) ($($result)?) { $body } { $($rest)* }
        )
    };
    (@read $biased:tt $index:tt $arms:tt $default:tt {
        $kind:ident ($($operands:tt)*) $(-> $result:pat)? => $body:expr
    }) => {
        $crate::__select!(
            @arm $biased $index $arms $default
            $kind ($($operands)*) ($($result)?) { $body } {}
        )
    };
    (@read $biased:tt $index:tt $arms:tt $default:tt {
        $kind:ident ($($operands:tt)*) $(-> $result:pat)? => { $($body:tt)* } $($rest:tt)*
    }) => {
        $crate::__select!(
            @arm $biased $index $arms $default
            $kind ($($operands)*) ($($result)?) { $($body)* } { $($rest)* }
        )
    };
    (@read $biased:tt $index:tt $arms:tt $default:tt { $($rest:tt)* }) => {
        ::core::compile_error!(::core::concat!(
            "expected an arm of a select: `recv(receiver) -> result => body`, `send(sender, message) -> result => body`, \
             `default => body` or `default(timeout) => body`, with a comma or braces to end the body, at: ",
            ::core::stringify!($($rest)*)
        ))
    };

    (@arm $biased:tt $index:tt ($($arms:tt)*) $default:tt
        recv ($receiver:expr $(,)?) ($result:pat) $body:tt $rest:tt
    ) => {
        match $receiver {
            ref channel => {
                let channel: &$crate::chan::Receiver<_> = channel;
                $crate::__select!(
                    @read $biased ($index + 1)
                    ($($arms)* [$index recv channel () ($result) $body]) $default $rest
                )
            }
        }
    };
    (@arm $biased:tt $index:tt ($($arms:tt)*) $default:tt
        send ($sender:expr, $message:expr $(,)?) ($result:pat) $body:tt $rest:tt
    ) => {
        match $sender {
            ref channel => {
                let channel: &$crate::chan::Sender<_> = channel;
                $crate::__select!(
                    @read $biased ($index + 1)
                    ($($arms)* [$index send channel ($message) ($result) $body]) $default $rest
                )
            }
        }
    };
    (@arm $biased:tt $index:tt $arms:tt ()
        default ($($timeout:expr $(,)?)?) () $body:tt $rest:tt
    ) => {
        $crate::__select!(@read $biased $index $arms (($($timeout)?) $body) $rest)
    };
    (@arm $biased:tt $index:tt $arms:tt ($($default:tt)+)
        default $operands:tt () $body:tt $rest:tt
    ) => {
        ::core::compile_error!("a select has at most one `default` arm")
    };
    (@arm $biased:tt $index:tt $arms:tt $default:tt
        recv $operands:tt () $body:tt $rest:tt
    ) => {
        ::core::compile_error!("expected `-> result` after `recv(receiver)`; use `-> _` if you do not want it")
    };
    (@arm $biased:tt $index:tt $arms:tt $default:tt
        send $operands:tt () $body:tt $rest:tt
    ) => {
        ::core::compile_error!("expected `-> result` after `send(sender, message)`; use `-> _` if you do not want it")
    };
    (@arm $biased:tt $index:tt $arms:tt $default:tt
        default $operands:tt ($result:pat) $body:tt $rest:tt
    ) => {
        ::core::compile_error!("a `default` arm has no result: expected `=>` after it")
    };
    (@arm $biased:tt $index:tt $arms:tt $default:tt
        $kind:ident $operands:tt $result:tt $body:tt $rest:tt
    ) => {
        ::core::compile_error!(::core::concat!(
            "expected `recv(receiver)`, `send(sender, message)`, `default` or `default(timeout)`, found `",
            ::core::stringify!($kind $operands),
            "`"
        ))
    };

    // No channel at all.
    (@run $biased:tt () ()) => {
        $crate::chan::internal::wait_for_ever()
    };
    (@run $biased:tt () (() $default:tt)) => {
        $default
    };
    // A receive alone.
    (@run $biased:tt ([$index:tt recv $channel:ident () ($result:pat) $body:tt]) ()) => {{
        let result = $channel.recv();
        let $result = result;
        $body
    }};
    (@run $biased:tt ([$index:tt recv $channel:ident () ($result:pat) $body:tt]) (() $default:tt)) => {
        match $channel.try_recv() {
            ::core::result::Result::Err($crate::chan::TryRecvError::Empty) => $default,
            result => {
                let result = result.map_err(|_| $crate::chan::RecvError);
                let $result = result;
                $body
            }
        }
    };
    (@run $biased:tt ([$index:tt recv $channel:ident () ($result:pat) $body:tt])
        (($timeout:expr) $default:tt)
    ) => {
        match $channel.recv_timeout($timeout) {
            ::core::result::Result::Err($crate::chan::RecvTimeoutError::Timeout) => $default,
            result => {
                let result = result.map_err(|_| $crate::chan::RecvError);
                let $result = result;
                $body
            }
        }
    };
    // The rest.
    (@run $biased:tt ($([$index:tt $kind:ident $channel:ident $message:tt $result:tt $body:tt])*) ()) => {{
        let chosen = $crate::chan::internal::select(
            &[$($crate::chan::internal::Case::$kind($channel)),*],
            $biased,
        );
        $crate::__select!(@chosen chosen $([$index $kind $channel $message $result $body])*)
    }};
    (@run $biased:tt ($([$index:tt $kind:ident $channel:ident $message:tt $result:tt $body:tt])*)
        (() $default:tt)
    ) => {
        match $crate::chan::internal::try_select(
            &[$($crate::chan::internal::Case::$kind($channel)),*],
            $biased,
        ) {
            ::core::option::Option::None => $default,
            ::core::option::Option::Some(chosen) => {
                $crate::__select!(@chosen chosen $([$index $kind $channel $message $result $body])*)
            }
        }
    };
    (@run $biased:tt ($([$index:tt $kind:ident $channel:ident $message:tt $result:tt $body:tt])*)
        (($timeout:expr) $default:tt)
    ) => {
        match $crate::chan::internal::select_timeout(
            &[$($crate::chan::internal::Case::$kind($channel)),*],
            $timeout,
            $biased,
        ) {
            ::core::option::Option::None => $default,
            ::core::option::Option::Some(chosen) => {
                $crate::__select!(@chosen chosen $([$index $kind $channel $message $result $body])*)
            }
        }
    };

    (@chosen $chosen:ident
        $([$index:tt $kind:ident $channel:ident ($($message:expr)?) ($result:pat) $body:tt])*
    ) => {
        $(if $chosen.index() == $index {
            let result = $chosen.$kind($channel $(, $message)?);
            let $result = result;
            $body
        } else)* {
            $crate::chan::internal::no_such_arm()
        }
    };
}

#[cfg(all(test, not(urgo_loom)))]
mod tests {
    use crate::chan::{Receiver, RecvError, Sender, bounded, never, unbounded};

    #[test]
    fn macros_take_fifty_arms_at_the_default_recursion_limit() {
        let r: [Receiver<i32>; 50] = [(); 50].map(|()| never());
        let chosen = select! {
            recv(r[0]) -> _ => 0, recv(r[1]) -> _ => 1, recv(r[2]) -> _ => 2, recv(r[3]) -> _ => 3,
            recv(r[4]) -> _ => 4, recv(r[5]) -> _ => 5, recv(r[6]) -> _ => 6, recv(r[7]) -> _ => 7,
            recv(r[8]) -> _ => 8, recv(r[9]) -> _ => 9, recv(r[10]) -> _ => 10, recv(r[11]) -> _ => 11,
            recv(r[12]) -> _ => 12, recv(r[13]) -> _ => 13, recv(r[14]) -> _ => 14, recv(r[15]) -> _ => 15,
            recv(r[16]) -> _ => 16, recv(r[17]) -> _ => 17, recv(r[18]) -> _ => 18, recv(r[19]) -> _ => 19,
            recv(r[20]) -> _ => 20, recv(r[21]) -> _ => 21, recv(r[22]) -> _ => 22, recv(r[23]) -> _ => 23,
            recv(r[24]) -> _ => 24, recv(r[25]) -> _ => 25, recv(r[26]) -> _ => 26, recv(r[27]) -> _ => 27,
            recv(r[28]) -> _ => 28, recv(r[29]) -> _ => 29, recv(r[30]) -> _ => 30, recv(r[31]) -> _ => 31,
            recv(r[32]) -> _ => 32, recv(r[33]) -> _ => 33, recv(r[34]) -> _ => 34, recv(r[35]) -> _ => 35,
            recv(r[36]) -> _ => 36, recv(r[37]) -> _ => 37, recv(r[38]) -> _ => 38, recv(r[39]) -> _ => 39,
            recv(r[40]) -> _ => 40, recv(r[41]) -> _ => 41, recv(r[42]) -> _ => 42, recv(r[43]) -> _ => 43,
            recv(r[44]) -> _ => 44, recv(r[45]) -> _ => 45, recv(r[46]) -> _ => 46, recv(r[47]) -> _ => 47,
            recv(r[48]) -> _ => 48, recv(r[49]) -> _ => 49,
            default => 50,
        };
        assert_eq!(chosen, 50);
    }

    #[test]
    fn macros_read_bodies_with_and_without_commas_and_braces() {
        let (s, r) = bounded::<i32>(1);
        s.send(1).unwrap();
        let doubled: i32 = select_biased! {
            recv(r,) -> n => { n.unwrap() * 2 }
            default() => { 0 }
        };
        assert_eq!(doubled, 2);
        let text = select_biased! {
            default => { 7 }.to_string(),
            recv(r) -> n => if n.is_ok() { String::new() } else { unreachable!() },
        };
        assert_eq!(text, "7");
        let text = select_biased! {
            recv(r) -> n => { n.unwrap() }.to_string(),
            send(s, 3,) -> _ => { 8 }.to_string()
        };
        assert_eq!(text, "8");
        let [Ok(n) | Err(n)] = select_biased! {
            recv(r) -> n => [n.map_err(|RecvError| 0)],
        };
        assert_eq!(n, 3);
    }

    fn untouched() -> i32 {
        unreachable!("an arm that was not chosen")
    }

    #[test]
    fn macros_evaluate_only_the_message_that_is_sent() {
        let (s, r) = unbounded();
        let full = bounded::<i32>(0);
        let result = select_biased! {
            send(full.0, untouched()) -> _ => unreachable!(),
            send(s, 5) -> result => result,
            send(s, untouched()) -> _ => unreachable!(),
        };
        assert!(result.is_ok());
        assert_eq!(r.try_iter().collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn macros_let_a_body_use_up_the_channel() {
        let (s, r): (Sender<i32>, Receiver<i32>) = unbounded();
        let (s, r) = select! {
            recv(r) -> _ => unreachable!(),
            default => (s, r),
        };
        select! {
            recv(r) -> _ => drop((s, r)),
            send(s, 1) -> _ => drop((s, r)),
        }
    }
}
