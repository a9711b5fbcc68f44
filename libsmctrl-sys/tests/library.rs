//! libsmctrl's API, with libraries of our own in its place, compiled here.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libsmctrl_sys::raw::{Ending, Library, RawError};
use libsmctrl_sys::{Architecture, CudaVersion, DriverKey, TpcMask, stream_mask};

const LIMIT: Duration = Duration::from_secs(20);

/// The driver that the stand-in is for, unless it was told otherwise.
fn driver() -> DriverKey {
    DriverKey {
        architecture: Architecture::X86_64,
        version: CudaVersion::new(12, 6),
        soc: None,
    }
}

/// A stand-in with these macros defined; none where there is no C compiler.
fn stand_in(name: &str, macros: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/libsmctrl.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .args(macros.iter().map(|macro_| format!("-D{macro_}")))
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "{} does not compile", source.display());
            Some(library)
        }
        Err(error) => {
            eprintln!("skipped: no C compiler called cc ({error})");
            None
        }
    }
}

fn open(library: &Path, key: DriverKey, limit: Duration) -> Result<Library, RawError> {
    // SAFETY: the library is the stand-in, whose functions have the types of libsmctrl's. There is no
    // CUDA here, and the loader's lock is set right in a forked child by the C library.
    unsafe { Library::open(library.as_os_str(), key, limit) }
}

/// An object in the place of a stream's.
struct Stream {
    object: Vec<u32>,
}

impl Stream {
    fn new() -> Self {
        Self {
            object: vec![0; 1024],
        }
    }

    /// `call` with a handle of it.
    fn with<T>(&mut self, call: impl FnOnce(*mut c_void) -> T) -> T {
        let mut pointer = self.object.as_mut_ptr();
        call((&raw mut pointer).cast())
    }
}

#[test]
fn a_library_that_agrees_with_our_table_is_opened_and_masks_streams() {
    let Some(file) = stand_in("agrees", &[]) else {
        return;
    };
    let library = open(&file, driver(), LIMIT).expect("it comes back from its first call");
    assert_eq!(library.row().offset, 0x4ec);
    let mask = TpcMask::enabling([0, 3, 70]);
    // SAFETY: a stand-in for a stream, whose object is larger than the offset.
    let read = Stream::new().with(|stream| unsafe {
        library.set_stream_mask(stream, mask).expect("128 TPCs");
        stream_mask::read(stream, library.row().place())
    });
    assert_eq!(read, mask);
}

#[test]
fn a_library_of_64_tpcs_is_used_for_masks_that_it_can_say() {
    let Some(file) = stand_in("old", &["OLD"]) else {
        return;
    };
    let library = open(&file, driver(), LIMIT).expect("it comes back from its first call");
    let mask = TpcMask::enabling([3]);
    // SAFETY: as above.
    Stream::new().with(|stream| unsafe {
        library.set_stream_mask(stream, mask).expect("64 TPCs");
        assert_eq!(stream_mask::read(stream, library.row().place()), mask);
        let wide = library.set_stream_mask(stream, TpcMask::enabling([3, 70]));
        assert!(matches!(wide, Err(RawError::TooManyTpcs { .. })));
        assert_eq!(stream_mask::read(stream, library.row().place()), mask);
    });
}

#[test]
fn a_library_that_ends_the_process_ends_a_child_only_and_is_refused() {
    for (name, ends) in [("exits", Ending::Exited(1)), ("crashes", Ending::Killed(6))] {
        let Some(file) = stand_in(name, &[&name.to_uppercase()]) else {
            return;
        };
        let refused = open(&file, driver(), LIMIT).expect_err("it does not come back");
        assert!(
            matches!(refused, RawError::Ended { ending, .. } if ending == ends),
            "{refused}"
        );
    }
}

#[test]
fn a_library_that_never_comes_back_is_given_up() {
    let Some(file) = stand_in("hangs", &["HANGS"]) else {
        return;
    };
    let limit = Duration::from_millis(200);
    let refused = open(&file, driver(), limit).expect_err("it does not come back");
    let silent = Ending::Silent(limit);
    assert!(
        matches!(refused, RawError::Ended { ending, .. } if ending == silent),
        "{refused}"
    );
}

#[test]
fn a_library_that_writes_elsewhere_than_our_table_says_is_refused() {
    for (name, option, wrote) in [
        ("elsewhere", "OFFSET=0x4fc", Some(0x4fc)),
        ("nowhere", "WRITES_NOTHING", None),
    ] {
        let Some(file) = stand_in(name, &[option]) else {
            return;
        };
        let refused = open(&file, driver(), LIMIT).expect_err("one of them is wrong");
        assert!(
            matches!(refused, RawError::OtherPlace { written, expected: 0x4ec, .. } if written == wrote),
            "{refused}"
        );
    }
}

#[test]
fn a_driver_that_our_table_does_not_know_is_refused_before_anything_is_loaded() {
    let unknown = DriverKey {
        version: CudaVersion::new(14, 2),
        ..driver()
    };
    let refused = open(Path::new("/nowhere/libsmctrl.so"), unknown, LIMIT);
    assert!(matches!(refused, Err(RawError::UnknownDriver(u)) if u.key == unknown));
}

#[test]
fn a_library_that_is_not_there_is_an_error_that_says_what_to_do() {
    let refused = open(Path::new("/nowhere/libsmctrl.so"), driver(), LIMIT)
        .expect_err("there is no such file");
    assert!(matches!(refused, RawError::Load(_)), "{refused}");
    for part in ["LIBSMCTRL_PATH", "/nowhere/libsmctrl.so"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
}

#[test]
fn the_file_that_is_named_is_loaded_or_what_the_loader_finds() {
    assert_eq!(Library::file(Some("/opt/l.so".as_ref())), "/opt/l.so");
    assert_eq!(Library::file(None), "libsmctrl.so");
}

#[test]
fn getters_say_their_number_or_why_not() {
    let Some(file) = stand_in("getters", &[]) else {
        return;
    };
    let library = open(&file, driver(), LIMIT).expect("it comes back from its first call");
    // SAFETY: the stand-in needs no CUDA.
    unsafe {
        assert_eq!(library.tpcs(0).expect("the stand-in has device 0"), 8);
        assert!(matches!(
            library.tpcs(1),
            Err(RawError::Getter { source, .. }) if source.raw_os_error() == Some(19)
        ));
    }
}
