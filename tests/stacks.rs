//! Goroutine stacks: guarded, as large as asked for, cheap when parked, given back after a peak.

mod support;

#[path = "stacks/many.rs"]
mod many;
#[path = "stacks/overflow.rs"]
mod overflow;
#[path = "stacks/walks.rs"]
mod walks;
