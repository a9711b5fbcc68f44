//! The settings for real time that are published for a board, before there is a machine to look at.

use punctual_plan::{Board, PowerMode};
use serde::Serialize;

use super::{Cores, Subject, remedy, shown};

/// Interrupts of a Jetson's devices go to core 0 (docs/real-time.md): it is left to them.
const JETSON_INTERRUPT_CORES: u16 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub subject: Subject,
    /// The command that makes it, or where it is written.
    pub setting: String,
    /// Where it is from.
    pub source: String,
}

/// What a board in a power mode is to be set to.
#[derive(Clone, Debug, Serialize)]
pub struct Reference<'b> {
    pub board: &'b str,
    pub title: &'b str,
    pub power_mode: &'b PowerMode,
    pub daemon_cores: Vec<u16>,
    pub partition_cores: Vec<u16>,
    pub settings: Vec<Setting>,
}

impl<'b> Reference<'b> {
    /// `here`: the cores of this machine, for boards that are as they are found.
    pub fn of(board: &'b Board, mode: &'b PowerMode, here: Cores) -> Self {
        let Cores { daemon, partitions } = cores(board, mode).unwrap_or(here);
        let settings = if board.is_jetson() {
            [
                of_jetson(board, mode, &daemon, &partitions),
                of_linux(&daemon, &partitions),
            ]
            .concat()
        } else {
            let governor = setting(Subject::Governor, remedy::governor(&partitions));
            let numa = setting(Subject::NumaBalancing, remedy::NUMA_BALANCING);
            [vec![governor], of_linux(&daemon, &partitions), vec![numa]].concat()
        };
        Self {
            board: &board.name,
            title: &board.title,
            power_mode: mode,
            daemon_cores: daemon,
            partition_cores: partitions,
            settings,
        }
    }

    /// The settings, each in a line that can be copied.
    pub fn lines(&self) -> String {
        let line = |setting: &Setting| {
            let (name, source) = (setting.subject.name(), &setting.source);
            format!("{name}: {}\n        from  {source}\n", setting.setting)
        };
        self.settings.iter().map(line).collect()
    }

    /// What the settings are for, in a line.
    pub fn heading(&self) -> String {
        let Self {
            board,
            title,
            power_mode,
            ..
        } = self;
        let count = |what: &str, fact: &Option<punctual_plan::Fact<u16>>| {
            fact.as_ref().map(|fact| format!(", {} {what}", fact.value))
        };
        let counts = [
            count("cores", &power_mode.cores),
            count("TPCs", &power_mode.tpc),
        ];
        let counts: String = counts.into_iter().flatten().collect();
        format!(
            "{board} ({title}), power mode {}{counts}: partitions on cores {}, the daemon's other threads on {}",
            power_mode.name,
            shown(&self.partition_cores),
            shown(&self.daemon_cores)
        )
    }
}

fn setting(subject: Subject, setting: impl Into<String>) -> Setting {
    Setting {
        subject,
        setting: setting.into(),
        source: subject.source().to_owned(),
    }
}

/// By the board's file; none if that leaves them to the machine.
fn cores(board: &Board, mode: &PowerMode) -> Option<Cores> {
    let count = mode.cores.as_ref().or(board.cores.as_ref())?.value;
    let of_interrupts = if board.is_jetson() && count > 2 {
        JETSON_INTERRUPT_CORES
    } else {
        0
    };
    let first = of_interrupts.min(count.saturating_sub(1));
    Some(Cores {
        daemon: vec![first],
        partitions: (first + 1..count.max(first + 2)).collect(),
    })
}

fn of_jetson(board: &Board, mode: &PowerMode, daemon: &[u16], partitions: &[u16]) -> Vec<Setting> {
    let name = &mode.name;
    let by_name = format!(
        "sudo nvpmodel -m \"$(sed -n 's/^< POWER_MODEL ID=\\([0-9]*\\) NAME={name} >.*/\\1/p' /etc/nvpmodel.conf)\""
    );
    let source = board
        .sources
        .iter()
        .find(|source| source.name == mode.source);
    let power_mode = Setting {
        source: source.map_or_else(|| mode.source.clone(), |source| source.text.clone()),
        ..setting(Subject::PowerMode, by_name)
    };
    let interrupts = format!(
        "[daemon] cores = [{}], partitions on {}: core 0 is left to interrupts",
        shown(daemon),
        shown(partitions)
    );
    vec![
        power_mode,
        setting(Subject::PowerMode, remedy::JETSON_CLOCKS),
        setting(Subject::StarvedInterrupts, interrupts),
    ]
}

fn of_linux(daemon: &[u16], partitions: &[u16]) -> Vec<Setting> {
    let all = [daemon, partitions].concat();
    vec![
        setting(Subject::Preemption, remedy::PREEMPTION),
        setting(Subject::Isolation, remedy::isolation(partitions)),
        setting(Subject::Balancer, remedy::BALANCER),
        setting(Subject::TimerMigration, remedy::TIMER_MIGRATION),
        setting(Subject::Throttling, remedy::THROTTLING),
        setting(Subject::IdleStates, remedy::idle_states(&all)),
        setting(Subject::HugePages, remedy::HUGE_PAGES),
        setting(Subject::SharedHugePages, remedy::SHARED_HUGE_PAGES),
        setting(Subject::Compaction, remedy::COMPACTION),
        setting(Subject::Swap, remedy::SWAP),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Vec<Setting> {
        let board = Board::builtin(name).expect("a board of the program");
        let here = Cores {
            daemon: vec![0],
            partitions: vec![1],
        };
        let reference = Reference::of(&board, &board.power_modes[0], here);
        reference.settings
    }

    #[test]
    fn every_board_of_the_program_has_settings_each_with_its_source() {
        for name in Board::builtin_names() {
            let settings = of(name);
            assert!(settings.len() > 9, "{name}: {settings:?}");
            for setting in &settings {
                assert!(
                    !setting.setting.is_empty() && !setting.source.is_empty(),
                    "{name}: {setting:?}"
                );
            }
        }
    }

    #[test]
    fn a_jetson_keeps_core_0_and_has_its_mode_by_name() {
        let text = |name: &str| -> String {
            let settings = of(name).into_iter();
            settings.map(|setting| setting.setting + "\n").collect()
        };
        let orin = text("jetson-agx-orin-64gb");
        for words in [
            "NAME=MODE_30W",
            "jetson_clocks",
            "domain,2-7 nohz_full=2-7",
            "[daemon] cores = [1]",
        ] {
            assert!(orin.contains(words), "{words}: {orin}");
        }
        let host = text("host");
        assert!(
            !host.contains("nvpmodel") && host.contains("domain,1 nohz_full=1"),
            "{host}"
        );
    }
}
