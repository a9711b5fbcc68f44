//! How the GPU can be divided, as the step `calibration` found it.

use std::ops::Range;
use std::sync::Arc;

use punctual_device_cuda::Division;
use punctual_device_cuda::driver::Gpu;
use punctual_device_cuda::partition::offer::{self, How, Offer, OfferError};
use punctual_device_cuda::partition::{Mechanism, Partitioner, Program};

use super::step::{Session, StepError};

/// The units that partitions are made of.
pub struct Parts {
    partitioner: Arc<Partitioner>,
    pub units: u16,
    tpcs_per_unit: u16,
}

impl Parts {
    /// By the best mechanism that holds what it promises; from the records of earlier trials, if there are any.
    pub fn find(session: &Session<'_>, gpu: Gpu) -> Result<Self, StepError> {
        let offer = look(session, gpu, &how(session)?)?;
        Ok(Self {
            tpcs_per_unit: offer.granularity().max(1),
            units: offer.tpcs() / offer.granularity().max(1),
            partitioner: Arc::new(offer.partitioner(gpu)?),
        })
    }

    /// The TPCs of `count` units from unit `first` on.
    pub fn tpcs(&self, first: u16, count: u16) -> Range<u16> {
        first * self.tpcs_per_unit..(first + count) * self.tpcs_per_unit
    }

    /// How many multiprocessors `count` units from unit `first` on have.
    pub fn multiprocessors(&self, first: u16, count: u16) -> Result<u32, StepError> {
        let grant = self.partitioner.grant(self.tpcs(first, count))?;
        Ok(grant.sms.count())
    }

    /// Whether the TPCs of a stream can be changed between two launches.
    pub fn can_change_masks(&self) -> bool {
        self.partitioner.masking().is_some()
    }

    pub fn partitioner(&self) -> &Partitioner {
        &self.partitioner
    }

    pub fn division(&self, ranges: Vec<Range<u16>>) -> Division {
        Division::Tpcs {
            partitioner: self.partitioner.clone(),
            ranges,
        }
    }
}

/// How the device is looked at: trials in processes of this program, outcomes kept with the results.
pub fn how(session: &Session<'_>) -> Result<How, StepError> {
    let records = session.folder.path().join("partitions");
    let how = How::usual(Program::punctual(), Some(records));
    Ok(how.map_err(OfferError::from)?)
}

/// As [`how`] says.
pub fn look(session: &Session<'_>, gpu: Gpu, how: &How) -> Result<Offer, StepError> {
    Ok(offer::look(gpu, session.device, how)?)
}

/// One mechanism, tried now.
pub fn only(session: &Session<'_>, mechanism: Mechanism) -> Result<How, StepError> {
    Ok(How {
        order: vec![mechanism],
        again: true,
        ..how(session)?
    })
}
