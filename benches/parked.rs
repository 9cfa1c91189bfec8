//! Question: what does a parked goroutine cost in memory, mappings and spawn time, and what is left after a peak of them?
//!
//! Workload: N goroutines are spawned by one and sleep until one moment; then all end. Memory is resident bytes plus page
//! tables, less what the process used before the first; it includes control block, stack and timer. The time per spawn is
//! that of the spawning loop, during which workers start what was spawned, too.
//! Each configuration runs in a process of its own, with default sysctls and one worker per CPU.
//!
//! It is not a measure of goroutines that use their stacks: these touch the one page that every parked goroutine keeps.
//!
//! Options: `--quick` (2,000 goroutines), `--only WORD`, `--json FILE`.

mod harness;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use harness::{Options, Report, allowed_cpus};
use urgo::time::Instant;
use urgo_sys::memory::{page_table_bytes, resident_bytes, vma_count};

/// What a child process measures: goroutines, stack bytes.
const CHILD: &str = "URGO_BENCH_PARKED";
const STACK_DEFAULT: usize = 256 * 1024;

fn main() {
    if let Ok(configuration) = std::env::var(CHILD) {
        let (count, stack) = configuration.split_once(' ').expect("two numbers");
        return measure(count.parse().unwrap(), stack.parse().unwrap());
    }
    let mut options = Options::from_args(1);
    let mut report = Report::open("parked", &allowed_cpus(), &mut options);
    let counts: &[usize] = if options.quick {
        &[2_000]
    } else {
        &[100_000, 1_000_000]
    };
    println!(
        "\n{:<28}{:>14}{:>12}{:>8}{:>14}{:>14}{:>16}",
        "goroutines, stack",
        "bytes each",
        "budget",
        "VMAs",
        "spawn ns",
        "peak MiB",
        "left after 5 s"
    );
    for &count in counts {
        for (stack, budget) in [(64 * 1024, 4.5), (STACK_DEFAULT, 4.9)] {
            let case = format!("{count}, {} KiB", stack / 1024);
            if options.wants(&case) {
                run_child(&mut report, &case, count, stack, budget);
            }
        }
    }
    println!("\nbudgets: fewer than 100 VMAs more than before; less than 25 % of the peak left");
}

fn run_child(report: &mut Report, case: &str, count: usize, stack: usize, budget_kib: f64) {
    let output = Command::new(std::env::current_exe().expect("this program has a path"))
        .env(CHILD, format!("{count} {stack}"))
        .output()
        .expect("the child process starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [each, vmas, spawn_ns, peak, left] = numbers[..] else {
        println!(
            "{case:<28} failed, {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    };
    println!(
        "{case:<28}{each:>14.0}{:>12.0}{vmas:>8.0}{spawn_ns:>14.1}{:>14.1}{:>15.1}%",
        budget_kib * 1024.0,
        peak / f64::from(1 << 20),
        100.0 * left
    );
    for (metric, value) in [
        ("bytes_each", each),
        ("vmas", vmas),
        ("spawn_ns", spawn_ns),
        ("left_fraction", left),
    ] {
        report.line(case, "urgo", metric, vec![value]);
    }
}

fn used() -> usize {
    resident_bytes().expect("/proc is there") + page_table_bytes().expect("/proc is there")
}

/// In a child: prints bytes per goroutine, VMAs more, ns per spawn, bytes at the peak, fraction left 5 s after the end.
fn measure(count: usize, stack: usize) {
    let runtime = urgo::Runtime::builder()
        .stack_size(stack)
        .build()
        .expect("a runtime");
    runtime.run(|| {
        let (before, vmas_before) = (used(), vma_count().expect("/proc is there"));
        let parked = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        // All sleep until one moment, which leaves time to spawn them and to look.
        let start = Instant::now();
        let end = start + Duration::from_secs(2) + Duration::from_micros(15) * count as u32;
        for _ in 0..count {
            let (parked, ended) = (parked.clone(), ended.clone());
            drop(urgo::spawn(move || {
                parked.fetch_add(1, Ordering::Relaxed);
                urgo::time::sleep_until(end);
                ended.fetch_add(1, Ordering::Relaxed);
            }));
        }
        let spawn_ns = start.elapsed().as_nanos() as f64 / count as f64;
        while parked.load(Ordering::Relaxed) < count {
            urgo::sleep(Duration::from_millis(1));
        }
        urgo::sleep(Duration::from_millis(100));
        let (peak, vmas) = (used(), vma_count().expect("/proc is there"));
        assert!(
            ended.load(Ordering::Relaxed) == 0,
            "the machine is too slow: some ended before the peak was measured"
        );
        while ended.load(Ordering::Relaxed) < count {
            urgo::sleep(Duration::from_millis(10));
        }
        urgo::sleep(Duration::from_secs(5));
        println!(
            "{} {} {spawn_ns} {peak} {}",
            peak.saturating_sub(before) as f64 / count as f64,
            vmas - vmas_before,
            used() as f64 / peak as f64
        );
    });
}
