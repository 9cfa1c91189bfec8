//! What goroutines promise: spawning and joining, panics, scopes, locals, fairness, timers, placement, blocking calls.

mod support;

#[path = "goroutines/blocking.rs"]
mod blocking;
#[path = "goroutines/cancel.rs"]
mod cancel;
#[path = "goroutines/fairness.rs"]
mod fairness;
#[path = "goroutines/handles.rs"]
mod handles;
#[path = "goroutines/locals.rs"]
mod locals;
#[path = "goroutines/panics.rs"]
mod panics;
#[path = "goroutines/placement.rs"]
mod placement;
#[path = "goroutines/scope_ends.rs"]
mod scope_ends;
#[path = "goroutines/scopes.rs"]
mod scopes;
#[path = "goroutines/spawning.rs"]
mod spawning;
#[path = "goroutines/timers.rs"]
mod timers;
#[path = "goroutines/try_scopes.rs"]
mod try_scopes;
#[path = "goroutines/uncancellable.rs"]
mod uncancellable;
#[path = "goroutines/unstarted.rs"]
mod unstarted;
