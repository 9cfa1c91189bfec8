//! Failures that users of other runtimes have met, as promises of this one. Each test names the scenario by its number.
//!
//! Scenarios that other tests show: 2 in `net/deadlines.rs`, 3 there and in `context/racing.rs` (a million reads with `URGO_TEST_READS`), 6 in
//! `net/closing.rs`, 9 also in `traffic.rs`, 10, 11, 12, 14 and 15 of a bare ring in `urgo-uring`, 16 also in `life_cycle/end.rs`, 20 in
//! `life_cycle/nothing_left.rs`, 21 to 23 in `hosts/`, 85, 88 and 93 in `goroutines/cancel.rs`, 100 in `life_cycle/shutdown.rs`.

mod support;

#[path = "scenarios/cancels_in_flight.rs"]
mod cancels_in_flight;
#[path = "scenarios/cut_short.rs"]
mod cut_short;
#[path = "scenarios/held_across.rs"]
mod held_across;
#[path = "scenarios/queues.rs"]
mod queues;
#[path = "scenarios/refused_enters.rs"]
mod refused_enters;
#[path = "scenarios/rousing.rs"]
mod rousing;
#[path = "scenarios/streams.rs"]
mod streams;
