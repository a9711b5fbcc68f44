//! The client's side of the channel.

mod channel;
mod connect;
mod doorbell;
mod error;
mod opening;
mod outputs;
mod slot;

pub(crate) use channel::SharedMemory;
pub use channel::{ClientChannel, Slot};
pub(crate) use connect::{Welcome, be_welcomed};
pub use doorbell::BellWatch;
pub(crate) use doorbell::{ASLEEP_FOR_VERDICTS, AWAKE};
pub use error::{ConnectError, Disconnected, SubmitError};
pub use opening::{Opening, Progress};
pub use outputs::{ElementError, Outputs, Tensor};
pub use slot::{Claim, NoSuchTask, SlotMemory, VectorError};
