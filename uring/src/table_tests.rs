//! The table against a naive model, and every interleaving of two small ops.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;
use crate::kick::{Heard, Kicks};
use crate::token::Control;

const NOTIF: u32 = NOTIFICATION;

fn owner(number: usize) -> Owner {
    Owner::without_provenance(NonZeroUsize::new(number + 1).unwrap())
}

// ------------------------------------------------------------------------------------------------ against a naive model

#[derive(Clone, Debug)]
enum Step {
    Register { kind: Kind, fd: i32 },
    Publish(usize),
    Withdraw(usize),
    Cancel(usize),
    CancelFd(i32),
    Record { op: usize, res: i32, flags: u32 },
    Take(usize),
}

/// What the model knows of one op, for ever.
#[derive(Clone, Debug)]
struct Model {
    token: Token,
    fd: i32,
    stage: Stage,
    marked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Registered,
    Live { result: Option<i32>, notified: bool },
    Done(i32),
    Gone,
}

#[derive(Debug, Default, PartialEq)]
struct Discards {
    dup: u64,
    stale: u64,
    foreign: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        Just(Kind::OneShot),
        Just(Kind::Multishot),
        Just(Kind::ZeroCopy)
    ];
    let res = prop_oneof![
        Just(5),
        Just(0),
        Just(-libc::ECANCELED),
        Just(-libc::EINTR),
        Just(-libc::EFAULT),
        Just(-libc::ECONNRESET)
    ];
    let flags = prop_oneof![3 => Just(0), 2 => Just(MORE), 1 => Just(NOTIF)];
    prop_oneof![
        4 => (kind, -1..4i32).prop_map(|(kind, fd)| Step::Register { kind, fd }),
        4 => any::<usize>().prop_map(Step::Publish),
        1 => any::<usize>().prop_map(Step::Withdraw),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => (0..4i32).prop_map(Step::CancelFd),
        8 => (any::<usize>(), res, flags).prop_map(|(op, res, flags)| Step::Record { op, res, flags }),
        4 => any::<usize>().prop_map(Step::Take),
    ]
}

/// Expected answer to a record, and the op's next stage.
fn expected(
    op: &Model,
    res: i32,
    flags: u32,
    number: usize,
    discards: &mut Discards,
) -> (Applied, Stage) {
    let ready = (Applied::Ready(owner(number)), Stage::Done(res));
    let is_zero_copy = op.token.kind() == Kind::ZeroCopy;
    match op.stage {
        Stage::Gone => discards.stale += 1,
        Stage::Registered => discards.foreign += 1,
        Stage::Done(_) => discards.dup += 1,
        Stage::Live { .. } if !is_zero_copy => match flags {
            NOTIF => discards.foreign += 1,
            MORE => return (Applied::Record(owner(number)), op.stage),
            _ => return ready,
        },
        Stage::Live {
            result: Some(first),
            ..
        } => match flags {
            NOTIF => return (ready.0, Stage::Done(first)),
            _ => discards.dup += 1,
        },
        Stage::Live {
            result: None,
            notified: true,
        } => match flags {
            NOTIF => discards.dup += 1,
            _ => return ready,
        },
        Stage::Live {
            result: None,
            notified: false,
        } => match flags {
            NOTIF => {
                return (
                    Applied::Held,
                    Stage::Live {
                        result: None,
                        notified: true,
                    },
                );
            }
            MORE => {
                return (
                    Applied::Held,
                    Stage::Live {
                        result: Some(res),
                        notified: false,
                    },
                );
            }
            _ => return ready,
        },
    }
    (Applied::Discarded, op.stage)
}

fn is_unfinished(stage: Stage) -> bool {
    matches!(stage, Stage::Registered | Stage::Live { .. })
}

/// A picked op among those ever issued; recent ones more often, so that steps meet live ops.
fn pick(ops: &[Model], choice: usize) -> Option<usize> {
    let window = if choice.is_multiple_of(4) {
        ops.len()
    } else {
        ops.len().min(6)
    };
    (window > 0).then(|| ops.len() - 1 - (choice / 4) % window)
}

fn run_against_model(steps: &[Step]) {
    let mut table = Table::new();
    let mut ops: Vec<Model> = Vec::new();
    let mut discards = Discards::default();
    let mut tokens = HashSet::new();
    for step in steps {
        match *step {
            Step::Register { kind, fd } => {
                let token = table.register(kind, fd, owner(ops.len())).unwrap();
                assert!(tokens.insert(token.user_data()), "a token was issued twice");
                let is_slot_taken = ops
                    .iter()
                    .any(|o| o.stage != Stage::Gone && o.token.slot() == token.slot());
                assert!(
                    !is_slot_taken,
                    "a slot was reused before its outcome was taken"
                );
                ops.push(Model {
                    token,
                    fd,
                    stage: Stage::Registered,
                    marked: false,
                });
            }
            Step::Publish(choice) => {
                let Some(i) = pick(&ops, choice).filter(|&i| ops[i].stage == Stage::Registered)
                else {
                    continue;
                };
                let debt = table.publish(ops[i].token, 1);
                assert_eq!(debt == Published::SendCancel, ops[i].marked);
                assert_eq!(table.begin_cancel(ops[i].token), ops[i].marked);
                ops[i].stage = Stage::Live {
                    result: None,
                    notified: false,
                };
            }
            Step::Withdraw(choice) => {
                let Some(i) = pick(&ops, choice).filter(|&i| ops[i].stage == Stage::Registered)
                else {
                    continue;
                };
                table.withdraw(ops[i].token);
                ops[i].stage = Stage::Gone;
            }
            Step::Cancel(choice) => {
                let Some(i) = pick(&ops, choice) else {
                    continue;
                };
                let can_mark = is_unfinished(ops[i].stage) && !ops[i].marked;
                let is_reachable = matches!(
                    ops[i].stage,
                    Stage::Live {
                        result: None,
                        notified: false
                    }
                );
                let debt = table.mark_cancel(ops[i].token);
                assert_eq!(debt == CancelDebt::Send, can_mark && is_reachable);
                assert_eq!(table.begin_cancel(ops[i].token), debt == CancelDebt::Send);
                assert!(
                    !table.begin_cancel(ops[i].token),
                    "one cancel request per op"
                );
                ops[i].marked |= can_mark;
            }
            Step::CancelFd(fd) => {
                let mut found = HashSet::new();
                let mut cursor = table.first_on_fd(fd);
                while let Some(token) = cursor {
                    assert!(found.insert(token));
                    cursor = table.next_on_fd(token);
                }
                let wanted: HashSet<Token> = ops
                    .iter()
                    .filter(|o| o.fd == fd && is_unfinished(o.stage))
                    .map(|o| o.token)
                    .collect();
                assert_eq!(found, wanted);
            }
            Step::Record {
                op: choice,
                res,
                flags,
            } => {
                let Some(i) = pick(&ops, choice) else {
                    continue;
                };
                let (answer, stage) = expected(&ops[i], res, flags, i, &mut discards);
                assert_eq!(
                    table.apply(ops[i].token, res, flags),
                    answer,
                    "{:?}",
                    ops[i]
                );
                ops[i].stage = stage;
            }
            Step::Take(choice) => {
                let Some(i) = pick(&ops, choice) else {
                    continue;
                };
                assert_eq!(
                    table.is_finished(ops[i].token),
                    matches!(ops[i].stage, Stage::Done(_))
                );
                let Stage::Done(res) = ops[i].stage else {
                    continue;
                };
                let outcome = table.take(ops[i].token);
                assert_eq!((outcome.res, outcome.cancel_marked), (res, ops[i].marked));
                ops[i].stage = Stage::Gone;
            }
        }
        let live = ops
            .iter()
            .filter(|o| matches!(o.stage, Stage::Live { .. }))
            .count();
        assert_eq!(table.published(), live);
    }
    table.check().unwrap();
    let c = &table.counters;
    assert_eq!(
        Discards {
            dup: c.dup,
            stale: c.stale,
            foreign: c.foreign
        },
        discards
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn table_agrees_with_a_naive_model(steps in prop::collection::vec(step(), 1..200)) {
        run_against_model(&steps);
    }
}

// ------------------------------------------------------------------------------------- every interleaving of two small ops

#[derive(Clone, Copy, Debug)]
enum Move {
    Register,
    Publish,
    Cancel,
    /// The cancel request's own record.
    CancelRecord(i32),
    Record(i32, u32),
    Take,
}

#[derive(Clone, Debug)]
struct Script {
    kind: Kind,
    moves: Vec<Move>,
    outcome: i32,
}

/// The records of one op, result and flags each, and what it comes to.
type Answer = (Kind, &'static [(i32, u32)], i32);

/// One op's life for each kernel answer, cancel point and order of the two records.
fn scripts() -> Vec<Script> {
    let answers: [Answer; 10] = [
        (Kind::OneShot, &[(8, 0)], 8),
        (Kind::OneShot, &[(3, 0)], 3),
        (Kind::OneShot, &[(-libc::EFAULT, 0)], -libc::EFAULT),
        (Kind::OneShot, &[(-libc::ECANCELED, 0)], -libc::ECANCELED),
        (Kind::Multishot, &[(4, MORE), (5, MORE), (0, 0)], 0),
        (
            Kind::Multishot,
            &[(4, MORE), (-libc::ECANCELED, 0)],
            -libc::ECANCELED,
        ),
        (Kind::ZeroCopy, &[(8, MORE), (0, NOTIF)], 8),
        (Kind::ZeroCopy, &[(0, NOTIF), (8, MORE)], 8),
        (Kind::ZeroCopy, &[(-libc::ECANCELED, 0)], -libc::ECANCELED),
        (
            Kind::ZeroCopy,
            &[(-libc::EPIPE, MORE), (0, NOTIF)],
            -libc::EPIPE,
        ),
    ];
    let mut scripts = Vec::new();
    for (kind, records, outcome) in answers {
        let mut base = vec![Move::Register, Move::Publish];
        base.extend(records.iter().map(|&(res, flags)| Move::Record(res, flags)));
        base.push(Move::Take);
        scripts.push(Script {
            kind,
            moves: base.clone(),
            outcome,
        });
        // Before submission, after it, between records, after the last one.
        for at in 1..base.len() {
            let mut moves = base.clone();
            moves.insert(at, Move::Cancel);
            scripts.push(Script {
                kind,
                moves,
                outcome,
            });
        }
        // Sent after publishing; its own record first or last.
        for own_record in [0, -libc::ENOENT, -libc::EALREADY] {
            for at in [3, base.len()] {
                let mut moves = base.clone();
                moves.insert(2, Move::Cancel);
                moves.insert(at, Move::CancelRecord(own_record));
                scripts.push(Script {
                    kind,
                    moves,
                    outcome,
                });
            }
        }
    }
    scripts
}

/// One op while its script runs.
#[derive(Debug)]
struct Run<'a> {
    script: &'a Script,
    next: usize,
    token: Option<Token>,
    resumes: u32,
    is_cancel_due: bool,
    is_over: bool,
}

impl<'a> Run<'a> {
    fn new(script: &'a Script) -> Run<'a> {
        Run {
            script,
            next: 0,
            token: None,
            resumes: 0,
            is_cancel_due: false,
            is_over: false,
        }
    }

    fn step(&mut self, number: usize, table: &mut Table, kicks: &mut Kicks) {
        let next = self.script.moves[self.next];
        self.next += 1;
        match next {
            Move::Register => {
                self.token = Some(table.register(self.script.kind, 7, owner(number)).unwrap());
            }
            Move::Publish => {
                let token = self.token.unwrap();
                let debt = table.publish(token, 10);
                assert_eq!(debt == Published::SendCancel, self.is_cancel_due);
                // A failed enter takes nothing: the op stays queued, and its memory the kernel's.
                assert_eq!(table.phase(token, 9), Phase::Queued);
                assert_eq!(table.phase(token, 10), Phase::InFlight);
            }
            Move::Cancel => {
                let token = self.token.unwrap();
                let _ = table.mark_cancel(token);
                assert_eq!(table.mark_cancel(token), CancelDebt::Nothing, "idempotent");
                self.is_cancel_due = table.is_cancel_marked(token) && !self.is_over;
            }
            Move::CancelRecord(res) => {
                let mut counters = Counters::default();
                let heard = kicks.apply(Control::Cancel(0), res, 0, &mut counters);
                assert_eq!(
                    heard,
                    Heard::Nothing,
                    "a cancel's own record resumes nobody"
                );
            }
            Move::Record(res, flags) => self.apply(number, table, res, flags),
            Move::Take => self.take(table),
        }
    }

    fn apply(&mut self, number: usize, table: &mut Table, res: i32, flags: u32) {
        let token = self.token.unwrap();
        match table.apply(token, res, flags) {
            Applied::Ready(who) => {
                assert_eq!(who, owner(number));
                self.resumes += 1;
                self.is_over = true;
                let dups = table.counters.dup;
                assert_eq!(table.apply(token, res, flags), Applied::Discarded);
                assert_eq!(
                    table.counters.dup,
                    dups + 1,
                    "a second last record is a duplicate"
                );
            }
            Applied::Record(who) => assert_eq!(who, owner(number)),
            Applied::Held => assert!(
                !table.is_finished(token),
                "the buffer is still the kernel's"
            ),
            Applied::Discarded => panic!("{:?}: a proper record was discarded", self.script),
        }
    }

    fn take(&mut self, table: &mut Table) {
        let token = self.token.unwrap();
        assert_eq!(self.resumes, 1, "exactly one resume: {:?}", self.script);
        let outcome = table.take(token);
        assert_eq!(outcome.res, self.script.outcome);
        assert_eq!(outcome.cancel_marked, self.is_cancel_due);
        let stales = table.counters.stale;
        assert_eq!(table.apply(token, 0, 0), Applied::Discarded);
        assert_eq!(table.counters.stale, stales + 1, "a late record is stale");
    }
}

/// Calls `visit` with every merge of `a` and `b` moves, as bits: set means the second op moves.
fn each_merge(a: usize, b: usize, visit: &mut impl FnMut(u32)) {
    fn go(a: usize, b: usize, done: u32, bits: u32, visit: &mut impl FnMut(u32)) {
        if a == 0 && b == 0 {
            return visit(bits);
        }
        if a > 0 {
            go(a - 1, b, done + 1, bits, visit);
        }
        if b > 0 {
            go(a, b - 1, done + 1, bits | 1 << done, visit);
        }
    }
    go(a, b, 0, 0, visit);
}

#[test]
fn every_interleaving_of_two_ops_keeps_the_promises() {
    let scripts = scripts();
    // One table for all: every run reuses slots of the one before, under new generations.
    let mut table = Table::new();
    let mut kicks = Kicks::default();
    let mut runs = 0u64;
    for (i, first) in scripts.iter().enumerate() {
        // Every seventh partner, counted from each script anew, keeps this to seconds.
        for second in scripts[i..].iter().step_by(7) {
            each_merge(first.moves.len(), second.moves.len(), &mut |bits| {
                let mut pair = [Run::new(first), Run::new(second)];
                for at in 0..first.moves.len() + second.moves.len() {
                    let number = (bits >> at & 1) as usize;
                    pair[number].step(number, &mut table, &mut kicks);
                }
                assert_eq!((table.published(), table.unfinished()), (0, 0));
                runs += 1;
            });
            table.check().unwrap();
        }
    }
    assert_eq!(table.used(), 2, "two ops at a time need two slots");
    assert_eq!(table.counters.registered, 2 * runs);
    assert_eq!(table.counters.ended(), 2 * runs);
    assert!(runs > 500_000, "{runs}");
}

// --------------------------------------------------------------------------------------------------------------- corners

#[test]
fn records_nobody_asked_for_are_foreign() {
    let mut table = Table::new();
    let token = table.register(Kind::OneShot, -1, owner(0)).unwrap();
    let never_issued = [
        Token::new(Kind::OneShot, 900, 0),
        Token::new(Kind::OneShot, token.slot(), token.generation() + 1),
        Token::new(Kind::ZeroCopy, token.slot(), token.generation()),
        token,
    ];
    for (count, wrong) in never_issued.into_iter().enumerate() {
        assert_eq!(table.apply(wrong, 0, 0), Applied::Discarded);
        assert_eq!(table.counters.foreign, count as u64 + 1);
    }
}

#[test]
fn a_slot_whose_generations_are_used_up_goes_out_of_service() {
    let mut table = Table::new();
    let first = table.register(Kind::OneShot, 3, owner(0)).unwrap();
    table.withdraw(first);
    table.at_mut(first.slot()).generation = GENERATION_MAX;
    let last = table.register(Kind::OneShot, 3, owner(1)).unwrap();
    let _ = table.publish(last, 1);
    assert_eq!(table.apply(last, 0, 0), Applied::Ready(owner(1)));
    assert_eq!(table.take(last).res, 0);
    let next = table.register(Kind::OneShot, 3, owner(2)).unwrap();
    assert_ne!(next.slot(), last.slot());
    assert_eq!(table.apply(last, 0, 0), Applied::Discarded);
    assert_eq!(table.counters.retired, 1);
    table.check().unwrap();
}

#[test]
fn a_full_table_says_so_and_recovers() {
    let mut table = Table::with_limit(600);
    let tokens: Vec<Token> = (0..600)
        .map(|n| {
            table
                .register(Kind::OneShot, n % 5, owner(n as usize))
                .unwrap()
        })
        .collect();
    assert_eq!(table.register(Kind::OneShot, 0, owner(0)), Err(TableFull));
    table.check().unwrap();
    table.withdraw(tokens[300]);
    let again = table.register(Kind::OneShot, 1, owner(0)).unwrap();
    assert_eq!(again.slot(), tokens[300].slot());
    assert_ne!(again, tokens[300]);
    table.check().unwrap();
}

#[test]
#[should_panic(expected = "has no outcome to take")]
fn taking_an_outcome_twice_panics() {
    let mut table = Table::new();
    let token = table.register(Kind::OneShot, -1, owner(0)).unwrap();
    let _ = table.publish(token, 1);
    let _ = table.apply(token, 0, 0);
    table.take(token);
    table.take(token);
}

#[test]
#[should_panic(expected = "is not waiting to be queued")]
fn a_published_op_cannot_be_withdrawn() {
    let mut table = Table::new();
    let token = table.register(Kind::OneShot, -1, owner(0)).unwrap();
    let _ = table.publish(token, 1);
    table.withdraw(token);
}
