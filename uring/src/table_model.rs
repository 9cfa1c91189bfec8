//! Every state that two ops can reach: the real table, a small model of the kernel, and of the goroutines that wait.
//!
//! **Words.** *World*: the table and everything that has to do with it. *Action*: one step of somebody, of which the search
//! takes every one that is possible, in every order. *Quirk*: a deliberate fault in how the table is used, which the search
//! must find.
//!
//! **What is free.** When ops are registered, queued, withdrawn and cancelled; whether a cancel goes out at once or is owed;
//! how far the kernel takes the queue (one entry at a time, so every truncated submission is among them); what it answers to
//! an op and to a cancel, and when; which record is reaped next, in any order that keeps each op's own; a duplicate of
//! every record of which the table can tell; retirement and abandonment at any moment. Refused enters change nothing, which
//! is checked in every state with something in the queue, as are foreign records in every state.
//!
//! **What is checked.** After each action: the table's answer, phase and counts are those that the model foretells; nobody is
//! resumed twice, for another, or after retirement; no buffer is given back while the kernel may write it; the accounts
//! balance. At each end: every registration was resumed exactly once unless it was withdrawn, retired or leaked;
//! everything that the kernel brought (descriptors, provided buffers) was handed over or released.
//!
//! Counters do not direct the table, so a state is known by everything else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroUsize;

use super::*;
use crate::kick::{Heard, Kicks};
use crate::token::Control;

const NOTIF: u32 = NOTIFICATION;
/// `IORING_CQE_F_BUFFER`, with the buffer's number above it.
const BUFFER: u32 = 1;

const SUCCESS: i32 = 8;
const SHORT: i32 = 3;
const FAILED: i32 = -libc::ECONNRESET;
const NO_BUFFERS: i32 = -libc::ENOBUFS;
const CANCELED: i32 = -libc::ECANCELED;
const INTERRUPTED: i32 = -libc::EINTR;
const ALREADY: i32 = -libc::EALREADY;
const FAULT: i32 = -libc::EFAULT;

/// What one op is, and what the kernel may make of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// Results of the deciding record when no cancel reaches the op. Empty: it runs until it is cancelled.
    pub(crate) answers: &'static [i32],
    /// Records with `F_MORE` before the last, at most.
    pub(crate) records: u8,
    /// Each success brings a descriptor or a buffer that somebody must release.
    pub(crate) brings: bool,
    /// Over within the enter that takes it, so that a cancel comes too late.
    pub(crate) is_inline: bool,
}

const ONE_SHOT: Shape = Shape {
    kind: Kind::OneShot,
    answers: &[SUCCESS, SHORT, FAILED, FAULT, CANCELED],
    records: 0,
    brings: true,
    is_inline: false,
};
const MULTISHOT: Shape = Shape {
    kind: Kind::Multishot,
    answers: &[SUCCESS, FAILED, NO_BUFFERS],
    records: 2,
    brings: true,
    is_inline: false,
};
const ZERO_COPY: Shape = Shape {
    kind: Kind::ZeroCopy,
    answers: &[SUCCESS, SHORT, FAILED, CANCELED],
    records: 0,
    brings: false,
    is_inline: false,
};

// ------------------------------------------------------------------------------------------------------------- the world

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Unborn,
    Registered,
    /// Queued, and not reported.
    Live,
    /// Reported; the outcome waits to be taken.
    Resumed,
    Over,
}

/// What the kernel has of an op. In the first four it may write the op's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Held {
    Queued,
    Running {
        records: u8,
    },
    /// A cancel request has hit it.
    Doomed,
    OwesNotif,
    /// The notification went out before the result.
    OwesResult,
    Nothing,
}

/// A cancel request, from debt to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    None,
    Owed,
    Queued,
    Posted(i32),
    Heard(i32),
}

/// Zero-copy: which of the two records has been reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Half {
    Neither,
    Result,
    Notif,
}

type Record = (i32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Op {
    token: Option<Token>,
    stage: Stage,
    held: Held,
    half: Half,
    request: Request,
    is_marked: bool,
    /// Posted and not reaped, oldest first.
    posted: [Option<Record>; 2],
    /// What the outcome must be.
    result: Option<Record>,
    /// A reaped record that may come once more.
    copy: Option<Record>,
    renewals_left: u8,
    /// Things that the kernel brought and nobody has taken yet.
    unsettled: u8,
    resumes: u8,
}

const UNBORN: Op = Op {
    token: None,
    stage: Stage::Unborn,
    held: Held::Nothing,
    half: Half::Neither,
    request: Request::None,
    is_marked: false,
    posted: [None; 2],
    result: None,
    copy: None,
    renewals_left: 0,
    unsettled: 0,
    resumes: 0,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sqe {
    Op(usize),
    Cancel(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Open,
    Retiring,
    Retired,
    Abandoned,
}

/// A way to use the table wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quirk {
    None,
    FreesAtTheFirstRecord,
    ResumesOnTheCancelRecord,
    FreesOnARefusedEnter,
    ForgetsLateDescriptors,
    IgnoresGenerations,
    RetiresWithoutWaiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Register(usize),
    Publish(usize),
    Withdraw(usize),
    Mark(usize),
    /// The owed cancel request is written, or found to be needless.
    Pay(usize),
    Renew(usize),
    /// The kernel takes the first SQE; the number answers it if it is a cancel.
    Take(i32),
    /// The kernel posts a record.
    Post(usize, Record),
    Reap(usize),
    ReapCancel(usize),
    Outcome(usize),
    Retire,
    EndRetirement,
}

/// What one action makes of the counters. All that the model foretells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counts {
    pub(crate) registered: u64,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) cancelled: u64,
    pub(crate) faulted: u64,
    pub(crate) withdrawn: u64,
    pub(crate) leaked: u64,
    pub(crate) dup: u64,
    pub(crate) stale: u64,
    pub(crate) foreign: u64,
    pub(crate) retired: u64,
    pub(crate) records: u64,
    pub(crate) notification_waits: u64,
    pub(crate) cancels_sent: u64,
    pub(crate) cancels_hit: u64,
    pub(crate) cancels_missed: u64,
    pub(crate) cancels_late: u64,
}

impl Counts {
    pub(crate) fn of(c: &Counters) -> Counts {
        Counts {
            registered: c.registered,
            submitted: c.submitted,
            completed: c.completed,
            cancelled: c.cancelled,
            faulted: c.faulted,
            withdrawn: c.withdrawn,
            leaked: c.leaked,
            dup: c.dup,
            stale: c.stale,
            foreign: c.foreign,
            retired: c.retired,
            records: c.records,
            notification_waits: c.notification_waits,
            cancels_sent: c.cancels_sent,
            cancels_hit: c.cancels_hit,
            cancels_missed: c.cancels_missed,
            cancels_late: c.cancels_late,
        }
    }
}

/// What is wrong, if something is.
type Checked = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+));
        }
    };
}

#[derive(Clone)]
struct World {
    table: Table,
    shapes: [Shape; 2],
    quirk: Quirk,
    ops: [Op; 2],
    /// Written and not taken, oldest first.
    sq: [Option<Sqe>; 5],
    written: u64,
    end: End,
    /// What the counters must say.
    counts: Counts,
    /// The first op's, once it has been taken.
    verdict: Option<Outcome>,
}

/// A state without what only counts.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    ops: [Op; 2],
    sq: [Option<Sqe>; 5],
    end: End,
    slots: [(u8, u8, u64, u64); 2],
}

fn owner(number: usize) -> Owner {
    Owner::without_provenance(NonZeroUsize::new(number + 1).unwrap())
}

impl World {
    fn new(shapes: [Shape; 2], quirk: Quirk) -> World {
        let mut ops = [UNBORN; 2];
        ops[0].renewals_left = 1;
        World {
            table: Table::new(),
            shapes,
            quirk,
            ops,
            sq: [None; 5],
            written: 0,
            end: End::Open,
            counts: Counts::default(),
            verdict: None,
        }
    }

    fn key(&self) -> Key {
        let mut slots = [(0, 0, 0, 0); 2];
        for (index, key) in (0..self.table.used()).zip(&mut slots) {
            let slot = self.table.at(index);
            *key = (
                slot.state as u8,
                slot.cancel as u8,
                slot.generation,
                slot.retired_below,
            );
        }
        Key {
            ops: self.ops,
            sq: self.sq,
            end: self.end,
            slots,
        }
    }

    fn token(&self, i: usize) -> Token {
        self.ops[i].token.expect("only registered ops have actions")
    }

    fn taken(&self) -> u64 {
        self.written - self.sq.iter().flatten().count() as u64
    }

    // ------------------------------------------------------------------------------------------------ what can happen

    fn actions(&self, out: &mut Vec<Action>) {
        if let Some(action) = self.idle_action() {
            out.push(action);
            return;
        }
        for i in 0..2 {
            self.actions_of(i, out);
        }
        match self.sq[0] {
            Some(Sqe::Op(_)) => out.push(Action::Take(0)),
            Some(Sqe::Cancel(i)) if matches!(self.ops[i].held, Held::Running { .. }) => {
                out.extend([0, -libc::ENOENT, ALREADY].map(Action::Take));
            }
            Some(Sqe::Cancel(_)) => out.push(Action::Take(-libc::ENOENT)),
            None => {}
        }
        let is_live = |op: &Op| op.stage == Stage::Live;
        match self.end {
            End::Open if self.ops[0].stage != Stage::Unborn => out.push(Action::Retire),
            End::Retiring
                if !self.ops.iter().any(is_live) || self.quirk == Quirk::RetiresWithoutWaiting =>
            {
                out.push(Action::EndRetirement);
            }
            _ => {}
        }
    }

    /// What happens at once. The rest of a cancel whose op has been reported: nothing else depends on when. And the second
    /// op's way into the kernel, its cancel's own record, and its outcome.
    fn idle_action(&self) -> Option<Action> {
        let is_over = |i: usize| matches!(self.ops[i].stage, Stage::Resumed | Stage::Over);
        if self.ops[1].stage == Stage::Resumed {
            return Some(Action::Outcome(1));
        }
        for i in (0..2).filter(|&i| is_over(i) || i == 1) {
            match self.ops[i].request {
                Request::Owed => return Some(Action::Pay(i)),
                Request::Posted(_) => return Some(Action::ReapCancel(i)),
                _ => {}
            }
        }
        match self.sq[0] {
            Some(Sqe::Cancel(i)) if is_over(i) => Some(Action::Take(-libc::ENOENT)),
            Some(Sqe::Op(1)) => Some(Action::Take(0)),
            _ => None,
        }
    }

    fn actions_of(&self, i: usize, out: &mut Vec<Action>) {
        let op = &self.ops[i];
        let is_open = self.end == End::Open;
        match op.stage {
            // The first is registered before the second: their shapes are chosen in both orders.
            Stage::Unborn if is_open && (i == 0 || self.ops[0].stage != Stage::Unborn) => {
                out.push(Action::Register(i));
            }
            Stage::Registered => out.extend([Action::Publish(i), Action::Withdraw(i)]),
            Stage::Resumed => out.push(Action::Outcome(i)),
            _ => {}
        }
        if is_open && !op.is_marked && matches!(op.stage, Stage::Registered | Stage::Live) {
            out.push(Action::Mark(i));
        }
        match op.request {
            Request::Owed => out.push(Action::Pay(i)),
            Request::Posted(_) => out.push(Action::ReapCancel(i)),
            Request::Heard(answer)
                if answer != 0 && op.stage == Stage::Live && op.renewals_left > 0 =>
            {
                out.push(Action::Renew(i));
            }
            _ => {}
        }
        self.posts(i, out);
        if op.posted[0].is_some() {
            out.push(Action::Reap(i));
        }
    }

    /// Records that the kernel may post now.
    fn posts(&self, i: usize, out: &mut Vec<Action>) {
        let op = &self.ops[i];
        let shape = &self.shapes[i];
        let is_zero_copy = shape.kind == Kind::ZeroCopy;
        // So many wait to be reaped at most.
        if op.posted[1 - i].is_some() {
            return;
        }
        let mut result = |res: i32| {
            if is_zero_copy {
                out.push(Action::Post(i, (res, MORE)));
            }
            // Only a send that failed goes without a notification.
            if !is_zero_copy || res < 0 {
                out.push(Action::Post(i, (res, 0)));
            }
        };
        match op.held {
            Held::Running { records } => {
                shape.answers.iter().for_each(|&res| result(res));
                if matches!(
                    op.request,
                    Request::Posted(ALREADY) | Request::Heard(ALREADY)
                ) {
                    result(INTERRUPTED);
                    if !shape.answers.contains(&CANCELED) {
                        result(CANCELED);
                    }
                }
                if records < shape.records {
                    out.push(Action::Post(i, (SUCCESS, self.more_flags(i, records))));
                }
                if is_zero_copy && !shape.answers.is_empty() {
                    out.push(Action::Post(i, (0, NOTIF)));
                }
            }
            Held::Doomed => result(CANCELED),
            Held::OwesNotif => out.push(Action::Post(i, (0, NOTIF))),
            Held::OwesResult => out.push(Action::Post(i, (SUCCESS, MORE))),
            Held::Queued | Held::Nothing => {}
        }
    }

    /// The first record is like an accepted descriptor, the second like a filled buffer.
    fn more_flags(&self, i: usize, records: u8) -> u32 {
        let buffer = (i as u32 + 1) << 16 | BUFFER;
        MORE | if records == 0 { 0 } else { buffer }
    }

    // ----------------------------------------------------------------------------------------------------- what happens

    /// Performs one action and checks everything.
    fn perform(&mut self, action: Action) -> Checked {
        match action {
            Action::Register(i) => self.register(i)?,
            Action::Publish(i) => self.publish(i)?,
            Action::Withdraw(i) => self.withdraw(i)?,
            Action::Mark(i) => self.mark(i)?,
            Action::Pay(i) => self.pay(i)?,
            Action::Renew(i) => self.renew(i)?,
            Action::Take(answer) => self.take_sqe(answer),
            Action::Post(i, record) => self.post(i, record),
            Action::Reap(i) => self.reap(i)?,
            Action::ReapCancel(i) => self.reap_cancel(i)?,
            Action::Outcome(i) => self.outcome(i)?,
            Action::Retire => self.retire()?,
            Action::EndRetirement => {
                if self.quirk == Quirk::RetiresWithoutWaiting {
                    let _ = self.table.leak();
                    (0..2).try_for_each(|i| self.give_back(i))?;
                }
                self.table.retire();
                self.end = End::Retired;
            }
        }
        self.check()
    }

    fn register(&mut self, i: usize) -> Checked {
        let token = self.table.register(self.shapes[i].kind, 7, owner(i));
        let token = token.map_err(|_| "the table is full".to_string())?;
        let other = &self.ops[1 - i];
        ensure!(Some(token) != other.token, "a token was issued twice");
        self.ops[i].token = Some(token);
        self.ops[i].stage = Stage::Registered;
        self.counts.registered += 1;
        Ok(())
    }

    fn write(&mut self, sqe: Sqe) {
        let free = self.sq.iter().position(Option::is_none);
        self.sq[free.expect("two ops, two cancels and one renewed")] = Some(sqe);
        self.written += 1;
    }

    fn publish(&mut self, i: usize) -> Checked {
        let token = self.token(i);
        self.table.expect_registered(token);
        self.write(Sqe::Op(i));
        let debt = self.table.publish(token, self.written);
        let op = &mut self.ops[i];
        op.stage = Stage::Live;
        op.held = Held::Queued;
        self.counts.submitted += 1;
        ensure!(
            (debt == Published::SendCancel) == op.is_marked,
            "publishing a marked op owes a cancel: {debt:?}"
        );
        if op.is_marked {
            self.owe(i)?;
        }
        Ok(())
    }

    fn withdraw(&mut self, i: usize) -> Checked {
        self.table.withdraw(self.token(i));
        self.note_withdrawn(i)
    }

    fn note_withdrawn(&mut self, i: usize) -> Checked {
        self.counts.withdrawn += 1;
        self.give_back(i)
    }

    fn mark(&mut self, i: usize) -> Checked {
        let token = self.token(i);
        let op = self.ops[i];
        // Once one of a zero-copy pair is in, a cancel could reach nothing.
        let is_reachable = op.stage == Stage::Live && op.half == Half::Neither;
        let debt = self.table.mark_cancel(token);
        ensure!(
            (debt == CancelDebt::Send) == is_reachable,
            "{debt:?} of a marked op in {op:?}"
        );
        ensure!(
            self.table.mark_cancel(token) == CancelDebt::Nothing,
            "a second mark owes something"
        );
        self.ops[i].is_marked = true;
        if is_reachable {
            self.owe(i)?;
        }
        Ok(())
    }

    /// There may be no room for the first op's cancel just now; for the second's there is.
    fn owe(&mut self, i: usize) -> Checked {
        self.ops[i].request = Request::Owed;
        if i == 0 { Ok(()) } else { self.pay(i) }
    }

    fn pay(&mut self, i: usize) -> Checked {
        let op = self.ops[i];
        let is_reachable = op.stage == Stage::Live && op.half == Half::Neither;
        let is_sent = self.table.begin_cancel(self.token(i));
        ensure!(
            is_sent == is_reachable,
            "a cancel of {op:?} is sent: {is_sent}"
        );
        self.ops[i].request = Request::None;
        if is_sent {
            self.ops[i].request = Request::Queued;
            self.table.counters.cancels_sent += 1;
            self.counts.cancels_sent += 1;
            self.write(Sqe::Cancel(i));
        }
        Ok(())
    }

    fn renew(&mut self, i: usize) -> Checked {
        let op = self.ops[i];
        let is_renewed = self.table.renew_cancel(self.token(i));
        ensure!(
            is_renewed == (op.half == Half::Neither),
            "renewed: {is_renewed}, of {op:?}"
        );
        self.ops[i].renewals_left -= 1;
        self.ops[i].request = if is_renewed {
            Request::Owed
        } else {
            Request::None
        };
        Ok(())
    }

    fn take_sqe(&mut self, answer: i32) {
        let first = self.sq[0].take().expect("something is written");
        self.sq.rotate_left(1);
        match first {
            Sqe::Op(i) => {
                self.ops[i].held = Held::Running { records: 0 };
                if self.shapes[i].is_inline {
                    self.post(i, (self.shapes[i].answers[0], 0));
                }
            }
            Sqe::Cancel(i) => {
                self.ops[i].request = Request::Posted(answer);
                if answer == 0 {
                    self.ops[i].held = Held::Doomed;
                }
            }
        }
    }

    fn post(&mut self, i: usize, (res, flags): Record) {
        let op = &mut self.ops[i];
        let free = op.posted.iter().position(Option::is_none);
        op.posted[free.expect("two records at most")] = Some((res, flags));
        let is_multishot = self.shapes[i].kind == Kind::Multishot;
        op.held = match (op.held, flags & (MORE | NOTIF)) {
            (Held::Running { records }, MORE) if is_multishot => Held::Running {
                records: records + 1,
            },
            (Held::Running { .. } | Held::Doomed, MORE) => Held::OwesNotif,
            (Held::Running { .. }, NOTIF) => Held::OwesResult,
            _ => Held::Nothing,
        };
        op.unsettled += u8::from(self.shapes[i].brings && res > 0);
    }

    // ------------------------------------------------------------------------------------------------------ its records

    fn reap(&mut self, i: usize) -> Checked {
        let record = self.ops[i].posted[0].expect("only posted records are reaped");
        self.ops[i].posted.rotate_left(1);
        self.ops[i].posted[1] = None;
        let expected = self.foretell(i, record);
        let applied = self.table.apply(self.token(i), record.0, record.1);
        ensure!(
            applied == expected,
            "{record:?} was {applied:?}, not {expected:?}"
        );
        match applied {
            Applied::Ready(who) => {
                ensure!(who == owner(i), "another was resumed");
                ensure!(
                    self.end != End::Retired && self.end != End::Abandoned,
                    "resumed after retirement"
                );
                if self.end == End::Open {
                    self.resume(i)
                } else {
                    self.outcome(i)
                }
            }
            // Taken at once, or released.
            Applied::Record(who) => {
                ensure!(who == owner(i), "another got the record");
                self.settle(i, record.0);
                Ok(())
            }
            Applied::Held if self.quirk == Quirk::FreesAtTheFirstRecord => self.resume(i),
            Applied::Held => Ok(()),
            Applied::Discarded => Err("a proper record was discarded".into()),
        }
    }

    /// What the table must answer, by the rules and not by the table.
    fn foretell(&mut self, i: usize, (res, flags): Record) -> Applied {
        let op = &mut self.ops[i];
        let is_multishot = self.shapes[i].kind == Kind::Multishot;
        if is_multishot && flags & MORE != 0 {
            self.counts.records += 1;
            return Applied::Record(owner(i));
        }
        // A second record of a stream could not be told from a first.
        op.copy = Some((res, flags));
        if flags & NOTIF != 0 {
            if op.half == Half::Neither {
                op.half = Half::Notif;
                return Applied::Held;
            }
        } else {
            op.result = Some((res, flags));
            if flags & MORE != 0 && op.half == Half::Neither {
                op.half = Half::Result;
                self.counts.notification_waits += 1;
                return Applied::Held;
            }
        }
        let (res, _) = op.result.expect("both halves are in");
        match res {
            CANCELED | INTERRUPTED if op.is_marked => self.counts.cancelled += 1,
            FAULT => self.counts.faulted += 1,
            _ => self.counts.completed += 1,
        }
        op.stage = Stage::Resumed;
        Applied::Ready(owner(i))
    }

    fn resume(&mut self, i: usize) -> Checked {
        let op = &mut self.ops[i];
        op.resumes += 1;
        ensure!(op.resumes == 1, "resumed {} times", op.resumes);
        ensure!(
            op.held == Held::Nothing,
            "resumed while the kernel may still write: {op:?}"
        );
        Ok(())
    }

    fn reap_cancel(&mut self, i: usize) -> Checked {
        let Request::Posted(answer) = self.ops[i].request else {
            return Err("no cancel record is there".into());
        };
        self.ops[i].request = Request::Heard(answer);
        let control = Control::Cancel(self.token(i).slot());
        let heard = Kicks::default().apply(control, answer, 0, &mut self.table.counters);
        ensure!(heard == Heard::Nothing, "a cancel's record was {heard:?}");
        match -answer {
            0 => self.counts.cancels_hit += 1,
            libc::ENOENT => self.counts.cancels_missed += 1,
            _ => self.counts.cancels_late += 1,
        }
        if self.quirk == Quirk::ResumesOnTheCancelRecord && self.ops[i].stage == Stage::Live {
            return self.resume(i);
        }
        Ok(())
    }

    fn repeat(&mut self, i: usize) -> Checked {
        let (res, flags) = self.ops[i].copy.expect("only reaped records are repeated");
        let mut token = self.token(i);
        let slot = self.table.at(token.slot());
        if self.quirk == Quirk::IgnoresGenerations && slot.state == State::Published {
            token = Token::new(slot.kind, token.slot(), slot.generation);
        }
        let applied = self.table.apply(token, res, flags);
        ensure!(
            applied == Applied::Discarded,
            "a duplicate was applied: {applied:?}"
        );
        match (self.end, self.ops[i].stage) {
            (End::Retired, _) => self.counts.retired += 1,
            (_, Stage::Over) => self.counts.stale += 1,
            _ => self.counts.dup += 1,
        }
        Ok(())
    }

    // --------------------------------------------------------------------------------------------------------- its end

    fn settle(&mut self, i: usize, res: i32) {
        let is_late = self.ops[i].is_marked && self.quirk == Quirk::ForgetsLateDescriptors;
        self.ops[i].unsettled -= u8::from(self.shapes[i].brings && res > 0 && !is_late);
    }

    /// The op's buffer goes back to whoever owns it, and the op is over. What no longer matters of it is forgotten.
    fn give_back(&mut self, i: usize) -> Checked {
        let op = &mut self.ops[i];
        ensure!(
            op.held == Held::Nothing,
            "a buffer was given back while the kernel may still write it: {op:?}"
        );
        ensure!(op.unsettled == 0, "nobody released what {op:?} brought");
        let is_withdrawn = op.stage == Stage::Registered;
        ensure!(
            self.end != End::Open || is_withdrawn == (op.resumes == 0),
            "over, but never resumed: {op:?}"
        );
        *op = Op {
            token: op.token,
            stage: Stage::Over,
            request: op.request,
            copy: op.copy,
            ..UNBORN
        };
        Ok(())
    }

    fn outcome(&mut self, i: usize) -> Checked {
        let outcome = self.table.take(self.token(i));
        let op = &mut self.ops[i];
        let (res, flags) = op.result.ok_or("an outcome without a result")?;
        let expected = Outcome {
            res,
            flags,
            cancel_marked: op.is_marked,
        };
        ensure!(
            outcome == expected,
            "the outcome is {outcome:?}, not {expected:?}"
        );
        if i == 0 {
            self.verdict = Some(outcome);
        }
        self.settle(i, res);
        self.give_back(i)
    }

    /// As `Ring::retire` begins.
    fn retire(&mut self) -> Checked {
        self.end = End::Retiring;
        self.table.withdraw_all();
        for i in 0..2 {
            match self.ops[i].stage {
                Stage::Registered => self.note_withdrawn(i)?,
                Stage::Resumed => {
                    let found = self
                        .table
                        .finished_at(self.token(i).slot())
                        .ok_or("a finished op was not found")?;
                    ensure!(found == (self.token(i), owner(i)), "found {found:?}");
                    self.outcome(i)?;
                }
                Stage::Live if !self.ops[i].is_marked => self.mark(i)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn abandon(&mut self) -> Checked {
        let leaked = self.table.leak();
        self.end = End::Abandoned;
        for i in 0..2 {
            match self.ops[i].stage {
                Stage::Registered => self.note_withdrawn(i)?,
                // Its buffer is never given back.
                Stage::Live => {
                    self.ops[i].stage = Stage::Over;
                    self.counts.leaked += 1;
                }
                Stage::Resumed => self.outcome(i)?,
                _ => {}
            }
        }
        ensure!(
            leaked == self.counts.leaked,
            "{leaked} ops are said to be leaked"
        );
        self.check()?;
        self.check_end()
    }

    // -------------------------------------------------------------------------------------------------- what must hold

    fn check(&self) -> Checked {
        self.table.check()?;
        let counts = Counts::of(&self.table.counters);
        ensure!(
            counts == self.counts,
            "counted {counts:?}, not {:?}",
            self.counts
        );
        let live = self.ops.iter().filter(|op| op.stage == Stage::Live).count();
        ensure!(self.table.published() == live, "published is miscounted");
        for i in 0..2 {
            self.check_op(i)?;
        }
        Ok(())
    }

    fn check_op(&self, i: usize) -> Checked {
        let op = &self.ops[i];
        let Some(token) = op.token else {
            return Ok(());
        };
        let phase = self.table.phase(token, self.taken());
        let is_streaming = phase == Phase::Streaming && self.shapes[i].records > 0;
        let is_right = match (op.stage, op.half) {
            (Stage::Unborn | Stage::Over, _) => phase == Phase::Free,
            (Stage::Registered, _) => phase == Phase::Registered,
            (Stage::Live, Half::Result) => phase == Phase::AwaitNotif,
            (Stage::Live, _) if op.held == Held::Queued => phase == Phase::Queued,
            (Stage::Live, _) => phase == Phase::InFlight || is_streaming,
            (Stage::Resumed, _) => phase == Phase::Terminal,
        };
        ensure!(is_right, "{op:?} is said to be in phase {phase:?}");
        ensure!(
            self.table.is_finished(token) == (op.stage == Stage::Resumed),
            "{op:?} is said to be finished or not"
        );
        if matches!(op.stage, Stage::Registered | Stage::Live | Stage::Resumed) {
            ensure!(
                self.table.is_cancel_marked(token) == op.is_marked,
                "{op:?} is said to be marked or not"
            );
        }
        Ok(())
    }

    /// What no state may mind: refused enters, records nobody asked for, cancels of what is over.
    fn probe(&self) -> Checked {
        let mut world = self.clone();
        // `io_uring_enter` failed: nothing was taken, nothing changes, everything is still queued.
        for sqe in self.sq.into_iter().flatten() {
            if let Sqe::Op(i) = sqe {
                if world.quirk == Quirk::FreesOnARefusedEnter {
                    world.give_back(i)?;
                }
                world.check_op(i)?;
            }
        }
        for i in 0..2 {
            if world.ops[i].token.is_none() {
                continue;
            }
            let token = world.token(i);
            let slot = *world.table.at(token.slot());
            let wrong = match token.kind() {
                Kind::OneShot => Kind::ZeroCopy,
                _ => Kind::OneShot,
            };
            for record in [
                Token::new(token.kind(), 900, 0),
                Token::new(token.kind(), token.slot(), slot.generation + 1),
                Token::new(wrong, token.slot(), slot.generation),
            ] {
                let applied =
                    if record.kind() == slot.kind && record.generation() == slot.generation {
                        // The slot belongs to an op of just this kind by now.
                        world.table.counters.foreign += 1;
                        Applied::Discarded
                    } else {
                        world.table.apply(record, 0, 0)
                    };
                ensure!(
                    applied == Applied::Discarded,
                    "a foreign record was {applied:?}"
                );
            }
            if matches!(world.ops[i].stage, Stage::Resumed | Stage::Over) {
                ensure!(
                    world.table.mark_cancel(token) == CancelDebt::Nothing
                        && !world.table.begin_cancel(token)
                        && !world.table.renew_cancel(token),
                    "a cancel of an op that is over does something"
                );
            }
        }
        let registered = self.ops.iter().filter(|op| op.token.is_some()).count() as u64;
        world.counts.foreign += 3 * registered;
        for i in 0..2 {
            if world.ops[i].copy.is_some() {
                world.repeat(i)?;
            }
        }
        world.check()?;
        if self.end == End::Open && self.ops[0].stage != Stage::Unborn {
            world.abandon()?;
        }
        Ok(())
    }

    fn check_end(&self) -> Checked {
        let counters = &self.table.counters;
        ensure!(
            counters.registered == counters.ended(),
            "at the end {} ops are registered and {} have ended",
            counters.registered,
            counters.ended()
        );
        let is_over = |op: &Op| matches!(op.stage, Stage::Unborn | Stage::Over);
        ensure!(
            self.ops.iter().all(is_over),
            "the end leaves {:?}",
            self.ops
        );
        Ok(())
    }
}

// ------------------------------------------------------------------------------------------------------------ the search

/// Mixes each word into one. The keys are our own and small; the standard hasher costs most of an unoptimised search.
#[derive(Default)]
struct Fold(u64);

impl Fold {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.mix(byte.into()));
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(n.into());
    }

    fn write_i32(&mut self, n: i32) {
        self.mix(n.cast_unsigned().into());
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.mix(n as u64);
    }
}

#[derive(Default)]
struct Search {
    /// States by the number of ways from there to an end.
    seen: HashMap<Key, u128, BuildHasherDefault<Fold>>,
    actions: u64,
    trail: Vec<Action>,
    /// Situations that were met, by name, and how often.
    met: BTreeMap<&'static str, u64>,
}

impl Search {
    fn walk(&mut self, world: &World) -> u128 {
        let key = world.key();
        if let Some(&ways) = self.seen.get(&key) {
            return ways;
        }
        self.expect(world.probe());
        let mut actions = Vec::new();
        world.actions(&mut actions);
        let mut ways = 0;
        if actions.is_empty() {
            self.expect(world.check_end());
            ways = 1;
        }
        for action in actions {
            self.trail.push(action);
            self.actions += 1;
            let mut next = world.clone();
            self.expect(next.perform(action));
            self.note(world, action, &next);
            ways += self.walk(&next);
            self.trail.pop();
        }
        self.seen.insert(key, ways);
        ways
    }

    fn expect(&self, checked: Checked) {
        if let Err(what) = checked {
            panic!("{what}\nafter {:#?}", self.trail);
        }
    }

    fn note(&mut self, before: &World, action: Action, after: &World) {
        let mut met = |name| *self.met.entry(name).or_default() += 1;
        let (old, new) = (&before.counts, &after.counts);
        if old.faulted < new.faulted {
            met("faulted");
        }
        match action {
            Action::Take(answer) if matches!(before.sq[0], Some(Sqe::Cancel(_))) => {
                met(match answer {
                    0 => "cancel hit",
                    ALREADY => "cancel late",
                    _ => "cancel missed",
                })
            }
            Action::Reap(i) => match after.ops[i].request {
                Request::Posted(_) if old.cancelled < new.cancelled => met("target before cancel"),
                Request::Heard(_) if old.cancelled < new.cancelled => met("cancel before target"),
                _ if old.records < new.records && before.ops[i].is_marked => {
                    met("record under cancel");
                }
                _ if after.ops[i].half == Half::Notif => met("notification first"),
                _ if old.notification_waits < new.notification_waits => met("result first"),
                _ => {}
            },
            Action::Outcome(i)
                if before.ops[i].is_marked
                    && before.ops[i].result.is_some_and(|(res, _)| res > 0) =>
            {
                met("late success");
            }
            Action::Register(1) if before.ops[0].stage == Stage::Over => met("slot used again"),
            Action::Pay(_) if old.cancels_sent == new.cancels_sent => met("needless cancel"),
            Action::Publish(i) if before.ops[i].is_marked => met("cancel before submission"),
            Action::Mark(i) if before.ops[i].posted[0].is_some() => met("cancel after completion"),
            Action::Withdraw(_) => met("withdrawn"),
            Action::EndRetirement => met("retired"),
            Action::Renew(_) => met("renewed"),
            _ => {}
        }
    }
}

// --------------------------------------------------------------------------------------------------- one op by the script

/// What the owner of one op does, and what is done to it. The kernel does what it likes in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Register,
    Queue,
    /// The kernel takes everything.
    Flush,
    /// An enter fails.
    Refused,
    /// What the op waits for is there from here on.
    Arrive,
    /// A record is there to be reaped.
    AwaitRecord,
    Cancel,
    Retire,
}

/// What one op came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Verdict {
    /// The result, if there was an outcome.
    pub(crate) res: Option<i32>,
    pub(crate) is_marked: bool,
    pub(crate) counts: Counts,
}

/// Everything that one op may come to by this script, after which it is left to end. Until `Step::Arrive` it only ends by
/// being cancelled.
pub(crate) fn foretell(shape: Shape, steps: &[Step]) -> BTreeSet<Verdict> {
    let waiting = Shape {
        answers: &[],
        records: 0,
        ..shape
    };
    let world = World::new([waiting, waiting], Quirk::None);
    let mut verdicts = BTreeSet::new();
    follow(&world, shape, steps, &mut verdicts);
    verdicts
}

fn follow(world: &World, shape: Shape, steps: &[Step], verdicts: &mut BTreeSet<Verdict>) {
    let mut branch = |action: Option<Action>, steps: &[Step]| {
        let mut next = world.clone();
        if let Some(action) = action {
            next.perform(action).expect("the table keeps its promises");
        }
        follow(&next, shape, steps, verdicts);
    };
    let mut possible = Vec::new();
    world.actions(&mut possible);
    let Some((&step, rest)) = steps.split_first() else {
        possible.retain(|action| {
            !matches!(
                action,
                Action::Register(_) | Action::Withdraw(_) | Action::Mark(_) | Action::Retire
            )
        });
        possible.iter().for_each(|&a| branch(Some(a), &[]));
        // With nothing more to happen the op is over, or still waits because each of its cancels missed it.
        if possible.is_empty() && world.ops[0].stage == Stage::Over {
            verdicts.insert(Verdict {
                res: world.verdict.map(|outcome| outcome.res),
                is_marked: world.verdict.is_some_and(|outcome| outcome.cancel_marked),
                counts: world.counts,
            });
        }
        return;
    };
    // The kernel is free at any time.
    for &action in &possible {
        let is_kernels = matches!(action, Action::Post(..));
        let is_handing_over = step == Step::Flush && matches!(action, Action::Take(_));
        if is_kernels || is_handing_over {
            branch(Some(action), steps);
        }
    }
    // A cancel goes out at once, for there is room.
    if world.ops[0].request == Request::Owed {
        return branch(Some(Action::Pay(0)), steps);
    }
    match step {
        Step::Register => branch(Some(Action::Register(0)), rest),
        Step::Queue => branch(Some(Action::Publish(0)), rest),
        Step::Flush if world.sq[0].is_none() => branch(None, rest),
        Step::AwaitRecord if world.ops[0].posted[0].is_some() => branch(None, rest),
        Step::Flush | Step::AwaitRecord => {}
        Step::Refused => {
            assert!(world.sq[0].is_some(), "an enter without anything to take");
            world.probe().expect("a refused enter changes nothing");
            branch(None, rest);
        }
        Step::Arrive => {
            let mut next = world.clone();
            next.shapes[0] = shape;
            follow(&next, shape, rest, verdicts);
        }
        Step::Cancel => branch(Some(Action::Mark(0)), rest),
        Step::Retire => branch(Some(Action::Retire), rest),
    }
}

// ---------------------------------------------------------------------------------------------------------- the promises

/// Everything that can happen to an op of `first` beside one of each kind.
fn search_all(first: Shape, quirk: Quirk) {
    let neighbours = [ONE_SHOT, MULTISHOT, ZERO_COPY].map(|shape| Shape {
        answers: &[SUCCESS, FAILED],
        ..shape
    });
    let mut met = BTreeMap::new();
    for neighbour in neighbours {
        let mut search = Search::default();
        let ways = search.walk(&World::new([first, neighbour], quirk));
        let states = search.seen.len();
        println!(
            "{:?} beside {:?}: {states} states, {} actions, {ways} ways",
            first.kind, neighbour.kind, search.actions
        );
        // Far below what there is, far above what is left when something goes missing.
        assert!(
            states > 10_000 && ways > 1_000_000_000,
            "the search has become small"
        );
        for (name, times) in search.met {
            *met.entry(name).or_default() += times;
        }
    }
    println!("met: {met:?}");
    assert_met(first.kind, &met);
}

fn assert_met(kind: Kind, met: &BTreeMap<&str, u64>) {
    let always = [
        "cancel after completion",
        "cancel before submission",
        "cancel before target",
        "cancel hit",
        "cancel late",
        "cancel missed",
        "late success",
        "needless cancel",
        "renewed",
        "retired",
        "slot used again",
        "target before cancel",
        "withdrawn",
    ];
    let by_kind: &[&str] = match kind {
        Kind::OneShot => &["faulted"],
        Kind::Multishot => &["record under cancel"],
        Kind::ZeroCopy => &["notification first", "result first"],
    };
    for name in always.iter().chain(by_kind) {
        assert!(met.contains_key(name), "{name:?} was never met");
    }
}

#[test]
fn every_state_of_a_one_shot_op_and_a_neighbour_keeps_the_promises() {
    search_all(ONE_SHOT, Quirk::None);
}

#[test]
fn every_state_of_a_multishot_op_and_a_neighbour_keeps_the_promises() {
    search_all(MULTISHOT, Quirk::None);
}

#[test]
fn every_state_of_a_zero_copy_op_and_a_neighbour_keeps_the_promises() {
    search_all(ZERO_COPY, Quirk::None);
}

#[test]
fn a_refused_enter_changes_no_verdict() {
    use Step::*;
    for shape in [ONE_SHOT, MULTISHOT, ZERO_COPY] {
        let smooth = foretell(shape, &[Register, Queue, Cancel, Flush, Arrive]);
        let refused = foretell(
            shape,
            &[Register, Queue, Refused, Cancel, Refused, Flush, Arrive],
        );
        assert!(smooth.len() > 5);
        assert_eq!(smooth, refused);
    }
}

#[test]
#[should_panic(expected = "resumed 2 times")]
fn the_search_finds_a_buffer_freed_at_the_first_record() {
    search_all(ZERO_COPY, Quirk::FreesAtTheFirstRecord);
}

#[test]
#[should_panic(expected = "resumed")]
fn the_search_finds_an_op_resumed_by_its_cancels_record() {
    search_all(ONE_SHOT, Quirk::ResumesOnTheCancelRecord);
}

#[test]
#[should_panic(expected = "a buffer was given back while the kernel may still write it")]
fn the_search_finds_an_op_freed_by_a_refused_enter() {
    search_all(ONE_SHOT, Quirk::FreesOnARefusedEnter);
}

#[test]
#[should_panic(expected = "nobody released what")]
fn the_search_finds_a_late_descriptor_that_is_forgotten() {
    search_all(ONE_SHOT, Quirk::ForgetsLateDescriptors);
}

#[test]
#[should_panic(expected = "a duplicate was applied")]
fn the_search_finds_a_record_applied_to_a_later_op() {
    search_all(ONE_SHOT, Quirk::IgnoresGenerations);
}

#[test]
#[should_panic(expected = "nobody released what")]
fn the_search_finds_a_retirement_that_does_not_wait() {
    search_all(MULTISHOT, Quirk::RetiresWithoutWaiting);
}
