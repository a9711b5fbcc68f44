// What a detector computes at its places becomes a list of bounded length. See kernels/src/detections.rs.
#pragma once

#include "copy.cuh"
#include "epilogue.cuh"
#include "guard.cuh"
#include "vectors.cuh"

constexpr u32 DETECTION_THREADS = 512;
// As CANDIDATES_MAX of kernels/types/src/detection.rs.
constexpr u32 CANDIDATES = 2048;
constexpr u32 CANDIDATES_A_THREAD = CANDIDATES / DETECTION_THREADS;
// Values of a row of the list, padded.
constexpr u32 DETECTION_PITCH = 8;

// Clamped to 0 to 1; 0 of what is no number.
DEVICE f32 clean(f32 score) {
    f32 positive = score > 0.0f ? score : 0.0f;
    return positive < 1.0f ? positive : 1.0f;
}

DEVICE f32 probability(f32 value, u32 logits) {
    if (logits == 0) {
        return clean(value);
    }
    return value > -infinity() ? clean(sigmoid(value)) : 0.0f;
}

// The best of the classes of a pixel that count, and which it is.
DEVICE f32 best_class(const Half* pixel, u32 first, u32 classes, u32& found) {
    u32 end = first + classes;
    f32 best = -infinity();
    found = first;
#pragma unroll 1
    for (u32 channel = first / 8 * 8; channel < end; channel += 8) {
        Values8 values = load8(pixel + channel);
#pragma unroll
        for (u32 i = 0; i < 8; i++) {
            u32 number = channel + i;
            bool better = number >= first && number < end && values.of[i] > best;
            best = better ? values.of[i] : best;
            found = better ? number : found;
        }
    }
    return best;
}

// Each thread has one place.
PUNCTUAL_KERNEL(best_score, BestScore, 128) {
    Watch watch(guard);
    const TensorView& scores = params.scores;
    u32 places = scores.height * scores.width, pitch = params.output.pitch;
    u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    u32 place = index % pitch, image = index / pitch;
    bool here = image < params.images && place < places;
    f32 best = -infinity();
    if (here) {
        u32 found;
        const Half* pixel = at<const Half>(scores.address) + (u64(image) * places + place) * scores.pitch;
        best = best_class(pixel, params.first, params.classes, found);
    }
    if (!watch.may_go_on() || image >= params.images) {
        return;
    }
    f32 score = probability(best, params.logits);
    if (here && params.objectness != 0) {
        f32 factor = to_f32(at<const Half>(params.objectness)[u64(image) * pitch + place]);
        score = product(score, probability(factor, params.logits));
    }
    at<f32>(params.output.address)[u64(image) * pitch + place] = here ? score : 0.0f;
}

// A block has an image. What it does never depends on the values but for which rows it writes: it goes over all scores
// as often, sorts as many candidates by the same comparisons, and compares each pair of boxes.
class DetectionList {
public:
    struct State {
        union {
            // Scores above, the inverted numbers of the places below: the largest come first.
            u64 keys[CANDIDATES];
            Quad boxes[CANDIDATES];
        };
        u32 classes[CANDIDATES];
        u8 stays[CANDIDATES];
        // Of all threads, before and after a step of a sum.
        u32 sums[2][DETECTION_THREADS];
        u64 of_warps[DETECTION_THREADS / LANES];
    };

    static DEVICE void run(const Guard& guard, const Detections& params, State& state) {
        Watch watch(guard);
        DetectionList list(params, state);
        list.choose();
        list.sort();
        list.fill();
        if (watch.may_go_on() && list.suppress(watch)) {
            list.write();
        }
    }

private:
    struct Candidate {
        f32 left, top, right, bottom, score;
        u32 class_number;
    };

    const Detections& params;
    State& state;
    const u32 places;
    // Candidates of this thread, side by side, and the first of them.
    const u32 each;
    const u32 first;
    Candidate own[CANDIDATES_A_THREAD];
    f32 confidence;

    DEVICE DetectionList(const Detections& params, State& state)
        : params(params), state(state), places(params.boxes.height * params.boxes.width),
          each(ceil_div(params.candidates, DETECTION_THREADS)), first(threadIdx.x * each), confidence(0.0f) {}

    DEVICE bool is_candidate(u32 number) const {
        return number < each && first + number < params.candidates;
    }

    // The bits of a score; those of larger ones are larger.
    DEVICE u32 score_bits(u32 place) const {
        u64 image = u64(blockIdx.x) * params.best.pitch;
        return __float_as_uint(clean(load_kept(params.best.address, image + place, params.kept)));
    }

    DEVICE u64 block_sum(u64 mine) {
        mine = warp_sum(mine);
        block_barrier();
        if (lane() == 0) {
            state.of_warps[warp()] = mine;
        }
        block_barrier();
        u64 sum = 0;
        for (u32 of = 0; of < DETECTION_THREADS / LANES; of++) {
            sum += state.of_warps[of];
        }
        return sum;
    }

    // The sum of what the threads before this one come with.
    DEVICE u32 sum_before(u32 mine) {
        u32 now = 0;
        block_barrier();
        state.sums[now][threadIdx.x] = mine;
        block_barrier();
        for (u32 apart = 1; apart < DETECTION_THREADS; apart *= 2) {
            u32 before = threadIdx.x >= apart ? state.sums[now][threadIdx.x - apart] : 0;
            state.sums[1 - now][threadIdx.x] = state.sums[now][threadIdx.x] + before;
            now = 1 - now;
            block_barrier();
        }
        return state.sums[now][threadIdx.x] - mine;
    }

    // Writes the keys of the best places. As many scores as are wanted are at least `least`, which is found two bits at a
    // time: three counts of at most 2^20 in one number.
    DEVICE void choose() {
        constexpr u32 COUNT_BITS = 21;
        constexpr u64 COUNT = (u64(1) << COUNT_BITS) - 1;
        u32 least = 0, above = 0;
        // The bits of 1 are below 2^30.
        for (u32 shift = 30; shift > 0;) {
            shift -= 2;
            u64 counts = 0;
            for (u32 place = threadIdx.x; place < places; place += DETECTION_THREADS) {
                u32 bits = score_bits(place);
#pragma unroll
                for (u32 digit = 1; digit < 4; digit++) {
                    counts += u64(bits >= least + (digit << shift) ? 1 : 0) << (digit - 1) * COUNT_BITS;
                }
            }
            counts = block_sum(counts);
            u32 found = 0;
#pragma unroll
            for (u32 digit = 1; digit < 4; digit++) {
                u32 count = u32(counts >> (digit - 1) * COUNT_BITS & COUNT);
                found = count >= params.candidates ? digit : found;
            }
            above = found < 3 ? u32(counts >> found * COUNT_BITS & COUNT) : above;
            least += found << shift;
        }
        take(least, above);
    }

    // Each thread takes of places side by side those above `least`, and of those equal to it the first few.
    DEVICE void take(u32 least, u32 above) {
        u32 chunk = ceil_div(places, DETECTION_THREADS);
        u32 begin = threadIdx.x * chunk, end = begin + chunk < places ? begin + chunk : places;
        u32 own_above = 0, own_equal = 0;
        for (u32 place = begin; place < end; place++) {
            u32 bits = score_bits(place);
            own_above += bits > least ? 1 : 0;
            own_equal += bits == least ? 1 : 0;
        }
        u32 next = sum_before(own_above), next_equal = above + sum_before(own_equal);
        for (u32 place = begin; place < end; place++) {
            u32 bits = score_bits(place);
            u64 key = u64(bits) << 32 | ~place;
            if (bits > least) {
                state.keys[next] = key;
                next++;
            } else if (bits == least) {
                if (next_equal < params.candidates) {
                    state.keys[next_equal] = key;
                }
                next_equal++;
            }
        }
    }

    // By Batcher's bitonic network, the largest first.
    DEVICE void sort() {
        u32 count = 1;
        while (count < params.candidates) {
            count *= 2;
        }
        for (u32 rank = params.candidates + threadIdx.x; rank < count; rank += DETECTION_THREADS) {
            state.keys[rank] = 0;
        }
        block_barrier();
        for (u32 run = 2; run <= count; run *= 2) {
            for (u32 apart = run / 2; apart > 0; apart /= 2) {
                for (u32 pair = threadIdx.x; pair < count / 2; pair += DETECTION_THREADS) {
                    u32 upper = pair / apart * 2 * apart + pair % apart, lower = upper + apart;
                    u64 a = state.keys[upper], b = state.keys[lower];
                    bool falls = (upper & run) == 0;
                    if ((a < b) == falls) {
                        state.keys[upper] = b;
                        state.keys[lower] = a;
                    }
                }
                block_barrier();
            }
        }
    }

    // Boxes, scores and classes of the sorted keys, whose memory the boxes take.
    DEVICE void fill() {
        u64 keys[CANDIDATES_A_THREAD];
#pragma unroll
        for (u32 number = 0; number < CANDIDATES_A_THREAD; number++) {
            keys[number] = is_candidate(number) ? state.keys[first + number] : 0;
        }
        if (threadIdx.x == 0) {
            f32 sum = 0.0f;
            for (u32 rank = 0; rank < params.averaged; rank++) {
                sum = exact_sum(sum, __uint_as_float(u32(state.keys[rank] >> 32)));
            }
            confidence = clean(exact_quotient(sum, f32(params.averaged)));
        }
        block_barrier();
#pragma unroll
        for (u32 number = 0; number < CANDIDATES_A_THREAD; number++) {
            Candidate& candidate = own[number];
            candidate = {0.0f, 0.0f, 0.0f, 0.0f, __uint_as_float(u32(keys[number] >> 32)), 0};
            if (is_candidate(number)) {
                u32 rank = first + number, place = ~u32(keys[number]);
                bool is_box = decode(place, candidate);
                u64 pixel = (u64(blockIdx.x) * places + place) * params.scores.pitch;
                const Half* scores = at<const Half>(params.scores.address) + pixel;
                best_class(scores, params.first, params.classes, candidate.class_number);
                state.boxes[rank] = {{candidate.left, candidate.top, candidate.right, candidate.bottom}};
                state.classes[rank] = candidate.class_number;
                state.stays[rank] = is_box && candidate.score > params.threshold ? 1 : 0;
            }
        }
    }

    // The corners of a place's box, clipped to the picture. False, and nothing, if it is none.
    DEVICE bool decode(u32 place, Candidate& to) const {
        enum Form : u32 { CORNERS = 0, CORNER_AND_SIZE = 1, CENTRE_AND_SIZE = 2 };
        u64 from = (u64(blockIdx.x) * places + place) * params.boxes.pitch;
        f32 numbers[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            numbers[i] = load_kept(params.boxes.address, from + i, params.boxes_kept);
        }
        f32 left = numbers[0], top = numbers[1], right = numbers[2], bottom = numbers[3];
        if (params.form == CORNER_AND_SIZE) {
            right = exact_sum(left, right);
            bottom = exact_sum(top, bottom);
        } else if (params.form == CENTRE_AND_SIZE) {
            f32 half_width = product(0.5f, right), half_height = product(0.5f, bottom);
            right = exact_sum(left, half_width);
            bottom = exact_sum(top, half_height);
            left = exact_sum(left, -half_width);
            top = exact_sum(top, -half_height);
        }
        left = product(left, params.unit_x);
        right = product(right, params.unit_x);
        top = product(top, params.unit_y);
        bottom = product(bottom, params.unit_y);
        bool finite = is_finite(left) && is_finite(top) && is_finite(right) && is_finite(bottom);
        left = left > 0.0f ? left : 0.0f;
        top = top > 0.0f ? top : 0.0f;
        right = right < params.width ? right : params.width;
        bottom = bottom < params.height ? bottom : params.height;
        if (!finite || left >= right || top >= bottom) {
            return false;
        }
        to.left = left;
        to.top = top;
        to.right = right;
        to.bottom = bottom;
        return true;
    }

    static DEVICE f32 area(f32 left, f32 top, f32 right, f32 bottom) {
        return product(exact_sum(right, -left), exact_sum(bottom, -top));
    }

    // Compares each candidate with all behind it, whether it stays or not. Returns false if the launch was evicted.
    DEVICE bool suppress(Watch& watch) {
        if (params.suppresses == 0) {
            block_barrier();
            return true;
        }
        for (u32 rank = 0; rank < params.candidates; rank++) {
            // Also the barrier behind what the step before wrote.
            if (!watch.may_go_on(rank + 1 < params.candidates)) {
                return false;
            }
            Quad box = state.boxes[rank];
            f32 left = box.of[0], top = box.of[1], right = box.of[2], bottom = box.of[3];
            u32 class_number = state.classes[rank];
            // No box overlaps another by twice their union.
            f32 share = state.stays[rank] != 0 ? params.overlap : 2.0f;
            f32 whole = area(left, top, right, bottom);
#pragma unroll
            for (u32 number = 0; number < CANDIDATES_A_THREAD; number++) {
                const Candidate& other = own[number];
                f32 width = exact_sum(other.right < right ? other.right : right,
                                      -(other.left > left ? other.left : left));
                f32 height = exact_sum(other.bottom < bottom ? other.bottom : bottom,
                                       -(other.top > top ? other.top : top));
                f32 common = product(width > 0.0f ? width : 0.0f, height > 0.0f ? height : 0.0f);
                f32 both = exact_sum(whole, area(other.left, other.top, other.right, other.bottom));
                bool compared = params.by_class == 0 || other.class_number == class_number;
                bool gone = compared && common > product(share, exact_sum(both, -common));
                if (gone && is_candidate(number) && first + number > rank) {
                    state.stays[first + number] = 0;
                }
            }
        }
        block_barrier();
        return true;
    }

    DEVICE void write() {
        u32 mine = 0;
#pragma unroll
        for (u32 number = 0; number < CANDIDATES_A_THREAD; number++) {
            mine += is_candidate(number) ? state.stays[first + number] : 0;
        }
        u32 row = sum_before(mine);
        u32 all = u32(block_sum(mine)), count = all < params.rows ? all : params.rows;
        f32* list = at<f32>(params.output) + u64(blockIdx.x) * (params.rows + 1) * DETECTION_PITCH;
#pragma unroll
        for (u32 number = 0; number < CANDIDATES_A_THREAD; number++) {
            if (is_candidate(number) && state.stays[first + number] != 0) {
                const Candidate& found = own[number];
                if (row < params.rows) {
                    f32 class_number = f32(found.class_number);
                    Values8 values = {
                        {found.left, found.top, found.right, found.bottom, found.score, class_number, 0.0f, 0.0f}};
                    store8(list + row * DETECTION_PITCH, values);
                }
                row++;
            }
        }
        for (u32 empty = count + threadIdx.x; empty < params.rows; empty += DETECTION_THREADS) {
            store8(list + empty * DETECTION_PITCH, {{0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}});
        }
        if (threadIdx.x == 0) {
            Values8 values = {{f32(count), confidence, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}};
            store8(list + params.rows * DETECTION_PITCH, values);
        }
    }
};

PUNCTUAL_KERNEL(detections, Detections, 512) {
    __shared__ DetectionList::State state;
    DetectionList::run(guard, params, state);
}
