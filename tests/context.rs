//! Contexts: what they cut short, what they do not, and that nothing is lost.

#[path = "context/calls.rs"]
mod calls;
#[path = "context/channels.rs"]
mod channels;
#[path = "context/many.rs"]
mod many;
#[path = "context/outside.rs"]
mod outside;
#[path = "context/racing.rs"]
mod racing;
#[path = "context/regressions.rs"]
mod regressions;
#[path = "context/scope_of.rs"]
mod scope_of;
mod support;
#[path = "context/threads.rs"]
mod threads;
