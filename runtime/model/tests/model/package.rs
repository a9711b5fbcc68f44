//! Package files from anywhere: what is not exactly what the compiler wrote is refused with a
//! reason, and what is taken can be run.

use punctual_model::{Calibration, Package, PackageError, reference};

use crate::fixture;

/// Magic, version, length, hash: `package.rs`.
const HEADER: usize = 8 + 4 + 8 + 32;

fn package() -> Package {
    Package::new(fixture::network(), fixture::calibration()).unwrap()
}

/// A package file with any body, sealed as if it were honest.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = package().encode()[..12].to_vec();
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(blake3::hash(body).as_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// xorshift64*: one seed, one sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}

#[test]
fn what_is_encoded_decodes_to_the_same_and_always_to_the_same_bytes() {
    let bytes = package().encode();
    assert_eq!(bytes, package().encode());
    let decoded = Package::decode(&bytes).unwrap();
    assert_eq!(decoded, package());
    assert_eq!(decoded.encode(), bytes);
    assert_eq!(
        bytes,
        sealed(&bytes[HEADER..]),
        "the header is what these tests take it for"
    );
}

#[test]
fn the_hash_names_the_content() {
    let mut other = fixture::network();
    other.weights[0] += 1.0;
    let other = Package::new(other, fixture::calibration()).unwrap();
    let uncalibrated = Package::new(fixture::network(), Calibration::default()).unwrap();
    assert_ne!(package().hash(), other.hash());
    assert_ne!(package().hash(), uncalibrated.hash());
}

#[test]
fn a_package_cut_off_anywhere_is_refused() {
    let bytes = package().encode();
    for length in 0..bytes.len() {
        let error = Package::decode(&bytes[..length]).unwrap_err();
        let expected = if length < HEADER {
            matches!(error, PackageError::Truncated { .. })
        } else {
            matches!(error, PackageError::Length { .. })
        };
        assert!(expected, "{length} bytes: {error}");
    }
}

#[test]
fn a_package_with_any_bit_flipped_is_refused() {
    let bytes = package().encode();
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = Package::decode(&damaged).unwrap_err();
        let expected = match bit / 8 {
            0..8 => matches!(error, PackageError::Magic { .. }),
            8..12 => matches!(error, PackageError::Version { .. }),
            12..20 => matches!(error, PackageError::Length { .. }),
            _ => matches!(error, PackageError::Checksum { .. }),
        };
        assert!(expected, "bit {bit}: {error}");
    }
}

#[test]
fn a_forged_length_anywhere_allocates_nothing_like_it() {
    let body = &package().encode()[HEADER..];
    // A varint of 2^62: as the length of any list it would exhaust the memory if it were believed.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40];
    for at in 0..body.len() {
        let forged = [&body[..at], &huge, &body[at + 1..]].concat();
        // Inside a weight the bytes are as good as any, but then nine are too many.
        let error = Package::decode(&sealed(&forged)).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn a_forged_body_is_refused_or_makes_a_network_that_runs() {
    let body = package().encode()[HEADER..].to_vec();
    let (mut random, mut taken) = (Random(0x5EED), 0);
    for _ in 0..5_000 {
        let mut forged = body.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(forged.len());
            match random.below(4) {
                0 => forged[at] ^= 1 << random.below(8),
                1 => forged[at] = random.below(256) as u8,
                2 => drop(forged.remove(at)),
                _ => forged.insert(at, random.below(256) as u8),
            }
        }
        let Ok(package) = Package::decode(&sealed(&forged)) else {
            continue;
        };
        taken += 1;
        let network = package.network();
        let input = network.tensors[network.input_tensor().index()];
        let image = vec![0.5; input.elements() as usize];
        for logits in reference::run(network, &image) {
            assert_eq!(logits.len(), network.classes.len());
        }
        let exits = package.calibration().exit_accuracies(network.stages.len());
        assert_eq!(exits.len(), network.stages.len());
    }
    assert!(
        taken > 500,
        "only {taken} forgeries were good enough to be run"
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = Package::read("no/such.punctual".as_ref()).unwrap_err();
    assert!(error.to_string().contains("no/such.punctual"), "{error}");
}
