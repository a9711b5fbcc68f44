//! The thread model: what barriers, exchanges and copies do, and what it says of kernels that misuse them.
use emulated_cuda::{RunError, Shape, run, run_watched};

const fn line(blocks: u32, threads: u32, shared_bytes: usize) -> Shape {
    Shape {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes,
    }
}

fn address<T>(of: &mut [T]) -> u64 {
    of.as_mut_ptr() as u64
}

#[test]
fn every_thread_of_every_block_runs_once() {
    let mut input: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let mut output = vec![-1.0f32; 1000];
    let (out, from) = (address(&mut output), address(&mut input));
    // SAFETY: both have as many numbers as the kernel is told.
    unsafe {
        run(
            "trial_scale",
            line(8, 128, 0),
            &[&out, &from, &3.0f32, &1000u32],
        )
    }
    .expect("runs");
    assert!(
        input
            .iter()
            .zip(&output)
            .all(|(i, o)| o.to_bits() == (i * 3.0).to_bits())
    );
}

fn reversed(kernel: &str, blocks: u32) -> bool {
    let mut numbers: Vec<u32> = (0..256 * blocks).collect();
    let expected: Vec<u32> = (0..blocks)
        .flat_map(|block| (256 * block..256 * (block + 1)).rev())
        .collect();
    let at = address(&mut numbers);
    // SAFETY: one number a thread.
    unsafe { run(kernel, line(blocks, 256, 1024), &[&at]) }.expect("runs");
    numbers == expected
}

#[test]
fn a_barrier_lets_threads_read_what_others_wrote() {
    assert!(reversed("trial_reverse", 6));
}

#[test]
fn a_missing_barrier_shows() {
    assert!(!reversed("trial_reverse_without_barrier", 1));
    assert!(!reversed("trial_reverse_without_barrier", 2));
}

#[test]
fn lanes_exchange_within_their_warp_only() {
    for threads in [32u32, 96, 1024] {
        let mut numbers: Vec<u32> = (0..threads).collect();
        let at = address(&mut numbers);
        // SAFETY: one number a thread.
        unsafe { run("trial_warp_sum", line(1, threads, 0), &[&at, &1u32]) }.expect("runs");
        for (thread, &sum) in numbers.iter().enumerate() {
            let first = thread as u32 / 32 * 32;
            assert_eq!(sum, (first..first + 32).sum::<u32>(), "thread {thread}");
        }
    }
}

#[test]
fn lanes_that_a_block_does_not_have_deposit_zeros() {
    let mut numbers: Vec<u32> = vec![1; 40];
    let at = address(&mut numbers);
    // SAFETY: one number a thread.
    unsafe { run("trial_warp_sum", line(1, 40, 0), &[&at, &1u32]) }.expect("runs");
    assert_eq!(numbers[..32], [32; 32]);
    // Sums by halves: an absent lane adds nothing, but passes nothing on either.
    assert_eq!(numbers[32..], [8; 8]);
}

#[test]
fn a_vote_counts_all_threads_of_a_block() {
    let mut numbers = vec![0u32; 4 * 64];
    numbers[64 + 63] = 7;
    numbers[128..256].fill(1);
    numbers[3 * 64] = 0;
    let (mut any, mut all) = (vec![9u32; 4], vec![9u32; 4]);
    let (from, some, every) = (address(&mut numbers), address(&mut any), address(&mut all));
    // SAFETY: a number a thread, a word a block.
    unsafe { run("trial_vote", line(4, 64, 0), &[&from, &some, &every]) }.expect("runs");
    assert_eq!((any, all), (vec![0, 1, 1, 1], vec![0, 0, 1, 0]));
}

fn complaint(how: u32) -> String {
    // SAFETY: the kernel touches no memory.
    let error = unsafe { run("trial_disagree", line(1, 64, 0), &[&how]) };
    match error {
        Err(RunError::Kernel { complaint }) => complaint,
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_that_wait_for_different_things_are_an_error_that_names_them() {
    let said = complaint(0);
    assert!(said.contains("trial_disagree, block (0, 0, 0)"), "{said}");
    assert!(said.contains("(5, 0, 0): has ended"), "{said}");
    assert!(said.contains("waits at barrier()"), "{said}");
    assert!(complaint(1).contains("waits at exchange()"));
    assert!(complaint(2).contains("barrier_or()"));
    assert!(complaint(3).contains("4 bytes"));
    assert!(complaint(4).contains("thread (5, 0, 0): thread five is never satisfied"));
}

#[test]
fn copies_arrive_when_they_are_waited_for() {
    let mut input = [11u32, 12, 13];
    let mut output = [0u32; 4];
    let (from, out) = (address(&mut input), address(&mut output));
    // SAFETY: three numbers in, four out.
    unsafe { run("trial_copy", line(1, 1, 64), &[&from, &out]) }.expect("runs");
    assert_eq!(output, [u32::MAX, 11, 0, u32::MAX]);
}

#[test]
fn a_thread_that_spins_lets_others_run() {
    let mut words = [0u32, 0];
    let at = address(&mut words);
    // SAFETY: two words.
    unsafe { run("trial_relax", line(1, 256, 0), &[&at]) }.expect("runs");
    assert_eq!(words, [1, 1]);
}

#[test]
fn checkpoints_are_seen_in_order_before_anything_after_them() {
    let (mut places, mut blocks) = (vec![9u32; 3], [0u32]);
    let (at, count) = (address(&mut places), address(&mut blocks));
    let mut seen = Vec::new();
    // SAFETY: a word a block, and one that counts.
    unsafe {
        run_watched("trial_where", line(3, 1, 0), &[&at, &count], |checkpoint| {
            seen.push((
                checkpoint,
                std::ptr::with_exposed_provenance::<u32>(count as usize).read_volatile(),
            ));
        })
    }
    .expect("runs");
    assert_eq!(seen, [(0, 0), (1, 1), (2, 2)]);
    assert_eq!((places, blocks), (vec![0; 3], [3]));
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let refused = |name: &str, shape, words: &[u32]| {
        let words: Vec<&dyn emulated_cuda::Parameter> = words
            .iter()
            .map(|word| word as &dyn emulated_cuda::Parameter)
            .collect();
        // SAFETY: nothing is run.
        unsafe { run(name, shape, &words) }.expect_err("refused")
    };
    assert!(matches!(
        refused("nowhere", line(1, 1, 0), &[]),
        RunError::Unknown { .. }
    ));
    let kernel = "trial_disagree";
    assert!(matches!(
        refused(kernel, line(1, 1, 0), &[]),
        RunError::Parameters {
            expected: 1,
            given: 0,
            ..
        }
    ));
    assert!(matches!(
        refused("trial_reverse", line(1, 1, 0), &[4]),
        RunError::ParameterSize {
            place: 0,
            expected: 8,
            given: 4,
            ..
        }
    ));
    for (blocks, threads) in [(0, 1), (1, 0), (1, 1025)] {
        assert!(matches!(
            refused(kernel, line(blocks, threads, 0), &[4]),
            RunError::Shape { .. }
        ));
    }
    assert!(matches!(
        refused(kernel, line(1, 1, 1 << 20), &[4]),
        RunError::Shared { .. }
    ));
}

#[test]
fn an_access_to_memory_that_is_not_there_ends_the_kernel_and_not_the_process() {
    for (at, said) in [(64u64, "illegal address 0x40"), (0, "illegal address")] {
        // SAFETY: the kernel's only access faults.
        let error = unsafe { run("trial_illegal", line(2, 64, 0), &[&at]) };
        let Err(RunError::Kernel { complaint }) = error else {
            panic!("{error:?}");
        };
        assert!(
            complaint.contains("block (1, 0, 0), thread (63, 0, 0)"),
            "{complaint}"
        );
        assert!(complaint.contains(said), "{complaint}");
    }
    assert!(reversed("trial_reverse", 2), "and other kernels run on");
}
