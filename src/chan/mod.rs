//! # Purpose
//!
//! Channels between goroutines and threads, and waiting for several of them at once.
