//! Tests of reservations: what they cost, what release gives back, how limits are named.

use super::*;

#[test]
fn a_reservation_is_whole_pages_of_zeroes() {
    let mapping = Mapping::reserve(page_bytes() + 1).unwrap();
    assert_eq!(mapping.len(), 2 * page_bytes());
    assert!(!mapping.is_empty());
    assert_eq!(mapping.base() as usize % page_bytes(), 0);
    assert_eq!(peek(&mapping, mapping.len() - 1), 0);
    assert!(mapping.contains(mapping.base() as usize + mapping.len() - 1));
    assert!(!mapping.contains(mapping.base() as usize + mapping.len()));
    assert!(!mapping.contains(mapping.base() as usize - 1));
}

#[test]
fn release_gives_back_whole_pages_only() {
    let page = page_bytes();
    let mapping = Mapping::reserve(4 * page).unwrap();
    for index in 0..4 {
        touch(&mapping, index * page);
    }
    // From the second byte of page 0 to the middle of page 2: only page 1 is whole.
    // SAFETY: because the test keeps no reference into the mapping; established above; until the reads below.
    unsafe { mapping.release(1..2 * page + page / 2) }.unwrap();
    let left: Vec<u8> = (0..4).map(|index| peek(&mapping, index * page)).collect();
    assert_eq!(left, [0xa5, 0, 0xa5, 0xa5]);
    // SAFETY: as above.
    unsafe { mapping.release(3..7) }.unwrap();
    assert_eq!(peek(&mapping, 0), 0xa5);
}

#[test]
#[should_panic(expected = "is not in a mapping")]
fn release_beyond_the_end_is_a_mistake_of_the_caller() {
    let mapping = Mapping::reserve(page_bytes()).unwrap();
    // SAFETY: because the call panics before it releases anything.
    let _ = unsafe { mapping.release(0..2 * page_bytes()) };
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert_eq!(Mapping::reserve(0).unwrap_err(), MapError::Os(libc::EINVAL));
    for bytes in [usize::MAX, isize::MAX as usize, 1 << 62] {
        let error = Mapping::reserve(bytes).unwrap_err();
        assert!(
            matches!(
                error,
                MapError::OutOfAddressSpace { .. } | MapError::Overcommit { .. }
            ),
            "{error:?}"
        );
    }
}

#[test]
fn a_mapping_is_unmapped_when_dropped_and_never_huge() {
    const NAME: &str = "mapping::tests::a_mapping_is_unmapped_when_dropped_and_never_huge";
    if let Some(child) = crate::testing::child(NAME, "") {
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let before = crate::memory::address_space_bytes().unwrap();
    let mapping = Mapping::reserve(1 << 30).unwrap();
    let resident = crate::memory::resident_bytes().unwrap();
    touch(&mapping, 512 << 20);
    assert!(crate::memory::resident_bytes().unwrap() < resident + (1 << 20));
    assert!(crate::memory::address_space_bytes().unwrap() >= before + (1 << 30));
    let flags = vm_flags(mapping.base() as usize);
    assert!(flags.contains(&"nh".to_owned()), "no huge pages: {flags:?}");
    assert!(flags.contains(&"nr".to_owned()), "no reserve: {flags:?}");
    drop(mapping);
    assert!(crate::memory::address_space_bytes().unwrap() < before + (1 << 30));
}

/// `VmFlags` of the mapping that contains `address`.
fn vm_flags(address: usize) -> Vec<String> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in smaps.lines() {
        let bounds = line.split(' ').next().unwrap().split_once('-');
        let bounds = bounds.and_then(|(start, end)| {
            let start = usize::from_str_radix(start, 16).ok()?;
            Some(start..usize::from_str_radix(end, 16).ok()?)
        });
        if let Some(bounds) = bounds {
            inside = bounds.contains(&address);
        }
        if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
            return flags.split_whitespace().map(str::to_owned).collect();
        }
    }
    panic!("{address:#x} is not mapped");
}

#[test]
fn the_address_space_limit_is_named() {
    const NAME: &str = "mapping::tests::the_address_space_limit_is_named";
    if let Some(child) = crate::testing::child(NAME, "") {
        assert!(child.status.success(), "{child:?}");
        return;
    }
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Some(1 << 31);
    setrlimit(
        Resource::As,
        Rlimit {
            current: limit,
            maximum: limit,
        },
    )
    .unwrap();
    let error = Mapping::reserve(1 << 32).unwrap_err();
    assert_eq!(
        error,
        MapError::AddressSpaceLimit {
            bytes: 1 << 32,
            limit_bytes: 1 << 31
        }
    );
    assert!(error.to_string().contains("RLIMIT_AS"));
}

#[test]
fn messages_name_the_setting_and_the_remedy() {
    let count = MapError::MapCount {
        max_map_count: 65_530,
    };
    assert!(
        count
            .to_string()
            .contains("sysctl -w vm.max_map_count=262120")
    );
    let accounted = MapError::Overcommit { bytes: 1 };
    assert!(accounted.to_string().contains("vm.overcommit_memory is 2"));
    assert!(MapError::Os(libc::EPERM).to_string().contains("EPERM"));
    let io: io::Error = MapError::Os(libc::EPERM).into();
    assert_eq!(io.raw_os_error(), Some(libc::EPERM));
    let io: io::Error = count.into();
    assert_eq!(io.kind(), io::ErrorKind::OutOfMemory);
}
