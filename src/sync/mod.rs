//! # Purpose
//!
//! Locks and other ways to wait for each other, for goroutines and threads alike, each on one word.
