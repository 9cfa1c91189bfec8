//! What a goroutine's stack promises: values survive switches, panics unwind, and every reader of stacks (backtrace,
//! frame walk, signal handler, gdb) finds the entry frame at its end.

mod backtraces;
mod debugger;
mod ground;
mod registers;
mod signals;
mod starts;
mod unwinding;
mod walks;
