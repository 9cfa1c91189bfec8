//! Channels and `select!`: Go's rules, crossbeam-channel's behaviours, a model, and load. Every scenario runs on plain
//! threads and on goroutines of runtimes of several sizes, if it does not say otherwise.

mod support;

#[path = "channels/grounds.rs"]
mod grounds;

#[path = "channels/dynamic_select.rs"]
mod dynamic_select;
#[path = "channels/endings.rs"]
mod endings;
#[path = "channels/go_programs.rs"]
mod go_programs;
#[path = "channels/go_rules.rs"]
mod go_rules;
#[path = "channels/go_select.rs"]
mod go_select;
#[path = "channels/mixed.rs"]
mod mixed;
#[path = "channels/model.rs"]
mod model;
#[path = "channels/regressions.rs"]
mod regressions;
#[path = "channels/stress.rs"]
mod stress;
#[path = "channels/time_channels.rs"]
mod time_channels;
#[path = "channels/variants.rs"]
mod variants;
