//! For tests and the fuzz target, not for users: both ends of a channel in one process, and a
//! client that does what it likes.

use std::os::fd::OwnedFd;
use std::path::Path;

use punctual_platform::areas::Area;
#[cfg(not(loom))]
use punctual_platform::{areas, shared_memory::Access};
use punctual_types::{AnswerKind, Element};

use crate::bell;
use crate::client::{ClientChannel, ConnectError, SharedMemory, Welcome, be_welcomed};
use crate::description::{Description, ExitDescription, OutputDescription, VectorDescription};
use crate::frame::{FrameSpec, PixelFormat};
use crate::handshake::{Agreement, Hello, OutputTerms, StreamTerms};
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;
use crate::server::{ServerChannel, free_slots};
use crate::socket;

/// Both ends of a channel over private memory and a pair of sockets.
///
/// # Panics
/// If there can be no such stream, or when out of memory or descriptors.
#[must_use]
pub fn pair(terms: StreamTerms) -> (ServerChannel, ClientChannel) {
    pair_over(
        terms,
        Description::default(),
        Region::private(0),
        Vec::new(),
    )
}

/// As [`pair`], of a small stream whose only exit has eight floats in each of four areas, and whose frames come with
/// `speed`, two numbers from -1 to 30. An answer may come before a verdict.
///
/// # Panics
/// When out of memory or descriptors.
#[cfg(not(loom))]
#[must_use]
pub fn pair_with_outputs() -> (ServerChannel, ClientChannel) {
    let (terms, description) = terms_with_outputs();
    let (count, bytes) = (terms.outputs.areas, terms.outputs.area_bytes);
    let (count, bytes) = (usize::from(count), bytes as usize);
    let (file, areas) = areas::shared(c"outputs", &[], count, bytes).expect("memory");
    let outputs = Region::of(file.map(Access::Read).expect("memory"));
    pair_over(terms, description, outputs, areas)
}

/// The terms of [`pair_with_outputs`], and the description.
#[must_use]
pub fn terms_with_outputs() -> (StreamTerms, Description) {
    let boxes = OutputDescription {
        name: "boxes".to_owned(),
        element: Element::F32,
        shape: vec![2, 4],
        offset: 64,
        bytes: 32,
    };
    let speed = VectorDescription {
        name: "speed".to_owned(),
        length: 2,
        low: -1.0,
        high: 30.0,
    };
    let description = Description {
        tasks: None,
        answer: AnswerKind::Detections,
        classes: vec!["car".to_owned(), "tram".to_owned()],
        exits: vec![ExitDescription {
            outputs: vec![boxes],
        }],
        vectors: vec![speed],
        input: None,
    };
    let terms = StreamTerms {
        outputs: OutputTerms {
            areas: 4,
            area_bytes: 128,
            description_bytes: 0,
        },
        vectors: 2,
        records: 2,
        ..small_terms()
    };
    (terms, description)
}

/// As [`pair`], over this memory for outputs.
pub(crate) fn pair_over(
    terms: StreamTerms,
    description: Description,
    outputs: Region,
    areas: Vec<Area>,
) -> (ServerChannel, ClientChannel) {
    terms.check().expect("terms that can be");
    let (ours, theirs) = socket::pair().expect("sockets");
    let requests = Region::private(RequestLayout::of(&terms, false).bytes);
    let results = Region::private(ResultLayout::of(&terms).bytes);
    free_slots(&terms, &results);
    let (heard, rung) = bell::pair().expect("an event");
    let memory = SharedMemory {
        requests: requests.clone(),
        results: results.clone(),
        outputs,
        import_buffers: false,
    };
    let server = ServerChannel::new(terms, ours, heard, requests, results, None, areas);
    let newest = Agreement::newest();
    let client = ClientChannel::new(newest, terms, description, theirs, rung, memory);
    (server, client)
}

/// Shakes hands as a client does, for one that wants to mistreat what it is given: the socket and
/// the files, of which the fourth is the bell. The daemon waits until [`say_mapped`].
///
/// # Errors
/// If it is refused.
pub fn welcomed(path: &Path, hello: &Hello) -> Result<(OwnedFd, Vec<OwnedFd>), ConnectError> {
    be_welcomed(path, hello, &[]).map(|Welcome { socket, files, .. }| (socket, files))
}

/// Says to the daemon that these files have been mapped, whether or not that is so.
///
/// # Panics
/// If there is no bell among them.
pub fn say_mapped(files: &[OwnedFd]) {
    let bell = files[3].try_clone().expect("a descriptor");
    bell::ClientBell::received(bell).ring();
}

/// Both at once, for one that maps nothing for writing.
///
/// # Errors
/// If it is refused.
pub fn files(path: &Path, hello: &Hello) -> Result<(OwnedFd, Vec<OwnedFd>), ConnectError> {
    let (socket, files) = welcomed(path, hello)?;
    say_mapped(&files);
    Ok((socket, files))
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
        outputs: OutputTerms::default(),
        vectors: 0,
        records: 1,
    }
}

/// What a client shares with the daemon, for writing garbage into it.
#[derive(Clone, Debug)]
pub struct Fields {
    /// The file that the client writes.
    pub requests: Region,
    /// Where its words before the vectors and payloads end, in bytes.
    pub words_end: usize,
    /// The submission ring's position.
    pub tail: usize,
    /// The submission ring's first cell.
    pub cells: usize,
    /// How many records were read.
    pub results_taken: usize,
    /// How many verdicts.
    pub verdicts_taken: usize,
    /// Whether the client sleeps.
    pub sleeping: usize,
    /// The first area's released generation.
    pub released: usize,
    /// The first slot's vectors.
    pub vectors: usize,
}

impl Fields {
    #[must_use]
    pub fn of(client: &ClientChannel) -> Self {
        let (requests, layout) = client.requests();
        Self {
            requests: requests.clone(),
            words_end: layout.vectors(0),
            tail: layout.submissions.tail,
            cells: layout.submissions.cells,
            results_taken: layout.results_taken,
            verdicts_taken: layout.verdicts_taken,
            sleeping: layout.sleeping,
            released: layout.released(0),
            vectors: layout.vectors(0),
        }
    }
}

/// Rings the daemon without a submission.
pub fn ring(client: &ClientChannel) {
    client.ring();
}
