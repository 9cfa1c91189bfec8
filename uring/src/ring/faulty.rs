//! The ring's side of fault injection: rings with a plan, and what lies between them and the kernel.

use io_uring::{opcode, squeue};

use super::Ring;
use crate::enter::{self, Entered, Mode};
use crate::faults::{Fate, Faults, Injected, Plan, SetupFaults};
use crate::setup::Config;
use crate::setup_error::SetupError;
use crate::token::Token;

impl Ring {
    /// A ring whose kernel misbehaves as planned. Only with the cargo feature `fault-injection`, for tests.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and what the plan says.
    pub fn with_faults(config: &Config, plan: &Plan) -> Result<Ring, SetupError> {
        let armed = SetupFaults::arm(plan);
        let mut ring = Ring::make(&plan.shrink(config))?;
        drop(armed);
        ring.faults = Some(Box::new(Faults::new(plan.clone())));
        Ok(ring)
    }

    /// What was injected so far. Only with the cargo feature `fault-injection`.
    pub fn injected(&self) -> Injected {
        self.faults
            .as_ref()
            .map_or(Injected::default(), |faults| faults.injected)
    }

    /// What is queued for an op: its entry, or if it is to fail, a nop.
    pub(super) fn entry_or_nop(&mut self, token: Token, entry: squeue::Entry) -> squeue::Entry {
        let user_data = token.user_data();
        let fails = self.faults.as_mut().is_some_and(|f| f.fails(user_data));
        if fails {
            opcode::Nop::new().build().user_data(user_data)
        } else {
            entry
        }
    }

    /// There was no room: the op does not fail yet.
    pub(super) fn original(&mut self, token: Token, entry: squeue::Entry) -> squeue::Entry {
        if let Some(faults) = &mut self.faults {
            faults.forget(token.user_data());
        }
        entry
    }

    /// In place of `enter::enter`.
    pub(super) fn enter_or_fail(&mut self, to_submit: u32, mode: Mode) -> Entered {
        let taken = self.table.counters.sqes - u64::from(self.pending);
        let fate = match &mut self.faults {
            Some(faults) => faults.fate(to_submit, mode, taken),
            None => Fate::Happens(to_submit, mode),
        };
        match fate {
            Fate::Happens(to_submit, mode) => enter::enter(&self.io, to_submit, mode),
            Fate::Fails(errno) => enter::answer(errno),
        }
    }
}
