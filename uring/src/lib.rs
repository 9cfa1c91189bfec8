//! Placeholder door.
