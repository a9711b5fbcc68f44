// What kernels call: barriers, exchanges, copies, and where they are.
#include "emulation.hpp"

#include <string.h>
#include <time.h>

#include "runner.hpp"

namespace emulated {

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
    const Launch& launch = *runner->launch;
    if (launch.at_checkpoint != nullptr && launch.at_checkpoint(launch.of) != 0) fail("stopped at a checkpoint");
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
