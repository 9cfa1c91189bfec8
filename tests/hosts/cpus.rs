//! Workers sit on the CPUs that they may use, one each, and nobody else inherits that.

use std::collections::BTreeSet;
use std::process::Command;

use urgo::go::{Builder, Placement};
use urgo::{BuildError, Runtime};
use urgo_sys::cpu::{CpuSet, affinity, set_affinity};

use crate::support::alone;

/// The mask of each worker, by index, as the workers' threads themselves see it.
fn masks(runtime: Runtime) -> Vec<String> {
    runtime.run(|| {
        (0..urgo::Handle::current().workers())
            .map(|index| {
                let builder = Builder::new().placement(Placement::Worker(index));
                let mask = builder.spawn(|| affinity().unwrap().to_string()).unwrap();
                mask.join().unwrap()
            })
            .collect()
    })
}

fn cpus() -> Vec<usize> {
    affinity().unwrap().iter().collect()
}

#[test]
fn a_mask_of_one_cpu_gives_one_worker_on_that_cpu() {
    alone!(|| {
        for cpu in cpus() {
            set_affinity(&[cpu].into_iter().collect()).unwrap();
            let runtime = Runtime::builder().build().unwrap();
            assert_eq!(runtime.handle().metrics().workers[0].cpu, Some(cpu));
            assert_eq!(masks(runtime), [cpu.to_string()]);
            set_affinity(&cpus_of_process()).unwrap();
        }
    });
}

/// The mask of the process's first thread's parent: what the harness was started with.
fn cpus_of_process() -> CpuSet {
    let status = std::fs::read_to_string("/proc/1/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap();
    list.parse().unwrap()
}

#[test]
fn by_default_there_is_one_worker_on_each_cpu() {
    alone!(|| {
        let all: BTreeSet<String> = cpus().iter().map(ToString::to_string).collect();
        let masks = masks(Runtime::builder().build().unwrap());
        let used: BTreeSet<String> = masks.iter().cloned().collect();
        assert_eq!(used.len(), masks.len(), "two workers on one CPU: {masks:?}");
        assert!(used.is_subset(&all), "{masks:?} of {all:?}");
        if urgo_sys::quota::cpu_quota().is_none() {
            assert_eq!(used, all);
        }
    });
}

#[test]
fn named_cpus_are_used_in_their_order_and_wrap() {
    alone!(|| {
        let mut cpus = cpus();
        cpus.reverse();
        let expected: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        assert_eq!(
            masks(Runtime::builder().cpus(&cpus).build().unwrap()),
            expected
        );
        let twice = Runtime::builder().cpus(&cpus).workers(2 * cpus.len());
        let wrapped: Vec<String> = expected.iter().chain(&expected).cloned().collect();
        assert_eq!(masks(twice.build().unwrap()), wrapped);
    });
}

#[test]
fn a_cpu_outside_the_mask_is_refused_with_the_mask() {
    alone!(|| {
        let mask = affinity().unwrap().to_string();
        let error = Runtime::builder().cpus(&[7777]).build().unwrap_err();
        let BuildError::CpuNotAllowed { cpu, allowed } = &error else {
            panic!("{error:?}");
        };
        assert_eq!((*cpu, allowed), (7777, &mask));
        let text = error.to_string();
        assert!(text.contains("7777") && text.contains(&mask), "{text}");
        let all = cpus();
        if all.len() < 2 {
            return;
        }
        set_affinity(&[all[0]].into_iter().collect()).unwrap();
        let error = Runtime::builder().cpus(&[all[1]]).build().unwrap_err();
        assert!(
            matches!(error, BuildError::CpuNotAllowed { .. }),
            "{error:?}"
        );
    });
}

#[test]
fn helper_threads_and_children_keep_the_processs_mask() {
    alone!(|| {
        let mask = affinity().unwrap().to_string();
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let outside = affinity().unwrap().to_string();
        assert_eq!(outside, mask, "building changed the caller's mask");
        runtime.run(|| {
            let of_blocking = urgo::blocking(|| affinity().unwrap().to_string());
            assert_eq!(of_blocking, mask);
            let of_child = urgo::blocking(|| {
                let output = Command::new("grep")
                    .args(["Cpus_allowed_list", "/proc/self/status"])
                    .output();
                String::from_utf8(output.unwrap().stdout).unwrap()
            });
            assert_eq!(of_child.split_whitespace().last(), Some(mask.as_str()));
        });
        assert_eq!(affinity().unwrap().to_string(), mask);
    });
}

#[test]
fn unpinned_workers_keep_the_processs_mask() {
    alone!(|| {
        let mask = affinity().unwrap().to_string();
        let masks = masks(Runtime::builder().workers(2).pin(false).build().unwrap());
        assert_eq!(masks, [mask.clone(), mask]);
    });
}
