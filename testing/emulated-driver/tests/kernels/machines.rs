//! The same launches on the PTX of every architecture, in other orders, and with arithmetic that is as coarse as the manual allows.
use crate::launch::Queue;
use crate::samples::samples;
use punctual_cuda_kernels::images::archives;
use punctual_cuda_kernels::kernel;
use punctual_ptx::Arithmetic;

#[test]
fn the_order_of_warps_and_threads_does_not_matter() {
    for mut sample in samples() {
        sample.launch(&Queue::new(), u64::MAX);
        let first = sample.memory[0].bytes();
        for seed in 1..4 {
            sample.memory[0].forget();
            let queue = Queue::on("sm_87", Arithmetic::Exact, seed);
            sample.launch(&queue, u64::MAX);
            assert_eq!(sample.memory[0].bytes(), first, "{} {seed}", sample.kernel);
        }
    }
}

#[test]
fn tensor_cores_read_shared_memory_without_bank_conflicts() {
    let mut products = 0;
    for sample in samples() {
        let counts = sample.try_launch(&Queue::new(), u64::MAX).expect("runs");
        assert_eq!(counts.bank_conflicts, 0, "{}", sample.kernel);
        products += counts.matrix_products;
    }
    assert!(products > 0);
}

#[test]
fn the_kernels_of_every_architecture_compute_the_same() {
    for mut sample in samples() {
        let Some(row) = kernel(sample.kernel) else {
            panic!("{} is in the table", sample.kernel);
        };
        sample.launch(&Queue::new(), u64::MAX);
        let expected = sample.memory[0].bytes();
        for archive in archives() {
            if !row.module.runs_on(archive.capability().0) {
                continue;
            }
            sample.memory[0].forget();
            let queue = Queue::on(archive.name(), Arithmetic::Exact, 5);
            sample.launch(&queue, u64::MAX);
            let (kernel, archive) = (sample.kernel, archive.name());
            assert!(
                sample.memory[0].bytes() == expected,
                "{kernel} on {archive}"
            );
        }
    }
}
