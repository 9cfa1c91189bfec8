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
#[path = "goroutines/scopes.rs"]
mod scopes;
#[path = "goroutines/spawning.rs"]
mod spawning;
#[path = "goroutines/timers.rs"]
mod timers;
#[path = "goroutines/uncancellable.rs"]
mod uncancellable;
