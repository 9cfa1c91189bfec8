//! Operations that threads outside the runtime carry out: answers, cancellation with acknowledgement, tokens, the end of a
//! runtime, races.

mod support;

#[path = "host/answers.rs"]
mod answers;
#[path = "host/calling_off.rs"]
mod calling_off;
#[path = "host/endings.rs"]
mod endings;
#[path = "host/races.rs"]
mod races;
#[path = "host/threads.rs"]
mod threads;
#[path = "host/tokens.rs"]
mod tokens;
