//! What `urgo::net` promises, shown on goroutines and on plain threads.

#[path = "net/alone.rs"]
mod alone;
#[path = "net/closing.rs"]
mod closing;
#[path = "net/connections.rs"]
mod connections;
#[path = "net/conversions.rs"]
mod conversions;
#[path = "net/deadlines.rs"]
mod deadlines;
#[path = "net/random.rs"]
mod random;
#[path = "net/side.rs"]
mod side;
#[path = "net/streams.rs"]
mod streams;
