// Measurements of the device itself.
#include "guard.cuh"

// Until `stay` nanoseconds after `begin`.
DEVICE bool stays(u64 begin, u64 stay) {
    return nanoseconds() - begin < stay;
}

// Each block says which multiprocessor it is on, and stays for a while, so that the next one goes elsewhere.
PUNCTUAL_KERNEL(where_am_i, Whereabouts, 32) {
    Watch watch(guard);
    if (!watch.may_go_on() || threadIdx.x != 0) {
        return;
    }
    at<u32>(params.multiprocessors)[blockIdx.x] = multiprocessor();
    u64 begin = nanoseconds();
    while (stays(begin, params.stay_ns)) {
        rest();
    }
}

// Takes time, and ends early if it is evicted meanwhile.
PUNCTUAL_KERNEL(hold, Hold, 32) {
    u64 begin = nanoseconds();
    u64 looked = begin;
    Watch watch(guard);
    bool may = watch.may_go_on();
    // All threads go round together, as judging is a barrier.
    while (may && block_barrier_or(threadIdx.x == 0 && stays(begin, params.stay_ns))) {
        rest();
        bool due = threadIdx.x == 0 && params.check_ns != 0 && nanoseconds() - looked >= params.check_ns;
        if (block_barrier_or(due)) {
            looked = nanoseconds();
            watch.look();
            may = watch.may_go_on();
        }
    }
}
