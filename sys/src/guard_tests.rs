//! Tests of the guards, on both roads where the kernel has both.

use super::*;
use crate::mapping::{peek, touch};
use crate::testing;

/// The roads this kernel has, whatever the switch says.
fn roads() -> Vec<GuardRoad> {
    let scratch = Mapping::reserve(page_bytes()).unwrap();
    match mark(&scratch, 0, page_bytes()) {
        Ok(()) => vec![GuardRoad::Marker, GuardRoad::Protect],
        Err(errno) => {
            assert_eq!(errno, libc::EINVAL);
            vec![GuardRoad::Protect]
        }
    }
}

fn budget(limit: usize) -> &'static VmaBudget {
    Box::leak(Box::new(VmaBudget::with_limit(limit, 65_530)))
}

/// Three pages, the middle one a guard, the outer ones touched.
fn guarded(road: GuardRoad, budget: &'static VmaBudget) -> Mapping {
    let page = page_bytes();
    let mapping = Mapping::reserve(3 * page).unwrap();
    touch(&mapping, 0);
    touch(&mapping, 2 * page);
    // SAFETY: because the test keeps no reference into the mapping.
    unsafe { install(&mapping, page, page, road, budget) }.unwrap();
    mapping
}

/// Whether the kernel can write the byte at `offset`: `read` of `/dev/zero` into it.
fn kernel_writes(mapping: &Mapping, offset: usize) -> Result<(), i32> {
    let zero = std::fs::File::open("/dev/zero").unwrap();
    assert!(offset < mapping.len());
    // SAFETY: because the byte lies in a mapping that the test alone knows; until the call returns.
    let read = unsafe {
        libc::read(
            std::os::fd::AsRawFd::as_raw_fd(&zero),
            mapping.base().add(offset).cast(),
            1,
        )
    };
    match read {
        1 => Ok(()),
        _ => Err(crate::errno::last()),
    }
}

/// Whether the kernel can read the byte at `offset`: `write` of it into a pipe.
fn kernel_reads(mapping: &Mapping, offset: usize) -> Result<(), i32> {
    let (_reader, writer) = std::io::pipe().unwrap();
    assert!(offset < mapping.len());
    // SAFETY: because the byte lies in a mapping that the test alone knows; until the call returns.
    let written = unsafe {
        libc::write(
            std::os::fd::AsRawFd::as_raw_fd(&writer),
            mapping.base().add(offset).cast(),
            1,
        )
    };
    match written {
        1 => Ok(()),
        _ => Err(crate::errno::last()),
    }
}

#[test]
fn a_touch_of_the_guard_kills_with_sigsegv() {
    const NAME: &str = "guard::tests::a_touch_of_the_guard_kills_with_sigsegv";
    for road in roads() {
        for at in ["write first", "write last", "read first", "none"] {
            let Some(child) = testing::child(NAME, &format!("{road:?} {at}")) else {
                return die_at_the_guard();
            };
            let stdout = String::from_utf8_lossy(&child.stdout);
            assert!(stdout.contains("standing before the guard"), "{child:?}");
            match at {
                // The harness is not what kills: the same child without the touch lives.
                "none" => assert!(child.status.success(), "{road:?}: {child:?}"),
                _ => assert_eq!(
                    testing::death(&child),
                    Some(libc::SIGSEGV),
                    "{road:?} {at}: {child:?}"
                ),
            }
        }
    }
}

fn die_at_the_guard() {
    testing::no_core_file();
    let argument = testing::argument();
    let (road, at) = argument.split_once(' ').unwrap();
    let road = match road {
        "Marker" => GuardRoad::Marker,
        "Protect" => GuardRoad::Protect,
        other => panic!("{other}"),
    };
    let mapping = guarded(road, budget(8));
    let page = page_bytes();
    touch(&mapping, page - 1);
    touch(&mapping, 2 * page);
    println!("standing before the guard");
    match at {
        "write first" => touch(&mapping, page),
        "write last" => touch(&mapping, 2 * page - 1),
        "read first" => println!("read {}", peek(&mapping, page)),
        _ => {}
    }
}

#[test]
fn the_kernel_gets_efault_from_a_guard() {
    for road in roads() {
        let mapping = guarded(road, budget(8));
        let page = page_bytes();
        assert_eq!(kernel_writes(&mapping, page), Err(libc::EFAULT), "{road:?}");
        assert_eq!(kernel_writes(&mapping, 2 * page - 1), Err(libc::EFAULT));
        assert_eq!(kernel_reads(&mapping, page), Err(libc::EFAULT));
        assert_eq!(kernel_reads(&mapping, page - 1), Ok(()));
        assert_eq!(kernel_writes(&mapping, page - 1), Ok(()));
        assert_eq!(kernel_writes(&mapping, 2 * page), Ok(()));
    }
}

#[test]
fn guards_survive_release() {
    for road in roads() {
        let page = page_bytes();
        let mapping = guarded(road, budget(8));
        // SAFETY: because the test keeps no reference into the mapping.
        unsafe { mapping.release(0..3 * page) }.unwrap();
        assert_eq!(kernel_writes(&mapping, page), Err(libc::EFAULT), "{road:?}");
        assert_eq!(peek(&mapping, 0), 0, "the pages around it were released");
        assert_eq!(peek(&mapping, 2 * page), 0);
    }
}

#[test]
fn a_marker_costs_no_mapping_and_no_budget() {
    const NAME: &str = "guard::tests::a_marker_costs_no_mapping_and_no_budget";
    if !roads().contains(&GuardRoad::Marker) {
        println!("this kernel has no MADV_GUARD_INSTALL");
        return;
    }
    if let Some(child) = testing::child(NAME, "") {
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let page = page_bytes();
    let budget = budget(0);
    let mapping = Mapping::reserve(2000 * page).unwrap();
    let before = memory::vma_count().unwrap();
    for index in 0..1000 {
        // SAFETY: because the test keeps no reference into the mapping.
        unsafe { install(&mapping, 2 * index * page, page, GuardRoad::Marker, budget) }.unwrap();
    }
    // The heap may have grown by a mapping or two; a thousand guards have not.
    assert!(memory::vma_count().unwrap() <= before + 4);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_spent_budget_is_a_typed_error_and_comes_back_with_the_mapping() {
    let page = page_bytes();
    let budget = budget(5);
    let mapping = Mapping::reserve(8 * page).unwrap();
    tests_door::install_protect(&mapping, page, page, budget);
    tests_door::install_protect(&mapping, 3 * page, page, budget);
    assert_eq!((budget.used(), budget.left()), (4, 1));
    // SAFETY: because the test keeps no reference into the mapping.
    let refused = unsafe { install(&mapping, 5 * page, page, GuardRoad::Protect, budget) };
    let error = refused.unwrap_err();
    assert_eq!(
        error,
        GuardError::Budget {
            max_map_count: 65_530,
            used: 4
        }
    );
    assert!(error.to_string().contains("sysctl -w vm.max_map_count="));
    assert!(error.to_string().contains("65530"));
    assert_eq!(kernel_writes(&mapping, 5 * page), Ok(()), "nothing changed");
    drop(mapping);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_refusal_by_the_kernel_names_the_limit_and_gives_the_budget_back() {
    const NAME: &str =
        "guard::tests::a_refusal_by_the_kernel_names_the_limit_and_gives_the_budget_back";
    let max_map_count = limits::max_map_count();
    if max_map_count > 300_000 {
        println!("vm.max_map_count = {max_map_count} is too high to be reached in a test");
        return;
    }
    if let Some(child) = testing::child(NAME, "") {
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let page = page_bytes();
    let budget = budget(usize::MAX);
    let mapping = Mapping::reserve((max_map_count + 16) * page).unwrap();
    let mut installed = 0;
    let error = loop {
        // SAFETY: because the test keeps no reference into the mapping.
        let outcome = unsafe {
            install(
                &mapping,
                2 * installed * page,
                page,
                GuardRoad::Protect,
                budget,
            )
        };
        match outcome {
            Ok(()) => installed += 1,
            Err(error) => break error,
        }
    };
    let used = budget.used();
    // Neither the message nor the count may need a mapping of its own, but the test's own output may.
    drop(mapping);
    assert_eq!(error, GuardError::MapCount { max_map_count });
    assert_eq!(used, 2 * installed);
    assert!(installed > max_map_count / 4);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_budget_of_the_process_leaves_room_for_the_rest() {
    let budget = VmaBudget::process();
    assert!(budget.left() > 0);
    assert!(budget.left() + budget.used() < limits::max_map_count());
    assert!(core::ptr::eq(budget, VmaBudget::process()));
}

#[test]
fn the_switch_forces_the_old_road() {
    const NAME: &str = "guard::tests::the_switch_forces_the_old_road";
    if std::env::var_os(switches::VARIABLE).is_none() {
        assert_eq!(probe(), roads()[0]);
    }
    let Some(child) = testing::child_with(NAME, "", &[(switches::VARIABLE, "x,guard_install")])
    else {
        assert_eq!(probe(), GuardRoad::Protect);
        return;
    };
    assert!(child.status.success(), "{child:?}");
}

#[test]
#[should_panic(expected = "is not whole pages")]
fn a_guard_that_is_not_whole_pages_is_a_mistake_of_the_caller() {
    let mapping = Mapping::reserve(2 * page_bytes()).unwrap();
    // SAFETY: because the call panics before it changes anything.
    let _ = unsafe { install(&mapping, 8, page_bytes(), GuardRoad::Protect, budget(8)) };
}
