//! The table against a naive model, with long random lives of many ops. `table_model.rs` has every short life of two.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;

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
fn retired_owners_tokens_are_told_from_stale_ones() {
    let mut table = Table::new();
    let tokens: Vec<Token> = (0..20)
        .map(|n| {
            table
                .register(Kind::OneShot, n % 3, owner(n as usize))
                .unwrap()
        })
        .collect();
    for &token in &tokens[..10] {
        let _ = table.publish(token, 1);
        assert!(matches!(table.apply(token, 1, 0), Applied::Ready(_)));
    }
    table.retire();
    table.check().unwrap();
    assert_eq!((table.unfinished(), table.counters.withdrawn), (0, 10));
    assert_eq!(table.counters.registered, table.counters.ended());
    for &token in &tokens {
        assert_eq!(table.apply(token, 0, 0), Applied::Discarded);
    }
    assert_eq!(table.counters.retired, 20);
    let next = table.register(Kind::OneShot, 1, owner(0)).unwrap();
    table.withdraw(next);
    assert_eq!(table.apply(next, 0, 0), Applied::Discarded);
    assert_eq!((table.counters.retired, table.counters.stale), (20, 1));
}

#[test]
#[should_panic(expected = "an op is still the kernel's")]
fn retiring_while_the_kernel_has_an_op_panics() {
    let mut table = Table::new();
    let token = table.register(Kind::OneShot, -1, owner(0)).unwrap();
    let _ = table.publish(token, 1);
    table.retire();
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
