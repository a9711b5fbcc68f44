//! What a camera process links: frames with deadlines in, verdicts out.
//!
//! ```no_run
//! use punctual_client::{Crop, Options, PixelFormat, now_ns};
//!
//! let mut client = Options::new("/run/punctual/socket", "front", PixelFormat::Rgb8).connect()?;
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
//! | what waits for verdicts | how |
//! |---|---|
//! | the camera's own thread | [`Client`]: [`verdict`](Client::verdict), [`try_verdict`](Client::try_verdict); no lock, no allocation |
//! | an event loop | [`Client::descriptor`] |
//! | a control loop, at each of its turns | [`Client::latest`]: the newest answer, and [`Client::try_verdict`] |
//! | one thread, for several tasks | [`Streams`] |
//! | futures, on any executor | [`Stream`]: [`StreamSlot::submit`] |
//! | callbacks, on a thread of the stream's | [`Stream`]: [`StreamSlot::submit_then`] |
//!
//! When the daemon is gone, whatever it had not answered gets the verdict `Failed(DaemonGone)` at
//! once, and the client connects anew by itself as soon as there is a daemon again; sequence
//! numbers continue. Only what another attempt cannot change is an error: see [`Lost`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
mod ledger;
mod link;
mod lost;
mod options;
mod reply;
mod response;
mod stream;
mod streams;
mod watch;

pub use client::{Client, Slot};
pub use lost::Lost;
pub use options::Options;
pub use reply::Reply;
pub use response::Response;
pub use stream::{Stream, StreamSlot};
pub use streams::Streams;

pub use punctual_decode::View;
pub use punctual_ipc::{
    Answer, AnswerKind, Claim, ConnectError, Crop, Description, Disconnected, Element,
    ElementError, Failure, FrameSpec, Layout, NoSuchTask, OutputTerms, Outputs, Part, PartCrop,
    PixelFormat, Refusal, Rejection, ResultRecord, SlotMemory, StreamTask, StreamTasks,
    StreamTerms, SubmitError, Tensor, VectorError, Verdict,
};
pub use punctual_platform::clock::now_ns;
