// Fibers: stacks that one thread of the operating system switches between.
#pragma once

#include <cstddef>

namespace emulated {

// Where a fiber that does not run goes on.
struct Context {
    void* place;
};

// Leaves `from` and goes on at `to`, on the same thread of the operating system.
void switch_context(Context& from, Context& to);

// Makes `context` begin `entry` at the top of a stack. `entry` must not return.
void prepare_context(Context& context, void* stack, size_t bytes, void (*entry)());

}  // namespace emulated
