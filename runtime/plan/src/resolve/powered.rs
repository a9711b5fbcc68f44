//! What the plan's power mode leaves on. Cores and TPCs that are off take part in no plan, whatever the machine has on now:
//! it may be in another mode while the plan is made.

use crate::inputs::{Fact, GpuHost, PlanInputs};

/// The part of the machine that the power mode leaves on.
pub(crate) struct Powered<'i> {
    /// Cores that this process may use, rising.
    pub(crate) cores: Vec<u16>,
    /// The GPU, if the board has one and the machine offers it.
    pub(crate) gpu: Option<&'i GpuHost>,
    /// TPCs that partitions can be made of; none without a GPU.
    pub(crate) tpcs: u16,
    /// The power mode, where its number of cores is what allows no more; else it is the machine's.
    pub(crate) mode_of_cores: Option<String>,
    /// The same of TPCs.
    pub(crate) mode_of_tpcs: Option<String>,
}

impl<'i> Powered<'i> {
    pub(crate) fn by(mode: &str, inputs: &'i PlanInputs) -> Self {
        let figures = inputs.board.power_mode(mode);
        let figure = |fact: Option<&Fact<u16>>| fact.map(|fact| fact.value);
        let on = figure(figures.and_then(|mode| mode.cores.as_ref()));
        let is_now = inputs.host.settings.get("nvpmodel").map(String::as_str) == Some(mode);
        let mut cores = inputs.host.cores.available.clone();
        cores.sort_unstable();
        cores.dedup();
        if let Some(on) = on {
            // In the mode that it is in now, the kernel knows which cores are on. In another one the first are.
            cores.retain(|core| is_now || *core < on);
            cores.truncate(on.into());
        }
        let gpu = inputs.gpu();
        let there = gpu.map_or(0, |gpu| gpu.tpcs);
        let tpcs_on = figure(figures.and_then(|mode| mode.tpc.as_ref()));
        let limits = |on: Option<u16>, count: usize| {
            let is_all = on.is_some_and(|on| usize::from(on) <= count);
            is_all.then(|| mode.to_owned())
        };
        Self {
            mode_of_cores: limits(on, cores.len()),
            mode_of_tpcs: limits(tpcs_on, there.into()),
            tpcs: tpcs_on.map_or(there, |on| on.min(there)),
            cores,
            gpu,
        }
    }
}

/// `in power mode "15W"`, where that is the reason.
pub(crate) fn in_mode(mode: &Option<String>) -> String {
    mode.as_ref()
        .map_or_else(String::new, |mode| format!(" in power mode {mode:?}"))
}

/// What can be done in addition to what `help` says, where the power mode is the reason.
pub(crate) fn or_another_mode(help: &str, mode: &Option<String>) -> String {
    match mode {
        Some(_) => format!("{help}, or set `power_mode` to one that leaves more on"),
        None => help.to_owned(),
    }
}
