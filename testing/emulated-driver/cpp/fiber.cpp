#include "fiber.hpp"

#include <cstdint>

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" {
__attribute__((visibility("hidden"))) void emulated_switch(void** from, void* to);
}

// What the calling convention wants kept over a call is put on the stack that is left, and taken from the one
// that is entered. The control words of the floating point units are the same in all fibers.
#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .globl emulated_switch
    .hidden emulated_switch
    .type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulated_switch, .-emulated_switch
)");
#else
asm(R"(
    .text
    .p2align 4
    .globl emulated_switch
    .hidden emulated_switch
    .type emulated_switch, %function
emulated_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emulated_switch, .-emulated_switch
)");
#endif

namespace emulated {

void switch_context(Context& from, Context& to) {
    emulated_switch(&from.place, to.place);
}

void prepare_context(Context& context, void* stack, size_t bytes, void (*entry)()) {
    const uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15};
#if defined(__x86_64__)
    // Six registers, the entry as the address to return to, and the place where a caller's would be: at the
    // entry the stack pointer is 8 past a multiple of 16, as behind a call.
    auto* words = reinterpret_cast<uintptr_t*>(top) - 8;
    for (int i = 0; i < 6; i++) words[i] = 0;
    words[6] = reinterpret_cast<uintptr_t>(entry);
    words[7] = 0;
#else
    auto* words = reinterpret_cast<uintptr_t*>(top) - 20;
    for (int i = 0; i < 20; i++) words[i] = 0;
    words[11] = reinterpret_cast<uintptr_t>(entry);
#endif
    context.place = words;
}

}  // namespace emulated

#else

// Elsewhere, the slower way of the C library: the contexts lie at the top of their stacks.
#include <ucontext.h>

namespace emulated {

void switch_context(Context& from, Context& to) {
    ucontext_t here;
    from.place = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to.place));
}

void prepare_context(Context& context, void* stack, size_t bytes, void (*entry)()) {
    const uintptr_t top = reinterpret_cast<uintptr_t>(stack) + bytes;
    auto* state = reinterpret_cast<ucontext_t*>((top - sizeof(ucontext_t)) & ~uintptr_t{63});
    getcontext(state);
    state->uc_stack.ss_sp = stack;
    state->uc_stack.ss_size = reinterpret_cast<uintptr_t>(state) - reinterpret_cast<uintptr_t>(stack);
    state->uc_link = nullptr;
    makecontext(state, entry, 0);
    context.place = state;
}

}  // namespace emulated

#endif
