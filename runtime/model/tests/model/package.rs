//! Package files from anywhere: what is not exactly what the compiler wrote is refused with a
//! reason, and what is taken can be run.

use fastrand::Rng;
use punctual_fuzzed::{Outcome, exercise, exercise_sections, sealed, sections};
use punctual_model::{
    Calibration, ImageLayout, ImageProblem, Origin, Package, PackageError, SectionKind,
    SectionProblem, StageLayout,
};

use crate::fixture::{self, package};
use crate::scratch::Scratch;

/// The header, and an entry of the table.
const RECORD: usize = 64;

/// Changes a few bytes of `bytes`, which are not empty.
fn damage(random: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=random.usize(..3) {
        let at = random.usize(..bytes.len());
        match random.usize(..4) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = random.u8(..),
            2 if bytes.len() > 1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, random.u8(..)),
        }
    }
}

/// The package with one of its sections changed, sealed as if it were honest. Without profiles,
/// unless it is they that are changed: they would be of another package.
fn forged(index: usize, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let bytes = package().encode();
    let sections = sections(&bytes).into_iter().take(4.max(index + 1));
    let mut contents: Vec<_> = sections
        .map(|(kind, parameter, content)| (kind, parameter, content.to_vec()))
        .collect();
    change(&mut contents[index].2);
    let borrowed: Vec<_> = contents
        .iter()
        .map(|(kind, parameter, content)| (*kind, *parameter, &content[..]))
        .collect();
    sealed(&borrowed)
}

fn refused(bytes: &[u8]) -> PackageError {
    Package::decode(bytes).expect_err("not what the compiler wrote")
}

#[test]
fn what_is_encoded_decodes_to_the_same_and_always_to_the_same_bytes() {
    let bytes = package().encode();
    assert!(bytes == package().encode());
    let decoded = Package::decode(&bytes).unwrap();
    assert_eq!(decoded, package());
    assert!(decoded.encode() == bytes);
}

#[test]
fn the_file_is_what_the_format_says() {
    let bytes = package().encode();
    let sections = sections(&bytes);
    let codes: Vec<_> = sections.iter().map(|s| (s.0, s.1)).collect();
    assert_eq!(codes, [(1, 0), (2, 0), (4, 4), (4, 16), (15, 0)]);
    assert!(bytes == sealed(&sections));
    let first_weight = fixture::network().weights[0].to_le_bytes();
    assert_eq!(sections[1].2[..4], first_weight);
}

#[test]
fn a_package_without_images_and_profiles_is_one_too() {
    let bare = Package::new(fixture::network(), Calibration::default()).unwrap();
    assert_eq!(Package::decode(&bare.encode()).unwrap(), bare);
    assert!(bare.image(16).is_none() && bare.layout(16).is_none());
}

#[test]
fn what_the_onnx_file_had_is_kept_whatever_is_packed_and_is_content() {
    let bare = || Package::new(fixture::network(), Calibration::default()).unwrap();
    let origin = Origin {
        bytes: true,
        channels_last: true,
        unbatched: false,
    };
    let known = bare().with_origin(origin);
    let decoded = Package::decode(&known.encode()).unwrap();
    assert_eq!((decoded.origin(), &decoded), (origin, &known));
    assert_ne!(known.hash(), bare().hash());
    assert_eq!(known.timing(), bare().timing());
    let relaid = known.clone().with_layouts(vec![fixture::layout(4)]);
    assert_eq!(relaid.unwrap().origin(), origin);
    let plain = known.with_origin(Origin::default());
    assert!(plain.encode() == bare().encode(), "no section");
    let bytes = bare().encode();
    let sections = sections(&bytes);
    let with = |content: &[u8]| sealed(&[sections[0], sections[1], (3, 0, content)]);
    assert!(Package::decode(&with(&[0, 1, 0])).is_ok());
    for content in [&[0, 0, 0][..], &[2, 0, 0], &[1, 0], &[1, 0, 0, 0]] {
        assert!(matches!(refused(&with(content)), PackageError::Origin));
    }
}

#[test]
fn the_hash_names_the_content() {
    let mut other = fixture::network();
    other.weights.to_mut()[0] += 1.0;
    let bare = Package::new(fixture::network(), fixture::calibration()).unwrap();
    let other = Package::new(other, fixture::calibration()).unwrap();
    let uncalibrated = Package::new(fixture::network(), Calibration::default()).unwrap();
    assert_ne!(bare.hash(), other.hash());
    assert_ne!(bare.hash(), uncalibrated.hash());
    assert_ne!(bare.hash(), package().hash(), "images are content");
}

#[test]
fn a_profile_holds_for_other_weights_and_one_of_an_earlier_version_for_its_package_alone() {
    let mut retrained = fixture::network();
    retrained.weights.to_mut()[0] += 1.0;
    let retrained = Package::new(retrained, Calibration::default()).unwrap();
    let measured = fixture::package();
    let mut profile = measured.profiles()[0].clone();
    assert!(profile.key.is_of(&retrained) && !profile.key.is_with_weights_of(&retrained));
    let carried = retrained.clone().with_profile(profile.clone()).unwrap();
    let newer = fixture::profile(&retrained);
    let carried = carried.with_profile(newer.clone()).unwrap();
    assert_eq!(
        carried.profiles(),
        [newer],
        "it takes the place of the one before"
    );

    profile.key.timing.clear();
    assert!(profile.key.is_of(&measured) && !profile.key.is_of(&retrained));
    let again = measured.with_profiles(vec![profile.clone()]).unwrap();
    let relaid = again.with_layouts(vec![fixture::layout(4)]).unwrap();
    assert_eq!(relaid.profiles(), [], "it was of the package as it was");
    assert!(retrained.with_profiles(vec![profile]).is_err());
}

#[test]
fn profiles_come_and_go_under_the_same_hash() {
    let measured = package();
    let bare = measured.clone().with_profiles(Vec::new()).unwrap();
    assert_eq!(bare.hash(), measured.hash());
    assert!(bare.encode().len() < measured.encode().len());
    let again = bare.clone().with_profile(measured.profiles()[0].clone());
    let mut newer = measured.profiles()[0].clone();
    newer.preemption_ns_max += 1;
    let again = again
        .and_then(|package| package.with_profile(newer))
        .unwrap();
    assert_eq!(again.profiles().len(), 1, "the same key, measured again");
    assert_ne!(again, measured);
    let foreign =
        fixture::profile(&Package::new(fixture::sequence(), Calibration::default()).unwrap());
    assert!(matches!(
        bare.with_profiles(vec![foreign]),
        Err(PackageError::ProfileOfAnother { .. })
    ));
}

#[test]
fn a_mapped_package_is_the_decoded_one() {
    let file = Scratch::file("mapped.punctual");
    package().write(&file.path).unwrap();
    let opened = Package::open(&file.path).unwrap();
    opened.verify().unwrap();
    assert_eq!(opened, package());
    opened.release();
    assert_eq!(opened.network().weights, fixture::network().weights);
    let image = opened.image(16).unwrap();
    assert_eq!(image.page(0).unwrap(), fixture::image(16));
    let mut copy = [f32::NAN; 300];
    let floats = image.copy_page(0, &mut copy).unwrap();
    assert_eq!(copy[..floats], fixture::image(16));
    assert!(image.copy_page(1, &mut copy).is_err());
    assert!(matches!(
        opened.image(16).unwrap().page(1),
        Err(PackageError::Image {
            problem: ImageProblem::NoPage { page: 1, pages: 1 },
            ..
        })
    ));
}

#[test]
fn a_package_is_replaced_while_somebody_has_it_open() {
    let file = Scratch::file("replaced.punctual");
    package().write(&file.path).unwrap();
    let opened = Package::open(&file.path).unwrap();
    let bare = opened.clone().with_profiles(Vec::new()).unwrap();
    bare.write(&file.path).unwrap();
    opened.verify().unwrap();
    assert_eq!(Package::read(&file.path).unwrap(), bare);
}

#[test]
fn damaged_weights_are_found_when_they_are_used_and_copying_does_not_make_them_good() {
    let file = Scratch::file("damaged.punctual");
    let mut bytes = package().encode();
    let at = |bytes: &[u8], index: usize| {
        let all = sections(bytes);
        all[index].2.as_ptr().addr() - bytes.as_ptr().addr()
    };
    for (index, section) in [(1, SectionKind::Weights), (3, SectionKind::Image(16))] {
        let first = at(&bytes, index);
        bytes[first] ^= 1;
        std::fs::write(&file.path, &bytes).unwrap();
        let opened = Package::open(&file.path).expect("the description is whole");
        opened.write(&file.path).unwrap();
        let copied = Package::open(&file.path).unwrap();
        let error = copied.verify().unwrap_err();
        let named = match (section, &error) {
            (SectionKind::Weights, PackageError::Damaged { section: found, .. }) => {
                *found == section
            }
            (_, PackageError::Image { lanes: 16, problem }) => {
                matches!(problem, ImageProblem::Page { page: 0, .. })
            }
            _ => false,
        };
        assert!(named, "{error}");
        bytes[first] ^= 1;
    }
}

#[test]
fn a_package_cut_off_anywhere_is_refused() {
    let bytes = package().encode();
    let steps = (0..RECORD * 6).chain((RECORD * 6..bytes.len()).step_by(37));
    for length in steps {
        let error = refused(&bytes[..length]);
        let expected = if length < RECORD {
            matches!(error, PackageError::Truncated { .. })
        } else {
            matches!(error, PackageError::Length { .. })
        };
        assert!(expected, "{length} bytes: {error}");
    }
}

#[test]
fn a_file_that_is_no_package_is_refused_without_a_word_of_what_is_in_it() {
    let secret = b"q7Zw9Xk3 and more that nobody else may read";
    let error = refused(secret);
    for said in [error.to_string(), format!("{error:?}")] {
        let hex: Vec<String> = secret[..8].iter().map(|b| format!("{b:02x}")).collect();
        let plain: Vec<String> = secret[..8].iter().map(u8::to_string).collect();
        for shown in ["q7".to_owned(), hex[..2].join(", "), plain[..2].join(", ")] {
            assert!(!said.contains(&shown), "{shown} is in {said:?}");
        }
    }
}

#[test]
fn a_package_with_any_byte_changed_is_refused() {
    let bytes = package().encode();
    let profiles = sections(&bytes)[4].2.as_ptr().addr() - bytes.as_ptr().addr();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let error = refused(&damaged);
        let expected = match at {
            0..8 => matches!(error, PackageError::Magic),
            8..12 => matches!(error, PackageError::Version { .. }),
            12..16 => matches!(
                error,
                PackageError::SectionCount { .. }
                    | PackageError::Truncated { .. }
                    | PackageError::Table { .. }
            ),
            16..24 => matches!(error, PackageError::Length { .. }),
            24..384 => matches!(error, PackageError::Table { .. }),
            _ if at >= profiles => matches!(
                error,
                PackageError::Damaged {
                    section: SectionKind::Profiles,
                    ..
                }
            ),
            _ => matches!(
                error,
                PackageError::Damaged { .. }
                    | PackageError::Padding { .. }
                    | PackageError::Image { .. }
            ),
        };
        assert!(expected, "byte {at}: {error}");
    }
}

#[test]
fn a_package_of_the_first_format_is_to_be_compiled_again() {
    let mut old = b"PUNCTUAL\x01\0\0\0".to_vec();
    old.resize(4096, 7);
    let error = refused(&old);
    assert!(matches!(error, PackageError::Version { found: 1 }));
    assert!(error.to_string().contains("compile the ONNX file again"));
}

#[test]
fn sections_that_no_compiler_writes_are_named() {
    let bytes = package().encode();
    let honest = sections(&bytes);
    let problem = |sections: &[(u32, u32, &[u8])]| match refused(&sealed(sections)) {
        PackageError::Section { problem, .. } => problem,
        other => panic!("{other}"),
    };
    let swapped = [honest[1], honest[0]];
    assert!(matches!(problem(&swapped), SectionProblem::Order(_)));
    let twice = [honest[0], honest[1], honest[1]];
    assert!(matches!(problem(&twice), SectionProblem::Order(_)));
    for unknown in [(0, 0), (1, 1), (4, 5), (4, 260), (99, 0)] {
        let last = (unknown.0, unknown.1, &[1_u8, 2, 3, 4][..]);
        let found = problem(&[honest[0], honest[1], last]);
        let (kind, parameter) = unknown;
        assert_eq!(found, SectionProblem::Unknown { kind, parameter });
    }
    for content in [&[][..], &[0; 7]] {
        let found = problem(&[honest[0], (2, 0, content)]);
        assert!(matches!(found, SectionProblem::Length { .. }), "{found}");
    }
    let missing = refused(&sealed(&honest[..1]));
    assert!(matches!(
        missing,
        PackageError::Missing(SectionKind::Weights)
    ));
    let none = refused(&sealed(&[]));
    assert!(matches!(none, PackageError::SectionCount { found: 0 }));
}

/// The file with a number of an entry of the table changed, and the table sealed again.
fn with_entry(file: &[u8], entry: usize, at: usize, value: u64) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let at = RECORD * (1 + entry) + at;
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    let count = sections(file).len();
    let hash = blake3::hash(&[&bytes[..32], &bytes[RECORD..RECORD * (1 + count)]].concat());
    bytes[32..RECORD].copy_from_slice(hash.as_bytes());
    bytes
}

#[test]
fn sections_that_overlap_or_leave_the_file_are_refused() {
    let bytes = package().encode();
    let end = bytes.len() as u64;
    for offset in [
        0,
        64,
        4096,
        4097,
        8191,
        12_288,
        end,
        u64::MAX,
        u64::MAX - 4095,
    ] {
        let error = refused(&with_entry(&bytes, 1, 8, offset));
        let expected = match offset {
            8192 => unreachable!("its honest place"),
            _ => matches!(
                error,
                PackageError::Section {
                    index: 1,
                    problem: SectionProblem::Offset { .. }
                }
            ),
        };
        assert!(expected, "{offset}: {error}");
    }
    for length in [0, 2, 8192, end, u64::MAX, u64::MAX - 8191] {
        let error = refused(&with_entry(&bytes, 1, 16, length));
        assert!(
            matches!(
                error,
                PackageError::Section { .. } | PackageError::Padding { .. }
            ),
            "{length}: {error}"
        );
    }
    let reserved = refused(&with_entry(&bytes, 1, 56, 1));
    assert!(
        matches!(reserved, PackageError::Padding { at: 184 }),
        "{reserved}"
    );
}

#[test]
fn absurd_counts_of_sections_allocate_nothing_like_them() {
    for count in [0, 17, 1 << 16, u32::MAX] {
        let mut bytes = package().encode();
        bytes[12..16].copy_from_slice(&count.to_le_bytes());
        let error = refused(&bytes);
        assert!(
            matches!(error, PackageError::SectionCount { found } if found == count),
            "{error}"
        );
    }
}

#[test]
fn images_that_do_not_fit_their_layout_are_refused() {
    let longer = forged(3, |image| image.extend_from_slice(&[0; 4]));
    let problem = |error: PackageError| match error {
        PackageError::Image { problem, .. } => problem,
        other => panic!("{other}"),
    };
    assert!(matches!(
        problem(refused(&longer)),
        ImageProblem::Size { what: "floats", .. }
    ));
    let bytes = package().encode();
    let honest = sections(&bytes);
    let another = [honest[0], honest[1], (4, 8, honest[2].2), honest[3]];
    assert!(matches!(
        problem(refused(&sealed(&another))),
        ImageProblem::NoLayout
    ));
    let fewer = [honest[0], honest[1], honest[2]];
    assert!(matches!(
        refused(&sealed(&fewer)),
        PackageError::Missing(SectionKind::Image(16))
    ));
}

#[test]
fn layouts_that_do_not_fit_the_network_are_refused() {
    let refused = |change: fn(&mut punctual_model::ImageLayout)| {
        let mut layout = fixture::layout(8);
        change(&mut layout);
        let package = Package::new(fixture::network(), Calibration::default()).unwrap();
        match package.with_layouts(vec![layout]).unwrap_err() {
            PackageError::Image { problem, .. } => problem,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refused(|l| l.lanes = 5), ImageProblem::Lanes);
    let count = refused(|l| drop(l.stages.pop()));
    assert!(matches!(
        count,
        ImageProblem::Count {
            what: "stages",
            found: 1,
            expected: 2
        }
    ));
    let count = refused(|l| l.stages[1].operators.push(0));
    assert!(matches!(
        count,
        ImageProblem::Count {
            what: "operators",
            ..
        }
    ));
    for wrong in [0, 16, 113, 121] {
        let mut layout = fixture::layout(8);
        layout.stages[0].operators[0] = wrong;
        let package = Package::new(fixture::network(), Calibration::default()).unwrap();
        let error = package.with_layouts(vec![layout]).unwrap_err();
        assert!(
            error.to_string().contains("112 weights"),
            "{wrong}: {error}"
        );
    }
    let dead = refused(|l| l.stages[0].operators[1] = 16);
    assert!(matches!(
        dead,
        ImageProblem::Operator {
            stage: 0,
            operator: 1,
            weights: 0,
            ..
        }
    ));
    let large = refused(|l| l.request_floats = u64::MAX);
    assert!(matches!(
        large,
        ImageProblem::TooLarge {
            what: "a request",
            ..
        }
    ));
}

#[test]
fn a_layout_may_leave_out_weights_that_an_earlier_operator_has() {
    let chain = fixture::chain(4);
    let layout = |packed: [u32; 2], later: [u32; 2]| ImageLayout {
        lanes: 8,
        request_floats: 160,
        stages: (0..chain.stages.len())
            .map(|stage| StageLayout {
                before: 0,
                operators: if stage == 0 { packed } else { later }.to_vec(),
                workspace_floats: 320,
            })
            .collect(),
    };
    let package = || Package::new(chain.clone(), Calibration::default()).unwrap();
    let once = package().with_layouts(vec![layout([160, 0], [0, 0])]);
    assert_eq!(once.unwrap().layout(8).unwrap().packed_floats(), 160);
    // Packed in two ways.
    let twice = package().with_layouts(vec![layout([160, 176], [0, 0])]);
    assert_eq!(twice.unwrap().layout(8).unwrap().packed_floats(), 336);
    let late = package().with_layouts(vec![layout([0, 160], [0, 0])]);
    let late = late.unwrap_err().to_string();
    assert!(
        late.contains("operator 0 of stage 0 takes 0 floats"),
        "{late}"
    );
}

#[test]
fn an_image_keeps_any_bits_as_operators_on_bytes_have_theirs_in_it() {
    let package = Package::new(fixture::network(), Calibration::default())
        .and_then(|package| package.with_layouts(vec![fixture::layout(8)]))
        .unwrap();
    let mut image = fixture::image(8);
    image[17] = f32::from_bits(0xffff_1234);
    let package = package.with_image(8, image).unwrap();
    let again = Package::decode(&package.encode()).unwrap();
    let page = again.image(8).unwrap().page(0).unwrap();
    assert_eq!(page[17].to_bits(), 0xffff_1234);
}

#[test]
fn a_prefix_that_is_not_the_networks_is_found_by_verifying() {
    let specialised = |change: f32| {
        let mut network = fixture::network();
        network.weights.to_mut()[0] += change;
        Package::new(network, Calibration::default()).unwrap()
    };
    let (honest, other) = (specialised(0.0).encode(), specialised(1.0).encode());
    let (honest, other) = (sections(&honest), sections(&other));
    let mixed = refused(&sealed(&[honest[0], other[1]]));
    assert!(matches!(mixed, PackageError::Prefixes), "{mixed}");
}

#[test]
fn a_forged_length_anywhere_allocates_nothing_like_it() {
    // A varint of 2^62: as the length of any list it would exhaust the memory if it were believed.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    let bytes = package().encode();
    for at in 0..sections(&bytes)[0].2.len() {
        let error = refused(&forged(0, |description| {
            description.splice(at..=at, huge);
        }));
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn thousands_of_damaged_files_are_all_refused() {
    let bytes = package().encode();
    let mut random = Rng::with_seed(0x0FF5_E7ED);
    for _ in 0..4_000 {
        let mut damaged = bytes.clone();
        while damaged == bytes {
            damage(&mut random, &mut damaged);
        }
        assert_ne!(exercise(&damaged), Outcome::Verified);
    }
}

#[test]
fn thousands_of_forged_files_are_refused_or_can_be_run() {
    let (mut random, mut opened) = (Rng::with_seed(0x5EED), 0);
    for index in 0..5 {
        for _ in 0..1_000 {
            let outcome = exercise(&forged(index, |content| damage(&mut random, content)));
            opened += u32::from(outcome != Outcome::Refused);
        }
    }
    assert!(
        opened > 1_000,
        "only {opened} forgeries were good enough to be run"
    );
}

#[test]
fn any_sections_in_any_order_are_refused_or_can_be_run() {
    let bytes = package().encode();
    let honest = sections(&bytes);
    let written = |choice: &[(usize, u8)]| {
        let mut script = Vec::new();
        for &(section, kind) in choice {
            let content = honest[section].2;
            script.push(kind);
            script.extend_from_slice(&(content.len() as u16).to_le_bytes());
            script.extend_from_slice(content);
        }
        script
    };
    let unchanged = written(&[(0, 0), (1, 1), (2, 2), (3, 4)]);
    assert_eq!(exercise_sections(&unchanged), Outcome::Verified);
    let mut random = Rng::with_seed(0xACE);
    for _ in 0..1_000 {
        let count = 1 + random.usize(..4);
        let choice: Vec<_> = (0..count)
            .map(|_| (random.usize(..5), random.u8(..6)))
            .collect();
        let mut script = written(&choice);
        damage(&mut random, &mut script);
        let _ = exercise_sections(&script);
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = Package::read("no/such.punctual".as_ref()).unwrap_err();
    assert!(error.to_string().contains("no/such.punctual"), "{error}");
}
