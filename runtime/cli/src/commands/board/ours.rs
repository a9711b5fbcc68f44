//! The board of the program that a machine is, and what it has otherwise.

use std::path::Path;

use punctual_plan::{Board, Difference};

use super::file;
use super::found::{Found, Ours};

/// None if it is none of ours.
pub fn of(found: &Found) -> Option<Ours> {
    let board = Board::of_machine(&found.compatible, found.memory_bytes)?;
    let mut differences = Vec::new();
    differences.extend(difference_of_memory(&board, found));
    // A file that is not valid is for `--write` to report.
    let here = Board::parse(&file::of(found), Path::new("board.toml"));
    differences.extend(here.iter().flat_map(|here| board.differences(here)));
    Some(Ours {
        board: board.name,
        differences,
    })
}

/// The kernel counts less than there is, by what it keeps for itself: never more, and not by a quarter.
fn difference_of_memory(board: &Board, found: &Found) -> Option<Difference> {
    let (listed, here) = (board.memory_bytes.as_ref()?.value, found.memory_bytes?);
    let usual = listed / 4 * 3..=listed;
    let gib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 30));
    (!usual.contains(&here)).then(|| Difference {
        figure: "memory, GiB".to_owned(),
        listed: gib(listed),
        found: gib(here),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::board::file::tests::found;

    /// An Orin NX as our file describes it.
    fn orin_nx() -> Found {
        let mut found = found();
        found.compatible = vec![
            "nvidia,p3768-0000+p3767-0000".to_owned(),
            "nvidia,tegra234".to_owned(),
        ];
        // Without the kernel's own.
        found.memory_bytes = Some(15_657 << 20);
        let board = Board::builtin("jetson-orin-nx-16gb").expect("a board of ours");
        let khz = |mhz: &Option<punctual_plan::Fact<f64>>| {
            mhz.as_ref().map(|fact| (fact.value * 1000.0) as u64)
        };
        let modes = board.power_modes.iter();
        found.power_modes = modes
            .map(|mode| crate::commands::board::found::PowerMode {
                name: mode.name.clone(),
                cores: mode.cores.as_ref().map(|fact| fact.value),
                tpcs: mode.tpc.as_ref().map(|fact| fact.value),
                cpu_khz: khz(&mode.cpu_mhz),
                gpu_khz: khz(&mode.gpu_mhz),
                memory_khz: khz(&mode.memory_mhz),
            })
            .collect();
        found
    }

    #[test]
    fn a_board_as_our_file_has_it_differs_in_nothing() {
        let ours = of(&orin_nx()).expect("a board of ours");
        assert_eq!(ours.board, "jetson-orin-nx-16gb");
        assert_eq!(ours.differences, []);
    }

    #[test]
    fn what_differs_from_our_file_is_told() {
        let mut found = orin_nx();
        found.memory_bytes = Some(7_600 << 20);
        found.power_modes.retain(|mode| mode.name != "MAXN");
        found.power_modes[0].cores = Some(6);
        let ours = of(&found).expect("a board of ours");
        let figures: Vec<&str> = ours.differences.iter().map(|d| &d.figure[..]).collect();
        assert_eq!(figures, ["memory, GiB", "cores in 15W", "power mode MAXN"]);
    }

    #[test]
    fn a_machine_that_no_file_describes_is_none_of_ours() {
        let mut found = orin_nx();
        found.compatible = vec!["raspberrypi,5-model-b".to_owned()];
        assert!(of(&found).is_none());
    }
}
