//! Weights packed for processors, put into a package so that a device can load them as they lie.

use punctual_kernels::Isa;
use punctual_model::{Package, PackageError};

use crate::{LowerError, image_layout, pack_image};

/// Why a package could not be given an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No kernels for vectors of that width on this processor.
    #[error(
        "weights cannot be packed for {lanes} lanes here: this processor's kernels have {available:?}"
    )]
    Lanes {
        /// As asked for.
        lanes: u8,
        /// Lane widths that it has kernels for.
        available: Vec<u8>,
    },
    /// An operator without a kernel.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The image does not fit the package: an error of ours.
    #[error(transparent)]
    Package(#[from] PackageError),
}

/// The lane width of every AArch64 board.
pub const AARCH64_LANES: u8 = 4;

/// Lane widths to pack for unless told otherwise: this processor's and that of AArch64 boards.
#[must_use]
pub fn usual_lanes() -> Vec<u8> {
    let mut lanes = vec![AARCH64_LANES, Isa::detect().lanes() as u8];
    lanes.dedup();
    lanes
}

/// The package with a memory plan and packed weights for each of `lanes`. Same package and lanes,
/// same result, on every processor that can pack for them.
///
/// # Errors
/// [`ImageError`].
pub fn add(package: Package, lanes: &[u8]) -> Result<Package, ImageError> {
    let mut lanes = lanes.to_vec();
    lanes.sort_unstable();
    lanes.dedup();
    let isas = lanes.iter().map(|&lanes| isa(lanes));
    let isas = isas.collect::<Result<Vec<_>, _>>()?;
    let network = package.network();
    let layouts = isas.iter().map(|&isa| image_layout(isa, network));
    let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
    let mut package = package.with_layouts(layouts)?;
    for isa in isas {
        let image = pack_image(isa, package.network())?;
        package = package.with_image(isa.lanes() as u8, image)?;
    }
    Ok(package)
}

/// The kernels that have vectors of `lanes` floats. How weights are packed depends on nothing else.
fn isa(lanes: u8) -> Result<Isa, ImageError> {
    let has = |isa: &Isa| isa.lanes() == usize::from(lanes);
    Isa::available().find(has).ok_or_else(|| ImageError::Lanes {
        lanes,
        available: Isa::available().map(|isa| isa.lanes() as u8).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_conformance::networks;
    use punctual_model::Calibration;

    fn package() -> Package {
        Package::new(networks::residual(3), Calibration::default()).expect("a valid network")
    }

    #[test]
    fn a_package_gets_the_images_that_were_asked_for_and_always_the_same() {
        let lanes: Vec<u8> = Isa::available().map(|isa| isa.lanes() as u8).collect();
        let packed = add(package(), &lanes).expect("available");
        for lanes in lanes.iter().copied() {
            let layout = packed.layout(lanes).expect("asked for");
            let image = packed.image(lanes).expect("asked for");
            assert_eq!(image.floats() as u64, layout.packed_floats());
        }
        let reversed: Vec<u8> = lanes.into_iter().rev().collect();
        assert_eq!(add(package(), &reversed).expect("available"), packed);
        let again = Package::decode(&packed.encode()).expect("what was written");
        assert_eq!(again, packed);
    }

    #[test]
    fn lanes_that_no_processor_has_are_refused() {
        let error = add(package(), &[4, 7]).expect_err("no such vectors");
        assert!(
            matches!(error, ImageError::Lanes { lanes: 7, .. }),
            "{error}"
        );
    }
}
