//! Bounded lists of objects.

use punctual_kernels::{Detections, DetectionsSpec, Kernel, KernelError};

use super::{Layouts, Lower};

impl Lower for punctual_model::Detections {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = DetectionsSpec {
            best: of.blocked(),
            boxes: of.others[0],
            scores: of.others[1],
            output: of.output,
            scoring: self.scoring,
            decoder: self.decoder,
        };
        Ok(Box::new(Detections::new(of.isa, &spec)?))
    }
}
