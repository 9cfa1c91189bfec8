//! urgo
