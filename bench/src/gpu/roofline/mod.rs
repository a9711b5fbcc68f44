//! The roofline: stage times predicted from figures of devices, as a page, and next to what is measured.

mod beside;
mod devices;
mod page;
mod predictions;

pub use beside::{Predicted, Roofline};
pub use page::page;
pub use predictions::{PredictError, all};
