//! A board file of what was found.

use std::fmt::Write as _;

use super::found::{Found, Gpu, PowerMode};

/// The text of a board file. What changes from start to start (free cores, free memory) is left to be found out then.
pub fn of(found: &Found) -> String {
    let title = found.model.as_deref();
    let title = title.or(found.gpu.as_ref().map(|gpu| gpu.name.as_str()));
    let title = title.unwrap_or(&found.processor);
    let mut text = format!(
        "# Found out by `punctual board detect`.\n\
         name = {name}\n\
         title = {title}\n\
         {compatible}\
         cores = {{ source = \"detected\" }}\n\
         processor = {{ is = {processor}, source = \"detected\" }}\n\
         memory_gib = {{ source = \"detected\" }}\n",
        name = quoted(&name(title)),
        title = quoted(title),
        compatible = compatible(found),
        processor = quoted(&found.processor),
    );
    let bandwidth = found.gpu.as_ref().and_then(|gpu| gpu.bandwidth_gb_s);
    // A card's memory is not the processor's, which this line is about.
    let shared = found.gpu.as_ref().is_some_and(|gpu| gpu.integrated);
    let bandwidth = bandwidth.filter(|_| shared);
    if let Some(bandwidth) = bandwidth {
        line(
            &mut text,
            format_args!("bandwidth_gb_s = {{ is = {bandwidth:?}, source = \"computed\" }}"),
        );
    }
    let defined = found.power_modes.is_empty();
    text.push_str(&power_modes(found));
    if let Some(gpu) = &found.gpu {
        text.push_str(&of_gpu(gpu, found));
    }
    let mut sources = String::new();
    if bandwidth.is_some() {
        sources.push_str("computed = \"Clock and width of the memory, as the driver says.\"\n");
    }
    if defined {
        sources.push_str("definition = \"A definition of this project: one profile key, whatever the machine's governor does.\"\n");
    }
    if !sources.is_empty() {
        text.push_str("\n[sources]\n");
        text.push_str(&sources);
    }
    text
}

/// With all TPCs on that any power mode has.
fn of_gpu(gpu: &Gpu, found: &Found) -> String {
    let partitions = &gpu.partitions;
    let modes = found.power_modes.iter().filter_map(|mode| mode.tpcs);
    let all = modes.map(u32::from).max().unwrap_or(0).max(gpu.tpcs);
    format!(
        "\n# Partitions by {mechanism}: {tpcs} TPCs in multiples of {granularity}.\n\
         [gpu]\n\
         architecture = {{ is = {architecture}, source = \"detected\" }}\n\
         compute_capability = {{ is = {capability}, source = \"detected\" }}\n\
         sm = {{ is = {sms}, source = \"detected\" }}\n\
         tpc = {{ is = {all}, source = \"detected\" }}\n\
         cuda = {{ newest = {cuda}, source = \"detected\" }}\n",
        mechanism = partitions.mechanism,
        tpcs = partitions.tpcs,
        granularity = partitions.granularity,
        architecture = quoted(gpu.architecture),
        capability = quoted(&gpu.compute_capability),
        sms = gpu.multiprocessors * all / gpu.tpcs.max(1),
        cuda = quoted(&gpu.cuda),
    )
}

fn compatible(found: &Found) -> String {
    let names: Vec<String> = found.compatible.iter().map(|name| quoted(name)).collect();
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(", ");
    format!("compatible = {{ is = [{names}], source = \"detected\" }}\n")
}

/// The present one first, as the first is the default.
fn power_modes(found: &Found) -> String {
    if found.power_modes.is_empty() {
        return "power_modes = { is = [\"default\"], source = \"definition\" }\n".to_owned();
    }
    let is_now = |mode: &&PowerMode| Some(&mode.name) == found.power_mode.as_ref();
    let (now, others): (Vec<_>, Vec<_>) = found.power_modes.iter().partition(is_now);
    let modes = now.into_iter().chain(others).map(power_mode);
    let mut text =
        "\n# First the one that it was in. A clock that is left out has no cap.\n[power_modes]\n"
            .to_owned();
    text.extend(modes);
    text
}

fn power_mode(mode: &PowerMode) -> String {
    let count = |key, count: Option<u16>| count.map(|count| format!("{key} = {count}, "));
    let clock = |key, khz: Option<u64>| khz.map(|khz| format!("{key} = {:?}, ", khz as f64 / 1e3));
    let figures = [
        count("cores", mode.cores),
        count("tpc", mode.tpcs),
        clock("cpu_mhz", mode.cpu_khz),
        clock("gpu_mhz", mode.gpu_khz),
        clock("memory_mhz", mode.memory_khz),
    ];
    let figures: String = figures.into_iter().flatten().collect();
    let name = quoted(&mode.name);
    format!("{name} = {{ {figures}source = \"detected\" }}\n")
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("strings take all text");
}

/// What manifests can say: small letters, digits and hyphens.
fn name(title: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let plain: String = title.chars().map(plain).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// A string of TOML. Those of JSON are such.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text serialises")
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use punctual_device_cuda::partition::Mechanism;
    use punctual_plan::Board;

    use super::*;
    use crate::commands::board::found::{Partitions, StreamMasks};

    /// An Orin NX in a mode with four TPCs.
    pub fn found() -> Found {
        Found {
            model: Some("NVIDIA Jetson \"Orin\" NX".to_owned()),
            compatible: vec!["nvidia,p3767".to_owned()],
            ours: None,
            processor: "ARMv8 Processor rev 1, neon".to_owned(),
            cores: Some(8),
            memory_bytes: Some(16 << 30),
            processor_clocks: "unknown".to_owned(),
            power_mode: Some("25W".to_owned()),
            power_modes: vec![
                mode("MAXN", Some(8), Some(4)),
                PowerMode {
                    cpu_khz: Some(1_190_400),
                    gpu_khz: Some(612_000),
                    memory_khz: Some(2_133_000),
                    ..mode("10W", Some(4), Some(2))
                },
                mode("25W", None, Some(4)),
            ],
            clocks: Vec::new(),
            gpu: Some(Gpu {
                name: "Orin".to_owned(),
                uuid: "00".to_owned(),
                architecture: "Ampere",
                compute_capability: "8.7".to_owned(),
                multiprocessors: 8,
                tpcs: 4,
                integrated: true,
                memory_bytes: 16 << 30,
                clock_khz: 918_000,
                memory_clock_khz: 3_199_000,
                bandwidth_gb_s: Some(102.4),
                cuda: "12.6".to_owned(),
                driver_build: None,
                unmet_settings: Vec::new(),
                partitions: Partitions {
                    mechanism: Mechanism::StreamMask,
                    enforced: true,
                    tpcs: 4,
                    granularity: 1,
                    units: Vec::new(),
                    refused: Vec::new(),
                    searched: Vec::new(),
                    found: Vec::new(),
                    stream_masks: StreamMasks {
                        offset: None,
                        known_by: String::new(),
                        source: None,
                    },
                },
            }),
            no_gpu: None,
        }
    }

    fn mode(name: &str, cores: Option<u16>, tpcs: Option<u16>) -> PowerMode {
        PowerMode {
            name: name.to_owned(),
            cores,
            tpcs,
            cpu_khz: None,
            gpu_khz: None,
            memory_khz: None,
        }
    }

    fn parsed(found: &Found) -> Board {
        Board::parse(&of(found), Path::new("board.toml")).expect("a board file")
    }

    #[test]
    fn a_board_file_says_what_was_found() {
        let board = parsed(&found());
        assert_eq!(board.name, "nvidia-jetson-orin-nx");
        assert_eq!(board.title, "NVIDIA Jetson \"Orin\" NX");
        let names: Vec<&str> = board
            .power_modes
            .iter()
            .map(|mode| &mode.name[..])
            .collect();
        assert_eq!(names, ["25W", "MAXN", "10W"]);
        let least = &board.power_modes[2];
        let counts = [&least.cores, &least.tpc].map(|fact| fact.as_ref().map(|fact| fact.value));
        assert_eq!(counts, [Some(4), Some(2)]);
        let clocks = [&least.cpu_mhz, &least.gpu_mhz, &least.memory_mhz];
        let clocks = clocks.map(|fact| fact.as_ref().map(|fact| fact.value));
        assert_eq!(clocks, [1190.4, 612.0, 2133.0].map(Some));
        assert_eq!(board.power_modes[0].cores, None);
        assert_eq!(board.bandwidth_gb_s.map(|fact| fact.value), Some(102.4));
        let gpu = board.gpu.expect("a GPU");
        assert_eq!((gpu.sm.value, gpu.tpc.value), (8, 4));
        assert_eq!(gpu.compute_capability.value, "8.7");
        assert_eq!(
            gpu.cuda.map(|fact| fact.value.newest).as_deref(),
            Some("12.6")
        );
    }

    #[test]
    fn in_a_mode_that_has_tpcs_off_the_file_has_all_of_them() {
        let mut found = found();
        if let Some(gpu) = &mut found.gpu {
            (gpu.multiprocessors, gpu.tpcs) = (4, 2);
        }
        let gpu = parsed(&found).gpu.expect("a GPU");
        assert_eq!((gpu.sm.value, gpu.tpc.value), (8, 4));
    }

    #[test]
    fn without_a_gpu_and_modes_it_is_a_board_of_cores() {
        let board = parsed(&Found {
            model: None,
            power_mode: None,
            power_modes: Vec::new(),
            gpu: None,
            ..found()
        });
        assert_eq!(board.gpu, None);
        assert_eq!(board.name, "armv8-processor-rev-1-neon");
        assert_eq!(board.default_power_mode(), "default");
    }

    #[test]
    fn memory_of_a_card_is_not_the_boards() {
        let mut found = found();
        if let Some(gpu) = &mut found.gpu {
            gpu.integrated = false;
        }
        assert_eq!(parsed(&found).bandwidth_gb_s, None);
    }
}
