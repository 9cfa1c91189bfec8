//! An idle runtime is idle, and signals disturb nobody.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use urgo::net::{TcpListener, TcpStream};

use crate::support::{alone, runtime, wait_until};

/// User and system time of this process, in nanoseconds.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec of ours.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A thousand connections whose both ends wait to be read, each end in a goroutine. Returns when all wait.
fn park_a_thousand_sockets() -> Vec<urgo::JoinHandle<()>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let parked = Arc::new(AtomicUsize::new(0));
    let mut handles = Vec::new();
    for _ in 0..500 {
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        for mut stream in [client, server] {
            let parked = parked.clone();
            handles.push(urgo::spawn(move || {
                parked.fetch_add(1, Ordering::SeqCst);
                let _ = stream.read(&mut [0; 64]);
            }));
        }
    }
    wait_until("all to park", || parked.load(Ordering::SeqCst) == 1000);
    handles
}

/// Ticks of iowait of all CPUs.
fn iowait() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let all = stat.lines().next().unwrap();
    all.split_whitespace().nth(5).unwrap().parse().unwrap()
}

#[test]
fn an_idle_runtime_with_a_thousand_sockets_uses_no_cpu() {
    alone!(|| {
        runtime(2).run(|| {
            let handles = park_a_thousand_sockets();
            // Stacks may be trimmed and counters published a while longer.
            urgo::sleep(Duration::from_millis(1500));
            // Reading /proc/stat takes milliseconds of CPU, so it stays outside of what is measured.
            let io = iowait();
            let (cpu, start) = (cpu_ns(), Instant::now());
            urgo::sleep(Duration::from_secs(3));
            let (cpu, wall) = (cpu_ns() - cpu, start.elapsed().as_nanos() as u64);
            let io = iowait() - io;
            println!(
                "note: idle for {} ms: {} us of CPU, {io} ticks of iowait on all CPUs",
                wall / 1_000_000,
                cpu / 1000
            );
            assert!(cpu < wall / 100, "{cpu} ns of CPU in {wall} ns");
            assert!(handles.iter().all(|handle| !handle.is_finished()));
        });
    });
}

/// Two workers that wait in their rings for three seconds would show as 600 ticks of iowait if they counted.
#[test]
fn waiting_in_the_ring_is_not_iowait_where_the_kernel_can_tell() {
    let kernel = urgo_sys::host::KernelVersion::current();
    if (kernel.major, kernel.minor) < (6, 15) {
        println!("note: skipped, this kernel counts every ring wait as iowait");
        return;
    }
    alone!(|| {
        runtime(2).run(|| {
            let _handles = park_a_thousand_sockets();
            let mut least = u64::MAX;
            // Others on this machine may wait for disks: one quiet round is enough.
            for _ in 0..3 {
                let before = iowait();
                urgo::sleep(Duration::from_millis(1000));
                least = least.min(iowait() - before);
                if least < 20 {
                    return;
                }
            }
            panic!("at least {least} ticks of iowait per second of idling");
        });
    });
}

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

/// Signals interrupt the workers' waits all the time; no call of ours shows it.
#[test]
fn a_storm_of_signals_at_the_workers_surfaces_nowhere() {
    alone!(|| {
        // SAFETY: the handler only counts; without SA_RESTART every interrupted system call says so.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count_signal as *const () as usize;
            assert_eq!(
                libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()),
                0
            );
        }
        runtime(2).run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let workers: Vec<i32> = std::fs::read_dir("/proc/self/task")
                .unwrap()
                .filter_map(|entry| {
                    let entry = entry.unwrap();
                    let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                    name.starts_with("urgo-w")
                        .then(|| entry.file_name().to_str()?.parse().ok())?
                })
                .collect();
            assert_eq!(workers.len(), 2);
            let of = stop.clone();
            let storm = std::thread::spawn(move || {
                while !of.load(Ordering::SeqCst) {
                    for worker in &workers {
                        // SAFETY: the thread group is ours; a thread that is gone is an error, not a fault.
                        unsafe {
                            libc::syscall(libc::SYS_tgkill, libc::getpid(), *worker, libc::SIGUSR1)
                        };
                    }
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = urgo::spawn(move || {
                for _ in 0..50 {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut bytes = [0; 5];
                    stream.read_exact(&mut bytes).unwrap();
                    stream.write_all(&bytes).unwrap();
                }
            });
            for _ in 0..50 {
                let mut stream = TcpStream::connect(address).unwrap();
                let before = Instant::now();
                urgo::sleep(Duration::from_millis(1));
                assert!(before.elapsed() >= Duration::from_millis(1));
                stream.write_all(b"hello").unwrap();
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"hello");
                assert_eq!(urgo::blocking(|| 1), 1);
            }
            server.join().unwrap();
            wait_until("a hundred signals", || SIGNALS.load(Ordering::SeqCst) > 100);
            stop.store(true, Ordering::SeqCst);
            wait_until("the storm's end", || storm.is_finished());
        });
    });
}
