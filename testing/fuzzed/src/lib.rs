//! What the fuzz targets, and the tests that do without a fuzzer, do with bytes that claim to be a package, a profile or a
//! calibration record: what is accepted must be possible, and encode to what was read.
#![forbid(unsafe_code)]

use punctual_core::Confidence;
use punctual_model::{Calibration, Package, Profile, reference};

/// Header and entries of a package's table: docs/package.md.
const RECORD_BYTES: usize = 64;

/// A package file of any sections (kind, parameter, content), laid out and sealed as if it were
/// honest. Written from the format's description alone, to be compared with what writes packages.
#[must_use]
pub fn sealed(sections: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut table = Vec::new();
    let mut body = Vec::new();
    let table_end = RECORD_BYTES * (1 + sections.len());
    for (kind, parameter, content) in sections {
        body.resize(
            (table_end + body.len()).next_multiple_of(4096) - table_end,
            0,
        );
        let offset = (table_end + body.len()) as u64;
        table.extend_from_slice(&kind.to_le_bytes());
        table.extend_from_slice(&parameter.to_le_bytes());
        table.extend_from_slice(&offset.to_le_bytes());
        table.extend_from_slice(&(content.len() as u64).to_le_bytes());
        table.extend_from_slice(blake3::hash(content).as_bytes());
        table.extend_from_slice(&[0; 8]);
        body.extend_from_slice(content);
    }
    let mut head = b"PUNCTUAL\x04\0\0\0".to_vec();
    head.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    head.extend_from_slice(&((table_end + body.len()) as u64).to_le_bytes());
    head.extend_from_slice(&[0; 8]);
    let hash = blake3::hash(&[&head[..], &table].concat());
    head.extend_from_slice(hash.as_bytes());
    [head, table, body].concat()
}

/// The sections (kind, parameter, content) of an honest package's file.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn sections(file: &[u8]) -> Vec<(u32, u32, &[u8])> {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("8 bytes"));
    let count = number(12) as u32;
    let entries = (1..=count as usize).map(|entry| entry * RECORD_BYTES);
    let section = |at: usize| {
        let (code, offset) = (number(at), number(at + 8) as usize);
        let content = &file[offset..offset + number(at + 16) as usize];
        (code as u32, (code >> 32) as u32, content)
    };
    entries.map(section).collect()
}

/// What was made of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An error said why they are no package.
    Refused,
    /// A package whose weights or prefixes are damaged: it opens, runs, and does not verify.
    Opened,
    Verified,
}

/// Does with some bytes all that is done with a package file.
///
/// # Panics
/// On an error in the model.
#[must_use]
pub fn exercise(file: &[u8]) -> Outcome {
    let Ok(package) = Package::decode_unverified(file) else {
        assert!(Package::decode(file).is_err());
        return Outcome::Refused;
    };
    let again = Package::decode_unverified(&package.encode());
    let same = again.is_ok_and(|again| again.hash() == package.hash());
    assert!(same, "what opens can be written and opens again");
    let network = package.network();
    // Large networks are valid, and would keep a test busy for minutes.
    let work = network.tensors.iter().map(|tensor| tensor.elements());
    if work.sum::<u64>() < 1 << 12 {
        let inputs = network
            .input_tensors()
            .map(|input| network.tensors[input.index()]);
        let inputs: Vec<_> = inputs
            .map(|input| vec![0.5; input.elements() as usize])
            .collect();
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        for exit in reference::run_all(network, &inputs).into_iter().flatten() {
            assert!(exit.scores.is_empty() || exit.scores.len() == network.classes.len());
        }
    }
    let exits = network.exits().count();
    assert_eq!(package.calibration().exit_accuracies(exits).len(), exits);
    let verified = package.verify().is_ok();
    for image in package.images() {
        let pages = (0..image.pages()).map(|page| image.page(page));
        let checked: usize = pages.flatten().map(<[f32]>::len).sum();
        assert!(checked == image.floats() || !verified, "every page is good");
    }
    if verified {
        Outcome::Verified
    } else {
        Outcome::Opened
    }
}

/// As [`exercise`], for bytes that choose sections rather than being a file: a byte for the kind,
/// two for the length, the content; again and again.
#[must_use]
pub fn exercise_sections(script: &[u8]) -> Outcome {
    exercise(&of_script(script))
}

/// The file of the sections that such a script chooses.
#[must_use]
pub fn of_script(script: &[u8]) -> Vec<u8> {
    const KINDS: [(u32, u32); 6] = [(1, 0), (2, 0), (4, 4), (4, 8), (4, 16), (15, 0)];
    let mut sections = Vec::new();
    let mut rest = script;
    while let [kind, low, high, content @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(content.len());
        let (kind, parameter) = KINDS[usize::from(*kind) % KINDS.len()];
        let (content, after) = content.split_at(length);
        sections.push((kind, parameter, content));
        rest = after;
    }
    sealed(&sections)
}

/// Does with some bytes what is done with a profile file. Whether it is one.
///
/// # Panics
/// On an error in the model.
#[must_use]
pub fn exercise_profile(file: &[u8]) -> bool {
    let text = String::from_utf8_lossy(file);
    let Ok(profile) = Profile::from_json(&text) else {
        return false;
    };
    let again = Profile::from_json(&profile.to_json());
    assert!(
        again.is_ok_and(|again| again == profile),
        "written and read"
    );
    let list = [profile];
    let again = Profile::list_from_json(Profile::list_to_json(&list).as_bytes());
    assert!(again.is_ok_and(|again| again == list), "as a list");
    let [profile] = list;
    for entry in &profile.stages {
        let found = profile.stage(entry.stage, entry.batch, entry.units);
        assert!(found.is_some(), "it was measured");
        let _ = profile.stage_beside(entry.stage, entry.batch, entry.units);
        let factor = profile.beside_factor(entry.units);
        assert!(factor.is_none_or(f64::is_finite), "{factor:?}");
    }
    assert!(
        profile
            .changed_settings(&profile.key.clocks, &profile.settings)
            .is_empty()
    );
    true
}

/// Does with some bytes what is done with a calibration file. Whether it is one.
///
/// # Panics
/// On an error in the model.
#[must_use]
pub fn exercise_calibration(file: &[u8]) -> bool {
    let text = String::from_utf8_lossy(file);
    let Ok(calibration) = Calibration::from_json(&text) else {
        return false;
    };
    let again = Calibration::from_json(&calibration.to_json());
    assert!(
        again.is_ok_and(|again| again == calibration),
        "written and read"
    );
    let exits = calibration
        .samples
        .first()
        .map_or(0, |sample| sample.exits.len());
    if exits > 0 && calibration.check_exits(exits).is_ok() {
        assert_eq!(calibration.exit_accuracies(exits).len(), exits);
        let threshold = Confidence(u16::MAX / 2);
        let _ = calibration.threshold_effect(threshold);
        let means = (0..exits).filter_map(|exit| calibration.mean_quality(exit));
        assert!(means.into_iter().all(|mean| (0.0..=1.0).contains(&mean)));
    }
    true
}
