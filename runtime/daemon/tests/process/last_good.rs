//! A configuration that cannot be served does not stop a service whose last one could.

use std::fs;
use std::io::{Read, Write as _, pipe};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Output;

use punctual_model::Package;

use crate::support::{Daemon, Folder, MANIFEST, profile};
use crate::weight_cache::packed;

fn keep(folder: &Folder) -> Output {
    let mut command = folder.command();
    command.arg("--keep").arg(folder.path("kept"));
    command.output().expect("it runs")
}

/// Starts a daemon that has the kept configuration; what it said until it ended, and whether its report calls it the last good.
fn served(folder: Folder) -> (String, bool, Folder) {
    let (mut reader, writer) = pipe().expect("a pipe");
    let kept = folder.path("kept");
    let daemon = Daemon::start_as(folder, |command| {
        command.arg("--last-good").arg(kept).stderr(writer);
    });
    let live = daemon.report().last_good;
    let mut said = String::new();
    let (report, folder) = daemon.stop_and_leave();
    reader.read_to_string(&mut said).expect("what was said");
    assert_eq!(report.last_good, live);
    (said, live, folder)
}

#[test]
fn a_broken_manifest_or_package_is_told_and_the_last_good_configuration_served() {
    let folder = Folder::with(MANIFEST);
    let kept = keep(&folder);
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    let (_, is_last_good, folder) = served(folder);
    assert!(!is_last_good, "the present one is good");

    folder.write(
        "manifest.toml",
        b"[daemon]\nboard = \"host\"\nwatchdog_ms = -1\n",
    );
    let (said, is_last_good, folder) = served(folder);
    assert!(is_last_good);
    assert!(
        said.contains("watchdog_ms") && said.contains("serving the last one that could"),
        "{said}"
    );

    folder.write("manifest.toml", MANIFEST.as_bytes());
    folder.write("signs.punctual", b"what is left of a package");
    let (said, is_last_good, folder) = served(folder);
    assert!(is_last_good && said.contains("signs.punctual"), "{said}");
    // What cannot be served is not kept either.
    let kept = keep(&folder);
    assert_eq!(kept.status.code(), Some(4), "{kept:?}");
    assert!(served(folder).1);
}

/// The bytes of a package with one changed that a device checks only as it loads it.
fn damaged_inside(package: &Package) -> Vec<u8> {
    let mut bytes = package.encode();
    let page = package.images()[0].page(0).expect("a page");
    let begin: Vec<u8> = page[..16].iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut places = bytes.windows(begin.len());
    let at = places.rposition(|found| found == begin);
    bytes[at.expect("it is in the file")] ^= 1;
    bytes
}

#[test]
fn a_network_that_cannot_be_loaded_ends_the_start_and_the_next_serves_the_last_good_configuration()
{
    let folder = Folder::with(MANIFEST);
    let packed = packed();
    let host = punctual_daemon::host::detect().expect("a machine");
    let figures = profile(&host.machine, &host.clocks, &packed).to_json();
    folder.write("signs.profile.json", figures.as_bytes());
    folder.write("signs.punctual", &packed.encode());
    assert_eq!(keep(&folder).status.code(), Some(0));

    folder.write("signs.punctual", &damaged_inside(&packed));
    let kept = folder.path("kept");
    let kept = kept.to_str().expect("text");
    let (code, said) = folder.refusal(&["--last-good", kept]);
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("the device cannot start: model \"signs\""),
        "{said}"
    );
    let (said, is_last_good, _) = served(folder);
    assert!(is_last_good && said.contains("signs.punctual"), "{said}");
}

#[test]
fn without_a_good_configuration_a_broken_one_ends_the_daemon_as_ever() {
    let folder = Folder::with(&MANIFEST.replace("signs.punctual", "none.punctual"));
    let none = folder.path("kept");
    let none = none.to_str().expect("a name of ours");
    let (code, said) = folder.refusal(&["--last-good", none]);
    assert_eq!(code, Some(4), "{said}");
    // A damaged copy is as good as none; both are told.
    folder.write("manifest.toml", MANIFEST.as_bytes());
    assert_eq!(keep(&folder).status.code(), Some(0));
    fs::write(folder.path("kept/current/manifest.toml"), "nonsense").expect("it is there");
    folder.remove("signs.punctual");
    let (code, said) = folder.refusal(&["--last-good", none]);
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("nor can the last good configuration"),
        "{said}"
    );
}

#[test]
fn what_did_not_change_is_kept_without_a_second_copy_and_survives_what_becomes_of_the_original() {
    let folder = Folder::with(MANIFEST);
    assert_eq!(keep(&folder).status.code(), Some(0));
    let package = folder.path("signs.punctual");
    let kept = || {
        let set = fs::canonicalize(folder.path("kept/current")).expect("a set");
        let named = package.strip_prefix("/").expect("an absolute path");
        set.join("files").join(named)
    };
    let inode = |path: &Path| fs::metadata(path).expect("a file").ino();
    let (first, good) = (kept(), fs::read(&package).expect("a package"));
    let changed = |ms: u32| {
        let key = format!("[daemon]\ndrain_timeout_ms = {ms}");
        let changed = MANIFEST.replacen("[daemon]", &key, 1);
        folder.write("manifest.toml", changed.as_bytes());
        let kept = keep(&folder);
        assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    };
    changed(1234);
    let second = kept();
    assert_ne!(first, second);
    assert_eq!(inode(&first), inode(&second));
    assert_ne!(inode(&package), inode(&second));

    // Damaged, with the size and the time of the original: copied anew.
    let time = fs::metadata(&package).and_then(|about| about.modified());
    let damaged = fs::OpenOptions::new().write(true).open(&second);
    let mut damaged = damaged.expect("a file");
    damaged.write_all(b"not a package").expect("room");
    damaged.set_modified(time.expect("a time")).expect("ours");
    changed(1235);
    assert_eq!(fs::read(kept()).expect("a copy"), good);

    // As `cp` does.
    fs::write(&package, b"what is left of a package").expect("room");
    assert_eq!(fs::read(kept()).expect("a copy"), good);
}

#[test]
fn a_kept_configuration_is_replaced_by_the_next_and_nothing_else_in_the_folder_is_touched() {
    let folder = Folder::with(MANIFEST);
    fs::create_dir_all(folder.path("kept/first/files")).expect("a folder");
    fs::write(folder.path("kept/letters.txt"), "of somebody else").expect("a folder");
    assert_eq!(keep(&folder).status.code(), Some(0));
    let first = fs::read_link(folder.path("kept/current")).expect("a link");
    assert_eq!(keep(&folder).status.code(), Some(0), "it is the same");
    assert_eq!(
        fs::read_link(folder.path("kept/current")).expect("a link"),
        first
    );
    let changed = MANIFEST.replacen("[daemon]", "[daemon]\ndrain_timeout_ms = 1234", 1);
    folder.write("manifest.toml", changed.as_bytes());
    let kept = keep(&folder);
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    let second = fs::read_link(folder.path("kept/current")).expect("a link");
    assert_ne!(first, second);
    let entries = fs::read_dir(folder.path("kept")).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["current", "first", "letters.txt", "second"]);
}
