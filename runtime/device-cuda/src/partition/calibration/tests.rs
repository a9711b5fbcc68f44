use super::*;

/// A device in whose masks each bit governs some multiprocessors, with a fault planted.
struct Simulated {
    bits: Vec<Vec<u32>>,
    fault: Fault,
    observed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Masks are written to memory that is not read.
    Ignored,
    /// This bit is not looked at.
    DeafBit(u32),
    /// Masks that enable less than half of the bits are not obeyed.
    WideOnly,
    /// Disabling this bit also disables the next one.
    Greedy(u32),
    /// This multiprocessor takes no blocks when its unit is alone.
    Shy(u32),
    /// Masks stay: each is added to those before.
    Sticky(u128),
    /// The n-th launch fails.
    Fails(u32),
}

impl Simulated {
    /// `tpcs` of two multiprocessors each.
    fn new(tpcs: u32, fault: Fault) -> Self {
        Self {
            bits: (0..tpcs).map(|tpc| vec![2 * tpc, 2 * tpc + 1]).collect(),
            fault,
            observed: 0,
        }
    }

    fn sms(&self) -> u32 {
        self.bits.iter().map(|sms| sms.len() as u32).sum()
    }

    fn calibrated(mut self) -> Result<UnitMap, Refusal> {
        let sms = self.sms();
        calibrate(&mut self, Expected { sms, bits: 128 })
    }

    fn everything(&self) -> SmSet {
        SmSet::of(self.bits.iter().flatten().copied()).expect("small numbers")
    }
}

impl Probe for Simulated {
    fn observe(&mut self, mask: TpcMask) -> Result<SmSet, Refusal> {
        self.observed += 1;
        let mut disabled = mask.disabled_bits();
        let alone = mask.enabled().count() == 1;
        match &mut self.fault {
            Fault::Ignored => disabled = 0,
            Fault::DeafBit(bit) => disabled &= !(1 << *bit),
            Fault::WideOnly if mask.enabled().count() < 64 => disabled = 0,
            Fault::Greedy(bit) if disabled >> *bit & 1 == 1 => disabled |= 2 << *bit,
            Fault::Sticky(before) => {
                *before |= disabled;
                disabled = *before;
            }
            Fault::Fails(at) if *at == self.observed => {
                return Err(Refusal::CallFailed {
                    call: "cuLaunchKernel".to_owned(),
                    result: "CUDA_ERROR_LAUNCH_FAILED".to_owned(),
                });
            }
            _ => {}
        }
        let mask = TpcMask::from_disabled_bits(disabled);
        let sms = self.bits.iter().enumerate();
        let sms = sms.filter(|(bit, _)| mask.enables(*bit as u32));
        let sms = sms.flat_map(|(_, sms)| sms).copied();
        let shy = |sm: &u32| !(alone && self.fault == Fault::Shy(*sm));
        Ok(SmSet::of(sms.filter(shy)).expect("small numbers"))
    }
}

fn refused(tpcs: u32, fault: Fault) -> Refusal {
    Simulated::new(tpcs, fault)
        .calibrated()
        .expect_err("there is a fault")
}

fn set(sms: &[u32]) -> SmSet {
    SmSet::of(sms.iter().copied()).expect("small numbers")
}

#[test]
fn a_device_that_obeys_is_mapped_bit_by_bit() {
    for tpcs in [1, 2, 3, 8, 66, 128] {
        let map = Simulated::new(tpcs, Fault::None)
            .calibrated()
            .expect("it obeys");
        assert_eq!(u32::from(map.count()), tpcs);
        for (at, unit) in map.units().iter().enumerate() {
            let at = at as u32;
            assert_eq!(u32::from(unit.bit), at);
            assert_eq!(unit.sms, set(&[2 * at, 2 * at + 1]));
        }
    }
}

/// From Hopper on, masks have bits for TPCs that were switched off when the chip was made.
#[test]
fn bits_of_tpcs_that_are_not_there_are_left_out() {
    let mut device = Simulated::new(8, Fault::None);
    device.bits[0].clear();
    device.bits[5].clear();
    let map = device.calibrated().expect("it obeys");
    let bits: Vec<u8> = map.units().iter().map(|unit| unit.bit).collect();
    assert_eq!(bits, [1, 2, 3, 4, 6, 7]);
}

#[test]
fn multiprocessors_may_be_numbered_in_any_order() {
    let mut device = Simulated::new(4, Fault::None);
    device.bits = vec![vec![7, 0], vec![3], vec![2, 5, 6], vec![1, 4]];
    let map = device.calibrated().expect("it obeys");
    let sms: Vec<String> = map.units().iter().map(|u| u.sms.to_string()).collect();
    assert_eq!(sms, ["0, 7", "3", "2, 5-6", "1, 4"]);
    assert_eq!(map.granularity(), 3);
}

/// No launch may be given a mask under which it could never run.
#[test]
fn every_mask_that_is_tried_enables_something_that_is_there() {
    struct Watched(Simulated);
    impl Probe for Watched {
        fn observe(&mut self, mask: TpcMask) -> Result<SmSet, Refusal> {
            let seen = self.0.observe(mask)?;
            assert!(!seen.is_empty(), "{mask:?} enables nothing");
            Ok(seen)
        }
    }
    let mut device = Simulated::new(8, Fault::None);
    device.bits[3].clear();
    let expected = Expected {
        sms: device.sms(),
        bits: 128,
    };
    calibrate(&mut Watched(device), expected).expect("it obeys");
}

#[test]
fn a_mask_that_is_written_where_nobody_reads_it_is_refused() {
    assert_eq!(refused(8, Fault::Ignored), Refusal::NoEffect);
}

#[test]
fn a_multiprocessor_that_no_bit_governs_is_a_reason_to_refuse() {
    let expected = Refusal::Ungoverned { sms: set(&[6, 7]) };
    assert_eq!(refused(8, Fault::DeafBit(3)), expected);
}

#[test]
fn a_multiprocessor_seen_though_it_is_disabled_is_a_reason_to_refuse() {
    let everything = Simulated::new(8, Fault::None).everything();
    assert_eq!(
        refused(8, Fault::WideOnly),
        Refusal::Escaped {
            enabled: 1,
            sms: everything.without(set(&[0, 1])),
        }
    );
}

#[test]
fn two_bits_for_the_same_multiprocessor_are_a_reason_to_refuse() {
    assert_eq!(
        refused(8, Fault::Greedy(2)),
        Refusal::Shared {
            first: 2,
            second: 3,
            sms: set(&[6, 7]),
        }
    );
}

#[test]
fn a_multiprocessor_that_its_own_bit_does_not_enable_is_a_reason_to_refuse() {
    assert_eq!(
        refused(8, Fault::Shy(9)),
        Refusal::KeptOut {
            enabled: 1 << 4,
            sms: set(&[9]),
        }
    );
}

#[test]
fn masks_that_cannot_be_undone_are_refused() {
    assert!(matches!(
        refused(8, Fault::Sticky(0)),
        Refusal::Shared { .. }
    ));
}

#[test]
fn a_device_with_other_multiprocessors_than_it_says_is_refused() {
    let mut device = Simulated::new(8, Fault::None);
    let expected = Expected { sms: 18, bits: 128 };
    assert_eq!(
        calibrate(&mut device, expected),
        Err(Refusal::Unreached {
            seen: device.everything(),
            expected: 18,
        })
    );
}

#[test]
fn a_launch_that_fails_ends_the_calibration_wherever_it_comes() {
    let launches = {
        let mut device = Simulated::new(3, Fault::None);
        let expected = Expected {
            sms: device.sms(),
            bits: 128,
        };
        calibrate(&mut device, expected).expect("it obeys");
        device.observed
    };
    // Unmasked twice, 128 bits, three units alone, both halves by two digits.
    assert_eq!(launches, 2 + 128 + 3 + 4);
    for at in 1..=launches {
        assert!(matches!(
            refused(3, Fault::Fails(at)),
            Refusal::CallFailed { .. }
        ));
    }
}
