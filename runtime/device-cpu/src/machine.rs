//! What this machine is called in a profile's key.

use std::collections::BTreeSet;
use std::fs;

use punctual_device::pool::MECHANISM;
use punctual_kernels::Isa;

/// Processor model and instruction set of the kernels, e.g. `AMD EPYC 9654, avx512`. Two machines
/// with the same name are taken to be equally fast, and stop stages by one mechanism.
#[must_use]
pub fn machine() -> String {
    let model = cpu_model().unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH));
    MECHANISM.of_machine(format!("{model}, {}", Isa::detect()))
}

/// Floats of the vectors that the kernels for this processor have.
#[must_use]
pub fn lanes() -> u8 {
    Isa::detect().lanes() as u8
}

/// What governs the clocks of this machine's cores and how far they may go, e.g. `schedutil to 2201 MHz`;
/// several, if its cores differ; `unknown` where the kernel does not tell, as in most virtual machines.
#[must_use]
pub fn clocks() -> String {
    let folder = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
    let cores = (0..).map(folder).map(|folder| {
        let governor = fs::read_to_string(format!("{folder}/scaling_governor")).ok()?;
        let khz = fs::read_to_string(format!("{folder}/scaling_max_freq")).ok()?;
        Some((governor, khz))
    });
    clocks_of(cores.map_while(|core| core))
}

fn clocks_of(cores: impl Iterator<Item = (String, String)>) -> String {
    let told = cores.filter_map(|(governor, khz)| {
        let khz: u64 = khz.trim().parse().ok()?;
        Some(format!("{} to {} MHz", governor.trim(), khz / 1000))
    });
    let kinds: Vec<String> = told.collect::<BTreeSet<_>>().into_iter().collect();
    if kinds.is_empty() {
        "unknown".to_owned()
    } else {
        kinds.join(", ")
    }
}

/// From the kernel: x86 names the processor, Arm boards name the board.
fn cpu_model() -> Option<String> {
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| model_name(&text))
        .or_else(|| fs::read_to_string("/proc/device-tree/model").ok())
        .map(|name| tidy(&name))
        .filter(|name| !name.is_empty())
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.to_owned())
    };
    cpuinfo.lines().find_map(value)
}

/// Single spaces and no zero bytes, which end strings of the device tree.
fn tidy(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_name_is_found_and_tidied() {
        let text = "processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\nmodel\t\t: 17\n";
        assert_eq!(
            model_name(text).map(|name| tidy(&name)),
            Some("Some CPU @ 2 GHz".to_owned())
        );
        assert_eq!(model_name("CPU part\t: 0xd0b\n"), None);
        assert_eq!(tidy("NVIDIA Jetson\0"), "NVIDIA Jetson");
    }

    #[test]
    fn clocks_are_the_kinds_that_there_are_in_one_order() {
        let core = |governor: &str, khz: &str| (format!("{governor}\n"), format!("{khz}\n"));
        let big_and_little = [
            core("schedutil", "2201600"),
            core("performance", "1500000"),
            core("schedutil", "2201600"),
        ];
        assert_eq!(
            clocks_of(big_and_little.into_iter()),
            "performance to 1500 MHz, schedutil to 2201 MHz"
        );
        assert_eq!(clocks_of(std::iter::empty()), "unknown");
        assert_eq!(clocks(), clocks());
    }

    #[test]
    fn the_name_ends_with_the_instruction_set_and_does_not_change() {
        assert!(machine().ends_with(Isa::detect().name()));
        assert_eq!(machine(), machine());
    }
}
