//! What calibration found, kept in a file, so that a device is tried once and not at every start.

use std::path::{Path, PathBuf};
use std::{fs, io};

use punctual_platform::files::write_whole;
use punctual_platform::read;
use serde::{Deserialize, Serialize};

use super::calibration::{Lasting, Refusal};
use super::mechanism::Mechanism;
use super::units::UnitMap;

/// What the outcome of a calibration holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The driver's build, as exactly as the machine tells.
    pub driver: String,
    /// The device's UUID, in hexadecimal digits.
    pub uuid: String,
    /// Power modes may take TPCs away.
    pub power_mode: String,
    /// Multiprocessors that the device says to have.
    pub sms: u32,
    /// How launches are kept to a part.
    pub mechanism: Mechanism,
}

/// Units, or why there are none. A refusal is kept, too, as far as it [lasts](Refusal::lasting): what crashes is not
/// tried at each start for ever.
pub type Outcome = Result<UnitMap, Refusal>;

/// Of the file's form and of what calibration demands: older outcomes are found out anew.
const FORMAT: u32 = 2;

/// As many trials one after another must come to a refusal that may be chance before it is kept.
pub const TRIALS_MAX: u32 = 3;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    key: Key,
    outcome: Outcome,
    /// Trials in a row that came to a refusal which may be chance, the last one included.
    trials: u32,
}

/// Where outcomes are kept: `$XDG_CACHE_HOME/punctual/gpu`, `~/.cache/punctual/gpu`, or for a user without
/// a home `/var/cache/punctual/gpu`.
#[must_use]
pub fn folder() -> PathBuf {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let cache = absolute("XDG_CACHE_HOME").or_else(home);
    let cache = cache.unwrap_or_else(|| Path::new("/var/cache").to_owned());
    cache.join("punctual").join("gpu")
}

impl Key {
    /// Where the outcome is kept, below a folder. Other keys may have the same file: the key in it counts.
    #[must_use]
    pub fn file(&self, folder: &Path) -> PathBuf {
        let plain = |text: &str| -> String {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            text.chars().take(40).map(plain).collect()
        };
        let [uuid, driver, mode] = [&self.uuid, &self.driver, &self.power_mode].map(|t| plain(t));
        folder.join(format!("{uuid}_{driver}_{mode}_{}.json", self.mechanism))
    }
}

/// The outcome that is kept for `key`. None if there is none, or the file is damaged, of another format,
/// of another key, or of a device with other multiprocessors, or its outcome may be chance: then it must be
/// found out anew.
#[must_use]
pub fn read(folder: &Path, key: &Key) -> Option<Outcome> {
    let record = Record::read(folder, key)?;
    let kept = match lasting(&record.outcome) {
        Lasting::Always => true,
        Lasting::IfRepeated => record.trials >= TRIALS_MAX,
        Lasting::Not => false,
    };
    kept.then_some(record.outcome)
}

/// Keeps the outcome of a trial; one that does not last is not kept.
pub fn write(folder: &Path, key: &Key, outcome: &Outcome) -> io::Result<()> {
    let trials = match lasting(outcome) {
        Lasting::Not => return Ok(()),
        Lasting::Always => 0,
        Lasting::IfRepeated => {
            let before = Record::read(folder, key).map_or(0, |record| record.trials);
            before.saturating_add(1)
        }
    };
    fs::create_dir_all(folder)?;
    let record = Record {
        format: FORMAT,
        key: key.clone(),
        outcome: outcome.clone(),
        trials,
    };
    let bytes = serde_json::to_vec_pretty(&record)?;
    write_whole(&key.file(folder), &bytes)
}

fn lasting(outcome: &Outcome) -> Lasting {
    match outcome {
        Ok(_) => Lasting::Always,
        Err(refusal) => refusal.lasting(),
    }
}

impl Record {
    fn read(folder: &Path, key: &Key) -> Option<Self> {
        let bytes = read::bytes(&key.file(folder), read::TEXT_BYTES_MAX).ok()?;
        let record: Self = serde_json::from_slice(&bytes).ok()?;
        (record.format == FORMAT && record.key == *key).then_some(record)
    }
}

#[cfg(test)]
mod tests;
