//! Injected misbehaviour of the kernel, for tests only: the cargo feature `fault-injection`, which nothing turns on by itself.
//!
//! **What is injected.** Only what a kernel may do: enters that are interrupted or refused, submissions taken in part,
//! records that come late and in another order, records that come twice, ops that fail before they begin, small queues, and
//! rings that cannot be made. All of it is drawn from one seed, so that a plan repeats as far as the kernel itself does.
//!
//! **What is never injected.** The order of one op's own records is kept (those of a stream, and result before
//! notification). A second copy comes only of a record that was delivered before, and only where the operation table can
//! tell: a copy of one among many of a stream would be one more. No record is made up while the kernel may still write the
//! op's memory: an op that fails by plan is replaced by a nop before it is submitted. No submission is cut while a chain
//! waits in the queue, and no op of a chain fails by plan: the kernel would not break the chain.
//!
//! **Where.** [`Ring::with_faults`](crate::Ring::with_faults) gives one ring a plan. The environment variable `URGO_FAULTS`
//! gives every ring of the process one, so that a whole runtime's tests can run under it: `URGO_FAULTS=seed=7` for
//! [`Plan::quiet`], or with parts, as in `URGO_FAULTS=seed=7,refused=300,entries_max=4`. The seams are in `Ring::enter`,
//! `Ring::reap`, `Ring::queue`, `setup.rs` and `view.rs`. Without the feature they are not there.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::enter::Mode;
use crate::setup::Config;
use crate::token::{Address, Kind};

/// `IORING_CQE_F_MORE`.
const MORE: u32 = 1 << 1;
/// Refused and interrupted enters in a row, at most: a kernel that never does anything proves nothing.
const REFUSED_MAX: u8 = 4;
/// A late record is held back for so many reapings at most, a copy for twice as many.
const ROUNDS_MAX: u64 = 4;

/// What is to go wrong. Probabilities are per mille. [`Plan::default`] injects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Where the choices come from.
    pub seed: u64,
    /// Enters that a signal interrupts.
    pub interrupted: u16,
    /// Enters refused with `EAGAIN`, `EBUSY` or `ENOMEM`; their SQEs stay queued.
    pub refused: u16,
    /// Submissions of which the kernel takes only the first few.
    pub truncated: u16,
    /// Records that come some reapings late.
    pub delayed: u16,
    /// Reapings whose records come in another order.
    pub reordered: u16,
    /// Records that come a second time.
    pub duplicated: u16,
    /// Ops that fail before they begin, with one of `errnos`. Their owners see it, unlike all of the above.
    pub failed: u16,
    /// For `failed`; empty means `ENOMEM` and `ENOBUFS`.
    pub errnos: Vec<i32>,
    /// Submission and completion entries are at most so many; 0 leaves them.
    pub entries_max: u32,
    /// What the first enters with something to submit fail with, in order.
    pub enter_errnos: Vec<i32>,
    /// What the first calls of `io_uring_setup` fail with, in order.
    pub setup_errnos: Vec<i32>,
    /// What mapping the ring fails with; 0 lets it succeed.
    pub map_errno: i32,
}

impl Plan {
    /// Much of everything that an op's owner does not notice.
    pub fn quiet(seed: u64) -> Plan {
        Plan {
            seed,
            interrupted: 100,
            refused: 150,
            truncated: 300,
            delayed: 250,
            reordered: 500,
            duplicated: 200,
            ..Plan::default()
        }
    }

    /// Reads a plan as the environment variable has it: `seed=7` alone is [`Plan::quiet`]; any other part, such as
    /// `delayed=300` or `setup_errnos=12:22`, makes it a plan of just these parts.
    ///
    /// # Errors
    ///
    /// A sentence that names the part that is wrong.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let mut plan = Plan::default();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let wrong = || format!("`{part}` is no part of a fault plan");
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse::<u64>().map_err(|_| wrong());
            let per_mille = || match value.parse() {
                Ok(n @ 0..=1000) => Ok(n),
                _ => Err(wrong()),
            };
            let errnos = || -> Result<Vec<i32>, String> {
                value
                    .split(':')
                    .map(|n| n.parse().map_err(|_| wrong()))
                    .collect()
            };
            match name {
                "seed" => plan.seed = number()?,
                "interrupted" => plan.interrupted = per_mille()?,
                "refused" => plan.refused = per_mille()?,
                "truncated" => plan.truncated = per_mille()?,
                "delayed" => plan.delayed = per_mille()?,
                "reordered" => plan.reordered = per_mille()?,
                "duplicated" => plan.duplicated = per_mille()?,
                "failed" => plan.failed = per_mille()?,
                "errnos" => plan.errnos = errnos()?,
                "entries_max" => plan.entries_max = value.parse().map_err(|_| wrong())?,
                "enter_errnos" => plan.enter_errnos = errnos()?,
                "setup_errnos" => plan.setup_errnos = errnos()?,
                "map_errno" => plan.map_errno = value.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        let seed = plan.seed;
        let has_parts = plan
            != Plan {
                seed,
                ..Plan::default()
            };
        Ok(if has_parts { plan } else { Plan::quiet(seed) })
    }

    /// The plan of `URGO_FAULTS`, with a seed of its own for each ring. None where the variable is not set.
    pub(crate) fn from_environment() -> Option<Plan> {
        static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
        static RINGS: AtomicU64 = AtomicU64::new(0);
        let plan = PLAN.get_or_init(|| {
            let text = std::env::var("URGO_FAULTS").ok()?;
            Some(Plan::parse(&text).unwrap_or_else(|what| panic!("URGO_FAULTS: {what}")))
        });
        let mut plan = plan.clone()?;
        // Relaxed: only distinct numbers are wanted.
        plan.seed = mixed(plan.seed) ^ RINGS.fetch_add(1, Ordering::Relaxed);
        Some(plan)
    }

    /// The configuration with small queues, if the plan says so.
    pub(crate) fn shrink(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if self.entries_max > 0 {
            config.entries = config.entries.min(self.entries_max);
            config.cq_entries = self.entries_max;
        }
        config
    }
}

// ------------------------------------------------------------------------------------------------------------- set-up

thread_local! {
    /// What the calls of the ring that is being made on this thread fail with.
    static SETUP: RefCell<(VecDeque<i32>, i32)> = const { RefCell::new((VecDeque::new(), 0)) };
}

/// While it lives, set-up on this thread follows the plan.
pub(crate) struct SetupFaults;

impl SetupFaults {
    pub(crate) fn arm(plan: &Plan) -> SetupFaults {
        SETUP.set((plan.setup_errnos.iter().copied().collect(), plan.map_errno));
        SetupFaults
    }
}

impl Drop for SetupFaults {
    fn drop(&mut self) {
        SETUP.take();
    }
}

/// What this `io_uring_setup` fails with.
pub(crate) fn refused_setup() -> Option<i32> {
    SETUP.with_borrow_mut(|(errnos, _)| errnos.pop_front())
}

/// What this mapping fails with.
pub(crate) fn refused_map() -> Option<i32> {
    SETUP.with_borrow(|&(_, errno)| (errno != 0).then_some(errno))
}

// ------------------------------------------------------------------------------------------------------- a ring's faults

/// How often each fault has happened on one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// Enters interrupted.
    pub interrupted: u64,
    /// Enters refused.
    pub refused: u64,
    /// Submissions taken in part.
    pub truncated: u64,
    /// Records held back.
    pub delayed: u64,
    /// Pairs of records exchanged.
    pub reordered: u64,
    /// Copies delivered.
    pub duplicated: u64,
    /// Ops that failed before they began.
    pub failed: u64,
}

/// What becomes of one enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Happens(u32, Mode),
    /// Never reaches the kernel.
    Fails(i32),
}

/// A record on its way: user data, result, flags.
pub(crate) type Record = (u64, i32, u32);

#[derive(Clone, Copy, Debug)]
struct Held {
    record: Record,
    rounds: u64,
    is_copy: bool,
}

/// The plan of one ring and what it is about to do.
#[derive(Debug)]
pub(crate) struct Faults {
    plan: Plan,
    random: u64,
    /// Records that the ring has not been shown, oldest first.
    held: Vec<Held>,
    /// Nops that stand for ops, by user data, and what they fail with.
    failing: HashMap<u64, i32>,
    refused_in_a_row: u8,
    /// Number of the last SQE that belongs to a chain.
    chain_end: u64,
    pub(crate) injected: Injected,
}

/// One step of the splitmix64 generator's output function.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

impl Faults {
    pub(crate) fn new(plan: Plan) -> Faults {
        Faults {
            random: mixed(plan.seed),
            plan,
            held: Vec::new(),
            failing: HashMap::new(),
            refused_in_a_row: 0,
            chain_end: 0,
            injected: Injected::default(),
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.random)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn chance(&mut self, of: impl Fn(&Plan) -> u16) -> bool {
        let per_mille = of(&self.plan);
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    /// What becomes of an enter. `taken`: how many SQEs the kernel has taken so far.
    pub(crate) fn fate(&mut self, to_submit: u32, mode: Mode, taken: u64) -> Fate {
        // What is held back can be reaped: nobody sleeps over it.
        let awake = match mode {
            Mode::Sleep { .. } if self.is_holding() => Mode::Reap,
            mode => mode,
        };
        if to_submit > 0 && !self.plan.enter_errnos.is_empty() {
            self.injected.refused += 1;
            return Fate::Fails(self.plan.enter_errnos.remove(0));
        }
        if self.refused_in_a_row < REFUSED_MAX {
            if self.chance(|plan| plan.refused) {
                self.refused_in_a_row += 1;
                self.injected.refused += 1;
                let errnos = [libc::EAGAIN, libc::EBUSY, libc::ENOMEM];
                return Fate::Fails(errnos[self.below(3) as usize]);
            }
            if self.chance(|plan| plan.interrupted) {
                self.refused_in_a_row += 1;
                self.injected.interrupted += 1;
                // The count of a submission hides that its wait was interrupted.
                return match mode {
                    Mode::Sleep { .. } if to_submit > 0 && self.below(2) == 0 => {
                        Fate::Happens(to_submit, Mode::Reap)
                    }
                    _ => Fate::Fails(libc::EINTR),
                };
            }
        }
        self.refused_in_a_row = 0;
        if to_submit > 1 && self.chain_end <= taken && self.chance(|plan| plan.truncated) {
            self.injected.truncated += 1;
            // A kernel that does not take all does not wait.
            let some = 1 + self.below(u64::from(to_submit) - 1) as u32;
            let mode = match mode {
                Mode::Submit => Mode::Submit,
                Mode::Reap | Mode::Sleep { .. } => Mode::Reap,
            };
            return Fate::Happens(some, mode);
        }
        Fate::Happens(to_submit, awake)
    }

    /// A chain ends with this SQE.
    pub(crate) fn note_chain(&mut self, sqe: u64) {
        self.chain_end = sqe;
    }

    /// True when this op is to fail: a nop is submitted in its place.
    pub(crate) fn fails(&mut self, user_data: u64) -> bool {
        if !self.chance(|plan| plan.failed) {
            return false;
        }
        let choice = self.next() as usize;
        let errno = match self.plan.errnos[..] {
            [] => [libc::ENOMEM, libc::ENOBUFS][choice % 2],
            ref errnos => errnos[choice % errnos.len()],
        };
        self.failing.insert(user_data, errno);
        true
    }

    /// The op was not queued after all.
    pub(crate) fn forget(&mut self, user_data: u64) {
        self.failing.remove(&user_data);
    }

    /// Some records wait inside.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes in what the kernel has posted and returns what the ring is to see of it, now.
    pub(crate) fn deliver(
        &mut self,
        posted: impl Iterator<Item = Record>,
    ) -> std::vec::IntoIter<Record> {
        for (user_data, res, flags) in posted {
            let failed = self.failing.remove(&user_data);
            self.injected.failed += u64::from(failed.is_some());
            let is_late = self.chance(|plan| plan.delayed);
            self.injected.delayed += u64::from(is_late);
            let rounds = if is_late {
                1 + self.below(ROUNDS_MAX)
            } else {
                0
            };
            self.held.push(Held {
                record: (user_data, failed.map_or(res, |errno| -errno), flags),
                rounds,
                is_copy: false,
            });
        }
        let mut seen = self.due();
        self.shuffle(&mut seen);
        self.copy(&seen);
        seen.into_iter()
            .map(|held| held.record)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Takes out what is held back no longer. What waits holds back what comes after it of the same op.
    fn due(&mut self) -> Vec<Held> {
        let (mut due, mut later) = (Vec::new(), Vec::<Held>::new());
        for mut held in std::mem::take(&mut self.held) {
            let is_behind = !held.is_copy
                && later
                    .iter()
                    .any(|other| !other.is_copy && other.record.0 == held.record.0);
            if held.rounds == 0 && !is_behind {
                self.injected.duplicated += u64::from(held.is_copy);
                due.push(held);
            } else {
                held.rounds = held.rounds.saturating_sub(1);
                later.push(held);
            }
        }
        self.held = later;
        due
    }

    /// Exchanges neighbours of different ops.
    fn shuffle(&mut self, records: &mut [Held]) {
        if records.len() < 2 || !self.chance(|plan| plan.reordered) {
            return;
        }
        for _ in 0..2 * records.len() {
            let at = self.below(records.len() as u64 - 1) as usize;
            if records[at].record.0 != records[at + 1].record.0 {
                records.swap(at, at + 1);
                self.injected.reordered += 1;
            }
        }
    }

    /// Lets some come again later.
    fn copy(&mut self, records: &[Held]) {
        for held in records.iter().filter(|held| !held.is_copy) {
            let (user_data, _, flags) = held.record;
            let can_be_told = match Address::of(user_data) {
                Address::Op(token) => token.kind() != Kind::Multishot || flags & MORE == 0,
                Address::Control(_) | Address::Foreign => false,
            };
            if can_be_told && self.chance(|plan| plan.duplicated) {
                let rounds = self.below(2 * ROUNDS_MAX);
                self.held.push(Held {
                    record: held.record,
                    rounds,
                    is_copy: true,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    fn record(kind: Kind, slot: u32, res: i32, flags: u32) -> Record {
        (Token::new(kind, slot, 0).user_data(), res, flags)
    }

    /// Everything that comes of these records, over as many reapings as it takes.
    fn delivered(faults: &mut Faults, posted: &[Record]) -> Vec<Record> {
        let mut all: Vec<_> = faults.deliver(posted.iter().copied()).collect();
        while faults.is_holding() {
            all.extend(faults.deliver(std::iter::empty()));
        }
        all
    }

    #[test]
    fn no_plan_changes_nothing() {
        let mut faults = Faults::new(Plan::default());
        let posted: Vec<_> = (0..50)
            .map(|n| record(Kind::OneShot, n, n as i32, 0))
            .collect();
        assert_eq!(delivered(&mut faults, &posted), posted);
        for to_submit in 0..50 {
            let mode = Mode::Submit;
            assert_eq!(
                faults.fate(to_submit, mode, 0),
                Fate::Happens(to_submit, mode)
            );
        }
        assert_eq!(faults.injected, Injected::default());
    }

    #[test]
    fn each_op_keeps_the_order_of_its_records_and_none_is_lost() {
        let mut seen = Injected::default();
        for seed in 0..200 {
            let mut faults = Faults::new(Plan::quiet(seed));
            let mut posted = Vec::new();
            for n in 0..5 {
                posted.push(record(Kind::OneShot, n, n as i32, 0));
                posted.push(record(Kind::Multishot, 10, n as i32, MORE));
                posted.push(record(Kind::ZeroCopy, 20 + n, 1, MORE));
                posted.push(record(Kind::ZeroCopy, 20 + n, 0, 1 << 3));
            }
            let all = delivered(&mut faults, &posted);
            let mut first = Vec::new();
            for record in &all {
                if !first.contains(record) {
                    first.push(*record);
                }
            }
            for user_data in posted.iter().map(|record| record.0) {
                let of = |records: &[Record]| -> Vec<Record> {
                    records
                        .iter()
                        .copied()
                        .filter(|r| r.0 == user_data)
                        .collect()
                };
                assert_eq!(of(&first), of(&posted), "seed {seed}");
            }
            let streamed = all.iter().filter(|r| r.0 == posted[1].0).count();
            assert_eq!(streamed, 5, "seed {seed}: no copies in a stream");
            assert_eq!(
                all.len() as u64,
                posted.len() as u64 + faults.injected.duplicated
            );
            seen.delayed += faults.injected.delayed;
            seen.reordered += faults.injected.reordered;
            seen.duplicated += faults.injected.duplicated;
        }
        assert!(seen.delayed > 100 && seen.reordered > 100 && seen.duplicated > 100);
    }

    #[test]
    fn enters_get_through_in_the_end_and_chains_are_not_cut() {
        for seed in 0..200 {
            let mut faults = Faults::new(Plan::quiet(seed));
            faults.note_chain(8);
            let mut refused = 0;
            for _ in 0..100 {
                match faults.fate(8, Mode::Submit, 0) {
                    Fate::Happens(taken, _) => {
                        assert_eq!(taken, 8, "seed {seed}");
                        refused = 0;
                    }
                    Fate::Fails(_) => refused += 1,
                }
                assert!(refused <= REFUSED_MAX, "seed {seed}");
            }
            assert!((0..100).any(|_| {
                matches!(faults.fate(8, Mode::Submit, 8), Fate::Happens(taken, _) if taken < 8)
            }));
        }
    }

    #[test]
    fn plans_are_read_from_text() {
        assert_eq!(Plan::parse("seed=7"), Ok(Plan::quiet(7)));
        assert_eq!(
            Plan::parse("seed=7, refused=300,errnos=12:105,entries_max=4,setup_errnos=22"),
            Ok(Plan {
                seed: 7,
                refused: 300,
                errnos: vec![12, 105],
                entries_max: 4,
                setup_errnos: vec![22],
                ..Plan::default()
            })
        );
        for wrong in ["seed", "seed=x", "delayed=1001", "unknown=1", "errnos=a"] {
            assert!(Plan::parse(wrong).unwrap_err().contains(wrong));
        }
    }
}
