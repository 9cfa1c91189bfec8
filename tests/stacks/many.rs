//! A hundred thousand stacks: mappings, memory, and what happens where the kernel has no more.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use urgo::JoinError;
use urgo::go::StackError;
use urgo_sys::guard::{GuardRoad, probe};
use urgo_sys::memory::{page_table_bytes, resident_bytes, vma_count};

use crate::support::{alone, runtime, wait_until};

#[test]
fn a_hundred_thousand_parked_goroutines_fit_in_a_hundred_mappings() {
    if probe() != GuardRoad::Marker {
        println!("note: skipped, this kernel has no guard markers");
        return;
    }
    alone!(|| {
        let before = vma_count().unwrap();
        let most = runtime(2).run(|| {
            let parked = Arc::new(AtomicUsize::new(0));
            for _ in 0..100_000 {
                let parked = parked.clone();
                drop(urgo::spawn(move || {
                    parked.fetch_add(1, Ordering::SeqCst);
                    urgo::sleep(Duration::MAX);
                }));
            }
            wait_until("all park", || parked.load(Ordering::SeqCst) == 100_000);
            vma_count().unwrap()
        });
        assert!(most < before + 100, "{before} before, {most} with them");
    });
}

/// Where each guard is a mapping of its own, there is an end to them: goroutines beyond it do not start, say why, and
/// everything else goes on.
#[test]
fn where_guards_are_mappings_the_limit_is_a_typed_error() {
    alone!(&[("URGO_DISABLE", "guard_install")], || {
        assert_ne!(probe(), GuardRoad::Marker);
        runtime(2).run(|| {
            let (parked, release) = (
                Arc::new(AtomicUsize::new(0)),
                Arc::new(AtomicBool::new(false)),
            );
            let ended = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..50_000)
                .map(|_| {
                    let (parked, release) = (parked.clone(), release.clone());
                    let own = crate::support::OnDrop({
                        let ended = ended.clone();
                        move || {
                            ended.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                    urgo::spawn(move || {
                        let _own = own;
                        parked.fetch_add(1, Ordering::SeqCst);
                        while !release.load(Ordering::SeqCst) {
                            urgo::sleep(Duration::from_millis(100));
                        }
                    })
                })
                .collect();
            wait_until("each parks or is refused", || {
                parked.load(Ordering::SeqCst) + ended.load(Ordering::SeqCst) == 50_000
            });
            // The process is not at its wits' end: it can still map memory and start threads.
            assert_eq!(
                std::thread::spawn(|| vec![1_u8; 10 << 20].len())
                    .join()
                    .unwrap(),
                10 << 20
            );
            release.store(true, Ordering::SeqCst);
            let (mut ran, mut refused) = (0, 0);
            for handle in handles {
                match handle.join() {
                    Ok(()) => ran += 1,
                    Err(JoinError::NoStack(error)) => {
                        let error: StackError = error;
                        let text = error.to_string();
                        assert!(text.contains("vm.max_map_count"), "{text}");
                        refused += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            assert!(
                ran > 1000 && refused > 0,
                "{ran} ran, {refused} were refused"
            );
            // And when stacks are free again, the next goroutine gets one.
            urgo::spawn(|| ()).join().unwrap();
        });
    });
}

/// AnonHugePages, in KiB, of the mappings that hold the given addresses. (Other mappings may have them: the allocator's.)
fn huge_page_kib(addresses: &BTreeSet<usize>) -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut sum, mut seen, mut is_ours) = (0, 0, false);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        let hex = |text| usize::from_str_radix(text, 16);
        if let Some((Ok(from), Ok(to))) = first.split_once('-').map(|(a, b)| (hex(a), hex(b))) {
            is_ours = addresses.range(from..to).next().is_some();
            seen += usize::from(is_ours);
        } else if first == "AnonHugePages:" && is_ours {
            sum += words.next().unwrap().parse::<usize>().unwrap();
        }
    }
    assert!(seen > 0, "no mapping holds a stack");
    sum
}

#[test]
fn memory_falls_after_a_peak_of_goroutines_that_used_their_stacks() {
    alone!(|| {
        let used = || resident_bytes().unwrap() + page_table_bytes().unwrap();
        // 100,000 goroutines that touch 32 KiB each are 3.4 GiB, more than small test machines have.
        let count: usize = 20_000;
        let base = used();
        runtime(2).run(|| {
            let (parked, release) = (
                Arc::new(AtomicUsize::new(0)),
                Arc::new(AtomicBool::new(false)),
            );
            let stacks = Arc::new(Mutex::new(BTreeSet::new()));
            let handles: Vec<_> = (0..count)
                .map(|_| {
                    let (parked, release) = (parked.clone(), release.clone());
                    let stacks = stacks.clone();
                    urgo::spawn(move || {
                        let touched = std::hint::black_box([1_u8; 32 * 1024]);
                        stacks.lock().unwrap().insert(touched.as_ptr() as usize);
                        parked.fetch_add(1, Ordering::SeqCst);
                        while !release.load(Ordering::SeqCst) {
                            urgo::sleep(Duration::from_millis(50));
                        }
                        std::hint::black_box(&touched);
                    })
                })
                .collect();
            wait_until("all park", || parked.load(Ordering::SeqCst) == count);
            let peak = used();
            assert!(peak - base > count * 32 * 1024, "{base} {peak}");
            assert_eq!(
                huge_page_kib(&stacks.lock().unwrap()),
                0,
                "huge pages on stacks"
            );
            release.store(true, Ordering::SeqCst);
            for handle in handles {
                handle.join().unwrap();
            }
            let ended = Instant::now();
            wait_until("memory to fall below a quarter of the peak", || {
                used() < peak / 4
            });
            println!(
                "note: {} MiB at the peak, {} MiB {:?} after",
                peak >> 20,
                used() >> 20,
                ended.elapsed()
            );
        });
    });
}
