// Runs a block: its threads as fibers, in turn, until all have ended or none can go on.
#include "emulation.hpp"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "fiber.hpp"

namespace emulated {

thread_local const Position* position = nullptr;

namespace {

constexpr unsigned THREADS_MAX = 1024;
constexpr unsigned WARPS_MAX = THREADS_MAX / LANES;
constexpr size_t STACK_BYTES = 64 << 10;
// Below each stack, so that one that overflows faults at once.
constexpr size_t STACK_GUARD_BYTES = 16 << 10;
// A block cannot have more on any GPU that there is.
constexpr size_t SHARED_BYTES_MAX = 256 << 10;
// Of one thread; kernels that keep more in flight are told so.
constexpr unsigned COPIES_MAX = 64;
constexpr size_t MESSAGE_BYTES = 512;

enum class State : uint8_t { Unstarted, Ready, AtWarp, AtBarrier, Ended };

struct Copy {
    void* to;
    const void* from;
    uint32_t bytes;
    uint32_t valid;
    // Counts commits: the group that the copy belongs to.
    uint32_t group;
};

struct Thread {
    Position position;
    Context context;
    char* stack;
    State state;
    // Which of the warp's two places of deposits the next exchange uses.
    uint8_t place;
    // Of what it waits for; compared by address.
    const char* waits_for;
    size_t bytes;
    Copy copies[COPIES_MAX];
    unsigned copies_pending;
    uint32_t groups;
};

const char AT_BARRIER[] = "barrier()";
const char AT_BARRIER_OR[] = "barrier_or()";
const char AT_WARP_BARRIER[] = "warp_barrier()";
const char AT_EXCHANGE[] = "exchange()";

Kernel* kernels = nullptr;

}  // namespace

// What Rust says of a launch; its twin is `block::Launch`.
struct Launch {
    const Kernel* kernel;
    void* const* parameters;
    Index grid;
    Index block_size;
    size_t shared_bytes;
    // Called at each checkpoint, if there is one.
    void (*at_checkpoint)(void* of);
    void* of;
};

// What a thread of the operating system needs to run blocks, kept from one to the next.
struct Runner {
    Thread threads[THREADS_MAX];
    alignas(64) char deposits[WARPS_MAX][2][LANES * DEPOSIT_BYTES];
    alignas(128) char shared[SHARED_BYTES_MAX];
    char message[MESSAGE_BYTES];
    char* stacks;
    // Those that no fiber is on.
    char* free_stacks[THREADS_MAX];
    unsigned free_count;
    Context scheduler;
    Thread* current;
    const Launch* launch;
    unsigned count;
    unsigned smid;
    bool backwards;
    bool failed;
    bool relaxed;
    int any_now;
    int any_before;
};

namespace {

thread_local Runner* runner __attribute__((tls_model("initial-exec"))) = nullptr;

void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(runner->message, MESSAGE_BYTES, format, arguments);
    va_end(arguments);
    runner->failed = true;
}

void run_thread() {
    Thread& self = *runner->current;
    runner->launch->kernel->entry(runner->launch->parameters);
    self.state = State::Ended;
    switch_context(self.context, runner->scheduler);
}

void resume(Thread& thread) {
    if (thread.state == State::Unstarted) {
        thread.stack = runner->free_stacks[--runner->free_count];
        prepare_context(thread.context, thread.stack, STACK_BYTES, run_thread);
        thread.state = State::Ready;
    }
    runner->current = &thread;
    position = &thread.position;
    switch_context(runner->scheduler, thread.context);
    if (thread.state == State::Ended) {
        runner->free_stacks[runner->free_count++] = thread.stack;
    }
}

void wait(State state, const char* what, size_t bytes) {
    Thread& self = *runner->current;
    self.state = state;
    self.waits_for = what;
    self.bytes = bytes;
    switch_context(self.context, runner->scheduler);
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

char* take_stacks() {
    const size_t each = STACK_BYTES + STACK_GUARD_BYTES;
    void* mapped = mmap(nullptr, each * THREADS_MAX, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        mprotect(static_cast<char*>(mapped) + i * each, STACK_GUARD_BYTES, PROT_NONE);
    }
    return static_cast<char*>(mapped);
}

}  // namespace

void enlist(Kernel* kernel) {
    kernel->next = kernels;
    kernels = kernel;
}

void barrier() {
    wait(State::AtBarrier, AT_BARRIER, 0);
}

int barrier_or(int mine) {
    if (mine != 0) runner->any_now = 1;
    wait(State::AtBarrier, AT_BARRIER_OR, 0);
    return runner->any_before;
}

void warp_barrier() {
    wait(State::AtWarp, AT_WARP_BARRIER, 0);
}

const void* exchange(const void* mine, size_t bytes) {
    if (bytes > DEPOSIT_BYTES) fail("exchange() of more bytes than a lane can deposit");
    Thread& self = *runner->current;
    const unsigned index = static_cast<unsigned>(&self - runner->threads);
    char* deposits = runner->deposits[index / LANES][self.place];
    self.place ^= 1;
    memcpy(deposits + index % LANES * bytes, mine, bytes);
    wait(State::AtWarp, AT_EXCHANGE, bytes);
    return deposits;
}

void* shared_memory() {
    return runner->shared;
}

size_t shared_bytes() {
    return runner->launch->shared_bytes;
}

unsigned smid() {
    return runner->smid;
}

uint64_t nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void relax() {
    runner->relaxed = true;
    switch_context(runner->current->context, runner->scheduler);
}

void checkpoint() {
    if (runner->launch->at_checkpoint != nullptr) runner->launch->at_checkpoint(runner->launch->of);
}

void fail(const char* why) {
    const Index at = position->block, thread = position->thread;
    complain("%s, block (%u, %u, %u), thread (%u, %u, %u): %s", runner->launch->kernel->name, at.x, at.y, at.z,
             thread.x, thread.y, thread.z, why);
    for (;;) switch_context(runner->current->context, runner->scheduler);
}

void copy_async(void* to, const void* from, size_t bytes, size_t valid) {
    Thread& self = *runner->current;
    if (self.copies_pending == COPIES_MAX) fail("copy_async(): too many copies that were not waited for");
    if (valid > bytes) fail("copy_async(): more bytes to read than to write");
    self.copies[self.copies_pending++] = {to, from, static_cast<uint32_t>(bytes), static_cast<uint32_t>(valid),
                                          self.groups};
}

void copy_commit() {
    runner->current->groups++;
}

void copy_wait(unsigned newest) {
    Thread& self = *runner->current;
    unsigned kept = 0;
    for (unsigned i = 0; i < self.copies_pending; i++) {
        const Copy copy = self.copies[i];
        // Not committed, or of one of the latest groups.
        if (copy.group + newest >= self.groups) {
            self.copies[kept++] = copy;
            continue;
        }
        memcpy(copy.to, copy.from, copy.valid);
        memset(static_cast<char*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
    }
    self.copies_pending = kept;
}

}  // namespace emulated

// What Rust calls; see `block.rs`.
extern "C" {

const emulated::Kernel* emulated_kernels() {
    return emulated::kernels;
}

// Null if there is no memory.
emulated::Runner* emulated_runner_new() {
    void* memory = nullptr;
    if (posix_memalign(&memory, 128, sizeof(emulated::Runner)) != 0) return nullptr;
    auto* runner = static_cast<emulated::Runner*>(memory);
    runner->stacks = emulated::take_stacks();
    if (runner->stacks == nullptr) {
        free(runner);
        return nullptr;
    }
    return runner;
}

void emulated_runner_free(emulated::Runner* runner) {
    munmap(runner->stacks, (emulated::STACK_BYTES + emulated::STACK_GUARD_BYTES) * emulated::THREADS_MAX);
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
    runner->any_now = 0;
    runner->backwards = (block.x + block.y + block.z) % 2 != 0;
    runner->free_count = 0;
    for (unsigned i = THREADS_MAX; i-- > 0;) {
        runner->free_stacks[runner->free_count++] = runner->stacks + i * (STACK_BYTES + STACK_GUARD_BYTES) + STACK_GUARD_BYTES;
    }
    memset(runner->shared, 0xFF, launch->shared_bytes);
    place_threads(*launch, block);
    const bool ended = run_to_the_end();
    position = nullptr;
    emulated::runner = nullptr;
    return ended ? nullptr : runner->message;
}

unsigned emulated_threads_max() {
    return emulated::THREADS_MAX;
}

size_t emulated_shared_max() {
    return emulated::SHARED_BYTES_MAX;
}

}
