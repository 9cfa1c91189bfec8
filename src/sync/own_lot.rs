//! The lot that a primitive's waiters are in: one for all. Under the model checker, whose objects live for one run only, each
//! primitive has its own.

use crate::park::lot::Lot;
use core::ops::Deref;

/// See the module. Takes no memory outside the model checker.
#[derive(Debug)]
pub(super) struct OwnLot {
    #[cfg(urgo_loom)]
    lot: Lot,
}

impl OwnLot {
    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> OwnLot {
        OwnLot {}
    }

    #[cfg(urgo_loom)]
    pub(super) fn new() -> OwnLot {
        OwnLot { lot: Lot::new() }
    }
}

impl Deref for OwnLot {
    type Target = Lot;

    #[cfg(not(urgo_loom))]
    #[inline]
    fn deref(&self) -> &Lot {
        &crate::park::lot::LOT
    }

    #[cfg(urgo_loom)]
    fn deref(&self) -> &Lot {
        &self.lot
    }
}
