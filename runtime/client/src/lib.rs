//! What a camera process links: frames with deadlines in, verdicts out.
//!
//! ```no_run
//! use punctual_client::{Client, Crop, PixelFormat, now_ns};
//!
//! let mut client = Client::connect("/run/punctual.sock", "signs", PixelFormat::Rgb8)?;
//! let captured = now_ns();
//! let mut slot = client.slot(None)?.expect("waits without a limit");
//! slot.pixels().fill(127); // the sensor's pixels, laid out as client.frame() says
//! slot.submit(captured, None, Crop { x: 0, y: 0 })?;
//! let result = client.verdict(None)?.expect("waits without a limit");
//! println!("{:?}: {:?}", result.verdict, result.answer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Every submission gets exactly one verdict, not always in the order of submission. Results must
//! be read for more frames to be submitted. Times are ns of `CLOCK_MONOTONIC` ([`now_ns`]); limits
//! are absolute, and a limit of 0 means not to wait.
//!
//! A client is one thread's. After [`Disconnected`] it is of no further use: connect anew.
#![forbid(unsafe_code)]

use std::path::Path;

pub use punctual_ipc::{
    Answer, ConnectError, Crop, Disconnected, Failure, FrameSpec, PixelFormat, Refusal, Rejection,
    ResultRecord, Slot, StreamTerms, SubmitError, Verdict,
};
pub use punctual_platform::clock::now_ns;

use punctual_ipc::{ClientChannel, Hello};

/// A connection to `punctuald`, for the frames of one task.
#[derive(Debug)]
pub struct Client {
    channel: ClientChannel,
    spin_ns: u64,
}

impl Client {
    /// The longest time to [spin](Self::with_spin_ns): beyond it the processor is needed more
    /// than the microseconds gained.
    pub const SPIN_NS_MAX: u64 = 50_000;

    /// Connects to the daemon that listens at `socket`, to feed `task` of its manifest with
    /// frames of this `format`. Their size is the manifest's: see [`frame`](Self::frame).
    ///
    /// # Errors
    /// If there is no daemon, or it refuses.
    pub fn connect(
        socket: impl AsRef<Path>,
        task: &str,
        format: PixelFormat,
    ) -> Result<Self, ConnectError> {
        let hello = Hello {
            task: task.to_owned(),
            format,
        };
        Ok(Self {
            channel: ClientChannel::connect(socket.as_ref(), &hello)?,
            spin_ns: 0,
        })
    }

    /// Looks for results without sleeping for so many ns, up to [`SPIN_NS_MAX`](Self::SPIN_NS_MAX),
    /// before each sleep. Saves the time of a wake-up and costs a processor's attention; 0 unless
    /// set. Of no use on a core that the daemon needs.
    #[must_use]
    pub fn with_spin_ns(mut self, spin_ns: u64) -> Self {
        self.spin_ns = spin_ns.min(Self::SPIN_NS_MAX);
        self
    }

    /// What was agreed with the daemon.
    #[must_use]
    pub fn terms(&self) -> &StreamTerms {
        self.channel.terms()
    }

    /// Size and layout of the frames that go into slots.
    #[must_use]
    pub fn frame(&self) -> &FrameSpec {
        &self.channel.terms().frame
    }

    /// How many submissions have no verdict that was read.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        self.channel.unanswered()
    }

    /// A slot to write the next frame into; none if all were still in use at `until_ns` (no limit:
    /// waits as long as it takes).
    ///
    /// # Errors
    /// If the daemon is gone.
    pub fn slot(&mut self, until_ns: Option<u64>) -> Result<Option<Slot<'_>>, Disconnected> {
        // Asks before it takes: a slot that is returned from within the loop would be borrowed in
        // its next round.
        while !self.channel.has_slot() {
            let seen = self.channel.bell();
            if !self.channel.has_slot() && !self.wait(seen, until_ns)? {
                break;
            }
        }
        Ok(self.channel.slot())
    }

    /// The next verdict; none if there was none at `until_ns` (no limit: waits as long as it
    /// takes).
    ///
    /// # Errors
    /// If the daemon is gone and every verdict that it gave was read.
    pub fn verdict(&mut self, until_ns: Option<u64>) -> Result<Option<ResultRecord>, Disconnected> {
        loop {
            let seen = self.channel.bell();
            if let Some(result) = self.channel.take()? {
                return Ok(Some(result));
            }
            match self.wait(seen, until_ns) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // It may have pushed its last verdict just before.
                Err(gone) => return self.channel.take()?.map(Some).ok_or(gone),
            }
        }
    }

    /// The next verdict if it is there.
    ///
    /// # Errors
    /// If the daemon's verdicts make no sense.
    pub fn try_verdict(&mut self) -> Result<Option<ResultRecord>, Disconnected> {
        self.channel.take()
    }

    /// How many verdicts can be read without waiting.
    ///
    /// # Errors
    /// If the daemon's count makes no sense.
    pub fn waiting_verdicts(&self) -> Result<u32, Disconnected> {
        self.channel.waiting()
    }

    /// Whether the daemon is gone. Verdicts that it gave before can still be read.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.channel.is_hung_up()
    }

    fn wait(&self, seen: u32, until_ns: Option<u64>) -> Result<bool, Disconnected> {
        if self.spin_ns > 0 {
            let spin_until = now_ns() + self.spin_ns;
            let spin_until = until_ns.map_or(spin_until, |until| until.min(spin_until));
            while now_ns() < spin_until {
                if self.channel.bell() != seen {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
        }
        self.channel.wait(seen, until_ns)
    }
}
