//! In which order the networks of a plan are loaded: the daemon is ready with the first task, not with the last network.

use punctual_core::{Config, Criticality, ModelConfig, ModelId, TaskId};
use punctual_device::StartStep;

/// The tasks in the order in which they become ready: real-time tasks as in the manifest, then the others.
pub fn tasks(config: &Config) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = (0..config.tasks.len() as u16).map(TaskId).collect();
    // Stable: equals stay in the manifest's order.
    tasks.sort_by_key(|task| config.tasks[task.index()].criticality == Criticality::BestEffort);
    tasks
}

/// What a first answer of each task needs, then the deeper stages in the same order. `runs_whole`: the policy answers no frame
/// before all of its network can run.
pub fn steps(config: &Config, runs_whole: bool) -> Vec<StartStep> {
    let mut steps = Vec::new();
    for first_answers in [true, false] {
        for task in tasks(config) {
            let task = &config.tasks[task.index()];
            let stages = config.models[task.model.index()].stages.len() as u8;
            let needed = if first_answers && !runs_whole {
                task.mandatory_exit.0 + 1
            } else {
                stages
            };
            for stage in 0..needed {
                add(&mut steps, &config.models, task.model, stage);
            }
        }
    }
    steps
}

/// Adds a stage, which may be one of another model, unless it is named already.
fn add(steps: &mut Vec<StartStep>, models: &[ModelConfig], model: ModelId, stage: u8) {
    let stages = stage + 1;
    let shared = models[model.index()].stages[usize::from(stage)].runs_as;
    let model = shared.unwrap_or(model);
    // Its weights come and go.
    let is_paged = models[model.index()].weights.is_some();
    let mut of_model = steps.iter().filter(|step| step.model == model);
    if is_paged || of_model.any(|step| step.stages >= stages) {
        return;
    }
    match steps.last_mut().filter(|last| last.model == model) {
        Some(last) => last.stages = stages,
        None => steps.push(StartStep { model, stages }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{
        ACCURACY_BINS, Answers, Confidence, Delivery, Nanos, PartitionId, StageConfig, StageId,
        TaskConfig, Weights,
    };

    /// Networks of three stages.
    fn models(count: usize) -> Vec<ModelConfig> {
        let stage = StageConfig {
            times: Vec::new(),
            accuracy: [0; ACCURACY_BINS],
            deeper: Vec::new(),
            follows: [[0; ACCURACY_BINS]; ACCURACY_BINS],
            answers: true,
            runs_as: None,
        };
        let model = ModelConfig {
            stages: vec![stage; 3],
            weights: None,
            places: Vec::new(),
        };
        vec![model; count]
    }

    fn task(model: u16, mandatory_exit: u8, criticality: Criticality) -> TaskConfig {
        TaskConfig {
            model: ModelId(model),
            partition: PartitionId(0),
            criticality,
            deadline: None,
            period: Nanos::ZERO,
            burst: 1,
            jitter: Nanos::ZERO,
            prepare: Nanos::ZERO,
            mandatory_exit: StageId(mandatory_exit),
            threshold: Confidence(0),
            threshold_min: Confidence(0),
            batch_max: 1,
            queue_max: 1,
            reserved: false,
            answers: Answers::Final,
            weight: 1,
            offload_to: None,
            delivery: Delivery::EveryFrame,
        }
    }

    /// Model and stages of each step.
    fn order(models: Vec<ModelConfig>, tasks: Vec<TaskConfig>, whole: bool) -> Vec<(u16, u8)> {
        let config = Config {
            tasks,
            models,
            partitions: Vec::new(),
            request_buffers: 1,
            pages: 0,
            dispatch_cost: Nanos::ZERO,
            egress_bound: Nanos::ZERO,
        };
        let steps = steps(&config, whole).into_iter();
        steps.map(|step| (step.model.0, step.stages)).collect()
    }

    #[test]
    fn first_answers_of_real_time_tasks_come_first_and_deeper_stages_last() {
        let tasks = vec![
            task(0, 0, Criticality::BestEffort),
            task(1, 1, Criticality::RealTime),
            task(2, 0, Criticality::RealTime),
        ];
        let expected = [(1, 2), (2, 1), (0, 1), (1, 3), (2, 3), (0, 3)];
        assert_eq!(order(models(3), tasks.clone(), false), expected);
        assert_eq!(order(models(3), tasks, true), [(1, 3), (2, 3), (0, 3)]);
    }

    #[test]
    fn a_common_beginning_is_loaded_once_and_paged_networks_are_not() {
        let mut models = models(3);
        models[1].stages[0].runs_as = Some(ModelId(0));
        models[2].weights = Some(Weights {
            pages: 1,
            load: Nanos::ZERO,
        });
        let tasks = vec![
            task(1, 1, Criticality::RealTime),
            task(2, 0, Criticality::RealTime),
            task(0, 0, Criticality::RealTime),
        ];
        let found = order(models, tasks, false);
        // The first answers of both come before the last stage of one.
        assert_eq!(found, [(0, 1), (1, 3), (0, 3)]);
    }
}
