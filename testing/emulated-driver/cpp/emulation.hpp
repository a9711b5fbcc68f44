// The thread model of CUDA on the processor, for the sources of kernels: included before each of them.
//
// A block runs on one thread of the operating system; its CUDA threads are fibers on it, so that a kernel is
// the same straight-line code here as there, and barriers, shuffles and the tensor cores' exchange of
// fragments are switches between fibers. A fiber runs until it waits or ends. Blocks of a launch run one after the other.
//
// What it finds that a GPU would not: threads that wait for different things (an error that names both),
// asynchronous copies that are read before they were waited for, shared memory that is taken for zero, and, as
// the threads of odd blocks run in the opposite order, most missing barriers. What it cannot say: anything
// about time, or races within a warp. In one thing it is stricter than GPUs are: a thread that has ended is
// missed at a barrier.
#pragma once

#include <cstddef>
#include <cstdint>

#define EMULATED 1

namespace emulated {

struct Index {
    unsigned x, y, z;
};

constexpr unsigned LANES = 32;
// The most that a lane can deposit in one exchange.
constexpr size_t DEPOSIT_BYTES = 64;

// What a CUDA thread may read of where it is.
struct Position {
    Index thread;
    Index block;
    Index block_size;
    Index grid;
};

// Of the CUDA thread that runs on this thread of the operating system. Not to be kept over a wait by anyone but
// the compiler, which reloads it, as a wait is a call that it cannot see into.
extern thread_local const Position* position;

// __syncthreads: all threads of the block.
void barrier();
// __syncthreads_or: whether any thread of the block came with something else than 0.
int barrier_or(int mine);
// __syncwarp: all lanes of the warp.
void warp_barrier();
// Every lane of the warp deposits `bytes` bytes and gets the deposits of all 32, packed in the order of
// lanes (those of lanes that the block does not have are zeros). They stay until the lane's next exchange but one.
const void* exchange(const void* mine, size_t bytes);
// The block's dynamic shared memory, 128-byte aligned. Filled with 0xFF before the block begins.
void* shared_memory();
size_t shared_bytes();
// The multiprocessor that the block runs on.
unsigned smid();
// A monotonic clock.
uint64_t nanoseconds();
// __nanosleep: other threads of the block, and other threads of the machine, may run first.
void relax();
// To be called before each look at the guard: a test may stop a launch here.
void checkpoint();
// Ends the launch with an error that says `why`. Does not return.
[[noreturn]] void fail(const char* why);

// cp.async: `bytes` bytes from `from`, of which only the first `valid` are read and the others zero. They
// arrive when the group that they are committed to is waited for, not earlier.
void copy_async(void* to, const void* from, size_t bytes, size_t valid);
// cp.async.commit_group
void copy_commit();
// cp.async.wait_group: until at most the `newest` latest groups are left.
void copy_wait(unsigned newest);

// A kernel, as the driver finds it.
struct Kernel {
    const char* name;
    void (*entry)(void* const* parameters);
    const size_t* parameter_bytes;
    size_t parameters;
    unsigned threads_max;
    Kernel* next;
};

void enlist(Kernel* kernel);

template <class... P>
struct ParameterBytes {
    static constexpr size_t value[sizeof...(P) + 1] = {sizeof(P)..., 0};
};

template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct CountedIndices : CountedIndices<N - 1, N - 1, I...> {};
template <size_t... I>
struct CountedIndices<0, I...> {
    using type = Indices<I...>;
};

template <auto kernel>
struct Entry;
template <class... P, void (*kernel)(P...)>
struct Entry<kernel> {
    template <size_t... I>
    static void call(void* const* parameters, Indices<I...>) {
        kernel(*static_cast<const P*>(parameters[I])...);
    }
    static void run(void* const* parameters) {
        call(parameters, typename CountedIndices<sizeof...(P)>::type{});
    }
    static Kernel describe(const char* name, unsigned threads_max) {
        return {name, run, ParameterBytes<P...>::value, sizeof...(P), threads_max, nullptr};
    }
};

struct Registration {
    Kernel kernel;
    explicit Registration(Kernel described) : kernel(described) { enlist(&kernel); }
};

}  // namespace emulated

// Makes a declared kernel known by its name. `threads` is the most that a block of it may have.
#define EMULATED_REGISTER(name, threads) \
    static ::emulated::Registration emulated_registration_##name(::emulated::Entry<&name>::describe(#name, threads))

#define threadIdx (::emulated::position->thread)
#define blockIdx (::emulated::position->block)
#define blockDim (::emulated::position->block_size)
#define gridDim (::emulated::position->grid)

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// One block at a time runs on a thread of the operating system.
#define __shared__ static thread_local
