//! The ring on a kernel that misbehaves by plan. Each test runs under many plans, and a failure names its own.
//! `URGO_FAULT_SEEDS` sets how many seeds there are.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};

use urgo_uring::faults::{Injected, Plan};
use urgo_uring::{
    Capabilities, Config, Event, Flushed, Kind, Outcome, Phase, Ring, SetupError, Token, opcode,
    squeue, types,
};

use crate::harness::*;

/// Runs `body` under plan after plan, and returns what they injected together.
fn under_plans(body: impl Fn(&mut Rig)) -> Injected {
    let seeds = std::env::var("URGO_FAULT_SEEDS").map_or(24, |n| n.parse().unwrap());
    under(
        (0..seeds).map(|seed| Plan {
            // A queue of four, a small one, and one that is never full.
            entries_max: [4, 16, 0][seed as usize % 3],
            ..Plan::quiet(seed)
        }),
        body,
    )
}

fn under(plans: impl Iterator<Item = Plan>, body: impl Fn(&mut Rig)) -> Injected {
    let mut total = Injected::default();
    for plan in plans {
        let mut rig = Rig::new(plan);
        body(&mut rig);
        rig.finish();
        let injected = rig.ring.injected();
        total.interrupted += injected.interrupted;
        total.refused += injected.refused;
        total.truncated += injected.truncated;
        total.delayed += injected.delayed;
        total.reordered += injected.reordered;
        total.duplicated += injected.duplicated;
        total.failed += injected.failed;
    }
    total
}

/// A ring with a plan, and what it has reported.
struct Rig {
    ring: Ring,
    plan: Plan,
    resumes: HashMap<Token, u32>,
    records: Vec<(Token, i32, u32)>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("under {:?}\ninjected {:?}", self.plan, self.ring.injected());
        }
    }
}

impl Rig {
    fn new(plan: Plan) -> Rig {
        Rig {
            ring: Ring::with_faults(&Config::default(), &plan).expect("nothing forbids a ring"),
            plan,
            resumes: HashMap::new(),
            records: Vec::new(),
        }
    }

    fn reap(&mut self) {
        let (resumes, records) = (&mut self.resumes, &mut self.records);
        self.ring.reap(|_, token, event| match event {
            Event::Ready => *resumes.entry(token).or_default() += 1,
            Event::Record { res, flags } => records.push((token, res, flags)),
        });
    }

    fn turn(&mut self) {
        self.ring.wait(None);
        self.ring.poll();
        self.reap();
    }

    /// Registers and queues, however often the queue is full.
    fn start(&mut self, kind: Kind, fd: i32, mut entry: squeue::Entry) -> Token {
        let token = self.ring.register(kind, fd, owner(0)).unwrap();
        // SAFETY: because every buffer that the tests name lives until the op is over.
        while let Err(full) = unsafe { self.ring.queue(token, entry) } {
            entry = full.0;
            assert_eq!(self.ring.phase(token), Phase::Registered);
            if self.ring.flush() == Flushed::Stalled {
                self.ring.poll();
                self.reap();
            }
        }
        token
    }

    /// Hands everything over, however often that is refused.
    fn flush(&mut self) {
        while self.ring.flush() == Flushed::Stalled {
            self.ring.poll();
            self.reap();
        }
    }

    fn outcome(&mut self, token: Token) -> Outcome {
        while !self.ring.is_finished(token) {
            assert_eq!(self.resumes.get(&token), None, "resumed and not finished");
            self.turn();
        }
        assert_eq!(self.resumes[&token], 1, "resumed more than once");
        self.ring.outcome(token)
    }

    fn result(&mut self, token: Token) -> i32 {
        self.outcome(token).res
    }

    /// Late copies come in, cancels are answered, and the accounts balance.
    fn finish(&mut self) {
        let answered = |ring: &Ring| {
            let c = ring.counters();
            c.cancels_hit + c.cancels_missed + c.cancels_late == c.cancels_sent
        };
        while self.ring.in_flight() > 0 || !answered(&self.ring) || self.ring.cq_ready() {
            self.turn();
        }
        self.ring.check().unwrap();
        let counters = *self.ring.counters();
        assert_eq!(counters.registered, counters.ended(), "{counters:?}");
        let copies = self.ring.injected().duplicated;
        assert_eq!(
            (counters.discarded(), counters.foreign),
            (copies, 0),
            "exactly the copies were discarded: {counters:?}"
        );
        assert!(self.resumes.values().all(|&times| times == 1));
    }
}

fn own(res: i32) -> OwnedFd {
    assert!(res >= 0, "no descriptor: {res}");
    // SAFETY: because the kernel has just made this descriptor for us, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(res) }
}

fn accept(listener: &TcpListener) -> squeue::Entry {
    let fd = types::Fd(fd(listener));
    opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).build()
}

fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn every_nop_ends_once_whatever_the_kernel_does() {
    let injected = under_plans(|rig| {
        for round in 0..20 {
            let tokens: Vec<_> = (0..5 + round)
                .map(|_| rig.start(Kind::OneShot, -1, nop()))
                .collect();
            for token in tokens {
                assert_eq!(rig.result(token), 0);
            }
        }
    });
    let each = [
        injected.interrupted,
        injected.refused,
        injected.truncated,
        injected.delayed,
        injected.reordered,
        injected.duplicated,
    ];
    assert!(
        each.iter().all(|&times| times >= 10),
        "little was injected: {injected:?}"
    );
}

#[test]
fn no_byte_is_lost_between_data_and_cancel() {
    under_plans(|rig| {
        let mut sockets = pair();
        for round in 0..30 {
            let mut byte = 0u8;
            let entry = recv(fd(&sockets.0), &mut byte);
            let token = rig.start(Kind::OneShot, fd(&sockets.0), entry);
            if round & 1 == 0 {
                rig.flush();
            }
            if round & 2 == 0 {
                sockets.1.write_all(&[7]).unwrap();
                rig.ring.cancel(token);
            } else {
                rig.ring.cancel(token);
                if round & 4 == 0 {
                    rig.flush();
                }
                sockets.1.write_all(&[7]).unwrap();
            }
            let outcome = rig.outcome(token);
            assert!(outcome.cancel_marked);
            if outcome.res != 1 {
                assert_eq!((outcome.res, byte), (-libc::ECANCELED, 0));
                sockets
                    .0
                    .read_exact(std::slice::from_mut(&mut byte))
                    .unwrap();
            }
            assert_eq!(byte, 7);
        }
    });
}

#[test]
fn many_receives_share_a_queue_of_four() {
    under_plans(|rig| {
        let mut pairs: Vec<_> = (0..40).map(|_| pair()).collect();
        let mut bytes = [0u8; 40];
        let tokens: Vec<_> = (pairs.iter().zip(&mut bytes))
            .map(|((reader, _), byte)| rig.start(Kind::OneShot, fd(reader), recv(fd(reader), byte)))
            .collect();
        rig.flush();
        for (n, (_, writer)) in pairs.iter_mut().enumerate().step_by(2) {
            writer.write_all(&[n as u8 + 1]).unwrap();
        }
        for (reader, _) in pairs.iter().skip(1).step_by(2) {
            assert_eq!(rig.ring.cancel_matching_fd(fd(reader)), 1);
        }
        for (n, token) in tokens.into_iter().enumerate() {
            let expected = if n % 2 == 0 { 1 } else { -libc::ECANCELED };
            assert_eq!(rig.result(token), expected);
            assert_eq!(bytes[n], if n % 2 == 0 { n as u8 + 1 } else { 0 });
        }
    });
}

#[test]
fn no_connection_is_lost_between_accept_and_cancel() {
    under_plans(|rig| {
        let listener = loopback();
        let address = listener.local_addr().unwrap();
        for round in 0..10 {
            let token = rig.start(Kind::OneShot, fd(&listener), accept(&listener));
            if round & 1 == 0 {
                rig.flush();
            }
            let mut client = (round & 2 == 0).then(|| TcpStream::connect(address).unwrap());
            assert_eq!(rig.ring.cancel_matching_fd(fd(&listener)), 1);
            let res = rig.result(token);
            let mut client = client
                .take()
                .unwrap_or_else(|| TcpStream::connect(address).unwrap());
            if res >= 0 {
                drop(own(res));
            } else {
                // It waits in the backlog for whoever accepts next.
                assert_eq!(res, -libc::ECANCELED);
                drop(listener.accept().unwrap());
            }
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        }
        listener.set_nonblocking(true).unwrap();
        let left = listener.accept().map(|_| ());
        assert_eq!(left.unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_zero_copy_send_keeps_its_buffer_until_the_kernel_has_let_go() {
    let (sends, waits) = (Cell::new(0), Cell::new(0));
    under_plans(|rig| {
        if !rig.ring.capabilities().contains(Capabilities::SEND_ZC) {
            return;
        }
        let listener = loopback();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for round in 0..5u8 {
            let data = vec![round + 1; 2000];
            let entry =
                opcode::SendZc::new(types::Fd(fd(&client)), data.as_ptr(), data.len() as u32);
            let token = rig.start(Kind::ZeroCopy, fd(&client), entry.build());
            if round == 4 {
                rig.ring.cancel(token);
            }
            let outcome = rig.outcome(token);
            drop(data);
            if outcome.res == -libc::ECANCELED {
                assert!(outcome.cancel_marked);
                continue;
            }
            assert_eq!(outcome.res, 2000);
            let mut received = vec![0; 2000];
            server.read_exact(&mut received).unwrap();
            assert_eq!(received, vec![round + 1; 2000]);
        }
        waits.set(waits.get() + rig.ring.counters().notification_waits);
        sends.set(sends.get() + rig.ring.counters().completed);
    });
    assert!(
        sends.get() == 0 || waits.get() > 0,
        "no send waited for its notification"
    );
}

#[test]
fn a_multishot_accept_loses_no_connection() {
    under_plans(|rig| {
        if !rig
            .ring
            .capabilities()
            .contains(Capabilities::MULTISHOT_ACCEPT)
        {
            return;
        }
        let listener = loopback();
        let address = listener.local_addr().unwrap();
        let entry = || opcode::AcceptMulti::new(types::Fd(fd(&listener))).build();
        let mut token = rig.start(Kind::Multishot, fd(&listener), entry());
        rig.flush();
        let mut clients: Vec<_> = (0..6)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        while rig.records.len() < 6 {
            rig.turn();
            // A kernel may end it at any time, for instance when completions are backed up.
            if rig.ring.is_finished(token) {
                let last = rig.outcome(token);
                assert!(last.res >= 0, "ended with {}", last.res);
                rig.records.push((token, last.res, last.flags));
                token = rig.start(Kind::Multishot, fd(&listener), entry());
                rig.flush();
            }
        }
        rig.ring.cancel(token);
        let last = rig.outcome(token);
        assert_eq!(last.res, -libc::ECANCELED);
        let accepted: Vec<_> = rig.records.iter().map(|&(_, res, _)| own(res)).collect();
        assert_eq!(accepted.len(), 6);
        drop(accepted);
        for client in &mut clients {
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        }
    });
}

/// Gives the kernel buffers, one by one, under numbers that begin at `first`.
fn provide(rig: &mut Rig, buffers: &mut [[u8; 4]], first: u16) {
    let count = buffers.len() as u16;
    let entry = opcode::ProvideBuffers::new(buffers.as_mut_ptr().cast(), 4, count, 1, first);
    let token = rig.start(Kind::OneShot, -1, entry.build());
    assert!(rig.result(token) >= 0);
}

#[test]
fn a_multishot_receive_loses_no_byte_when_its_buffers_run_out() {
    let (runs, dry) = (Cell::new(0), Cell::new(0));
    under_plans(|rig| {
        if !rig
            .ring
            .capabilities()
            .contains(Capabilities::MULTISHOT_RECV)
        {
            return;
        }
        let mut sockets = pair();
        let mut buffers = [[0u8; 4]; 3];
        provide(rig, &mut buffers, 0);
        let entry = || opcode::RecvMulti::new(types::Fd(fd(&sockets.0)), 1).build();
        let mut token = rig.start(Kind::Multishot, fd(&sockets.0), entry());
        let sent: Vec<u8> = (1..=40).collect();
        let mut received = Vec::new();
        let mut sender = sent.chunks(5);
        while received.len() < sent.len() {
            if let Some(some) = sender.next() {
                sockets.1.write_all(some).unwrap();
            }
            // Providing buffers may have reaped what there is.
            if rig.records.is_empty() && !rig.ring.is_finished(token) {
                rig.turn();
            }
            let is_over = rig.ring.is_finished(token);
            let mut filled = std::mem::take(&mut rig.records);
            if is_over {
                let last = rig.outcome(token);
                match last.res {
                    // Terminal, and no error: buffers are missing, nothing was taken from the socket.
                    error if error == -libc::ENOBUFS => dry.set(dry.get() + 1),
                    res => filled.push((token, res, last.flags)),
                }
            }
            for (of, res, flags) in filled {
                assert_eq!(of, token);
                let number = (flags >> 16) as usize;
                received.extend_from_slice(&buffers[number][..res as usize]);
                provide(rig, &mut buffers[number..=number], number as u16);
            }
            if is_over {
                token = rig.start(Kind::Multishot, fd(&sockets.0), entry());
            }
        }
        rig.ring.cancel(token);
        let last = rig.result(token);
        assert!(matches!(-last, libc::ECANCELED | libc::ENOBUFS), "{last}");
        assert!(rig.records.is_empty());
        assert_eq!(received, sent);
        runs.set(runs.get() + 1);
    });
    assert!(
        runs.get() == 0 || dry.get() > 0,
        "the buffers never ran out"
    );
}

#[test]
fn a_chain_stays_whole_whatever_is_taken_of_the_queue() {
    under_plans(|rig| {
        let (mut reader, writer) = pair();
        static BYTES: [u8; 3] = [1, 2, 3];
        for _ in 0..10 {
            let other = rig.start(Kind::OneShot, -1, nop());
            let chain: Vec<_> = BYTES
                .iter()
                .map(|byte| {
                    let token = rig.ring.register(Kind::OneShot, -1, owner(0)).unwrap();
                    let entry = opcode::Write::new(types::Fd(fd(&writer)), byte, 1).build();
                    (token, entry.flags(squeue::Flags::ASYNC))
                })
                .collect();
            // SAFETY: because the bytes are static.
            while unsafe { rig.ring.queue_chain(&chain) }.is_err() {
                rig.flush();
            }
            for (token, _) in chain {
                assert_eq!(rig.result(token), 1);
            }
            assert_eq!(rig.result(other), 0);
            let mut bytes = [0; 3];
            reader.read_exact(&mut bytes).unwrap();
            assert_eq!(
                bytes, BYTES,
                "in order, though each runs on a helper thread"
            );
        }
    });
}

#[test]
fn an_op_that_the_kernel_had_no_memory_for_can_be_tried_again() {
    let plans = (0..24).map(|seed| Plan {
        failed: 400,
        ..Plan::quiet(seed)
    });
    let injected = under(plans, |rig| {
        let mut sockets = pair();
        for n in 0..20 {
            let mut byte = 0u8;
            sockets.1.write_all(&[n + 1]).unwrap();
            loop {
                let entry = recv(fd(&sockets.0), &mut byte);
                let token = rig.start(Kind::OneShot, fd(&sockets.0), entry);
                match rig.result(token) {
                    1 => break,
                    res => assert!(matches!(-res, libc::ENOMEM | libc::ENOBUFS), "{res}"),
                }
                assert_eq!(byte, 0, "an op that failed has not written");
            }
            assert_eq!(byte, n + 1);
        }
    });
    assert!(injected.failed > 100, "{injected:?}");
}

#[test]
fn retiring_waits_for_everything_under_faults_too() {
    under_plans(|rig| {
        let listener = loopback();
        let sockets = pair();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut bytes = [0u8; 10];
        rig.start(Kind::OneShot, fd(&listener), accept(&listener));
        for byte in &mut bytes {
            rig.start(Kind::OneShot, fd(&sockets.0), recv(fd(&sockets.0), byte));
        }
        rig.start(Kind::OneShot, -1, nop());
        let (mut seen, mut accepted) = (0, None);
        // Some may have been reported while the others were queued.
        rig.ring.retire(|_, _, outcome| {
            seen += 1;
            match outcome.res {
                res if res > 0 => accepted = Some(own(res)),
                res => assert!(matches!(-res, 0 | libc::ECANCELED), "{res}"),
            }
        });
        assert_eq!((seen, rig.ring.in_flight()), (12, 0));
        let counters = *rig.ring.counters();
        assert_eq!(counters.registered, counters.ended());
        if accepted.is_none() {
            listener.accept().expect("it waits in the backlog");
        }
        drop(client);
        (&sockets.1).write_all(&[1]).unwrap();
        (&sockets.0).read_exact(&mut [0]).unwrap();
        assert_eq!(bytes, [0; 10]);
        // The ring serves others; copies that come late are of retired owners.
        let token = rig.start(Kind::OneShot, -1, nop());
        assert_eq!(rig.result(token), 0);
    });
}

#[test]
fn a_kick_is_tried_again_before_its_sender_hears_that_it_is_stalled() {
    let mut sleeper = ring(8, 0);
    if !sleeper.capabilities().contains(Capabilities::MSG_RING) {
        return;
    }
    for (refusals, sent) in [
        (1, Flushed::Done),
        (7, Flushed::Done),
        (8, Flushed::Stalled),
    ] {
        let plan = Plan {
            enter_errnos: [libc::EAGAIN, libc::EINTR, libc::EBUSY, libc::ENOMEM]
                .repeat(2)
                .split_off(8 - refusals),
            ..Plan::default()
        };
        let mut sender = Ring::with_faults(&Config::default(), &plan).unwrap();
        assert_eq!(sender.kick(sleeper.fd()), sent, "after {refusals} refusals");
        if sent == Flushed::Stalled {
            assert_eq!(sender.sq_pending(), 1, "it goes out with the next flush");
            assert_eq!(sender.flush(), Flushed::Done);
        }
        while !sleeper.reap(|_, _, _| {}).kicked {
            sleeper.wait(None);
            sleeper.poll();
        }
    }
    assert_eq!(sleeper.counters().kicks_received, 3);
}

fn made(plan: Plan) -> Result<Ring, SetupError> {
    Ring::with_faults(&Config::default(), &plan)
}

fn set_up_fails_with(errno: i32) -> SetupError {
    made(Plan {
        setup_errnos: vec![errno; 16],
        ..Plan::default()
    })
    .expect_err("every attempt is refused")
}

#[test]
fn a_ring_that_cannot_be_made_says_why() {
    assert_eq!(set_up_fails_with(libc::ENOSYS), SetupError::NotImplemented);
    assert!(matches!(
        set_up_fails_with(libc::EPERM),
        SetupError::NotPermitted { .. } | SetupError::DisabledBySysctl { .. }
    ));
    assert!(matches!(
        set_up_fails_with(libc::EMFILE),
        SetupError::OutOfDescriptors {
            system_wide: false,
            ..
        }
    ));
    assert!(matches!(
        set_up_fails_with(libc::ENFILE),
        SetupError::OutOfDescriptors {
            system_wide: true,
            ..
        }
    ));
    assert!(matches!(
        set_up_fails_with(libc::ENOMEM),
        SetupError::OutOfMemory | SetupError::MemoryLimit { entries: 32, .. }
    ));
    assert!(matches!(
        set_up_fails_with(libc::EINVAL),
        SetupError::MissingFeature(_)
    ));
    let error = set_up_fails_with(libc::EIO);
    let call = "io_uring_setup";
    let errno = libc::EIO;
    assert_eq!(error, SetupError::Os { call, errno });
    let error = made(Plan {
        map_errno: libc::EAGAIN,
        ..Plan::default()
    })
    .expect_err("the mapping is refused");
    let (call, errno) = ("mmap", libc::EAGAIN);
    assert_eq!(error, SetupError::Os { call, errno });
    let error = made(Plan {
        map_errno: libc::ENOMEM,
        ..Plan::default()
    })
    .expect_err("the mapping is refused");
    assert!(matches!(
        error,
        SetupError::OutOfMemory | SetupError::MemoryLimit { entries: 256, .. }
    ));
}

#[test]
fn set_up_climbs_down_before_it_gives_up() {
    let mut ring = made(Plan {
        setup_errnos: vec![libc::EINVAL, libc::ENOMEM, libc::ENOMEM],
        ..Plan::default()
    })
    .expect("the fourth attempt succeeds");
    assert_eq!(ring.sq_entries(), 64);
    assert!(!ring.capabilities().contains(Capabilities::NO_SQARRAY));
    let token = start(&mut ring, Kind::OneShot, -1, 0, nop());
    assert_eq!(finish(&mut ring, token), 0);
    let small = made(Plan {
        entries_max: 4,
        ..Plan::default()
    })
    .unwrap();
    assert_eq!((small.sq_entries(), small.cq_entries()), (4, 4));
}

#[test]
fn a_plan_in_the_environment_holds_for_every_ring() {
    in_child(
        "faults::a_plan_in_the_environment_holds_for_every_ring",
        &[("URGO_FAULTS", "seed=3,delayed=1000,entries_max=4")],
        || {
            for _ in 0..2 {
                let mut ring = ring(64, 0);
                assert_eq!((ring.sq_entries(), ring.cq_entries()), (4, 4));
                let token = start(&mut ring, Kind::OneShot, -1, 0, nop());
                assert_eq!(finish(&mut ring, token), 0);
                assert_eq!(ring.injected().delayed, 1);
            }
        },
    );
}
