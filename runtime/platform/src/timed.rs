//! Reading and writing that ends in time, whatever the other side does: also if it sends a byte now and then.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::{clock, poll};

/// A non-blocking stream that waits for its other side until a time (absolute). From then on nothing is read or written: each
/// call has the error `TimedOut`.
#[derive(Debug)]
pub struct Timed<S> {
    stream: S,
    until_ns: u64,
}

impl<S: AsFd> Timed<S> {
    pub const fn until(stream: S, until_ns: u64) -> Self {
        Self { stream, until_ns }
    }

    /// From now on it waits until another time.
    pub const fn extend(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// What `call` returns once the stream is ready for it, as `ready` waits for.
    fn in_time<T>(
        &mut self,
        ready: fn(BorrowedFd<'_>, Option<u64>) -> bool,
        mut call: impl FnMut(&mut S) -> io::Result<T>,
    ) -> io::Result<T> {
        while clock::now_ns() < self.until_ns {
            match call(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let _is_ready = ready(self.stream.as_fd(), Some(self.until_ns));
                }
                done => return done,
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

impl<S: Read + AsFd> Read for Timed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.in_time(poll::wait_readable, |stream| stream.read(buffer))
    }
}

impl<S: Write + AsFd> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.in_time(poll::wait_writable, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const SHORT_NS: u64 = 20_000_000;
    const LONG_NS: u64 = 30_000_000_000;

    fn pair(limit_ns: u64) -> (Timed<UnixStream>, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        (Timed::until(own, clock::now_ns() + limit_ns), other)
    }

    #[test]
    fn what_comes_in_time_is_read_and_a_silent_other_side_is_waited_for_no_longer() {
        let (mut timed, mut other) = pair(LONG_NS);
        other.write_all(b"in time").unwrap();
        let mut text = [0; 7];
        timed.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"in time");
        timed.extend(clock::now_ns() + SHORT_NS);
        let error = timed.read(&mut text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        timed.extend(clock::now_ns() + LONG_NS);
        drop(other);
        assert_eq!(timed.read(&mut text).unwrap(), 0);
    }

    #[test]
    fn an_other_side_that_always_has_more_is_read_no_longer_either() {
        let endless = std::fs::File::open("/dev/zero").unwrap();
        let mut timed = Timed::until(endless, clock::now_ns() + SHORT_NS);
        let error = io::copy(&mut timed, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn an_other_side_that_reads_nothing_is_written_to_no_longer() {
        let (mut timed, _other) = pair(SHORT_NS);
        let error = timed.write_all(&vec![0; 16 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
