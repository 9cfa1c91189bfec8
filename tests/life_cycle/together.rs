//! Several runtimes in one process.

use std::io::{Read, Write};
use std::sync::mpsc;

use urgo::net::{TcpListener, TcpStream};

use crate::support::{runtime, wait_until};

#[test]
fn two_runtimes_talk_to_each_other_over_tcp() {
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        runtime(2).run(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            let handles: Vec<_> = (0..20)
                .map(|_| {
                    let (mut stream, _) = listener.accept().unwrap();
                    urgo::spawn(move || {
                        let mut bytes = Vec::new();
                        stream.read_to_end(&mut bytes).unwrap();
                        stream.write_all(&bytes).unwrap();
                        bytes.len()
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|h| h.join().unwrap())
                .sum::<usize>()
        })
    });
    let address = told.recv().unwrap();
    let received = runtime(2).run(|| {
        let handles: Vec<_> = (0..20_usize)
            .map(|n| {
                urgo::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(&vec![n as u8; 1000 * n]).unwrap();
                    stream.shutdown(urgo::net::Shutdown::Write).unwrap();
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes).unwrap();
                    assert!(bytes.iter().all(|&byte| byte == n as u8));
                    bytes.len()
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|h| h.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(received, 1000 * (19 * 20 / 2));
    assert_eq!(server.join().unwrap(), received);
}

#[test]
fn goroutines_of_two_runtimes_join_each_other() {
    let (a, b) = (runtime(2), runtime(2));
    let (to_a, to_b) = (a.handle(), b.handle());
    let other = std::thread::spawn(move || {
        b.run(|| {
            let handles: Vec<_> = (0..500)
                .map(|n| {
                    let to_a = to_a.clone();
                    urgo::spawn(move || {
                        let far = to_a.spawn(move || {
                            urgo::yield_now();
                            n
                        });
                        far.join().unwrap()
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|h| h.join().unwrap())
                .sum::<usize>()
        })
    });
    let sum = a.run(move || {
        let mut sum = 0;
        // While the other runtime still runs; after its end the answer is "cancelled".
        for n in 0..500 {
            sum += to_b.spawn(move || n).join().unwrap_or(0);
        }
        wait_until("the other side", || other.is_finished());
        (sum, other.join().unwrap())
    });
    assert_eq!(sum.1, 499 * 500 / 2);
    assert!(sum.0 <= 499 * 500 / 2);
}

#[test]
fn a_runtime_runs_inside_a_goroutine_of_another() {
    for _ in 0..10 {
        let value = runtime(1).run(|| {
            let inner = runtime(2).run(|| {
                let handles: Vec<_> = (0..10).map(|n| urgo::spawn(move || n)).collect();
                handles.into_iter().map(|h| h.join().unwrap()).sum::<i32>()
            });
            // And the outer one goes on.
            inner + urgo::spawn(|| 1000).join().unwrap()
        });
        assert_eq!(value, 1045);
    }
}
