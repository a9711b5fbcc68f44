//! How much memory a program's own files take once they are locked: for this process, and for the installed daemon.

use std::os::unix::fs::FileExt;
use std::path::Path;

use punctual_platform::read;

/// The daemon's name, in the same folder as the program that checks its manifests.
const DAEMON: &str = "punctuald";
/// Memory is mapped in pages of this number of bytes.
const PAGE: u64 = 4096;
/// Most program headers that are read: more than any linker writes.
const HEADERS_MAX: u16 = 128;

/// Bytes of all files that this process has mapped: the program and its libraries, as long as it has mapped no others.
/// 0 if the kernel does not tell.
pub fn of_this_process() -> u64 {
    maps().map_or(0, |maps| files_in(&maps, |_| true))
}

/// The same for the daemon in the same folder as this program, which has other code and the same libraries; for this process
/// if there is none.
pub fn of_the_daemon() -> u64 {
    let installed = || {
        let this = std::env::current_exe().ok()?;
        let daemon = loaded(&this.with_file_name(DAEMON))?;
        let libraries = files_in(&maps()?, |name| Path::new(name) != this);
        Some(libraries + daemon)
    };
    installed().unwrap_or_else(of_this_process)
}

fn maps() -> Option<String> {
    std::fs::read_to_string("/proc/self/maps").ok()
}

fn files_in(maps: &str, counts: impl Fn(&str) -> bool) -> u64 {
    let bytes = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let name = fields.nth(4)?;
        let address = |hex| u64::from_str_radix(hex, 16).ok();
        let bytes = address(end)?.checked_sub(address(start)?)?;
        (name.starts_with('/') && counts(name)).then_some(bytes)
    };
    maps.lines().filter_map(bytes).sum()
}

/// Bytes of an executable file that the kernel maps: the pages of its loaded segments. None if it is no 64-bit ELF file.
fn loaded(path: &Path) -> Option<u64> {
    let file = read::open(path).ok()?;
    let field = |at: u64, bytes: usize| {
        let mut field = [0; 8];
        file.read_exact_at(&mut field[..bytes], at).ok()?;
        Some(u64::from_le_bytes(field))
    };
    if field(0, 5)?.to_le_bytes()[..5] != *b"\x7fELF\x02" {
        return None;
    }
    let (table, size, count) = (field(32, 8)?, field(54, 2)?, field(56, 2)?);
    let segment = |number: u64| {
        const LOADED: u64 = 1;
        let at = table.checked_add(number * size)?;
        if field(at, 4)? != LOADED {
            return Some(0);
        }
        let (start, bytes) = (field(at + 16, 8)?, field(at + 32, 8)?);
        let end = start.checked_add(bytes)?.checked_next_multiple_of(PAGE)?;
        Some(end - start / PAGE * PAGE)
    };
    (0..count.min(HEADERS_MAX.into())).map(segment).sum()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{files_in, loaded, maps};

    #[test]
    fn mapped_files_are_added_up_and_nothing_else() {
        let maps = "1000-3000 r-xp 00000000 08:01 12 /usr/bin/punctuald\n\
                    3000-4000 rw-p 00000000 00:00 0 \n\
                    5000-6000 r--p 00001000 08:01 13 /usr/lib/libc.so.6\n\
                    7000-9000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(files_in(maps, |_| true), 0x3000);
        assert_eq!(files_in(maps, |name| name.ends_with(".6")), 0x1000);
    }

    #[test]
    fn what_the_kernel_maps_of_a_file_is_read_from_its_headers() {
        let this = std::env::current_exe().unwrap();
        let mapped = files_in(&maps().unwrap(), |name| Path::new(name) == this);
        assert_eq!(loaded(&this), Some(mapped));
    }

    #[test]
    fn what_is_no_program_has_no_size() {
        for path in ["/proc/self/maps", "/dev/null", "/nowhere"] {
            assert_eq!(loaded(Path::new(path)), None, "{path}");
        }
    }
}
