//! The life of a runtime: built, run, ended, and nothing left of it.

mod support;

#[path = "life_cycle/end.rs"]
mod end;
#[path = "life_cycle/nothing_left.rs"]
mod nothing_left;
#[path = "life_cycle/shutdown.rs"]
mod shutdown;
#[path = "life_cycle/stubborn.rs"]
mod stubborn;
#[path = "life_cycle/together.rs"]
mod together;
