//! Channels against a model: a queue, what ends there are, and whether it is closed. Step by step on one goroutine, and as a
//! property of many who use a channel at once.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use urgo::chan::{
    Receiver, RecvTimeoutError, Select, SendTimeoutError, Sender, TryRecvError, TrySendError,
    bounded, oneshot, unbounded,
};
use urgo::select;

use crate::grounds::{Crew, everywhere, spawn};
use crate::support::{DropGuard, Drops, seed};

/// What kind of channel, and so how much it holds.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Bounded(usize),
    Unbounded,
    Oneshot,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => (0..=4usize).prop_map(Kind::Bounded),
        2 => Just(Kind::Unbounded),
        1 => Just(Kind::Oneshot),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    /// A send in one of several ways, none of which waits.
    Send(u8),
    Receive(u8),
    /// Takes all there is, so that longer runs get over the edges of a queue's blocks.
    Drain,
    Fill(u8),
    CloneSender,
    CloneReceiver,
    DropSender,
    DropReceiver,
    Close(bool),
    Counts,
    /// Sends and receives in one select.
    Both(bool),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6u8).prop_map(Step::Send),
        12 => (0..6u8).prop_map(Step::Receive),
        1 => Just(Step::Drain),
        1 => any::<u8>().prop_map(Step::Fill),
        2 => Just(Step::CloneSender),
        2 => Just(Step::CloneReceiver),
        3 => Just(Step::DropSender),
        3 => Just(Step::DropReceiver),
        1 => any::<bool>().prop_map(Step::Close),
        4 => Just(Step::Counts),
        3 => any::<bool>().prop_map(Step::Both),
    ]
}

type Message = (u64, DropGuard);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Done,
    Full,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Received {
    Value(u64),
    Empty,
    Ended,
}

struct Pair {
    kind: Kind,
    senders: Vec<Sender<Message>>,
    receivers: Vec<Receiver<Message>>,
    queue: VecDeque<u64>,
    is_closed: bool,
    next: u64,
    drops: Drops,
}

impl Pair {
    fn new(kind: Kind) -> Pair {
        let (sender, receiver) = match kind {
            Kind::Bounded(capacity) => bounded(capacity),
            Kind::Unbounded => unbounded(),
            Kind::Oneshot => oneshot(),
        };
        Pair {
            kind,
            senders: vec![sender],
            receivers: vec![receiver],
            queue: VecDeque::new(),
            is_closed: false,
            next: 0,
            drops: Drops::default(),
        }
    }

    fn room(&self) -> usize {
        let capacity = match self.kind {
            Kind::Bounded(capacity) => capacity,
            Kind::Unbounded => usize::MAX,
            Kind::Oneshot => 1,
        };
        capacity - self.queue.len()
    }

    fn expect_send(&mut self) -> Sent {
        if self.is_closed || self.receivers.is_empty() {
            return Sent::Ended;
        }
        if self.room() == 0 {
            return Sent::Full;
        }
        self.queue.push_back(self.next);
        self.is_closed |= matches!(self.kind, Kind::Oneshot);
        Sent::Done
    }

    fn expect_receive(&mut self) -> Received {
        match self.queue.pop_front() {
            Some(value) => Received::Value(value),
            None if self.is_closed || self.senders.is_empty() => Received::Ended,
            None => Received::Empty,
        }
    }

    fn send(&mut self, way: u8) -> Result<(), TestCaseError> {
        let Some(sender) = self.senders.first().cloned() else {
            return Ok(());
        };
        let message = (self.next, self.drops.guard());
        let expected = self.expect_send();
        let id = self.next;
        self.next += 1;
        let (got, back) = match way {
            // A send that waits is only tried where it need not.
            0 if expected != Sent::Full => match sender.send(message) {
                Ok(()) => (Sent::Done, None),
                Err(error) => (Sent::Ended, Some(error.into_inner())),
            },
            1 => match sender.send_timeout(message, Duration::ZERO) {
                Ok(()) => (Sent::Done, None),
                Err(SendTimeoutError::Timeout(back)) => (Sent::Full, Some(back)),
                Err(SendTimeoutError::Disconnected(back)) => (Sent::Ended, Some(back)),
            },
            2 => {
                let mut message = Some(message);
                let sent = select! {
                    send(sender, message.take().unwrap()) -> sent => match sent {
                        Ok(()) => (Sent::Done, None),
                        Err(error) => (Sent::Ended, Some(error.into_inner())),
                    },
                    default => (Sent::Full, None),
                };
                match sent {
                    (Sent::Full, _) => (Sent::Full, message.take()),
                    sent => sent,
                }
            }
            3 => {
                let mut select = Select::new();
                select.send(&sender);
                match select.try_select() {
                    Err(_) => (Sent::Full, Some(message)),
                    Ok(operation) => match operation.send(&sender, message) {
                        Ok(()) => (Sent::Done, None),
                        Err(error) => (Sent::Ended, Some(error.into_inner())),
                    },
                }
            }
            _ => match sender.try_send(message) {
                Ok(()) => (Sent::Done, None),
                Err(TrySendError::Full(back)) => (Sent::Full, Some(back)),
                Err(TrySendError::Disconnected(back)) => (Sent::Ended, Some(back)),
            },
        };
        prop_assert_eq!(got, expected);
        prop_assert_eq!(back.map(|back| back.0), (got != Sent::Done).then_some(id));
        Ok(())
    }

    fn receive(&mut self, way: u8) -> Result<(), TestCaseError> {
        let Some(receiver) = self.receivers.first().cloned() else {
            return Ok(());
        };
        let expected = self.expect_receive();
        let got = match way {
            0 if expected != Received::Empty => match receiver.recv() {
                Ok(message) => Received::Value(message.0),
                Err(_) => Received::Ended,
            },
            1 => match receiver.recv_timeout(Duration::ZERO) {
                Ok(message) => Received::Value(message.0),
                Err(RecvTimeoutError::Timeout) => Received::Empty,
                Err(RecvTimeoutError::Disconnected) => Received::Ended,
            },
            2 => select! {
                recv(receiver) -> got => match got {
                    Ok(message) => Received::Value(message.0),
                    Err(_) => Received::Ended,
                },
                default => Received::Empty,
            },
            3 => {
                let mut select = Select::new();
                select.recv(&receiver);
                match select.ready_timeout(Duration::ZERO) {
                    Err(_) => Received::Empty,
                    Ok(_) => match select.select().recv(&receiver) {
                        Ok(message) => Received::Value(message.0),
                        Err(_) => Received::Ended,
                    },
                }
            }
            4 => match receiver.try_iter().next() {
                Some(message) => Received::Value(message.0),
                // An iterator does not say why it ends.
                None if matches!(expected, Received::Value(_)) => Received::Empty,
                None => expected,
            },
            _ => match receiver.try_recv() {
                Ok(message) => Received::Value(message.0),
                Err(TryRecvError::Empty) => Received::Empty,
                Err(TryRecvError::Disconnected) => Received::Ended,
            },
        };
        prop_assert_eq!(got, expected);
        Ok(())
    }

    /// One select with both directions and a default: whichever is chosen must have been possible.
    fn both(&mut self, is_send_first: bool) -> Result<(), TestCaseError> {
        let (Some(sender), Some(receiver)) = (
            self.senders.first().cloned(),
            self.receivers.first().cloned(),
        ) else {
            return Ok(());
        };
        enum Chosen {
            Send(bool),
            Receive(Option<u64>),
            Neither,
        }
        let mut message = Some((self.next, self.drops.guard()));
        let chosen = if is_send_first {
            select! {
                send(sender, message.take().unwrap()) -> sent => Chosen::Send(sent.is_ok()),
                recv(receiver) -> got => Chosen::Receive(got.ok().map(|message| message.0)),
                default => Chosen::Neither,
            }
        } else {
            select! {
                recv(receiver) -> got => Chosen::Receive(got.ok().map(|message| message.0)),
                send(sender, message.take().unwrap()) -> sent => Chosen::Send(sent.is_ok()),
                default(Duration::ZERO) => Chosen::Neither,
            }
        };
        match chosen {
            Chosen::Send(is_ok) => {
                let expected = self.expect_send();
                self.next += 1;
                prop_assert_eq!(if is_ok { Sent::Done } else { Sent::Ended }, expected);
            }
            Chosen::Receive(value) => {
                let expected = self.expect_receive();
                prop_assert_eq!(value.map_or(Received::Ended, Received::Value), expected);
            }
            Chosen::Neither => {
                prop_assert!(self.room() == 0 && self.queue.is_empty() && !self.is_closed);
            }
        }
        Ok(())
    }

    fn counts(&self) -> Result<(), TestCaseError> {
        let len = self.queue.len();
        let capacity = match self.kind {
            Kind::Bounded(capacity) => Some(capacity),
            Kind::Unbounded => None,
            Kind::Oneshot => Some(1),
        };
        for receiver in &self.receivers {
            prop_assert_eq!(receiver.len(), len);
            prop_assert_eq!(receiver.is_empty(), len == 0);
            prop_assert_eq!(receiver.capacity(), capacity);
            prop_assert_eq!(receiver.is_full(), Some(len) == capacity);
            prop_assert!(receiver.same_channel(&self.receivers[0]));
        }
        // Without receivers the queue may be gone already.
        if !self.receivers.is_empty() {
            for sender in &self.senders {
                prop_assert_eq!(sender.len(), len);
                prop_assert_eq!(sender.is_empty(), len == 0);
                prop_assert_eq!(sender.is_full(), Some(len) == capacity);
            }
        }
        for sender in &self.senders {
            prop_assert_eq!(sender.capacity(), capacity);
            prop_assert!(sender.same_channel(&self.senders[0]));
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Send(way) => self.send(way)?,
            Step::Receive(way) => self.receive(way)?,
            Step::Drain => {
                if let Some(receiver) = self.receivers.last() {
                    let got: Vec<u64> = receiver.try_iter().map(|message| message.0).collect();
                    prop_assert_eq!(&got, &self.queue.drain(..).collect::<Vec<_>>());
                }
            }
            Step::Fill(count) => {
                for _ in 0..count {
                    self.send(5)?;
                }
            }
            Step::CloneSender => self.senders.extend(self.senders.first().cloned()),
            Step::CloneReceiver => self.receivers.extend(self.receivers.first().cloned()),
            Step::DropSender => drop(self.senders.pop()),
            Step::DropReceiver => drop(self.receivers.pop()),
            Step::Close(by_sender) => {
                let is_first = match (self.senders.first(), self.receivers.first()) {
                    (Some(sender), Some(_)) if by_sender => sender.close(),
                    (Some(_), Some(receiver)) => receiver.close(),
                    // With one side gone there is nothing to close; what it says is not promised.
                    _ => return Ok(()),
                };
                prop_assert_eq!(is_first, !self.is_closed);
                self.is_closed = true;
            }
            Step::Counts => self.counts()?,
            Step::Both(is_send_first) => self.both(is_send_first)?,
        }
        self.counts()
    }
}

fn runner(cases: u32, seed: u64) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
fn a_channel_does_what_its_model_does() {
    let seed = seed();
    everywhere(|ground| {
        let cases = ground.rounds(120) as u32;
        let end = runner(cases, seed).run(&(kinds(), vec(steps(), 1..120)), |(kind, steps)| {
            let mut pair = Pair::new(kind);
            for step in &steps {
                pair.step(step)?;
            }
            let (made, drops) = (pair.next as usize, pair.drops.clone());
            // Both orders in which the ends may go.
            if steps.len() % 2 == 0 {
                pair.senders.clear();
                while let Some(receiver) = pair.receivers.last() {
                    match receiver.recv() {
                        Ok(message) => prop_assert_eq!(Some(message.0), pair.queue.pop_front()),
                        Err(_) => drop(pair.receivers.pop()),
                    }
                }
            }
            drop(pair);
            // `both` makes one more that is dropped at once if its arm loses.
            prop_assert!(drops.count() >= made);
            Ok(())
        });
        if let Err(error) = end {
            panic!("{error}");
        }
    });
}

/// How many use one channel, how, and how much it holds.
#[derive(Clone, Debug)]
struct Traffic {
    capacity: Option<usize>,
    /// How many values each sender sends, and in which way.
    senders: Vec<(usize, u8)>,
    receivers: Vec<u8>,
    /// The receivers go after so many values, if at all.
    receivers_end: Option<usize>,
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let capacity = prop_oneof![(0..9usize).prop_map(Some), Just(None)];
    (
        capacity,
        vec((0..120usize, 0..4u8), 1..6),
        vec(0..4u8, 1..6),
        prop_oneof![3 => Just(None), 1 => (1..60usize).prop_map(Some)],
    )
        .prop_map(|(capacity, senders, receivers, receivers_end)| Traffic {
            capacity,
            senders,
            receivers,
            receivers_end,
        })
}

fn send_in_a_way(
    sender: &Sender<(usize, usize, DropGuard)>,
    other: &Sender<()>,
    way: u8,
    message: (usize, usize, DropGuard),
) -> bool {
    match way {
        0 => sender.send(message).is_ok(),
        1 => {
            let mut message = message;
            loop {
                match sender.send_timeout(message, Duration::from_micros(50)) {
                    Ok(()) => return true,
                    Err(SendTimeoutError::Timeout(back)) => message = back,
                    Err(SendTimeoutError::Disconnected(_)) => return false,
                }
            }
        }
        2 => select! {
            send(sender, message) -> sent => sent.is_ok(),
            send(other, ()) -> _ => unreachable!("nobody receives there"),
        },
        _ => {
            let mut message = message;
            loop {
                match sender.try_send(message) {
                    Ok(()) => return true,
                    Err(TrySendError::Full(back)) => message = back,
                    Err(TrySendError::Disconnected(_)) => return false,
                }
                urgo::yield_now();
            }
        }
    }
}

fn receive_in_a_way<T>(receiver: &Receiver<T>, other: &Receiver<()>, way: u8) -> Option<T> {
    match way {
        0 => receiver.recv().ok(),
        1 => loop {
            match receiver.recv_timeout(Duration::from_micros(50)) {
                Ok(value) => return Some(value),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        },
        2 => select! {
            recv(receiver) -> got => got.ok(),
            recv(other) -> _ => unreachable!("nobody sends there"),
        },
        _ => loop {
            match receiver.try_recv() {
                Ok(value) => return Some(value),
                Err(TryRecvError::Empty) => urgo::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
        },
    }
}

/// Two who only look never meet at a rendezvous: all senders but one way, all receivers but one way.
fn can_meet(traffic: &Traffic) -> bool {
    traffic.capacity != Some(0)
        || !(traffic.senders.iter().any(|(_, way)| *way == 3) && traffic.receivers.contains(&3))
}

#[test]
fn traffic_of_many_keeps_each_senders_order_and_loses_and_doubles_nothing() {
    let seed = seed();
    everywhere(|ground| {
        let cases = ground.rounds(60) as u32;
        let strategy = traffic().prop_filter("they meet", can_meet);
        let end = runner(cases, seed).run(&strategy, |traffic| {
            let (s, r) = match traffic.capacity {
                Some(capacity) => bounded(capacity),
                None => unbounded(),
            };
            // Where the other arms of selects wait in vain.
            let (idle_s, _nobody_receives) = bounded::<()>(0);
            let (_nobody_sends, idle_r) = bounded::<()>(0);
            let drops = Drops::default();
            let mut senders = Vec::new();
            for (number, (count, way)) in traffic.senders.iter().copied().enumerate() {
                let (s, idle, drops) = (s.clone(), idle_s.clone(), drops.clone());
                senders.push(spawn(move || {
                    let mut sent = 0;
                    for i in 0..count {
                        if !send_in_a_way(&s, &idle, way, (number, i, drops.guard())) {
                            return (sent, i + 1);
                        }
                        sent += 1;
                    }
                    (sent, count)
                }));
            }
            drop(s);
            let mut receivers = Vec::new();
            for way in traffic.receivers.iter().copied() {
                let (r, idle) = (r.clone(), idle_r.clone());
                let limit = traffic.receivers_end.unwrap_or(usize::MAX);
                receivers.push(spawn(move || {
                    let mut got = Vec::new();
                    while got.len() < limit {
                        let Some((sender, i, _)) = receive_in_a_way(&r, &idle, way) else {
                            break;
                        };
                        got.push((sender, i));
                    }
                    got
                }));
            }
            drop(r);
            let got: Vec<Vec<_>> = receivers.into_iter().map(|r| r.join()).collect();
            let sent: Vec<_> = senders.into_iter().map(|s| s.join()).collect();
            // One receiver sees the values of one sender in order.
            for got in &got {
                let mut last = vec![None; traffic.senders.len()];
                for (sender, i) in got {
                    prop_assert!(last[*sender] < Some(*i), "out of order");
                    last[*sender] = Some(*i);
                }
            }
            let mut all: Vec<_> = got.into_iter().flatten().collect();
            all.sort_unstable();
            let mut once = all.clone();
            once.dedup();
            prop_assert_eq!(&once, &all, "doubled");
            if traffic.receivers_end.is_none() {
                let whole = (0..).zip(&traffic.senders);
                let whole = whole.flat_map(|(n, (count, _))| (0..*count).map(move |i| (n, i)));
                prop_assert_eq!(all, whole.collect::<Vec<_>>(), "lost");
            } else {
                // What arrived of a sender's values is what it sent, up to what was left in the queue.
                for (sender, i) in all {
                    prop_assert!(i < sent[sender].0);
                }
            }
            let made: usize = sent.iter().map(|(_, made)| made).sum();
            prop_assert_eq!(drops.count(), made);
            Ok(())
        });
        if let Err(error) = end {
            panic!("{error}");
        }
    });
}

/// A pipeline of random length and capacities, with random closes from either end, keeps the order and loses only what comes
/// back as an error.
#[test]
fn pipelines_keep_their_order() {
    let seed = seed();
    everywhere(|ground| {
        let cases = ground.rounds(30) as u32;
        let capacities = vec(prop_oneof![(0..4usize).prop_map(Some), Just(None)], 1..8);
        let end = runner(cases, seed).run(&(capacities, 0..200usize), |(capacities, count)| {
            let mut crew = Crew::new();
            let (first, mut last) = bounded::<usize>(1);
            for capacity in capacities {
                let (s, r) = match capacity {
                    Some(capacity) => bounded(capacity),
                    None => unbounded(),
                };
                let from = std::mem::replace(&mut last, r);
                crew.spawn(move || {
                    for value in from {
                        s.send(value).unwrap();
                    }
                });
            }
            crew.spawn(move || (0..count).for_each(|i| first.send(i).unwrap()));
            prop_assert!(last.iter().eq(0..count));
            crew.join();
            Ok(())
        });
        if let Err(error) = end {
            panic!("{error}");
        }
    });
}
