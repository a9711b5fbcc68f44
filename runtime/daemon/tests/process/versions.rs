//! A folder of versions of a package, and a newer one that is of no use.

use std::fs;
use std::process::Stdio;

use crate::support::{Daemon, Folder, MANIFEST};

#[test]
fn a_newer_version_that_is_damaged_is_named_and_the_one_before_it_served() {
    let folder = Folder::with(&MANIFEST.replace("\"signs.punctual\"", "\"signs/\""));
    fs::create_dir(folder.path("signs")).expect("a folder");
    for (from, to) in [
        ("signs.punctual", "signs/1.punctual"),
        ("signs.profile.json", "signs/1.profile.json"),
    ] {
        fs::rename(folder.path(from), folder.path(to)).expect("it is there");
    }
    folder.write("signs/2.punctual", b"half of a package");
    let daemon = Daemon::start_as(folder, |command| {
        command.stderr(Stdio::piped());
    });
    daemon.signal("TERM");
    let (status, words, _) = daemon.end_with_words();
    assert_eq!(status.code(), Some(0), "{words}");
    assert!(
        words.contains("\"signs/2.punctual\" is newer than \"signs/1.punctual\""),
        "{words}"
    );
}
