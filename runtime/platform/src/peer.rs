//! The process at the other end of a Unix socket.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::{OsError, check};

/// The process that connected, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

pub fn credentials(socket: BorrowedFd<'_>) -> Result<PeerCredentials, OsError> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut bytes = size_of_val(&found) as libc::socklen_t;
    // SAFETY: a structure of ours, of as many bytes as `bytes` says.
    check("getsockopt(SO_PEERCRED)", unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut bytes,
        )
    })?;
    Ok(PeerCredentials {
        pid: found.pid,
        uid: found.uid,
        gid: found.gid,
    })
}

/// The user that this process acts as.
#[must_use]
pub fn own_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Room for groups in the first call. Most users have fewer, so that one call is enough.
const GROUPS_USUAL: usize = 32;

/// The supplementary groups of the process that connected, as they were then (Linux 4.13).
pub fn supplementary_groups(socket: BorrowedFd<'_>) -> Result<Vec<u32>, OsError> {
    let mut groups = vec![0_u32; GROUPS_USUAL];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the buffer has as many bytes as `bytes` says, and both live beyond the call.
        let result = check("getsockopt(SO_PEERGROUPS)", unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        });
        let found = bytes as usize / size_of::<u32>();
        match result {
            Ok(_) => {
                groups.truncate(found);
                return Ok(groups);
            }
            // The kernel says how many there are. They cannot change: they are those at the time of connecting.
            Err(error) if error.code() == Some(libc::ERANGE) && found > groups.len() => {
                groups.resize(found, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_groups_of_a_peer_in_this_process_are_its_own() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut found = supplementary_groups(ours.as_fd()).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        let mut own: Vec<u32> = line
            .unwrap()
            .split_whitespace()
            .map(|group| group.parse().unwrap())
            .collect();
        found.sort_unstable();
        own.sort_unstable();
        assert_eq!(found, own);
    }

    #[test]
    fn a_file_has_no_peer() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(supplementary_groups(file.as_fd()).is_err());
    }
}
