//! Full queues: backpressure on the way in, nothing lost on the way out.

use std::io::Write;

use urgo_uring::{Capabilities, Flushed, Kind};

use crate::harness::*;

#[test]
fn a_burst_of_ten_times_the_queue_is_backpressure_only() {
    let mut ring = ring(8, 32);
    let mut seen = vec![0u32; 80];
    let mut refused = 0;
    for who in 0..80 {
        let token = ring.register(Kind::OneShot, -1, owner(who)).unwrap();
        let mut entry = nop();
        // SAFETY: because a nop names no memory.
        while let Err(full) = unsafe { ring.queue(token, entry) } {
            refused += 1;
            assert_eq!(ring.sq_space_left(), 0);
            entry = full.0;
            assert_eq!(ring.flush(), Flushed::Done);
            reap_ready(&mut ring)
                .into_iter()
                .for_each(|who| seen[who] += 1);
        }
    }
    while ring.in_flight() > 0 {
        ring.wait(None);
        reap_ready(&mut ring)
            .into_iter()
            .for_each(|who| seen[who] += 1);
    }
    assert!(seen.iter().all(|&count| count == 1), "{seen:?}");
    assert!(refused >= 9, "the queue of 8 was never full");
    assert_eq!(ring.counters().sq_full, refused);
    assert_clean(&ring);
}

#[test]
fn a_completion_queue_of_16_loses_none_of_10_000() {
    let mut ring = ring(16, 16);
    assert_eq!(ring.cq_entries(), 16);
    let mut seen = vec![0u32; 10_000];
    // Nothing is reaped while the kernel takes requests, unless it refuses more.
    for who in 0..10_000 {
        while ring.sq_space_left() == 0 {
            if ring.flush() == Flushed::Stalled {
                reap_ready(&mut ring)
                    .into_iter()
                    .for_each(|who| seen[who] += 1);
                ring.poll();
            }
        }
        start(&mut ring, Kind::OneShot, -1, who, nop());
    }
    while ring.in_flight() > 0 {
        ring.wait(None);
        ring.poll();
        reap_ready(&mut ring)
            .into_iter()
            .for_each(|who| seen[who] += 1);
    }
    assert!(seen.iter().all(|&count| count == 1));
    assert!(ring.counters().overflows > 0, "the queue never overflowed");
    assert_clean(&ring);
}

#[test]
fn one_poll_brings_out_more_completions_than_one_enter_runs() {
    let mut ring = ring(128, 256);
    let mut pairs: Vec<_> = (0..60).map(|_| pair()).collect();
    let mut buffers = vec![0u8; 60];
    for (who, (reader, _)) in pairs.iter().enumerate() {
        start(
            &mut ring,
            Kind::OneShot,
            fd(reader),
            who,
            recv(fd(reader), &mut buffers[who]),
        );
    }
    assert_eq!(ring.flush(), Flushed::Done);
    ring.poll();
    assert!(!ring.cq_ready(), "nothing was sent yet");
    for (who, (_, writer)) in pairs.iter_mut().enumerate() {
        writer.write_all(&[who as u8]).unwrap();
    }
    assert!(ring.has_work_flag());
    ring.poll();
    let mut ready = reap_ready(&mut ring);
    ready.sort_unstable();
    assert_eq!(ready, (0..60).collect::<Vec<_>>());
    assert_eq!(buffers, (0..60).collect::<Vec<u8>>());
    assert_clean(&ring);
}

#[test]
fn nothing_to_do_costs_no_system_call() {
    let mut ring = ring(8, 0);
    let before = ring.counters().enters;
    assert_eq!(ring.flush(), Flushed::Done);
    assert_eq!(ring.flush_and_poll(), Flushed::Done);
    ring.poll();
    assert_eq!(ring.reap(|_, _, _| {}).ready, 0);
    assert_eq!(ring.counters().enters, before);
}

#[test]
fn records_that_fit_no_op_resume_nobody() {
    let mut ring = ring(8, 0);
    if !ring.capabilities().contains(Capabilities::MSG_RING) {
        return;
    }
    let old = start(&mut ring, Kind::OneShot, -1, 1, nop());
    assert_eq!(finish(&mut ring, old), 0);
    let done = start(&mut ring, Kind::OneShot, -1, 2, nop());
    ring.wait(None);
    assert_eq!(reap_ready(&mut ring), [2]);

    // Real late records, made by messages that carry the user data of an ended op (its slot is in use again), of a finished
    // one, and of none.
    let mut sender = self::ring(8, 0);
    assert_eq!(
        old.user_data() & (0xf_ffff << 40),
        done.user_data() & (0xf_ffff << 40),
        "the slot was reused"
    );
    for (who, user_data) in [old.user_data(), done.user_data(), 0]
        .into_iter()
        .enumerate()
    {
        let message = urgo_uring::opcode::MsgRingData::new(
            urgo_uring::types::Fd(ring.fd()),
            0,
            user_data,
            None,
        )
        .build();
        let token = start(&mut sender, Kind::OneShot, -1, who, message);
        assert_eq!(finish(&mut sender, token), 0);
        ring.wait(None);
        ring.poll();
        assert_eq!(reap_ready(&mut ring), []);
    }
    let counters = *ring.counters();
    assert_eq!((counters.stale, counters.dup, counters.foreign), (1, 1, 1));
    assert_eq!(ring.outcome(done).res, 0);
    ring.check().unwrap();
}
