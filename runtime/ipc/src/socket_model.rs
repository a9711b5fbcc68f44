//! Whether a connection is over, as the model checker sees it: under a lock, as in the kernel. A
//! model has one connection.

use std::os::fd::BorrowedFd;

use loom::sync::Mutex;

loom::lazy_static! {
    static ref HUNG_UP: Mutex<bool> = Mutex::new(false);
}

/// Closes the connection, for both ends.
pub(crate) fn hang_up(_: BorrowedFd<'_>) {
    *HUNG_UP.lock().expect("no panic") = true;
}

/// Whether either end has closed the connection.
pub(crate) fn is_hung_up(_: BorrowedFd<'_>) -> bool {
    *HUNG_UP.lock().expect("no panic")
}
