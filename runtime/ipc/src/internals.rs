//! For tests and the fuzz target, not for users: both ends of a channel in one process, and a
//! client that does what it likes.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::bell;
use crate::client::{ClientChannel, ConnectError, Welcome, be_welcomed};
use crate::frame::{FrameSpec, PixelFormat};
use crate::handshake::{Agreement, Hello, StreamTerms};
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;
use crate::server::ServerChannel;
use crate::socket;

/// Both ends of a channel over private memory and a pair of sockets.
///
/// # Panics
/// If there can be no such stream, or when out of memory or descriptors.
#[must_use]
pub fn pair(terms: StreamTerms) -> (ServerChannel, ClientChannel) {
    terms.check().expect("terms that can be");
    let (ours, theirs) = socket::pair().expect("sockets");
    let requests = Region::private(RequestLayout::new(terms.slots, &terms.frame).bytes);
    let results = Region::private(ResultLayout::new(terms.slots, terms.results).bytes);
    let (heard, rung) = bell::pair().expect("an event");
    let memory = (requests, results);
    let server = ServerChannel::new(terms, (ours, heard), memory.clone(), None);
    let client = ClientChannel::new(Agreement::newest(), terms, (theirs, rung), memory, false);
    (server, client)
}

/// Shakes hands as a client does, for one that wants to mistreat what it is given: the socket and
/// the files, of which the third is the bell.
///
/// # Errors
/// If it is refused.
pub fn files(path: &Path, hello: &Hello) -> Result<(OwnedFd, Vec<OwnedFd>), ConnectError> {
    be_welcomed(path, hello, &[]).map(|Welcome { socket, files, .. }| (socket, files))
}

/// A small stream: 4 slots of 8x4 RGB pixels, crops of 4x2, room for 4 results.
#[must_use]
pub fn small_terms() -> StreamTerms {
    StreamTerms {
        stream: 3,
        slots: 4,
        results: 4,
        frame: FrameSpec::packed(PixelFormat::Rgb8, 8, 4),
        crop_width: 4,
        crop_height: 2,
    }
}

/// What a client shares with the daemon, for writing garbage into it.
#[derive(Clone, Debug)]
pub struct Fields {
    /// The file that the client writes.
    pub requests: Region,
    /// Where its words before the payloads end, in bytes.
    pub words_end: usize,
    /// The submission ring's position.
    pub tail: usize,
    /// The submission ring's first cell.
    pub cells: usize,
    /// How many results were read.
    pub results_taken: usize,
    /// Whether the client sleeps.
    pub sleeping: usize,
}

impl Fields {
    /// Of this client.
    #[must_use]
    pub fn of(client: &ClientChannel) -> Self {
        let (requests, layout) = client.requests();
        Self {
            requests: requests.clone(),
            words_end: layout.submissions.end(),
            tail: layout.submissions.tail,
            cells: layout.submissions.cells,
            results_taken: layout.results_taken,
            sleeping: layout.sleeping,
        }
    }
}

/// Rings the daemon without a submission.
pub fn ring(client: &ClientChannel) {
    client.ring();
}
