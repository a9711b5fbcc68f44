//! What drivers of each version have and take, from the documents of CUDA: functions by the first `cuda.h` that declares
//! them, PTX by the release history of the PTX manual, cubins by the guide to compatibility.

use std::ops::RangeInclusive;

/// How many hardware queues `CUDA_DEVICE_MAX_CONNECTIONS` may ask for.
pub(crate) const CONNECTIONS: RangeInclusive<u32> = 1..=32;
/// Without it.
pub(crate) const CONNECTIONS_DEFAULT: u32 = 8;

/// The first driver that has a call. Those of which nothing is said are older than any that is emulated.
pub(crate) fn since(call: &str) -> u32 {
    match call {
        "cuGreenCtxStreamCreate" => 12050,
        "cuDeviceGetDevResource"
        | "cuDevSmResourceSplitByCount"
        | "cuDevResourceGenerateDesc"
        | "cuGreenCtxCreate"
        | "cuGreenCtxDestroy"
        | "cuCtxFromGreenCtx" => 12040,
        "cuGetProcAddress_v2" => 12000,
        "cuStreamWriteValue32_v2" => 11070,
        "cuGetProcAddress" | "cuDeviceGetUuid_v2" => 11040,
        _ => 0,
    }
}

/// The newest PTX that a driver compiles. Versions of CUDA that brought none compile what the one before them did.
pub(crate) fn newest_ptx(driver: u32) -> (u32, u32) {
    match driver / 10 {
        version @ 1100..=1199 => (7, version - 1100),
        version @ 1200..=1205 => (8, version - 1200),
        version @ 1206..=1299 => (8, version - 1201),
        version @ 1300.. => (9, version - 1300),
        _ => (6, 5),
    }
}

/// Whether a driver reads a cubin of this format, whose header says this version. Up to format 7 that is the
/// toolkit's (126 is 12.6); format 8 came with CUDA 13.
///
/// A driver loads what toolkits of its own major version compiled, and of earlier ones.
pub(crate) fn loads_cubin(driver: u32, format: u8, version: u32) -> bool {
    let toolkit = match format {
        0..=7 => version / 10,
        _ => 13,
    };
    toolkit <= driver / 1000
}

/// Whether kernels are loaded lazily by default, on Linux.
pub(crate) fn is_lazy(driver: u32) -> bool {
    driver >= 12020
}

/// Whether kernels can be loaded lazily at all.
pub(crate) fn can_be_lazy(driver: u32) -> bool {
    driver >= 11070
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By version: newest PTX, lazy by default, green contexts, their streams, a cubin of 11.8, of 12.6, of 13.0.
    type Row = (u32, (u32, u32), bool, bool, bool, [bool; 3]);

    #[test]
    fn every_version_has_and_takes_what_the_documents_say() {
        let rows: [Row; 17] = [
            (11040, (7, 4), false, false, false, [true, false, false]),
            (11050, (7, 5), false, false, false, [true, false, false]),
            (11060, (7, 6), false, false, false, [true, false, false]),
            (11070, (7, 7), false, false, false, [true, false, false]),
            (11080, (7, 8), false, false, false, [true, false, false]),
            (12000, (8, 0), false, false, false, [true, true, false]),
            (12010, (8, 1), false, false, false, [true, true, false]),
            (12020, (8, 2), true, false, false, [true, true, false]),
            (12030, (8, 3), true, false, false, [true, true, false]),
            (12040, (8, 4), true, true, false, [true, true, false]),
            (12050, (8, 5), true, true, true, [true, true, false]),
            (12060, (8, 5), true, true, true, [true, true, false]),
            (12080, (8, 7), true, true, true, [true, true, false]),
            (12090, (8, 8), true, true, true, [true, true, false]),
            (13000, (9, 0), true, true, true, [true, true, true]),
            (13010, (9, 1), true, true, true, [true, true, true]),
            (13020, (9, 2), true, true, true, [true, true, true]),
        ];
        for row in rows {
            let driver = row.0;
            let has = |call| since(call) <= driver;
            let cubins = [(7, 118), (7, 126), (8, 1)];
            let found = (
                driver,
                newest_ptx(driver),
                is_lazy(driver),
                has("cuGreenCtxCreate") && has("cuCtxFromGreenCtx"),
                has("cuGreenCtxStreamCreate"),
                cubins.map(|(format, version)| loads_cubin(driver, format, version)),
            );
            assert_eq!(found, row);
            assert_eq!(has("cuGetProcAddress_v2"), driver >= 12000);
            assert_eq!(has("cuStreamWriteValue32_v2"), driver >= 11070);
            assert_eq!(can_be_lazy(driver), driver >= 11070);
            assert!(has("cuLaunchKernel") && has("cuGetProcAddress") && has("cuDeviceGetUuid_v2"));
        }
    }

    #[test]
    fn no_call_is_named_that_the_library_does_not_export() {
        let dated = crate::exported_calls().filter(|call| since(call) > 0);
        assert_eq!(dated.count(), 11);
    }
}
