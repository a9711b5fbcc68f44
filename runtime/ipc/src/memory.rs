//! The three memory files of a client, as the daemon makes them.
//!
//! A process that can write to a file can also punch holes into it, and a thread that faults on a hole waits until the punch is
//! over, which the client can make long. So the daemon maps what the client writes only once the client has mapped it, and
//! no process can map it for writing or punch any more.

use punctual_platform::OsError;
use punctual_platform::areas::{self, Area};
use punctual_platform::shared_memory::{Access, MemoryFile, Seals};

use crate::handshake::StreamTerms;
use crate::layout::{RequestLayout, ResultLayout};
use crate::region::Region;

/// A client's memory files, our mappings of those that we write, and the areas of the last.
pub(crate) struct Memory {
    pub(crate) request_file: MemoryFile,
    pub(crate) result_file: MemoryFile,
    pub(crate) output_file: MemoryFile,
    pub(crate) results: Region,
    pub(crate) areas: Vec<Area>,
}

impl Memory {
    /// For a client with these terms and the encoded description of them, which may have its payload elsewhere.
    pub(crate) fn create(
        terms: &StreamTerms,
        description: &[u8],
        import_buffers: bool,
    ) -> Result<Self, OsError> {
        let requests = RequestLayout::of(terms, import_buffers);
        let results = ResultLayout::of(terms);
        let request_file = MemoryFile::create(c"punctual-requests", requests.bytes)?;
        let result_file = MemoryFile::create(c"punctual-results", results.bytes)?;
        let (count, bytes) = (terms.outputs.areas, terms.outputs.area_bytes);
        let (count, bytes) = (usize::from(count), bytes as usize);
        let (output_file, areas) = areas::shared(c"punctual-outputs", description, count, bytes)?;
        // Not mapped: the client can still punch holes.
        request_file.allocate()?;
        // The client only reads what we write.
        let results = Region::of(result_file.map(Access::ReadWrite)?);
        // After our own mapping: no other can be writable, and no process can punch holes.
        result_file.seal(Seals::FUTURE_WRITE.and(Seals::SEAL))?;
        Ok(Self {
            request_file,
            result_file,
            output_file,
            results,
            areas,
        })
    }
}

/// Maps what a client writes, which has mapped it. From now on it cannot be mapped for writing again, and no hole can be punched. Waits for the end
/// of a punch that has begun: for a thread that serves this client alone.
pub(crate) fn sealed(requests: &MemoryFile) -> Result<Region, OsError> {
    // Fails if the client has forbidden further seals.
    requests.seal(Seals::FUTURE_WRITE.and(Seals::SEAL))?;
    // We only read it.
    Ok(Region::of(requests.map(Access::Read)?))
}
