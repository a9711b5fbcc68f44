//! What the driver pretends to be, and the text form of it for other processes.
use std::fmt;
use std::str::FromStr;

use crate::versions;

/// The environment variable from which a process takes its [`Config`], in its text form.
pub const ENVIRONMENT: &str = "PUNCTUAL_EMULATED_DRIVER";

/// An emulated machine. The default is like an AGX Orin with 8 TPCs of two multiprocessors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// GPUs: none or one.
    pub devices: u32,
    pub tpcs: u32,
    pub sms_per_tpc: u32,
    /// The multiprocessors of a TPC are not neighbours: number `s` of TPC `t` is `t + s * tpcs`,
    /// not `t * sms_per_tpc + s`.
    pub spread: bool,
    /// Of a stream mask: the TPC that each bit switches off, bit 0 first; none: a unit that is not there.
    /// Empty: bit `n` is TPC `n`.
    pub tpc_of_bit: Vec<Option<u32>>,
    /// Compute capability, major and minor.
    pub compute: (u32, u32),
    /// The CUDA version of the driver, as it says it: 12060 is 12.6.
    pub driver: u32,
    /// The GPU shares the processor's memory.
    pub integrated: bool,
    /// Whether `cuMemHostRegister` works.
    pub host_register: bool,
    /// Whether it takes memory that the process may only read, too.
    pub host_register_read_only: bool,
    /// Whether `cuImportExternalMemory` takes DMA-BUFs, as on Jetson boards from Thor on.
    pub dma_buf_import: bool,
    pub memory_bytes: u64,
    /// Launches that wait in a stream before `cuLaunchKernel` blocks.
    pub queue: u32,
    /// Whether masks in streams are obeyed. Not: as of a client of MPS, of which no document says that they are.
    pub masks: bool,
    /// Whether groups of green contexts may be finer than what can be scheduled together
    /// (`CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING`).
    pub green_fine: bool,
    /// Where the mask lies in a stream, in bytes; none: where this driver has it on this architecture. A driver of
    /// which that is not known obeys no masks.
    pub mask_offset: Option<u32>,
    /// Hardware queues that streams share, 1 to 32. None: as `CUDA_DEVICE_MAX_CONNECTIONS` says at `cuInit`, else 8.
    pub connections: Option<u32>,
    /// Whether a kernel is loaded when its function is first asked for, once the context is idle. None: as
    /// `CUDA_MODULE_LOADING` says at `cuInit`, else as the driver's version does.
    pub lazy: Option<bool>,
    pub hung_reset: HungReset,
    /// Whether tools get the table with which they are called back for launches.
    pub export_table: bool,
    /// The words of a stream's object around its mask have a meaning, drawn from this seed: a launch of a stream in which
    /// somebody wrote there may fail, never end, or end the process.
    pub fragile: Option<u64>,
    /// A file to which the clock of the multiprocessors is written, in Hz: a high one as long as the process has a
    /// context, as of a card whose clocks are not fixed. Its name has no space.
    pub clock_file: Option<String>,
    /// Where the mask lies in launches' descriptors, in bytes; none: where their version has it.
    pub descriptor_mask: Option<u32>,
    /// The version of launches' descriptors, major and minor in four bits each; none: that of the compute capability.
    pub descriptor: Option<u32>,
    /// Whether masks in launches' descriptors are obeyed.
    pub descriptor_masks: bool,
    /// Names of calls that the library lacks, beyond those that are younger than the driver.
    pub hide: Vec<String>,
    pub call_faults: Vec<CallFault>,
    /// Launches that go wrong while they run.
    pub launch_faults: Vec<LaunchFault>,
    /// A file that each launch adds a line to ([`LoggedLaunch`](crate::LoggedLaunch)); its name has no space.
    pub launch_log: Option<String>,
}

/// What a reset of the context does while a kernel hangs. No document says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HungReset {
    /// It ends the kernel.
    Ends,
    /// It returns when nothing hangs any more.
    #[default]
    Waits,
    /// It never returns.
    Blocks,
}

/// The `nth` call of `name` from now on, counted from 0, returns `code` and does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFault {
    /// As exported: `cuMemAlloc_v2`.
    pub name: String,
    /// How many calls of it succeed before.
    pub nth: u64,
    pub code: u32,
}

/// What becomes of the `nth` launch from now on, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFault {
    /// How many launches are submitted before.
    pub nth: u64,
    /// The error that its context has afterwards; none: it hangs until it is released.
    pub code: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 1,
            tpcs: 8,
            sms_per_tpc: 2,
            spread: false,
            tpc_of_bit: Vec::new(),
            compute: (8, 7),
            driver: 12060,
            integrated: true,
            host_register: true,
            host_register_read_only: true,
            dma_buf_import: false,
            memory_bytes: 2 << 30,
            queue: 1024,
            masks: true,
            green_fine: true,
            mask_offset: None,
            fragile: None,
            clock_file: None,
            descriptor_mask: None,
            connections: None,
            lazy: None,
            hung_reset: HungReset::default(),
            export_table: true,
            descriptor: None,
            descriptor_masks: true,
            hide: Vec::new(),
            call_faults: Vec::new(),
            launch_faults: Vec::new(),
            launch_log: None,
        }
    }
}

/// A text that is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{word}: every word is key=value")]
    Form { word: String },
    #[error("{key}: no such key; there are {known}")]
    Key { key: String, known: &'static str },
    /// A value that is none of this key.
    #[error("{key}={value}: expected {expected}")]
    Value {
        key: String,
        value: String,
        expected: &'static str,
    },
}

const KEYS: &str = "devices, tpcs, sms-per-tpc, spread, tpc-of-bit, compute, driver, integrated, host-register, \
                    host-register-read-only, dma-buf-import, \
                    memory, queue, masks, green-fine, mask-offset, fragile, export-table, descriptor, descriptor-mask, \
                    descriptor-masks, connections, clock-file, lazy, hung-reset, hide, fail, fail-launch, hang-launch, launch-log";

impl Config {
    #[must_use]
    pub fn sms(&self) -> u32 {
        self.tpcs * self.sms_per_tpc
    }

    /// The numbers of the multiprocessors of a TPC.
    pub(crate) fn sms_of(&self, tpc: u32) -> impl Iterator<Item = u32> + use<> {
        let (first, step) = if self.spread {
            (tpc, self.tpcs)
        } else {
            (tpc * self.sms_per_tpc, 1)
        };
        (0..self.sms_per_tpc).map(move |at| first + at * step)
    }

    /// Calls that a library of this configuration lacks: those that are hidden, and those that are
    /// younger than the driver.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.driver < versions::since(name) || self.hide.iter().any(|hidden| hidden == name)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        match key {
            "devices" => self.devices = within(key, value, 0..=1, "0 or 1")?,
            "tpcs" => self.tpcs = within(key, value, 1..=128, "1 to 128")?,
            "sms-per-tpc" => self.sms_per_tpc = within(key, value, 1..=2, "1 or 2")?,
            "spread" => self.spread = flag(key, value)?,
            "tpc-of-bit" => self.tpc_of_bit = list(key, value, bit)?,
            "compute" => self.compute = pair(key, value, "a version such as 8.7")?,
            "driver" => {
                let (major, minor) = pair(key, value, "a version such as 12.6")?;
                self.driver = major * 1000 + minor * 10;
            }
            "integrated" => self.integrated = flag(key, value)?,
            "host-register" => self.host_register = flag(key, value)?,
            "host-register-read-only" => self.host_register_read_only = flag(key, value)?,
            "dma-buf-import" => self.dma_buf_import = flag(key, value)?,
            "memory" => self.memory_bytes = number(key, value, "bytes")?,
            "queue" => self.queue = within(key, value, 1..=1 << 20, "1 to 1048576")?,
            "masks" => self.masks = flag(key, value)?,
            "green-fine" => self.green_fine = flag(key, value)?,
            "mask-offset" => self.mask_offset = Some(number(key, value, "bytes")?),
            "fragile" => self.fragile = Some(number(key, value, "a seed")?),
            "clock-file" => self.clock_file = Some(value.to_owned()),
            "descriptor-mask" => {
                let bytes = "a multiple of 4 to 368";
                let at = within(key, value, 0..=368, bytes)?;
                if !at.is_multiple_of(4) {
                    return Err(wrong(key, value, bytes));
                }
                self.descriptor_mask = Some(at);
            }
            "connections" => {
                self.connections = Some(within(key, value, versions::CONNECTIONS, "1 to 32")?);
            }
            "lazy" => self.lazy = Some(flag(key, value)?),
            "hung-reset" => self.hung_reset = hung_reset(key, value)?,
            "export-table" => self.export_table = flag(key, value)?,
            "descriptor" => {
                let (major, minor) = pair(key, value, "a version such as 2.4")?;
                self.descriptor = Some(major << 4 | minor);
            }
            "descriptor-masks" => self.descriptor_masks = flag(key, value)?,
            "hide" => self.hide = list(key, value, |name| Some(name.to_owned()))?,
            "fail" => self.call_faults = list(key, value, call_fault)?,
            "fail-launch" => self.launch_faults.extend(list(key, value, launch_fault)?),
            "launch-log" => self.launch_log = Some(value.to_owned()),
            "hang-launch" => self.launch_faults.extend(list(key, value, hang)?),
            _ => {
                return Err(ConfigError::Key {
                    key: key.into(),
                    known: KEYS,
                });
            }
        }
        Ok(())
    }
}

fn wrong(key: &str, value: &str, expected: &'static str) -> ConfigError {
    ConfigError::Value {
        key: key.into(),
        value: value.into(),
        expected,
    }
}

fn number<T: FromStr>(key: &str, value: &str, expected: &'static str) -> Result<T, ConfigError> {
    value.parse().map_err(|_| wrong(key, value, expected))
}

fn within(
    key: &str,
    value: &str,
    range: std::ops::RangeInclusive<u32>,
    expected: &'static str,
) -> Result<u32, ConfigError> {
    let number = number(key, value, expected)?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(wrong(key, value, expected))
    }
}

fn flag(key: &str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(wrong(key, value, "0 or 1")),
    }
}

fn hung_reset(key: &str, value: &str) -> Result<HungReset, ConfigError> {
    match value {
        "ends" => Ok(HungReset::Ends),
        "waits" => Ok(HungReset::Waits),
        "blocks" => Ok(HungReset::Blocks),
        _ => Err(wrong(key, value, "ends, waits or blocks")),
    }
}

fn pair(key: &str, value: &str, expected: &'static str) -> Result<(u32, u32), ConfigError> {
    let (major, minor) = value
        .split_once('.')
        .ok_or_else(|| wrong(key, value, expected))?;
    Ok((number(key, major, expected)?, number(key, minor, expected)?))
}

fn list<T>(
    key: &str,
    value: &str,
    item: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ConfigError> {
    value
        .split(',')
        .filter(|word| !word.is_empty())
        .map(|word| {
            item(word).ok_or_else(|| wrong(key, word, "items as the key's documentation says"))
        })
        .collect()
}

fn bit(word: &str) -> Option<Option<u32>> {
    match word {
        "-" => Some(None),
        _ => word.parse().ok().map(Some),
    }
}

fn call_fault(word: &str) -> Option<CallFault> {
    let (name, rest) = word.split_once(':')?;
    let (nth, code) = rest.split_once(':')?;
    Some(CallFault {
        name: name.into(),
        nth: nth.parse().ok()?,
        code: code.parse().ok()?,
    })
}

fn launch_fault(word: &str) -> Option<LaunchFault> {
    let (nth, code) = word.split_once(':')?;
    Some(LaunchFault {
        nth: nth.parse().ok()?,
        code: Some(code.parse().ok()?),
    })
}

fn hang(word: &str) -> Option<LaunchFault> {
    Some(LaunchFault {
        nth: word.parse().ok()?,
        code: None,
    })
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Words `key=value`, between spaces; what is not said is as in the default.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        for word in text.split_whitespace() {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| ConfigError::Form { word: word.into() })?;
            config.set(key, value)?;
        }
        Ok(config)
    }
}

/// The items, with commas between.
struct List<'a, T>(&'a [T], fn(&T, &mut fmt::Formatter<'_>) -> fmt::Result);

impl<T> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, item) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            (self.1)(item, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for HungReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ends => "ends",
            Self::Waits => "waits",
            Self::Blocks => "blocks",
        })
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = u32::from;
        let bits = List(&self.tpc_of_bit, |bit, f| match bit {
            Some(tpc) => write!(f, "{tpc}"),
            None => f.write_str("-"),
        });
        let hidden = List(&self.hide, |name, f| f.write_str(name));
        let calls = List(&self.call_faults, |fault, f| {
            write!(f, "{}:{}:{}", fault.name, fault.nth, fault.code)
        });
        write!(
            f,
            "devices={} tpcs={} sms-per-tpc={} spread={} tpc-of-bit={bits} compute={}.{} driver={}.{} integrated={} \
             host-register={} host-register-read-only={} dma-buf-import={} memory={} queue={} masks={} green-fine={} export-table={} \
             descriptor-masks={} hung-reset={} hide={hidden} fail={calls}",
            self.devices,
            self.tpcs,
            self.sms_per_tpc,
            on(self.spread),
            self.compute.0,
            self.compute.1,
            self.driver / 1000,
            self.driver % 1000 / 10,
            on(self.integrated),
            on(self.host_register),
            on(self.host_register_read_only),
            on(self.dma_buf_import),
            self.memory_bytes,
            self.queue,
            on(self.masks),
            on(self.green_fine),
            on(self.export_table),
            on(self.descriptor_masks),
            self.hung_reset,
        )?;
        if let Some(connections) = self.connections {
            write!(f, " connections={connections}")?;
        }
        if let Some(lazy) = self.lazy {
            write!(f, " lazy={}", on(lazy))?;
        }
        if let Some(offset) = self.mask_offset {
            write!(f, " mask-offset={offset}")?;
        }
        if let Some(seed) = self.fragile {
            write!(f, " fragile={seed}")?;
        }
        if let Some(file) = &self.clock_file {
            write!(f, " clock-file={file}")?;
        }
        if let Some(at) = self.descriptor_mask {
            write!(f, " descriptor-mask={at}")?;
        }
        if let Some(version) = self.descriptor {
            write!(f, " descriptor={}.{}", version >> 4, version & 15)?;
        }
        if let Some(file) = &self.launch_log {
            write!(f, " launch-log={file}")?;
        }
        for fault in &self.launch_faults {
            match fault.code {
                Some(code) => write!(f, " fail-launch={}:{code}", fault.nth)?,
                None => write!(f, " hang-launch={}", fault.nth)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_says_everything() {
        let config = Config {
            tpcs: 66,
            tpc_of_bit: vec![Some(1), None, Some(0)],
            compute: (9, 0),
            driver: 13000,
            mask_offset: Some(0x51c),
            fragile: Some(11),
            clock_file: Some("/tmp/cur_freq".into()),
            descriptor_mask: Some(312),
            connections: Some(32),
            lazy: Some(false),
            hung_reset: HungReset::Blocks,
            export_table: false,
            host_register_read_only: false,
            dma_buf_import: true,
            descriptor: Some(0x41),
            descriptor_masks: false,
            hide: vec!["cuGreenCtxCreate".into(), "cuMemHostRegister_v2".into()],
            call_faults: vec![CallFault {
                name: "cuMemAlloc_v2".into(),
                nth: 3,
                code: 2,
            }],
            launch_faults: vec![
                LaunchFault {
                    nth: 5,
                    code: Some(719),
                },
                LaunchFault { nth: 7, code: None },
            ],
            launch_log: Some("/tmp/launches".into()),
            ..Config::default()
        };
        assert_eq!(config.to_string().parse(), Ok(config));
        assert_eq!(Config::default().to_string().parse(), Ok(Config::default()));
        assert_eq!("".parse(), Ok(Config::default()));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "tpcs",
            "tpc=4",
            "tpcs=0",
            "tpcs=x",
            "compute=8",
            "driver=12",
            "masks=yes",
            "connections=0",
            "connections=33",
            "hung-reset=1",
            "fail=cuInit",
            "hang-launch=x",
            "tpc-of-bit=0,a",
        ] {
            assert!(text.parse::<Config>().is_err(), "{text}");
        }
    }
}
