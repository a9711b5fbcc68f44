// Small kernels that the emulation and the driver are tested with.

namespace {

unsigned global_index() {
    return blockIdx.x * blockDim.x + threadIdx.x;
}

}  // namespace

// out[i] = in[i] * factor, each thread alone.
extern "C" __global__ void trial_scale(float* out, const float* in, float factor, unsigned count) {
    const unsigned i = global_index();
    if (i < count) out[i] = in[i] * factor;
}
EMULATED_REGISTER(trial_scale, 1024);

// Each block turns its part of the numbers round, through shared memory.
extern "C" __global__ void trial_reverse(unsigned* numbers) {
    auto* shared = static_cast<unsigned*>(emulated::shared_memory());
    shared[threadIdx.x] = numbers[global_index()];
    emulated::barrier();
    numbers[global_index()] = shared[blockDim.x - 1 - threadIdx.x];
}
EMULATED_REGISTER(trial_reverse, 1024);

// As above, but for the barrier.
extern "C" __global__ void trial_reverse_without_barrier(unsigned* numbers) {
    auto* shared = static_cast<unsigned*>(emulated::shared_memory());
    shared[threadIdx.x] = numbers[global_index()];
    numbers[global_index()] = shared[blockDim.x - 1 - threadIdx.x];
}
EMULATED_REGISTER(trial_reverse_without_barrier, 1024);

// Each warp's sum in each of its lanes, by as many exchanges as a shuffle needs.
extern "C" __global__ void trial_warp_sum(unsigned* numbers, unsigned rounds) {
    unsigned sum = numbers[global_index()];
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned distance = 16; distance > 0; distance /= 2) {
            const auto* all = static_cast<const unsigned*>(emulated::exchange(&sum, sizeof sum));
            sum += all[threadIdx.x % emulated::LANES ^ distance];
        }
    }
    numbers[global_index()] = sum;
}
EMULATED_REGISTER(trial_warp_sum, 1024);

// Whether any thread of the block holds something else than 0, then whether all do.
extern "C" __global__ void trial_vote(const unsigned* numbers, unsigned* any, unsigned* all) {
    const bool set = numbers[global_index()] != 0;
    const int some = emulated::barrier_or(set);
    const int some_not = emulated::barrier_or(!set);
    if (threadIdx.x == 0) {
        any[blockIdx.x] = some != 0;
        all[blockIdx.x] = some_not == 0;
    }
}
EMULATED_REGISTER(trial_vote, 1024);

// How threads can disagree: 0: one ends before a barrier, 1: one ends before an exchange, 2: one is at
// another kind of barrier, 3: one deposits less, 4: one says that it failed.
extern "C" __global__ void trial_disagree(unsigned how) {
    const bool odd = threadIdx.x == 5;
    const uint64_t word = 1;
    switch (how) {
        case 0:
            if (odd) return;
            emulated::barrier();
            return;
        case 1:
            if (odd) return;
            emulated::exchange(&word, 8);
            return;
        case 2:
            if (odd) emulated::barrier_or(1);
            else emulated::barrier();
            return;
        case 3:
            emulated::exchange(&word, odd ? 4 : 8);
            return;
        default:
            if (odd) emulated::fail("thread five is never satisfied");
            emulated::barrier();
    }
}
EMULATED_REGISTER(trial_disagree, 1024);

// out[0]: what an asynchronous copy had brought before it was waited for, out[1]: after, out[2]: of a copy
// that reads nothing, out[3]: of one in the group that was not waited for.
extern "C" __global__ void trial_copy(const unsigned* in, unsigned* out) {
    auto* shared = static_cast<unsigned*>(emulated::shared_memory());
    emulated::copy_async(&shared[0], &in[0], 4, 4);
    emulated::copy_async(&shared[1], &in[1], 4, 0);
    emulated::copy_commit();
    emulated::copy_async(&shared[2], &in[2], 4, 4);
    emulated::copy_commit();
    out[0] = shared[0];
    emulated::copy_wait(1);
    out[1] = shared[0];
    out[2] = shared[1];
    out[3] = shared[2];
}
EMULATED_REGISTER(trial_copy, 1);

// One thread waits for what another will write.
extern "C" __global__ void trial_relax(unsigned* word) {
    if (threadIdx.x == 0) {
        while (__atomic_load_n(word, __ATOMIC_RELAXED) == 0) emulated::relax();
        word[1] = 1;
    } else if (threadIdx.x == blockDim.x - 1) {
        __atomic_store_n(word, 1, __ATOMIC_RELAXED);
    }
}
EMULATED_REGISTER(trial_relax, 1024);

// Each block notes its multiprocessor and counts itself, after a look at the checkpoint.
extern "C" __global__ void trial_where(unsigned* multiprocessors, unsigned* blocks) {
    emulated::checkpoint();
    if (threadIdx.x != 0) return;
    multiprocessors[blockIdx.x] = emulated::smid();
    __atomic_fetch_add(blocks, 1, __ATOMIC_RELAXED);
}
EMULATED_REGISTER(trial_where, 1024);

// Writes where nothing may be, from the last thread of the last block; endless recursion if `at` is null.
namespace {

__attribute__((noinline)) unsigned descend(volatile unsigned* above) {
    if (above == nullptr) return 0;
    volatile unsigned here[256] = {};
    here[*above % 256] = 1;
    return descend(here) + here[0];
}

}  // namespace

extern "C" __global__ void trial_illegal(unsigned* at) {
    if (threadIdx.x + 1 != blockDim.x || blockIdx.x + 1 != gridDim.x) return;
    volatile unsigned start = 0;
    if (at == nullptr) descend(&start);
    else *at = 1;
}
EMULATED_REGISTER(trial_illegal, 1024);

// Blocks that look at a word at every step and end when it is not 0, or after so many steps.
extern "C" __global__ void trial_hold(const unsigned* stop, unsigned* steps_taken, unsigned steps) {
    for (unsigned step = 0; step < steps; step++) {
        emulated::checkpoint();
        if (__atomic_load_n(stop, __ATOMIC_ACQUIRE) != 0) return;
        __atomic_fetch_add(steps_taken, 1, __ATOMIC_RELAXED);
        emulated::relax();
    }
}
EMULATED_REGISTER(trial_hold, 1024);
