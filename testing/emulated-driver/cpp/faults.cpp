// A kernel that reads or writes where nothing is: an error of its launch, as on a GPU.
#include <signal.h>
#include <string.h>

#include "runner.hpp"

namespace emulated {

namespace {

// Those of the program, for what is not ours.
struct sigaction before_segv, before_bus;

void pass_on(int signal, siginfo_t* information, void* context) {
    const struct sigaction& before = signal == SIGBUS ? before_bus : before_segv;
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal, information, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        // Returning runs into the fault again, now with what the system does about it.
        sigaction(signal, &before, nullptr);
    }
}

// The fault was raised by the fiber's own instruction, so nothing of the C library is half done, and the
// fiber is simply never resumed: its stack, which this frame may lie on, is used again for the next block.
void on_fault(int signal, siginfo_t* information, void* context) {
    if (runner == nullptr || runner->current == nullptr) {
        pass_on(signal, information, context);
        return;
    }
    const Index at = position->block, thread = position->thread;
    complain("%s, block (%u, %u, %u), thread (%u, %u, %u): illegal address %p", runner->launch->kernel->name, at.x, at.y,
             at.z, thread.x, thread.y, thread.z, information->si_addr);
    runner->illegal_address = true;
    switch_context(runner->current->context, runner->scheduler);
}

}  // namespace

void catch_illegal_addresses() {
    static bool begun = false;
    if (__atomic_exchange_n(&begun, true, __ATOMIC_RELAXED)) return;
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_fault;
    // On a stack of its own where the thread has one, as the fiber's may be what overflowed; not masked, as
    // it is left without returning.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &ours, &before_segv);
    sigaction(SIGBUS, &ours, &before_bus);
}

}  // namespace emulated
