//! A daemon makes its sockets where no other process has one, and removes its own only.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::support::{Daemon, Folder, MANIFEST};
use punctual_daemon::Report;

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).expect("it is there").ino()
}

#[test]
fn a_stopping_daemon_leaves_its_successors_sockets_alone() {
    let second = Folder::with(MANIFEST);
    let mut first = Folder::with(MANIFEST);
    first.socket = Some(second.socket());
    let first = Daemon::start_in(first);
    let paths = [
        first.socket(),
        punctual_daemon::metrics_socket(&first.socket()),
    ];
    // Made room by hand, as before an upgrade that did not wait.
    for path in &paths {
        std::fs::remove_file(path).expect("it is there");
    }
    let second = Daemon::start_in(second);
    let made = paths.each_ref().map(|path| inode(path));
    first.stop();
    assert_eq!(paths.each_ref().map(|path| inode(path)), made);
    assert!(Report::live(&paths[0]).is_ok());
    second.stop();
    assert!(paths.iter().all(|path| !path.exists()));
}

#[test]
fn somebody_elses_socket_at_the_metrics_path_is_refused_and_stays() {
    let folder = Folder::with(MANIFEST);
    let path = folder.path("socket.metrics");
    let foreign = UnixListener::bind(&path).expect("a socket");
    let made = inode(&path);
    let (code, said) = folder.refusal(&[]);
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("socket.metrics: another daemon is listening"),
        "{said}"
    );
    assert_eq!(inode(&path), made);
    // What a dead one left is replaced.
    drop(foreign);
    Daemon::start_in(folder).stop();
    assert!(!path.exists());
}

#[test]
fn a_path_whose_metrics_do_not_fit_is_refused_before_anything_is_started() {
    let folder = Folder::with(MANIFEST);
    let fitting = |bytes: usize| {
        let mut path = std::env::temp_dir().into_os_string();
        path.push("/");
        path.push("x".repeat(bytes - path.len()));
        path
    };
    for bytes in 100..=107 {
        let mut command = folder.command_at(Path::new(&fitting(bytes)));
        let output = command.output().expect("punctuald runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains(&format!("{bytes} bytes, more than 99")),
            "{said}"
        );
    }
    let mut longest = Folder::with(MANIFEST);
    longest.socket = Some(fitting(99).into());
    let daemon = Daemon::start_in(longest);
    assert!(Report::live(&daemon.socket()).is_ok());
    daemon.stop();
}
