//! How much of the machine this process uses, from `/proc/self`: for tests, benches and dumps, never for a hot path.

use std::fs::File;
use std::io::{self, Read};

use crate::host::status_field;

/// Resident memory in bytes: the second field of `/proc/self/statm`. The kernel's counters lag a little behind (per-CPU
/// batches).
///
/// # Errors
/// Those of reading `/proc`; `InvalidData` if the text is not as documented.
pub fn resident_bytes() -> io::Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages * crate::mapping::page_bytes())
}

/// Bytes of page tables: `VmPTE` of `/proc/self/status`.
///
/// # Errors
/// As [`resident_bytes`].
pub fn page_table_bytes() -> io::Result<usize> {
    Ok(status_number("VmPTE:")? * 1024)
}

/// Bytes of address space in use: `VmSize` of `/proc/self/status`.
///
/// # Errors
/// As [`resident_bytes`].
pub fn address_space_bytes() -> io::Result<usize> {
    Ok(status_number("VmSize:")? * 1024)
}

/// Threads of this process: `Threads` of `/proc/self/status`.
///
/// # Errors
/// As [`resident_bytes`].
pub fn thread_count() -> io::Result<usize> {
    status_number("Threads:")
}

/// Mappings of this process: lines of `/proc/self/maps`. Costs about a microsecond per mapping.
///
/// # Errors
/// Those of reading `/proc`.
pub fn vma_count() -> io::Result<usize> {
    let mut maps = File::open("/proc/self/maps")?;
    // On the stack: asked when no mapping is left, where an allocation might be one too many. The kernel fills a page a time.
    let mut block = [0_u8; 4096];
    let mut lines = 0;
    loop {
        match maps.read(&mut block) {
            Ok(0) => return Ok(lines),
            Ok(len) => lines += block[..len].iter().filter(|&&byte| byte == b'\n').count(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Open descriptors of this process: entries of `/proc/self/fd`, without the one that reads them.
///
/// # Errors
/// Those of reading `/proc`.
pub fn fd_count() -> io::Result<usize> {
    let mut count = 0_usize;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        entry?;
        count += 1;
    }
    Ok(count.saturating_sub(1))
}

fn status_number(title: &str) -> io::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    status_field(&status, title)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Other tests of this binary run beside these and change all of these numbers: counts are compared in a child.

    #[test]
    fn what_is_opened_mapped_and_started_is_counted() {
        const NAME: &str = "memory::tests::what_is_opened_mapped_and_started_is_counted";
        if let Some(child) = crate::testing::child(NAME, "") {
            assert!(child.status.success(), "{child:?}");
            return;
        }
        let fds = fd_count().unwrap();
        let files: Vec<_> = (0..5)
            .map(|_| File::open("/proc/self/maps").unwrap())
            .collect();
        assert_eq!(fd_count().unwrap(), fds + 5);
        drop(files);
        assert_eq!(fd_count().unwrap(), fds);

        let threads = thread_count().unwrap();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            ready.send(()).unwrap();
            let _ = wait.recv();
        });
        started.recv().unwrap();
        assert_eq!(thread_count().unwrap(), threads + 1);
        drop(stop);
        thread.join().unwrap();

        let mapping = crate::mapping::Mapping::reserve(64 << 20).unwrap();
        let resident = resident_bytes().unwrap();
        let tables = page_table_bytes().unwrap();
        let vmas = vma_count().unwrap();
        for at in (0..mapping.len()).step_by(crate::mapping::page_bytes()) {
            crate::mapping::touch(&mapping, at);
        }
        assert!(resident_bytes().unwrap() >= resident + (60 << 20));
        assert!(page_table_bytes().unwrap() > tables);
        // Two guards inside one mapping by the old road: four more mappings.
        let budget: &'static _ = Box::leak(Box::new(crate::guard::VmaBudget::with_limit(8, 8)));
        let page = crate::mapping::page_bytes();
        for at in [page, 8 * page] {
            crate::guard::tests_door::install_protect(&mapping, at, page, budget);
        }
        assert_eq!(vma_count().unwrap(), vmas + 4);
        assert!(address_space_bytes().unwrap() > mapping.len());
    }
}
