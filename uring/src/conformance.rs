//! The same script on the running kernel and on the model: what an op came to there must be among what is foretold here.
//!
//! A row says what an op's owner does and when; the kernel answers as it likes. Where its answer is a race, as between data
//! and a cancel, the model foretells several verdicts, and the kernel may give any of them. A verdict is the result, whether
//! it came under cancellation, and every counter.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::table::model::{Counts, Shape, Step, Verdict, foretell};
use crate::{
    Capabilities, Config, Event, Flushed, Kind, Outcome, Owner, Ring, Token, opcode, squeue, types,
};
use Step::*;

/// What the op does, with everything it needs.
enum Scene {
    Nop,
    Receive(UnixStream, UnixStream, Box<u8>),
    Read(std::io::PipeReader, std::io::PipeWriter, Box<u8>),
    Accept(TcpListener, Vec<TcpStream>),
    Send {
        client: TcpStream,
        _server: TcpStream,
        data: Vec<u8>,
    },
}

type NamedScene = (&'static str, Shape, fn() -> Scene);

const NOP: Shape = Shape {
    kind: Kind::OneShot,
    answers: &[0],
    records: 0,
    brings: false,
    is_inline: true,
};
/// One byte, or one connection, whose number does not matter.
const ONE: Shape = Shape {
    answers: &[1],
    is_inline: false,
    ..NOP
};
const SENT: i32 = 1000;
const SEND: Shape = Shape {
    kind: Kind::ZeroCopy,
    answers: &[SENT],
    ..ONE
};
/// Two connections, and then no end but by cancelling.
const STREAM: Shape = Shape {
    kind: Kind::Multishot,
    answers: &[],
    records: 2,
    ..ONE
};

impl Scene {
    fn all() -> [NamedScene; 6] {
        [
            ("nop", NOP, || Scene::Nop),
            ("socket receive", ONE, || {
                let (reader, writer) = UnixStream::pair().unwrap();
                Scene::Receive(reader, writer, Box::new(0))
            }),
            ("pipe read", ONE, || {
                let (reader, writer) = std::io::pipe().unwrap();
                Scene::Read(reader, writer, Box::new(0))
            }),
            ("accept", ONE, Scene::listener),
            ("multishot accept", STREAM, Scene::listener),
            ("zero-copy send", SEND, || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                Scene::Send {
                    client,
                    _server: listener.accept().unwrap().0,
                    data: vec![7; SENT as usize],
                }
            }),
        ]
    }

    fn listener() -> Scene {
        Scene::Accept(TcpListener::bind("127.0.0.1:0").unwrap(), Vec::new())
    }

    fn entry(&mut self, kind: Kind) -> squeue::Entry {
        match self {
            Scene::Nop => opcode::Nop::new().build(),
            Scene::Receive(reader, _, byte) => {
                opcode::Recv::new(types::Fd(reader.as_raw_fd()), &raw mut **byte, 1).build()
            }
            Scene::Read(reader, _, byte) => {
                opcode::Read::new(types::Fd(reader.as_raw_fd()), &raw mut **byte, 1).build()
            }
            Scene::Accept(listener, _) if kind == Kind::Multishot => {
                opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).build()
            }
            Scene::Accept(listener, _) => {
                let fd = types::Fd(listener.as_raw_fd());
                opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut()).build()
            }
            Scene::Send { client, data, .. } => {
                let fd = types::Fd(client.as_raw_fd());
                opcode::SendZc::new(fd, data.as_ptr(), data.len() as u32).build()
            }
        }
    }

    fn arrive(&mut self, kind: Kind) {
        match self {
            // Nothing is missing.
            Scene::Nop | Scene::Send { .. } => {}
            Scene::Receive(_, writer, _) => writer.write_all(&[1]).unwrap(),
            Scene::Read(_, writer, _) => writer.write_all(&[1]).unwrap(),
            Scene::Accept(listener, clients) => {
                let count = if kind == Kind::Multishot { 2 } else { 1 };
                let address = listener.local_addr().unwrap();
                clients.extend((0..count).map(|_| TcpStream::connect(address).unwrap()));
            }
        }
    }

    /// The result as the model has it. Connections are closed.
    fn settle(&self, res: i32) -> i32 {
        if res >= 0 && matches!(self, Scene::Accept(..)) {
            // SAFETY: because the kernel has just made this descriptor for us, and nobody else knows it.
            drop(unsafe { OwnedFd::from_raw_fd(res) });
            return 1;
        }
        res
    }
}

/// One op on the running kernel.
struct Live {
    // Before what its ops name.
    ring: Ring,
    scene: Scene,
    kind: Kind,
    token: Option<Token>,
    outcome: Option<Outcome>,
}

impl Live {
    fn token(&self) -> Token {
        self.token.expect("registered first")
    }

    fn step(&mut self, step: Step) {
        match step {
            Register => {
                let owner = Owner::without_provenance(NonZeroUsize::MIN);
                self.token = self.ring.register(self.kind, -1, owner).ok();
            }
            Queue => {
                let entry = self.scene.entry(self.kind);
                // SAFETY: because the scene outlives the ring, which is dropped first.
                unsafe { self.ring.queue(self.token(), entry) }.expect("there is room");
            }
            Flush => assert_eq!(self.ring.flush(), Flushed::Done),
            Refused => {
                let (before, stalls) = (self.ring.sq_pending(), self.ring.counters().enters);
                assert_eq!(self.ring.flush(), Flushed::Stalled);
                assert_eq!(self.ring.sq_pending(), before, "everything is still queued");
                assert_eq!(self.ring.counters().enters, stalls + 1);
            }
            Arrive => self.scene.arrive(self.kind),
            AwaitRecord => {
                while !self.ring.cq_ready() {
                    self.ring.wait(None);
                }
            }
            Cancel => self.ring.cancel(self.token()),
            Retire => {
                let (scene, last) = (&self.scene, &mut self.outcome);
                self.ring.retire(|_, _, outcome| {
                    let res = scene.settle(outcome.res);
                    *last = Some(Outcome { res, ..outcome });
                });
            }
        }
    }

    fn reap(&mut self) {
        let scene = &self.scene;
        self.ring.reap(|_, _, event| {
            if let Event::Record { res, .. } = event {
                scene.settle(res);
            }
        });
    }

    /// Everything that is still to come.
    fn end(mut self) -> Verdict {
        let is_answered = |ring: &Ring| {
            let c = ring.counters();
            c.cancels_hit + c.cancels_missed + c.cancels_late == c.cancels_sent
        };
        while self.ring.in_flight() > 0 || !is_answered(&self.ring) {
            self.ring.wait(None);
            self.ring.poll();
            self.reap();
        }
        if self.ring.is_finished(self.token()) {
            let outcome = self.ring.outcome(self.token());
            let res = self.scene.settle(outcome.res);
            self.outcome = Some(Outcome { res, ..outcome });
        }
        self.ring.check().unwrap();
        Verdict {
            res: self.outcome.map(|outcome| outcome.res),
            is_marked: self.outcome.is_some_and(|outcome| outcome.cancel_marked),
            counts: Counts::of(self.ring.counters()),
        }
    }
}

fn can_run(ring: &Ring, scene: &Scene, kind: Kind) -> bool {
    let needs = match scene {
        Scene::Send { .. } => Capabilities::SEND_ZC,
        Scene::Accept(..) if kind == Kind::Multishot => Capabilities::MULTISHOT_ACCEPT,
        _ => Capabilities::empty(),
    };
    ring.capabilities().contains(needs)
}

/// Runs every scene by these scripts and returns how many verdicts were compared.
fn conform(make: impl Fn() -> Ring, scripts: &[&[Step]]) -> usize {
    let mut compared = 0;
    for (name, shape, scene) in Scene::all() {
        for steps in scripts {
            let never_ends =
                shape.answers.is_empty() && !steps.iter().any(|s| matches!(s, Cancel | Retire));
            let mut live = Live {
                ring: make(),
                scene: scene(),
                kind: shape.kind,
                token: None,
                outcome: None,
            };
            if never_ends || !can_run(&live.ring, &live.scene, live.kind) {
                continue;
            }
            // A nop and a send wait for nothing.
            let mut steps = steps.to_vec();
            if matches!(live.scene, Scene::Nop | Scene::Send { .. }) {
                steps.retain(|&step| step != Arrive);
                steps.insert(0, Arrive);
            }
            let allowed = foretell(shape, &steps);
            steps.iter().for_each(|&step| live.step(step));
            let verdict = live.end();
            assert!(
                allowed.contains(&verdict),
                "{name} by {steps:?} came to {verdict:#?}\nwhich is not among {allowed:#?}"
            );
            assert_says_something(&allowed, &verdict, shape, &steps);
            compared += 1;
        }
    }
    compared
}

/// A model that foretells everything would be no test.
fn assert_says_something(
    allowed: &BTreeSet<Verdict>,
    verdict: &Verdict,
    shape: Shape,
    steps: &[Step],
) {
    let mut wrong = [*verdict; 3];
    wrong[0].is_marked = !verdict.is_marked;
    wrong[1].res = Some(99);
    wrong[2].counts.stale += 1;
    assert!(!wrong.iter().any(|verdict| allowed.contains(verdict)));
    let has_race = steps.iter().any(|s| matches!(s, Cancel | Retire));
    assert!(
        has_race || shape.kind != Kind::OneShot || allowed.len() == 1,
        "several ends without a race: {allowed:#?}"
    );
}

fn plain() -> Ring {
    Ring::new(&Config::default()).expect("io_uring works here")
}

#[test]
fn the_kernel_gives_verdicts_that_the_model_foretells() {
    let scripts: &[&[Step]] = &[
        &[Register, Queue, Flush, Arrive],
        &[Register, Queue, Arrive, Flush],
        // Cancelled before it is queued, before it is taken, while it waits, against what arrives, after its record.
        &[Register, Cancel, Queue, Flush],
        &[Register, Cancel, Queue, Arrive, Flush],
        &[Register, Queue, Cancel, Flush],
        &[Register, Queue, Arrive, Cancel, Flush],
        &[Register, Queue, Flush, Cancel],
        &[Register, Queue, Flush, Cancel, Flush, Arrive],
        &[Register, Queue, Flush, Cancel, Arrive, Flush],
        &[Register, Queue, Flush, Arrive, Cancel, Flush],
        &[Register, Queue, Flush, Arrive, AwaitRecord, Cancel],
        &[Register, Queue, Flush, Arrive, AwaitRecord, Cancel, Flush],
        // Retired at each of these moments.
        &[Register, Retire],
        &[Register, Cancel, Retire],
        &[Register, Queue, Retire],
        &[Register, Queue, Flush, Retire],
        &[Register, Queue, Flush, Arrive, Retire],
        &[Register, Queue, Flush, Arrive, AwaitRecord, Retire],
        &[Register, Queue, Flush, Cancel, Flush, Retire],
    ];
    let compared = conform(plain, scripts);
    println!("{compared} verdicts");
    // Without zero-copy and multishot it is four scenes.
    assert!(compared >= 4 * scripts.len(), "{compared}");
}

#[cfg(feature = "fault-injection")]
#[test]
fn a_refused_enter_leads_to_verdicts_that_the_model_foretells() {
    let scripts: &[&[Step]] = &[
        &[Register, Queue, Refused, Flush, Arrive],
        &[Register, Queue, Refused, Cancel, Flush],
        &[Register, Cancel, Queue, Refused, Arrive, Flush],
        &[Register, Queue, Refused, Retire],
    ];
    for errno in [libc::EAGAIN, libc::EBUSY, libc::EINTR, libc::ENOMEM] {
        let plan = crate::faults::Plan {
            enter_errnos: vec![errno],
            ..Default::default()
        };
        let make = || Ring::with_faults(&Config::default(), &plan).expect("a ring can be made");
        let compared = conform(make, scripts);
        assert!(compared >= 4 * scripts.len() - 1, "{compared}");
    }
}
