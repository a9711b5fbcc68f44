use proptest::prelude::*;
use punctual_core::{Instant, Nanos};

use super::{Answer, Job, amounts, bound};

fn job(release: u64, deadline: u64, answers: &[(u64, f64)]) -> Job {
    Job {
        release: Instant::from_nanos(release),
        deadline: Instant::from_nanos(deadline),
        answers: answers
            .iter()
            .map(|&(work, value)| Answer {
                work: Nanos::new(work),
                value,
            })
            .collect(),
    }
}

/// Whether `works` (release, deadline, work) all fit, by running them earliest deadline first, a
/// nanosecond at a time.
fn fits(works: &[(u64, u64, u64)]) -> bool {
    let mut left = works.to_vec();
    let end = works.iter().map(|w| w.1).max().unwrap_or(0);
    for now in 0..end {
        let ready = left.iter_mut().filter(|w| w.0 <= now && w.2 > 0);
        if let Some(next) = ready.min_by_key(|w| w.1) {
            if next.1 <= now {
                return false;
            }
            next.2 -= 1;
        }
    }
    left.iter().all(|w| w.2 == 0)
}

/// The exact optimum: the value of the best set of unit pieces of segments that fits. The linear program has whole
/// solutions for whole data, and by falling worth a request's pieces come in order by themselves. Exponential.
fn best_by_trying_all(jobs: &[Job]) -> f64 {
    let units: Vec<(u64, u64, f64)> = jobs
        .iter()
        .flat_map(|job| {
            let window = (job.release.as_nanos(), job.deadline.as_nanos());
            super::hull::segments(&job.answers)
                .into_iter()
                .flat_map(move |(work, value)| {
                    (0..work).map(move |_| (window.0, window.1, value / work as f64))
                })
        })
        .collect();
    let mut best: f64 = 0.0;
    for set in 0..1_u32 << units.len() {
        let chosen = || {
            (0..units.len())
                .filter(|i| set >> i & 1 == 1)
                .map(|i| units[i])
        };
        let value: f64 = chosen().map(|unit| unit.2).sum();
        let works: Vec<_> = chosen().map(|unit| (unit.0, unit.1, 1)).collect();
        if value > best && fits(&works) {
            best = value;
        }
    }
    best
}

/// The best whole choice of one answer or none for each request: what a clairvoyant without fractions could do.
fn best_whole_choice(jobs: &[Job], chosen: &mut Vec<(u64, u64, u64)>) -> f64 {
    let Some((first, rest)) = jobs.split_first() else {
        return 0.0;
    };
    let mut best = best_whole_choice(rest, chosen);
    for answer in &first.answers {
        chosen.push((
            first.release.as_nanos(),
            first.deadline.as_nanos(),
            answer.work.as_nanos(),
        ));
        if fits(chosen) {
            best = best.max(answer.value + best_whole_choice(rest, chosen));
        }
        chosen.pop();
    }
    best
}

#[test]
fn no_requests_have_no_bound_on_accuracy() {
    let bound = bound(&[]);
    assert_eq!((bound.value, bound.accuracy()), (0.0, None));
}

#[test]
fn a_request_alone_gets_its_best_answer_that_fits() {
    let answers = [(10, 0.5), (30, 0.9)];
    assert_eq!(bound(&[job(0, 30, &answers)]).value, 0.9);
    assert_eq!(bound(&[job(5, 15, &answers)]).value, 0.5);
    // Half of the second stage counts half.
    let half = bound(&[job(0, 20, &answers)]).value;
    assert!((half - 0.7).abs() < 1e-12, "{half}");
}

#[test]
fn an_answer_below_the_hull_counts_only_as_part_of_the_next() {
    // 20 ns for 0.3 is below the line to 40 ns for 1.
    let value = bound(&[job(0, 20, &[(20, 0.3), (40, 1.0)])]).value;
    assert!((value - 0.5).abs() < 1e-12, "{value}");
}

#[test]
fn a_worse_deeper_answer_is_never_bought() {
    let result = bound(&[job(0, 100, &[(10, 1.0), (30, 0.0)])]);
    assert_eq!((result.value, result.work), (1.0, Nanos::new(10)));
}

#[test]
fn answers_without_work_are_always_had() {
    let jobs = [job(7, 7, &[(0, 0.25)]), job(0, 9, &[(0, 0.25), (9, 1.0)])];
    assert_eq!(bound(&jobs).value, 1.25);
}

#[test]
fn a_request_that_ends_before_it_begins_is_worth_nothing() {
    assert_eq!(bound(&[job(9, 3, &[(0, 1.0), (1, 1.0)])]).value, 0.0);
}

#[test]
fn worthless_and_undefined_answers_are_left_out() {
    let jobs = [job(0, 9, &[(1, f64::NAN), (2, -1.0), (3, 0.0)])];
    assert_eq!(bound(&jobs).work, Nanos::ZERO);
}

#[test]
fn the_worthier_of_two_requests_for_the_same_time_wins() {
    let jobs = [job(0, 10, &[(10, 0.4)]), job(0, 10, &[(10, 0.6)])];
    assert_eq!(bound(&jobs).value, 0.6);
}

#[test]
fn idle_time_outside_the_windows_is_of_no_use() {
    let jobs = [
        job(0, 10, &[(10, 1.0)]),
        job(0, 10, &[(10, 1.0)]),
        job(50, 60, &[(10, 1.0)]),
    ];
    assert_eq!(bound(&jobs).value, 2.0);
}

#[test]
fn a_flood_of_requests_is_bounded_by_the_time_there_is() {
    // Ten times what fits, all worth the same, windows all over each other.
    let jobs: Vec<Job> = (0..50_000)
        .map(|i| job(i * 100, i * 100 + 30_000, &[(1_000, 1.0)]))
        .collect();
    let result = bound(&jobs);
    let end = 49_999 * 100 + 30_000;
    assert_eq!(result.work, Nanos::new(end));
    assert!((result.value - end as f64 / 1_000.0).abs() < 1e-6);
}

fn some_jobs(count: usize, end: u64) -> impl Strategy<Value = Vec<Job>> {
    let answers = prop::collection::vec((1..=4_u64, 0..=8_u32), 1..=3);
    let window = (0..end, 1..=end).prop_map(|(release, length)| (release, release + length));
    let one = (window, answers).prop_map(|((release, deadline), answers)| {
        let answers: Vec<(u64, f64)> = answers
            .into_iter()
            .map(|(work, value)| (work, f64::from(value) / 8.0))
            .collect();
        job(release, deadline, &answers)
    });
    prop::collection::vec(one, 0..=count)
}

proptest! {
    #[test]
    fn the_bound_is_the_exact_optimum_of_small_cases(jobs in some_jobs(4, 6)) {
        let units: u64 = jobs.iter().filter_map(|j| {
            super::hull::segments(&j.answers).iter().map(|s| s.0).sum::<u64>().into()
        }).sum();
        prop_assume!(units <= 13);
        let (found, exact) = (bound(&jobs).value, best_by_trying_all(&jobs));
        prop_assert!((found - exact).abs() < 1e-9, "{found} instead of {exact}");
    }

    #[test]
    fn no_whole_choice_exceeds_the_bound(jobs in some_jobs(6, 10)) {
        let whole = best_whole_choice(&jobs, &mut Vec::new());
        prop_assert!(whole <= bound(&jobs).value + 1e-9);
    }

    #[test]
    fn what_the_bound_counts_can_be_run_preemptively(jobs in some_jobs(30, 40)) {
        let works: Vec<(u64, u64, u64)> = amounts(&jobs)
            .iter()
            .map(|(piece, amount)| (piece.release, piece.deadline, *amount))
            .collect();
        prop_assert!(fits(&works));
    }

    #[test]
    fn more_room_never_lowers_the_bound(
        jobs in some_jobs(12, 20), which in 0..12_usize, earlier in 0..5_u64, later in 0..5_u64,
    ) {
        let before = bound(&jobs).value;
        let mut wider = jobs.clone();
        if let Some(job) = wider.get_mut(which) {
            job.release = Instant::from_nanos(job.release.as_nanos().saturating_sub(earlier));
            job.deadline = job.deadline + Nanos::new(later);
        }
        prop_assert!(bound(&wider).value >= before - 1e-9);
        let fewer = &jobs[..jobs.len().saturating_sub(1)];
        prop_assert!(bound(fewer).value <= before + 1e-9);
    }

    #[test]
    fn the_order_of_the_requests_does_not_matter(jobs in some_jobs(12, 20)) {
        let mut reversed = jobs.clone();
        reversed.reverse();
        prop_assert!((bound(&jobs).value - bound(&reversed).value).abs() < 1e-9);
    }
}
