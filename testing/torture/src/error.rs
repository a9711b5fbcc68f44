//! What keeps a run from running.

use std::io;

use punctual_ipc::ListenError;
use punctual_platform::OsError;
use punctual_platform::thread::ThreadError;

#[derive(Debug, thiserror::Error)]
pub enum RigError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Os(#[from] OsError),
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// A client could not be started, signalled or asked.
    #[error("client process: {0}")]
    Client(#[from] io::Error),
}
