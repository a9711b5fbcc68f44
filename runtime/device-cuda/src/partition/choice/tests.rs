use super::*;
use crate::partition::{SmSet, Unit};

fn undivided() -> Undivided {
    Undivided {
        map: UnitMap::undivided(16).expect("16 multiprocessors"),
        sms_per_tpc: 2,
    }
}

/// TPCs of two multiprocessors; the chip lacks the one of bit 3.
fn tpcs() -> UnitMap {
    let bits = [0, 1, 2, 4, 5, 6, 7, 8];
    let unit = |(at, bit): (u32, u8)| Unit {
        bit,
        sms: SmSet::of([2 * at, 2 * at + 1]).expect("small numbers"),
    };
    UnitMap::new((0..).zip(bits).map(unit).collect()).expect("eight units")
}

fn units(first: u16, count: u16) -> Units {
    Units { first, count }
}

#[test]
fn the_first_mechanism_that_comes_out_is_taken_and_no_other_is_tried() {
    let mut tried = Vec::new();
    let choice = Choice::make(&Mechanism::ORDER, undivided(), |mechanism| {
        tried.push(mechanism);
        match mechanism {
            Mechanism::StreamMask => Err(Refusal::NoEffect),
            _ => Ok(tpcs()),
        }
    });
    assert_eq!(tried, [Mechanism::StreamMask, Mechanism::Libsmctrl]);
    assert_eq!(choice.mechanism(), Mechanism::Libsmctrl);
    assert_eq!(
        choice.refused(),
        [(Mechanism::StreamMask, Refusal::NoEffect)]
    );
}

#[test]
fn without_any_other_mechanism_the_device_is_one_unit_and_nothing_is_enforced() {
    let choice = Choice::make(&Mechanism::ORDER, undivided(), |_| Err(Refusal::NoEffect));
    assert_eq!(choice.refused().len(), 3);
    let granted = choice.grant(units(0, 1)).expect("the one unit");
    assert_eq!(
        granted,
        Granted {
            units: units(0, 1),
            sms: SmSet::first(16).expect("16"),
            granularity: 16,
            enforced: false,
            mechanism: Mechanism::Priority,
        }
    );
    assert_eq!(choice.mask(units(0, 1)), Ok(TpcMask::UNRESTRICTED));
}

#[test]
fn a_range_is_granted_with_the_multiprocessors_behind_it() {
    let choice = Choice::make(&Mechanism::ORDER, undivided(), |_| Ok(tpcs()));
    let granted = choice.grant(units(2, 3)).expect("eight units");
    assert_eq!(granted.sms.to_string(), "4-9");
    assert!(granted.enforced);
    assert_eq!(granted.granularity, 2);
    // The fourth unit has bit 4: no mask names the TPC that is not there.
    assert_eq!(choice.mask(units(2, 3)), Ok(TpcMask::enabling([2, 4, 5])));
}

#[test]
fn a_range_that_the_device_has_not_is_refused_with_what_it_has() {
    let choice = Choice::make(&Mechanism::ORDER, undivided(), |_| Err(Refusal::NoEffect));
    let refused = choice.grant(units(4, 4)).expect_err("there is one unit");
    assert_eq!((refused.available, refused.granularity), (1, 16));
    assert!(
        refused.to_string().starts_with("units 4 to 7 of 1"),
        "{refused}"
    );
    assert!(choice.mask(units(0, 2)).is_err());
}

/// SEEB's Algorithm 1 hands out contiguous ranges of units in proportion to images; whatever the bits
/// are called, the masks are disjoint and together the device.
#[test]
fn ranges_of_seebs_algorithm_1_are_disjoint_partitions_of_the_device() {
    let choice = Choice::make(&Mechanism::ORDER, undivided(), |_| Ok(tpcs()));
    let free = units(0, choice.map().count());
    let mut left = choice.map().all();
    let mut masks = Vec::new();
    punctual_policy_seeb::seeb_shares([10, 20, 1].into_iter(), free, |_, range| {
        let granted = choice.grant(range).expect("a range of what is free");
        assert_eq!(granted.sms.without(left), SmSet::default());
        left = left.without(granted.sms);
        masks.push(choice.mask(range).expect("likewise").enabled_bits());
    });
    // 8 units: 10/31 and 20/31 of them rounded down, and at least one.
    assert_eq!(masks, [0b11, 0b1111_0100, 0b1_0000_0000]);
    assert!(left.is_empty());
}

#[test]
fn tpcs_of_plans_are_units_where_they_are_whole_ones() {
    let masks = Choice::make(&Mechanism::ORDER, undivided(), |_| Ok(tpcs()));
    assert_eq!((masks.tpcs(), masks.tpcs_per_unit()), (8, 1));
    assert_eq!(masks.units_of_tpcs(3..5), Ok(units(3, 2)));

    let four = |first| SmSet::of(first..first + 4).expect("small numbers");
    let groups = (0..4).map(|bit| Unit {
        bit,
        sms: four(4 * u32::from(bit)),
    });
    let groups = UnitMap::new(groups.collect()).expect("four units");
    let green = Choice::make(&Mechanism::ORDER, undivided(), |_| Ok(groups.clone()));
    assert_eq!((green.tpcs(), green.tpcs_per_unit()), (8, 2));
    assert_eq!(green.units_of_tpcs(2..8), Ok(units(1, 3)));
    for not_whole in [1..4, 2..3, 6..10, 4..4] {
        let refused = green.units_of_tpcs(not_whole.clone());
        assert_eq!(refused.map_err(|error| error.tpcs), Err(not_whole));
    }

    let priority = Choice::make(&[], undivided(), |_| Err(Refusal::NoEffect));
    assert_eq!((priority.tpcs(), priority.tpcs_per_unit()), (8, 8));
    assert_eq!(priority.units_of_tpcs(0..8), Ok(units(0, 1)));
    assert!(priority.units_of_tpcs(0..4).is_err());
}
