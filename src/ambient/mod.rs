//! # Purpose
//!
//! The tree of contexts: which part of a program's work is still wanted, and until when. Nothing here knows how goroutines
//! wait; who has to be told of a cancellation is returned.
//!
//! # Words
//!
//! *Node*: one context. *Over*: cancelled, or past its deadline. *Home*: a worker on which goroutines run under a node, as a
//! number that only the scheduler understands. *Hook*: what else is to happen at a cancellation.
//!
//! # Algorithm
//!
//! 1. A deadline needs no timer of its own. A node is past it when the clock says so; who waits under a node waits no longer
//!    than until its deadline. A child's deadline is its own or its parent's, whichever is earlier, computed once.
//! 2. A cancellation goes down the tree, each node before its children and children in the order in which they were made, and marks
//!    every node. So asking a node is one load, however deep it is.
//! 3. A node keeps its children by the number of their birth, weakly; a child that goes takes itself off.
//! 4. A node knows the homes on which it is in use, so that a cancellation tells workers, not goroutines: what the canceller pays
//!    does not grow with the number of those who wait.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | AM1 | `end` marks the node, release | `ended`, acquire | what the canceller did before; the cause |
//! | AM2 | `enter`: home added, fence, state read | `cancel`: state written, fence, homes read | either the home is told, or it sees the mark |
//!
//! # Imports
//!
//! `atomic`, `park`.

mod error;
mod homes;
mod node;

pub use error::ContextError;
pub(crate) use node::{Cause, Node};
