//! A socket that this user may not connect to.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User};

#[derive(Debug, thiserror::Error)]
#[error(
    "this user may not connect to {socket}, which is of user {user} and group {group} with mode {mode:o}: {}",
    remedy(user, group, *mode),
    socket = socket.display()
)]
pub struct Denied {
    socket: PathBuf,
    user: String,
    group: String,
    mode: u32,
}

impl Denied {
    /// Of the socket, or of its folder, if even the socket cannot be seen.
    pub fn at(socket: &Path) -> Option<Self> {
        let mut seen = socket.ancestors();
        let (path, found) = seen.find_map(|path| Some((path, fs::metadata(path).ok()?)))?;
        let user = User::from_uid(Uid::from_raw(found.uid())).ok().flatten();
        let group = Group::from_gid(Gid::from_raw(found.gid())).ok().flatten();
        Some(Self {
            socket: path.to_owned(),
            user: user.map_or_else(|| found.uid().to_string(), |user| user.name),
            group: group.map_or_else(|| found.gid().to_string(), |group| group.name),
            mode: found.mode() & 0o7777,
        })
    }
}

/// Write permission of its group is what a connection to a socket takes.
fn remedy(user: &str, group: &str, mode: u32) -> String {
    if mode & 0o020 == 0 || group == "root" {
        return format!("ask as user {user}");
    }
    format!("`sudo usermod -aG {group} $USER` and log in again, or ask as user {user}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_joined_only_if_that_helps() {
        assert!(remedy("root", "punctual-clients", 0o660).contains("usermod -aG punctual-clients"));
        assert_eq!(remedy("robot", "robot", 0o700), "ask as user robot");
        assert_eq!(remedy("root", "root", 0o775), "ask as user root");
    }
}
