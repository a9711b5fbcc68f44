//! A mapped file in a process that locked its memory. On its own, since the lock holds for the whole process.

use std::fs::{File, read_to_string, remove_file};

use punctual_platform::{MappedFile, memory};

const BYTES: usize = 8 << 20;

/// Resident bytes of this process's mapping of the file of that name.
fn resident(name: &str) -> usize {
    let maps = read_to_string("/proc/self/smaps").expect("the kernel tells");
    let mut of_file = maps.lines().skip_while(|line| !line.ends_with(name));
    let resident = of_file.find_map(|line| line.strip_prefix("Rss:"));
    let kibibytes = resident.expect("the file is mapped").trim();
    let kibibytes = kibibytes.trim_end_matches("kB").trim().parse::<usize>();
    kibibytes.expect("a number") * 1024
}

#[test]
fn a_file_mapped_after_memory_was_locked_is_neither_locked_nor_read_in() {
    if let Err(missing) = memory::lock_all() {
        println!("skipped: needs {missing}");
        return;
    }
    let name = format!("punctual-mapped-under-lock-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    File::create(&path)
        .and_then(|file| file.set_len(BYTES as u64))
        .expect("a file of zeros");
    let mapped = MappedFile::open(&path).expect("a file");
    assert_eq!(resident(&name), 0);

    assert!(mapped.as_slice().iter().all(|&byte| byte == 0));
    assert_eq!(resident(&name), BYTES, "what was read stays for a while");
    mapped.release();
    assert_eq!(resident(&name), 0, "and goes when told to");
    remove_file(&path).expect("it is there");
}
