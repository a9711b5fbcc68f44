// Recurrent layers: the state goes from column to column.
#pragma once

#include "copy.cuh"
#include "epilogue.cuh"
#include "guard.cuh"

constexpr u32 RECURRENT_THREADS = 512;
// As HIDDEN_UNITS_MAX of kernels/types/src/cell.rs.
constexpr u32 RECURRENT_UNITS = 1024;
// Vectors of each gate that a thread multiplies between two checks of the guard.
constexpr u32 RECURRENT_TILE = 4;

// A block has an image: each step needs all of the state before it, and blocks cannot wait for each other. `lanes`
// threads share the sums of a unit, and the first of them, always the same for a unit, computes the unit's new state.
class RecurrentLayer {
public:
    struct State {
        // Before a step and after it: they change places with each step. Zeros behind the last unit.
        alignas(16) f32 shown[2][RECURRENT_UNITS];
        // What a GRU's reset gate leaves of the state. Likewise.
        alignas(16) f32 reset[RECURRENT_UNITS];
        // What only the unit's own thread reads: an LSTM's cell, a GRU's update gate.
        f32 own[RECURRENT_UNITS];
    };

    static DEVICE void run(const Guard& guard, const Recurrent& params, State& state) {
        Watch watch(guard);
        RecurrentLayer layer(params, state);
        layer.bring();
        bool may = watch.may_go_on();
        for (u32 step = 0; may && step < params.steps; step++) {
            may = layer.take_step(watch, step);
        }
    }

private:
    // Of some gates of a unit: what the step's input adds, and the state's product with its bias.
    template <u32 COUNT>
    struct Gates {
        f32 inputs[COUNT];
        f32 products[COUNT];

        DEVICE f32 sum(u32 gate) const {
            return inputs[gate] + products[gate];
        }
    };

    const Recurrent& params;
    State& state;
    // Halves of a row of weights.
    const u32 pitch;
    // Units that the block computes at once.
    const u32 at_once;
    // Units that the block computes in a tile.
    const u32 tile_units;
    // The number of this thread among those of its unit.
    const u32 share;
    // Where this step reads and writes.
    const Half* gates;
    Half* output;
    const f32* before;
    f32* after;
    bool is_last;

    DEVICE RecurrentLayer(const Recurrent& params, State& state)
        : params(params), state(state), pitch(ceil_div(params.hidden, 8) * 8),
          at_once(RECURRENT_THREADS / params.lanes), tile_units(at_once * rounds(pitch, params.lanes)),
          share(threadIdx.x % params.lanes) {}

    // How often a tile has the units that the block computes at once.
    static DEVICE u32 rounds(u32 pitch, u32 lanes) {
        u32 vectors = ceil_div(pitch / 8, lanes);
        return vectors < RECURRENT_TILE ? RECURRENT_TILE / vectors : 1;
    }

    // The state before the first step.
    DEVICE void bring() {
        u64 image = u64(blockIdx.x) * params.output.pitch;
        for (u32 unit = threadIdx.x; unit < pitch; unit += RECURRENT_THREADS) {
            bool there = params.state != 0 && unit < params.hidden;
            state.shown[0][unit] = there ? load_kept(params.state, image + unit, params.kept) : 0.0f;
            state.shown[1][unit] = 0.0f;
            state.reset[unit] = 0.0f;
            bool has_cell = there && params.cell == CELL_CODE_LSTM;
            state.own[unit] = has_cell ? load_kept(params.state, image + params.hidden + unit, params.kept) : 0.0f;
        }
    }

    // Returns false if the launch was evicted.
    DEVICE bool take_step(Watch& watch, u32 step) {
        u32 width = params.gates.width;
        u32 column = params.first_step + step;
        column = params.backwards != 0 ? width - 1 - column : column;
        u64 pixel = u64(blockIdx.x) * width + column;
        gates = at<const Half>(params.gates.address) + pixel * params.gates.pitch;
        output = at<Half>(params.output.address) + pixel * params.output.pitch;
        before = state.shown[step % 2];
        after = state.shown[1 - step % 2];
        is_last = step + 1 == params.steps;
        // Only this cell needs something of all units twice in a step.
        u32 passes = params.cell == CELL_CODE_GRU_OF_STATE ? 2 : 1;
        for (u32 pass = 0; pass < passes; pass++) {
            for (u32 first = 0; first < params.hidden; first += tile_units) {
                // Also the barrier behind what the step or the pass before wrote.
                if (!watch.may_go_on()) {
                    return false;
                }
                if (!is_last || pass + 1 < passes || first + tile_units < params.hidden) {
                    watch.look_again();
                }
                for (u32 unit = first; unit < first + tile_units && unit < params.hidden; unit += at_once) {
                    compute(pass, unit + threadIdx.x / params.lanes);
                }
            }
        }
        return true;
    }

    // All threads of a warp come here, those without a unit too.
    DEVICE void compute(u32 pass, u32 unit) {
        bool is_mine = share == 0 && unit < params.hidden;
        switch (params.cell) {
            case CELL_CODE_GRU_OF_PRODUCT: {
                Gates<3> of = gates_of<3>(unit, 0, before);
                if (is_mine) {
                    f32 inner = fused(sigmoid(of.sum(1)), of.products[2], of.inputs[2]);
                    show(unit, between(hyperbolic_tangent(inner), before[unit], sigmoid(of.sum(0))));
                }
                break;
            }
            case CELL_CODE_GRU_OF_STATE:
                if (pass == 0) {
                    Gates<2> of = gates_of<2>(unit, 0, before);
                    if (is_mine) {
                        state.own[unit] = sigmoid(of.sum(0));
                        state.reset[unit] = sigmoid(of.sum(1)) * before[unit];
                    }
                } else {
                    Gates<1> of = gates_of<1>(unit, 2, state.reset);
                    if (is_mine) {
                        show(unit, between(hyperbolic_tangent(of.sum(0)), before[unit], state.own[unit]));
                    }
                }
                break;
            case CELL_CODE_LSTM: {
                Gates<4> of = gates_of<4>(unit, 0, before);
                if (is_mine) {
                    f32 added = sigmoid(of.sum(0)) * hyperbolic_tangent(of.sum(3));
                    f32 cell = fused(sigmoid(of.sum(2)), state.own[unit], added);
                    state.own[unit] = cell;
                    show(unit, sigmoid(of.sum(1)) * hyperbolic_tangent(cell));
                    write(params.hidden + unit, cell);
                }
                break;
            }
            default: {
                Gates<1> of = gates_of<1>(unit, 0, before);
                if (is_mine) {
                    f32 x = of.sum(0);
                    show(unit, params.cell == CELL_CODE_TANH ? hyperbolic_tangent(x) : x < 0.0f ? 0.0f : x);
                }
                break;
            }
        }
    }

    // `n + z (h - n)`.
    static DEVICE f32 between(f32 n, f32 h, f32 z) {
        return fused(z, h - n, n);
    }

    // The gates of a unit from `first` on, for all of its threads.
    template <u32 COUNT>
    DEVICE Gates<COUNT> gates_of(u32 unit, u32 first, const f32* values) const {
        u32 depth = unit < params.hidden ? pitch : 0;
        unit = unit < params.hidden ? unit : 0;
        u32 row = first * params.hidden + unit, next = params.hidden * pitch;
        const Half* weights = at<const Half>(params.weights) + row * pitch;
        Gates<COUNT> of;
#pragma unroll
        for (u32 gate = 0; gate < COUNT; gate++) {
            of.inputs[gate] = to_f32(gates[row + gate * params.hidden]);
            of.products[gate] = share == 0 ? at<const f32>(params.bias)[row + gate * params.hidden] : 0.0f;
        }
#pragma unroll 1
        for (u32 term = share * 8; term < depth; term += params.lanes * 8) {
            Values8 eight = load8(values + term);
#pragma unroll
            for (u32 gate = 0; gate < COUNT; gate++) {
                of.products[gate] = dot8(load8(weights + gate * next + term), eight, of.products[gate]);
            }
        }
#pragma unroll
        for (u32 gate = 0; gate < COUNT; gate++) {
            for (u32 mask = 1; mask < params.lanes; mask *= 2) {
                of.products[gate] += shuffle_xor(of.products[gate], mask);
            }
        }
        return of;
    }

    DEVICE void show(u32 unit, f32 value) const {
        after[unit] = value;
        write(unit, value);
        if (unit + 1 == params.hidden) {
            for (u32 padding = params.output.channels; padding < params.output.pitch; padding++) {
                output[padding] = to_half(0.0f);
            }
        }
    }

    // A value of the state after this step; behind the last one also for the launch that goes on.
    DEVICE void write(u32 channel, f32 value) const {
        output[channel] = to_half(value);
        if (is_last && params.carried != 0) {
            at<f32>(params.carried)[u64(blockIdx.x) * params.output.pitch + channel] = value;
        }
    }
};

PUNCTUAL_KERNEL(recurrent, Recurrent, 512) {
    __shared__ RecurrentLayer::State state;
    RecurrentLayer::run(guard, params, state);
}
