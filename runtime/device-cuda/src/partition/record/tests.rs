use super::*;
use crate::partition::SmSet;

/// A folder of its own for each test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("punctual-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn key() -> Key {
    Key {
        driver: "12060 560.35.03".to_owned(),
        uuid: "00112233445566778899aabbccddeeff".to_owned(),
        power_mode: "MAXN".to_owned(),
        sms: 16,
        mechanism: Mechanism::StreamMask,
    }
}

fn outcomes() -> [Outcome; 2] {
    [
        Ok(UnitMap::undivided(16).expect("16 multiprocessors")),
        Err(Refusal::Escaped {
            enabled: 1 << 127 | 1,
            sms: SmSet::first(3).expect("three"),
        }),
    ]
}

#[test]
fn an_outcome_is_found_again_under_its_key_and_no_other() {
    let folder = folder("found-again");
    for outcome in outcomes() {
        write(&folder, &key(), &outcome).expect("a folder that can be written");
        assert_eq!(read(&folder, &key()), Some(outcome));
        let others = [
            Key {
                driver: "13000 580.1".to_owned(),
                ..key()
            },
            Key {
                uuid: "0".to_owned(),
                ..key()
            },
            Key {
                power_mode: "15W".to_owned(),
                ..key()
            },
            Key { sms: 14, ..key() },
            Key {
                mechanism: Mechanism::Libsmctrl,
                ..key()
            },
        ];
        for other in others {
            assert_eq!(read(&folder, &other), None, "{other:?}");
        }
    }
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn keys_that_differ_only_in_what_files_are_not_named_by_are_told_apart() {
    let folder = folder("told-apart");
    let (one, other) = (
        key(),
        Key {
            power_mode: "MAX/N".to_owned(),
            ..key()
        },
    );
    let [map, refused] = outcomes();
    let other = Key {
        power_mode: "MAX N".to_owned(),
        ..other
    };
    let third = Key {
        power_mode: "MAX/N".to_owned(),
        ..one
    };
    assert_eq!(other.file(&folder), third.file(&folder));
    write(&folder, &other, &map).expect("a folder that can be written");
    assert_eq!(read(&folder, &third), None);
    write(&folder, &third, &refused).expect("a folder that can be written");
    assert_eq!(read(&folder, &third), Some(refused));
    fs::remove_dir_all(folder).expect("it was there");
}

/// Died of a signal, hung, or kept out of a multiprocessor that another program filled.
#[test]
fn a_refusal_that_may_be_chance_is_kept_once_three_trials_in_a_row_came_to_it() {
    let folder = folder("chance");
    let chances = [
        Refusal::Died {
            how: "ended with signal: 9".to_owned(),
        },
        Refusal::NeverEnded { limit_ms: 5000 },
        Refusal::KeptOut {
            enabled: 1,
            sms: SmSet::first(2).expect("two"),
        },
    ];
    for chance in &chances[..2] {
        write(&folder, &key(), &Err(chance.clone())).expect("a folder that can be written");
        assert_eq!(read(&folder, &key()), None, "tried again at the next start");
    }
    let third = Err(chances[2].clone());
    write(&folder, &key(), &third).expect("a folder that can be written");
    assert_eq!(read(&folder, &key()), Some(third));
    // A trial that succeeds after all ends the row.
    let [map, _] = outcomes();
    write(&folder, &key(), &map).expect("a folder that can be written");
    assert_eq!(read(&folder, &key()), Some(map));
    let again = Err(chances[0].clone());
    write(&folder, &key(), &again).expect("a folder that can be written");
    assert_eq!(read(&folder, &key()), None);
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn what_was_merely_missing_is_not_kept() {
    let folder = folder("missing");
    for missing in [
        Refusal::NotTried,
        Refusal::UnknownDriver {
            driver: "CUDA 12.9 on x86_64".to_owned(),
        },
    ] {
        write(&folder, &key(), &Err(missing)).expect("nothing to be written");
        assert!(!folder.exists());
    }
}

/// Any damage is as if nothing were kept.
#[test]
fn a_damaged_file_means_calibrating_again() {
    let folder = folder("damaged");
    let [map, _] = outcomes();
    write(&folder, &key(), &map).expect("a folder that can be written");
    let file = key().file(&folder);
    let good = fs::read(&file).expect("it was written");
    for length in 0..good.len() {
        fs::write(&file, &good[..length]).expect("it can be written");
        assert_eq!(read(&folder, &key()), None, "{length} bytes");
    }
    let text = String::from_utf8(good).expect("JSON");
    for (from, to) in [
        ("\"format\": 2", "\"format\": 1"),
        ("\"bit\": 0", "\"bit\": 128"),
        ("\"Ok\": [", "\"Ok\": [ {\"bit\": 0, \"sms\": [0]},"),
        ("15", "256"),
    ] {
        let damaged = text.replace(from, to);
        assert_ne!(damaged, text, "{from}");
        fs::write(&file, damaged).expect("it can be written");
        assert_eq!(read(&folder, &key()), None, "{to}");
    }
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_and_nothing_is_kept() {
    let folder = Path::new("/proc/no-such-folder");
    let [map, _] = outcomes();
    assert!(write(folder, &key(), &map).is_err());
    assert_eq!(read(folder, &key()), None);
}
