//! A slot in the hands of a client's thread.

use punctual_ipc::{Claim, Crop, SubmitError, VectorError};

use crate::Client;

/// A slot to write a frame into, while the client waits.
#[derive(Debug)]
pub struct Slot<'c> {
    client: &'c mut Client,
    /// There until it is submitted.
    claim: Option<Claim>,
}

impl<'c> Slot<'c> {
    pub(crate) fn new(client: &'c mut Client, claim: Claim) -> Self {
        Self {
            client,
            claim: Some(claim),
        }
    }

    /// As [`Claim::pixels`].
    #[must_use]
    pub fn pixels(&mut self) -> &mut [u8] {
        self.claim.as_mut().map_or(&mut [], Claim::pixels)
    }

    /// As [`Claim::set_vector`].
    ///
    /// # Errors
    /// As there.
    pub fn set_vector(&mut self, name: &str, values: &[f32]) -> Result<(), VectorError> {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.set_vector(name, values)
    }

    /// As [`Claim::write_tensor`].
    ///
    /// # Panics
    /// If the slot is not as long as these values.
    pub fn write_tensor(&mut self, values: &[f32]) {
        let claim = self.claim.as_mut().expect("there until it is submitted");
        claim.write_tensor(values);
    }

    /// As [`Client::submit`].
    ///
    /// # Errors
    /// If it is not submitted.
    pub fn submit(
        mut self,
        captured_ns: u64,
        deadline_ns: Option<u64>,
        crop: Crop,
    ) -> Result<u64, SubmitError> {
        let claim = self.claim.take().expect("there until it is submitted");
        self.client.submit(claim, captured_ns, deadline_ns, crop)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.client.give_back(claim);
        }
    }
}
