// Runs a block: its threads as fibers, in turn, until all have ended or none can go on.
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runner.hpp"

namespace emulated {

thread_local const Position* position = nullptr;
thread_local Runner* runner = nullptr;

const char AT_BARRIER[] = "barrier()";
const char AT_BARRIER_OR[] = "barrier_or()";
const char AT_WARP_BARRIER[] = "warp_barrier()";
const char AT_EXCHANGE[] = "exchange()";

void complain(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(runner->message, MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    runner->failed = true;
}

void wait(State state, const char* what, size_t bytes) {
    Thread& self = *runner->current;
    self.state = state;
    self.waits_for = what;
    self.bytes = bytes;
    switch_context(self.context, runner->scheduler);
}

namespace {

Kernel* kernels = nullptr;

void run_thread() {
    Thread& self = *runner->current;
    runner->launch->kernel->entry(runner->launch->parameters);
    self.state = State::Ended;
    switch_context(self.context, runner->scheduler);
}

// Makes room for another 32 threads that wait at the same time.
bool take_stacks() {
    const size_t each = STACK_BYTES + STACK_GUARD_BYTES;
    void* mapped = mmap(nullptr, each * LANES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    for (unsigned i = 0; i < LANES; i++) {
        char* guard = static_cast<char*>(mapped) + i * each;
        mprotect(guard, STACK_GUARD_BYTES, PROT_NONE);
        runner->stacks[runner->stack_count++] = guard + STACK_GUARD_BYTES;
        runner->free_stacks[runner->free_count++] = guard + STACK_GUARD_BYTES;
    }
    return true;
}

void resume(Thread& thread) {
    if (thread.state == State::Unstarted) {
        if (runner->free_count == 0 && !take_stacks()) {
            complain("no memory for the stacks of a block's threads");
            return;
        }
        thread.stack = runner->free_stacks[--runner->free_count];
        // Stacks that begin at the same place of a page would share a few sets of the cache.
        const size_t shift = (&thread - runner->threads) % LANES * STACK_SHIFT_BYTES;
        prepare_context(thread.context, thread.stack, STACK_BYTES - shift, run_thread);
        thread.state = State::Ready;
    }
    runner->current = &thread;
    position = &thread.position;
    switch_context(runner->scheduler, thread.context);
    runner->current = nullptr;
    if (thread.state == State::Ended) {
        runner->free_stacks[runner->free_count++] = thread.stack;
    }
}

const char* doing(const Thread& thread) {
    switch (thread.state) {
        case State::Ended: return "has ended";
        case State::AtWarp:
        case State::AtBarrier: return thread.waits_for;
        default: return "runs";
    }
}

void complain_of_divergence(const Thread& one, const Thread& other) {
    const Index a = one.position.thread, b = other.position.thread, at = one.position.block;
    complain("%s, block (%u, %u, %u): thread (%u, %u, %u) waits at %s for %zu bytes, thread (%u, %u, %u): %s, %zu bytes",
             runner->launch->kernel->name, at.x, at.y, at.z, a.x, a.y, a.z, doing(one), one.bytes, b.x, b.y, b.z,
             doing(other), other.state == State::Ended ? size_t{0} : other.bytes);
}

bool may_run(const Thread& thread) {
    return thread.state == State::Unstarted || thread.state == State::Ready;
}

// The threads from `first` to `end` all wait for the same thing, or an error says that they do not.
bool agree(unsigned first, unsigned end) {
    const Thread* waits = nullptr;
    for (unsigned i = first; i < end; i++) {
        if (runner->threads[i].state != State::Ended) waits = &runner->threads[i];
    }
    if (waits == nullptr) return true;
    for (unsigned i = first; i < end; i++) {
        const Thread& thread = runner->threads[i];
        if (thread.state != waits->state || thread.waits_for != waits->waits_for || thread.bytes != waits->bytes) {
            complain_of_divergence(*waits, thread);
            return false;
        }
    }
    return true;
}

void release(unsigned first, unsigned end) {
    for (unsigned i = first; i < end; i++) runner->threads[i].state = State::Ready;
}

// Lanes that the block does not have deposit zeros.
void fill_absent_lanes(unsigned warp, const Thread& one, unsigned lanes) {
    if (one.waits_for != AT_EXCHANGE || lanes == LANES) return;
    char* deposits = runner->deposits[warp][one.place ^ 1];
    memset(deposits + lanes * one.bytes, 0, (LANES - lanes) * one.bytes);
}

// Runs the threads of a warp until each has ended, waits for the block, or only spins.
bool run_warp(unsigned warp) {
    const unsigned first = warp * LANES;
    const unsigned end = first + LANES < runner->count ? first + LANES : runner->count;
    for (;;) {
        unsigned at_warp = 0, able = 0;
        for (unsigned i = first; i < end; i++) {
            Thread& thread = runner->threads[runner->backwards ? first + end - 1 - i : i];
            if (may_run(thread)) resume(thread);
            if (runner->failed) return false;
            at_warp += thread.state == State::AtWarp;
            able += may_run(thread);
        }
        if (at_warp == 0 || able > 0) return true;
        if (!agree(first, end)) return false;
        fill_absent_lanes(warp, runner->threads[first], end - first);
        release(first, end);
    }
}

bool run_to_the_end() {
    const unsigned warps = (runner->count + LANES - 1) / LANES;
    for (;;) {
        runner->relaxed = false;
        for (unsigned i = 0; i < warps; i++) {
            if (!run_warp(runner->backwards ? warps - 1 - i : i)) return false;
        }
        unsigned able = 0, ended = 0;
        for (unsigned i = 0; i < runner->count; i++) {
            able += may_run(runner->threads[i]);
            ended += runner->threads[i].state == State::Ended;
        }
        if (ended == runner->count) return true;
        if (able > 0) {
            if (runner->relaxed) sched_yield();
            continue;
        }
        if (!agree(0, runner->count)) return false;
        runner->any_before = runner->any_now;
        runner->any_now = 0;
        release(0, runner->count);
    }
}

void place_threads(const Launch& launch, Index block) {
    const Index size = launch.block_size;
    unsigned i = 0;
    for (unsigned z = 0; z < size.z; z++) {
        for (unsigned y = 0; y < size.y; y++) {
            for (unsigned x = 0; x < size.x; x++, i++) {
                Thread& thread = runner->threads[i];
                thread.position = {{x, y, z}, block, size, launch.grid};
                thread.state = State::Unstarted;
                thread.place = 0;
                thread.copies_pending = 0;
                thread.groups = 0;
            }
        }
    }
    runner->count = i;
}

}  // namespace

void enlist(Kernel* kernel) {
    kernel->next = kernels;
    kernels = kernel;
}

}  // namespace emulated

// What Rust calls; see `block.rs`.
extern "C" {

const emulated::Kernel* emulated_kernels() {
    return emulated::kernels;
}

// Null if there is no memory.
emulated::Runner* emulated_runner_new() {
    emulated::catch_illegal_addresses();
    void* memory = nullptr;
    if (posix_memalign(&memory, 128, sizeof(emulated::Runner)) != 0) return nullptr;
    auto* runner = static_cast<emulated::Runner*>(memory);
    runner->stack_count = 0;
    return runner;
}

void emulated_runner_free(emulated::Runner* runner) {
    using namespace emulated;
    for (unsigned i = 0; i < runner->stack_count; i += LANES) {
        munmap(runner->stacks[i] - STACK_GUARD_BYTES, (STACK_BYTES + STACK_GUARD_BYTES) * LANES);
    }
    free(runner);
}

// Null, or what went wrong: text that stays until the runner's next block. The caller has checked that the
// block and its shared memory are within `emulated_threads_max` and `emulated_shared_max`.
const char* emulated_run_block(emulated::Runner* runner, const emulated::Launch* launch, emulated::Index block,
                               unsigned smid) {
    using namespace emulated;
    emulated::runner = runner;
    runner->launch = launch;
    runner->smid = smid;
    runner->failed = false;
    runner->illegal_address = false;
    runner->current = nullptr;
    runner->any_now = 0;
    runner->backwards = (block.x + block.y + block.z) % 2 != 0;
    runner->free_count = runner->stack_count;
    memcpy(runner->free_stacks, runner->stacks, runner->stack_count * sizeof(char*));
    memset(runner->shared, 0xFF, launch->shared_bytes);
    place_threads(*launch, block);
    const bool ended = run_to_the_end();
    position = nullptr;
    emulated::runner = nullptr;
    return ended ? nullptr : runner->message;
}

// Of the block that just went wrong: whether it accessed memory that is not there.
int emulated_illegal_address(const emulated::Runner* runner) {
    return runner->illegal_address;
}

uint64_t emulated_nanoseconds() {
    return emulated::nanoseconds();
}

unsigned emulated_threads_max() {
    return emulated::THREADS_MAX;
}

size_t emulated_shared_max() {
    return emulated::SHARED_BYTES_MAX;
}

}
