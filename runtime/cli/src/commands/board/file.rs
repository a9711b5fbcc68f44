//! A board file of what was found.

use std::fmt::Write as _;

use super::found::{Found, Gpu};

/// The text of a board file. What changes from start to start (free cores, free memory) is left to be found out then.
pub fn of(found: &Found) -> String {
    let title = found.model.as_deref();
    let title = title.or(found.gpu.as_ref().map(|gpu| gpu.name.as_str()));
    let title = title.unwrap_or(&found.processor);
    let mut text = format!(
        "# Found out by `punctual board detect`.\n\
         name = {name}\n\
         title = {title}\n\
         cores = {{ source = \"detected\" }}\n\
         processor = {{ is = {processor}, source = \"detected\" }}\n\
         memory_gib = {{ source = \"detected\" }}\n",
        name = quoted(&name(title)),
        title = quoted(title),
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
    let modes = power_modes(found);
    let source = match found.power_modes.is_empty() {
        true => "definition",
        false => "detected",
    };
    let modes: Vec<String> = modes.iter().map(|mode| quoted(mode)).collect();
    let modes = modes.join(", ");
    line(
        &mut text,
        format_args!("power_modes = {{ is = [{modes}], source = \"{source}\" }}"),
    );
    if let Some(gpu) = &found.gpu {
        text.push_str(&of_gpu(gpu));
    }
    let mut sources = String::new();
    if bandwidth.is_some() {
        sources.push_str("computed = \"Clock and width of the memory, as the driver says.\"\n");
    }
    if source == "definition" {
        sources.push_str("definition = \"A definition of this project: one profile key, whatever the machine's governor does.\"\n");
    }
    if !sources.is_empty() {
        text.push_str("\n[sources]\n");
        text.push_str(&sources);
    }
    text
}

fn of_gpu(gpu: &Gpu) -> String {
    let partitions = &gpu.partitions;
    format!(
        "\n# Partitions by {mechanism}: {tpcs} TPCs in multiples of {granularity}.\n\
         [gpu]\n\
         architecture = {{ is = {architecture}, source = \"detected\" }}\n\
         compute_capability = {{ is = {capability}, source = \"detected\" }}\n\
         sm = {{ is = {sms}, source = \"detected\" }}\n\
         tpc = {{ is = {all}, source = \"detected\" }}\n\
         cuda = {{ is = {cuda}, source = \"detected\" }}\n",
        mechanism = partitions.mechanism,
        tpcs = partitions.tpcs,
        granularity = partitions.granularity,
        architecture = quoted(gpu.architecture),
        capability = quoted(&gpu.compute_capability),
        sms = gpu.multiprocessors,
        all = gpu.tpcs,
        cuda = quoted(&gpu.cuda),
    )
}

/// The present one first, as the first is the default.
fn power_modes(found: &Found) -> Vec<String> {
    let now = found.power_mode.iter();
    let others = found
        .power_modes
        .iter()
        .filter(|mode| Some(*mode) != found.power_mode.as_ref());
    let modes: Vec<String> = now.chain(others).cloned().collect();
    match found.power_modes.is_empty() {
        true => vec!["default".to_owned()],
        false => modes,
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("strings take all text");
}

/// What manifests can say: small letters, digits and hyphens.
fn name(title: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '-',
    };
    let plain: String = title.chars().map(plain).collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// A string of TOML. Those of JSON are such.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text serialises")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use punctual_device_cuda::partition::Mechanism;
    use punctual_plan::Board;

    use super::*;
    use crate::commands::board::found::{Partitions, StreamMasks};

    fn found() -> Found {
        Found {
            model: Some("NVIDIA Jetson \"Orin\" NX".to_owned()),
            processor: "ARMv8 Processor rev 1, neon".to_owned(),
            cores: Some(8),
            memory_bytes: Some(16 << 30),
            processor_clocks: "unknown".to_owned(),
            power_mode: Some("15W".to_owned()),
            power_modes: vec!["MAXN".to_owned(), "15W".to_owned()],
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

    fn parsed(found: &Found) -> Board {
        Board::parse(&of(found), Path::new("board.toml")).expect("a board file")
    }

    #[test]
    fn a_board_file_says_what_was_found() {
        let board = parsed(&found());
        assert_eq!(board.name, "nvidia-jetson-orin-nx");
        assert_eq!(board.title, "NVIDIA Jetson \"Orin\" NX");
        assert_eq!(board.default_power_mode(), "15W");
        assert_eq!(board.power_modes[1].name, "MAXN");
        assert_eq!(board.bandwidth_gb_s.map(|fact| fact.value), Some(102.4));
        let gpu = board.gpu.expect("a GPU");
        assert_eq!((gpu.sm.value, gpu.tpc.value), (8, 4));
        assert_eq!(gpu.compute_capability.value, "8.7");
        assert_eq!(gpu.cuda.map(|fact| fact.value.newest).as_deref(), Some("12.6"));
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
