//! What a client wants to be connected to, and how it behaves.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_ipc::{Hello, Layout, PixelFormat};

/// Which stream to feed, and how. Made once; each connection of the client's life follows it.
///
/// ```no_run
/// use punctual_client::{Options, PixelFormat};
///
/// let options = Options::new("/run/punctual/socket", "front", PixelFormat::Rgb8);
/// let client = options.open(None)?; // waits for the daemon as long as it takes
/// # Ok::<(), punctual_client::Lost>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) socket: PathBuf,
    pub(crate) hello: Hello,
    pub(crate) spin_ns: u64,
    pub(crate) reconnect: bool,
    /// One a slot, for every connection; none: the daemon's memory.
    buffers: Arc<[OwnedFd]>,
}

impl Options {
    /// The longest time to [spin](Self::spin_ns): beyond it the processor is needed more than the
    /// microseconds gained.
    pub const SPIN_NS_MAX: u64 = 50_000;

    /// Feeds `task` of the manifest of the daemon that listens at `socket` with frames of this
    /// `format` (none: the manifest's, which [`Client::frame`](crate::Client::frame) then says), reconnects and does
    /// not spin.
    #[must_use]
    pub fn new(
        socket: impl AsRef<Path>,
        task: &str,
        format: impl Into<Option<PixelFormat>>,
    ) -> Self {
        Self {
            socket: socket.as_ref().to_owned(),
            hello: Hello::new(task, format),
            spin_ns: 0,
            reconnect: true,
            buffers: Arc::new([]),
        }
    }

    /// Frames lie in their slots as this says, and not as the manifest does: as the sensor delivers
    /// them, so that they need not be rearranged.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.hello = self.hello.with_layout(layout);
        self
    }

    /// Frames lie in buffers that the client has already, a slot for each: memfds that are sealed
    /// against shrinking, or DMA-BUFs of a camera's driver. Nothing is copied on this side. A slot
    /// has the number of its buffer ([`Client::claim_at`](crate::Client::claim_at)), and its pixels are empty. Every
    /// connection of the client's life gets them; the manifest must allow it (`import_buffers`).
    #[must_use]
    pub fn buffers(mut self, buffers: Vec<OwnedFd>) -> Self {
        self.buffers = buffers.into();
        self
    }

    /// What goes with the opening of each connection.
    pub(crate) fn lent(&self) -> Vec<BorrowedFd<'_>> {
        self.buffers.iter().map(AsFd::as_fd).collect()
    }

    /// Looks for verdicts without sleeping for `spin_ns` ns, up to [`SPIN_NS_MAX`](Self::SPIN_NS_MAX),
    /// before each sleep. Saves the time of a wake-up and costs processor time. Not for use
    /// on a core that the daemon needs.
    #[must_use]
    pub fn spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns.min(Self::SPIN_NS_MAX);
        self
    }

    /// Whether to connect anew when the daemon is gone (unless said otherwise: yes).
    #[must_use]
    pub fn reconnect(mut self, reconnect: bool) -> Self {
        self.reconnect = reconnect;
        self
    }
}
