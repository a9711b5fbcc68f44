use super::*;
use crate::key::{Architecture, CudaVersion, DriverKey, Soc};

fn key(architecture: Architecture, version: CudaVersion, soc: Option<Soc>) -> DriverKey {
    DriverKey {
        architecture,
        version,
        soc,
    }
}

fn offset(architecture: Architecture, major: u16, minor: u16, soc: Option<Soc>) -> Option<usize> {
    find(key(architecture, CudaVersion::new(major, minor), soc))
        .ok()
        .map(|row| row.offset)
}

/// TPCs 1, 33, 66 and 127.
const SOME: TpcMask = TpcMask::from_enabled_bits(1 << 1 | 1 << 33 | 1 << 66 | 1 << 127);

/// Words in the order of bytes of the machines that have such drivers.
fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn from_12_0_on_a_mask_is_a_flag_and_four_words_lowest_first() {
    let mut object = [0xaa; 22];
    Layout::EnabledFourWords
        .encode(SOME, &mut object)
        .expect("it fits");
    let golden = bytes(&[1, !(1 << 1), !(1 << 1), !(1 << 2), !(1 << 31)]);
    assert_eq!(object[..20], golden);
    assert_eq!(object[20..], [0xaa, 0xaa]);
    #[cfg(target_endian = "little")]
    assert_eq!(object[..8], [1, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff]);
}

#[test]
fn up_to_11_8_a_mask_is_two_words_highest_first() {
    let mask = TpcMask::enabling([1, 34]);
    let mut object = [0xaa; 10];
    Layout::UpperLower
        .encode(mask, &mut object)
        .expect("it fits");
    assert_eq!(object[..8], bytes(&[!(1 << 2), !(1 << 1)]));
    assert_eq!(object[8..], [0xaa, 0xaa]);
}

#[test]
fn what_was_encoded_is_decoded() {
    let masks = [
        TpcMask::UNRESTRICTED,
        TpcMask::enabling([]),
        TpcMask::enabling([0]),
        TpcMask::enabling(32..64),
    ];
    for layout in [Layout::UpperLower, Layout::EnabledFourWords] {
        for mask in masks {
            let mut object = [0; 20];
            layout.encode(mask, &mut object).expect("it fits");
            assert_eq!(layout.decode(&object), Ok(mask), "{layout:?}");
        }
    }
    let mut object = [0; 20];
    let layout = Layout::EnabledFourWords;
    layout.encode(SOME, &mut object).expect("it fits");
    assert_eq!(layout.decode(&object), Ok(SOME));
}

#[test]
fn a_mask_whose_flag_is_not_set_restricts_nothing() {
    let object = bytes(&[0, u32::MAX, u32::MAX, u32::MAX, u32::MAX]);
    let decoded = Layout::EnabledFourWords.decode(&object);
    assert_eq!(decoded, Ok(TpcMask::UNRESTRICTED));
}

#[test]
fn what_a_layout_cannot_say_is_refused_and_nothing_written() {
    let mut object = [0xaa; 20];
    assert_eq!(
        Layout::UpperLower.encode(SOME, &mut object),
        Err(LayoutError::TooManyTpcs {
            enabled: SOME.enabled_bits()
        })
    );
    assert_eq!(
        Layout::EnabledFourWords.encode(SOME, &mut object[..19]),
        Err(LayoutError::TooShort {
            bytes: 19,
            needed: 20
        })
    );
    assert_eq!(object, [0xaa; 20]);
    assert!(Layout::UpperLower.decode(&object[..7]).is_err());
}

#[test]
fn a_stream_is_masked_at_the_offset_of_its_row_and_nowhere_else() {
    for row in ROWS {
        let mask = TpcMask::enabling([5]);
        let mut object = vec![0_u32; 0x800 / size_of::<u32>()];
        let mut handle = object.as_mut_ptr();
        let stream = (&raw mut handle).cast::<c_void>();
        // SAFETY: the handle points to a pointer to an object of 2 KiB, in which the mask lies
        // wherever the row says; nothing else uses it.
        unsafe {
            assert_eq!(read(stream, row.place()), TpcMask::UNRESTRICTED);
            write(stream, row.place(), mask).expect("it fits");
            assert_eq!(read(stream, row.place()), mask);
        }
        let first = row.offset / size_of::<u32>();
        let layout = row.place().layout;
        let words = layout.words();
        assert_eq!(
            layout.words_of(mask).expect("it fits")[..words],
            object[first..first + words]
        );
        object[first..first + words].fill(0);
        assert!(object.iter().all(|word| *word == 0));
    }
}

#[test]
fn offsets_are_those_of_the_published_table() {
    use Architecture::{Aarch64, X86_64};
    for (major, minor, expected) in [
        (9, 1, 0x130),
        (10, 1, 0x244),
        (11, 5, 0x37c),
        (11, 8, 0x47c),
        (12, 1, 0x4cc),
        (12, 6, 0x4ec),
        (12, 8, 0x4fc),
        (13, 0, 0x51c),
    ] {
        let found = offset(X86_64, major, minor, None);
        assert_eq!(found, Some(expected), "{major}.{minor}");
    }
    assert_eq!(offset(Aarch64, 12, 6, Some(Soc::Orin)), Some(0x514));
    assert_eq!(offset(Aarch64, 11, 4, Some(Soc::Orin)), Some(0x394));
}

#[test]
fn a_version_that_no_row_names_is_unknown_also_between_two_rows() {
    use Architecture::{Aarch64, X86_64};
    for (major, minor) in [(8, 0), (12, 9), (13, 1), (14, 0)] {
        let key = key(X86_64, CudaVersion::new(major, minor), None);
        assert_eq!(find(key), Err(UnknownDriver { key }));
    }
    assert_eq!(offset(Aarch64, 12, 3, Some(Soc::Orin)), None);
}

#[test]
fn where_version_and_processor_do_not_name_the_place_the_system_on_a_chip_does() {
    let at = |soc| offset(Architecture::Aarch64, 13, 0, soc);
    assert_eq!(at(Some(Soc::Spark)), Some(0x53c));
    assert_eq!(at(Some(Soc::Thor)), Some(0x54c));
    assert_eq!(at(Some(Soc::Orin)), None);
    assert_eq!(at(None), None);
}

#[test]
fn no_two_rows_are_about_the_same_driver_and_each_keeps_one_layout() {
    for (at, row) in ROWS.iter().enumerate() {
        assert!(row.from <= row.to);
        assert_eq!(row.place().layout, Layout::of(row.to));
        assert_eq!(row.offset % size_of::<u32>(), 0);
        for other in &ROWS[at + 1..] {
            let apart = row.architecture != other.architecture
                || row.to < other.from
                || other.to < row.from
                || (row.soc != other.soc && row.soc.is_some() && other.soc.is_some());
            assert!(apart, "{row:?} and {other:?}");
        }
    }
}

#[test]
fn rows_that_one_source_alone_has_say_so() {
    let once: Vec<_> = ROWS
        .iter()
        .filter(|row| row.standing == Standing::OneCopy)
        .map(|row| (row.architecture, row.from, row.soc))
        .collect();
    let version = CudaVersion::new;
    assert_eq!(
        once,
        [
            (Architecture::X86_64, version(13, 3), None),
            (Architecture::Aarch64, version(13, 0), Some(Soc::Spark)),
            (Architecture::Aarch64, version(13, 0), Some(Soc::Thor)),
        ]
    );
}
