// What a thread of the operating system keeps of the block that it runs.
#pragma once

#include "emulation.hpp"
#include "fiber.hpp"

namespace emulated {

constexpr unsigned THREADS_MAX = 1024;
constexpr unsigned WARPS_MAX = THREADS_MAX / LANES;
constexpr size_t STACK_BYTES = 64 << 10;
// Between the tops of the stacks of neighbouring threads, counted in their pages.
constexpr size_t STACK_SHIFT_BYTES = 128;
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
    const char* waits_for;
    size_t bytes;
    Copy copies[COPIES_MAX];
    unsigned copies_pending;
    uint32_t groups;
};

// What a thread can wait for; told apart by address.
extern const char AT_BARRIER[];
extern const char AT_BARRIER_OR[];
extern const char AT_WARP_BARRIER[];
extern const char AT_EXCHANGE[];

// What Rust says of a launch; its twin is `block::Launch`.
struct Launch {
    const Kernel* kernel;
    void* const* parameters;
    Index grid;
    Index block_size;
    size_t shared_bytes;
    // Called at each checkpoint, if there is one. Something else than 0: the launch is to end.
    int (*at_checkpoint)(void* of);
    void* of;
};

// What a thread of the operating system needs to run blocks, kept from one to the next.
struct Runner {
    Thread threads[THREADS_MAX];
    alignas(64) char deposits[WARPS_MAX][2][LANES * DEPOSIT_BYTES];
    alignas(128) char shared[SHARED_BYTES_MAX];
    char message[MESSAGE_BYTES];
    // All that were taken so far, and those that no fiber is on.
    char* stacks[THREADS_MAX];
    unsigned stack_count;
    char* free_stacks[THREADS_MAX];
    unsigned free_count;
    Context scheduler;
    // The thread that runs; null while the scheduler does.
    Thread* current;
    const Launch* launch;
    unsigned count;
    unsigned smid;
    bool backwards;
    bool failed;
    bool relaxed;
    // What it failed by was an access to memory that is not there.
    bool illegal_address;
    int any_now;
    int any_before;
};

// Of the block that runs on this thread of the operating system; null between blocks.
extern thread_local Runner* runner;

// Notes what went wrong; the block ends at the next switch to the scheduler.
void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Lets the running thread wait for `what` until the scheduler releases it.
void wait(State state, const char* what, size_t bytes);

// From now on, an access to memory that is not there, by a kernel, ends the kernel and not the process.
void catch_illegal_addresses();

}  // namespace emulated
