// Whether a launch may still run. See `Guard` in params/parts.rs.
#pragma once

#include "device.cuh"

// The check of a guard, in two halves: a look takes as long as a read of far memory, so it is begun early
// (`Watch watch(guard)`, `look_again`) and judged late (`may_go_on`), before something is written or at a barrier that
// a loop has anyway. One thread of a block looks for all: a look of every warp of a large grid at one word would queue
// up at one slice of the second-level cache.
class Watch {
public:
    DEVICE explicit Watch(const Guard& guard)
        : guard_(guard), seen_(guard.epoch), left_(guard.check_stride) {
        look();
        // The grid's first thread says that the launch has begun: before its work, and evicted or not, so that what runs
        // never counts as waiting.
        bool first = (blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x) == 0;
        if (first && guard.begun != 0) {
            store_relaxed(at<u32>(guard.begun), guard.index + 1);
        }
    }

    // A barrier. False: the launch is evicted, which is noted, and no thread of the block may write more.
    DEVICE bool may_go_on() {
        bool evicted = block_barrier_or(seen_ != guard_.epoch);
        if (evicted && threadIdx.x == 0) {
            minimum(at<u32>(guard_.first_evicted), guard_.index);
        }
        return !evicted;
    }

    // Likewise at the begin of a main loop's tile. Unless it is the last, looks again when it is time to.
    DEVICE bool may_go_on(bool has_more) {
        bool may = may_go_on();
        if (may && has_more) {
            look_again();
        }
        return may;
    }

    // Called for each tile of a main loop that is not its last: looks again when it is time to, for the next judgement.
    DEVICE void look_again() {
        if (left_ != 0 && --left_ == 0) {
            left_ = guard_.check_stride;
            look();
        }
    }

    DEVICE void look() {
        if (threadIdx.x == 0 && guard_.epoch_now != 0) {
            seen_ = load_relaxed(at<const u32>(guard_.epoch_now));
        }
    }

private:
    const Guard& guard_;
    u32 seen_;
    u32 left_;
};
